// SPDX-License-Identifier: Apache-2.0
// Lengths of functions in C++, CUDA and TypeScript, by matching braces: no parser, but it knows comments, strings,
// templates, regular expressions, constructor initializer lists and lambdas, which is all that this code base has.

export interface FunctionLength {
    readonly header: string;
    readonly line: number;
    readonly lines: number;
}

interface Frame {
    readonly opening: string;
    readonly headerLine: number;
    readonly isFunction: boolean;
    readonly isStatement: boolean;
    /** The header and parenthesis depth of the block outside. */
    readonly outerHeader: string;
    readonly outerHeaderLine: number;
    readonly outerDepth: number;
}

const blank = (text: string): string => text.replace(/[^\n]/g, " ");

/** Comments and the contents of literals become spaces; line breaks stay. */
export function withoutLiterals(text: string, language: "ts" | "c++"): string {
    const comment = /\/\/[^\n]*|\/\*[\s\S]*?\*\//.source;
    const quoted = /"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'/.source;
    const own =
        language === "ts"
            ? /`(?:[^`\\]|\\[\s\S])*`|(?<=[=(,:!&|?\n]\s*)\/(?![*/])(?:[^/\\\n[]|\\.|\[(?:[^\]\\\n]|\\.)*\])+\/[a-z]*/
                  .source
            : /R"([^(\s]*)\([\s\S]*?\)\1"|(?<=\d)'(?=\d)|^[ \t]*#(?:[^\\\n]|\\\n|\\.)*/.source;
    return text.replace(new RegExp(`${own}|${comment}|${quoted}`, "gm"), (match) =>
        match.startsWith("/") || match.startsWith("#") || match.length < 2
            ? blank(match)
            : match[0]! + blank(match.slice(1, -1)) + match.at(-1)!
    );
}

const control = /^(?:\}?\s*(?:else\s+)?(?:if|for|while|switch|catch)\b|for await\b)/;
const functionTail =
    /\)\s*(?:(?:const|noexcept|override|final|mutable|try)\b\s*|noexcept\([^)]*\)\s*|->[^;{]*|:[^;]*)*$|=>\s*$/;

const declaration = new RegExp(
    String.raw`^(?:(?:export|default|abstract|declare|template\s*<[^>]*>)\s+)*` +
        String.raw`(?:namespace|class|struct|enum|union|interface|extern)\b`
);

function classify(header: string): { isFunction: boolean; isStatement: boolean } {
    const text = header.trim();
    // The formatters put a blank before every block; without one it is a braced initializer (`count_{0}`).
    if (/\w$/.test(header)) return { isFunction: false, isStatement: false };
    if (control.test(text) || /^(?:else|do|try|finally)$/.test(text)) return { isFunction: false, isStatement: true };
    // A type or object literal inside an unfinished header.
    if (/[<|&=,([?]$/.test(text) || (/\)[^{}]*:$/.test(text) && !/^(?:case|default)\b/.test(text))) {
        return { isFunction: false, isStatement: false };
    }
    if (declaration.test(text)) return { isFunction: false, isStatement: true };
    return { isFunction: functionTail.test(text), isStatement: text === "" || text.endsWith(":") };
}

/** Every function, method and lambda; the callbacks of describe() are left out, they are folders and not functions. */
export function functionLengths(source: string, language: "ts" | "c++"): FunctionLength[] {
    const text = withoutLiterals(source, language);
    const found: FunctionLength[] = [];
    const stack: Frame[] = [];
    let header = "";
    let headerLine = 1;
    let line = 1;
    let depth = 0;
    for (const character of text) {
        if (character === "\n") ++line;
        if (character === "{") {
            const kind = classify(header);
            stack.push({
                ...{ opening: header.trim(), headerLine, ...kind },
                ...{ outerHeader: header, outerHeaderLine: headerLine, outerDepth: depth }
            });
            header = "";
            depth = 0;
            continue;
        }
        if (character === "}") {
            const frame = stack.pop();
            if (frame === undefined) continue;
            const { opening } = frame;
            if (frame.isFunction && !/\bdescribe\b[^;]*$/.test(opening.split("=>")[0]!)) {
                found.push({ header: opening, line: frame.headerLine, lines: line - frame.headerLine + 1 });
            }
            depth = frame.outerDepth;
            // A block inside an expression (initializer, lambda argument) leaves the statement around it open.
            const open = depth > 0 || !(frame.isFunction || frame.isStatement);
            header = open ? `${frame.outerHeader}{}` : "";
            headerLine = frame.outerHeaderLine;
            continue;
        }
        if (character === "(") ++depth;
        if (character === ")") --depth;
        if (character === ";" && depth <= 0) {
            header = "";
            depth = 0;
            continue;
        }
        if (header === "" && /\s/.test(character)) continue;
        if (header === "") headerLine = line;
        header += character;
    }
    return found;
}
