// SPDX-License-Identifier: Apache-2.0
// Types and constants that C++ and CUDA files define in named namespaces, by matching braces.
import { withoutLiterals } from "./function-lengths.js";
import type { SourceFile } from "./source-tree.js";

export interface Definition {
    /** With its namespaces: `spillway::cuda::KeyBits`. */
    readonly name: string;
    readonly path: string;
    readonly line: number;
}

const namespaceHeader = /\bnamespace\s*([\w:]*)\s*$/;
const typeHeader = new RegExp(
    String.raw`\b(?:struct|class|union|enum(?:\s+(?:class|struct))?)\s+(?:alignas\([^)]*\)\s*)?` +
        String.raw`(\w+)\s*(?::[^:]|final\b|<|$)`
);
const aliasStatement = /^(?:template\s*<.*>\s*)?using\s+(\w+)\s*=/s;
const constantStatement = /\bconstexpr\s+[^=()]*?\b(\w+)(?:\[[^\]]*\])*\s*(?:=|$)/s;

/** The name that a header defines as a type; undefined for a member's body (`class Outer::Inner`) and for others. */
function typeOf(header: string): string | undefined {
    const text = header.replaceAll(/template\s*<[^{}]*?>\s*(?=struct|class|union|enum|using)/gs, "");
    const found = typeHeader.exec(text);
    return found !== null && !/\)\s*(?:const|noexcept|override)*\s*$/.test(text) ? found[1] : undefined;
}

function statementName(statement: string): string | undefined {
    return (aliasStatement.exec(statement) ?? constantStatement.exec(statement))?.[1];
}

/** Definitions at namespace scope of one file. Unnamed namespaces are left out: their names are the file's own. */
export function definitions(file: SourceFile): Definition[] {
    const text = withoutLiterals(file.text, "c++");
    const found: Definition[] = [];
    // The name of each open namespace; null: another block.
    const open: (string | null)[] = [];
    let last = 0;
    for (const { 0: mark, index } of text.matchAll(/[{};]/g)) {
        const head = text.slice(last, index).trim();
        last = index + 1;
        const scope = open.every((name) => name !== null && name !== "") ? open.join("::") : null;
        const add = (name: string | undefined): void => {
            if (name === undefined || scope === null) return;
            found.push({ name: `${scope}::${name}`, path: file.path, line: text.slice(0, index).split("\n").length });
        };
        if (mark === "}") open.pop();
        else if (mark === ";") add(statementName(head));
        else {
            const named = namespaceHeader.exec(head);
            // `constexpr int kMany[] = {` begins a constant, whose end is a block's.
            if (named === null) add(typeOf(head) ?? (head.endsWith("=") ? statementName(head) : undefined));
            open.push(named === null ? null : (named[1] ?? ""));
        }
    }
    return found;
}
