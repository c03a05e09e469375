// SPDX-License-Identifier: Apache-2.0
// The order of the attacks of a seed, and the file that a label stands for.
import { crafted } from "./crafted/all.mjs";
import { everyPatch, patched, randomPatch } from "./patches.mjs";
import { modes } from "./queries.mjs";
import { Random } from "./random.mjs";

const modeNames = Object.keys(modes);
/** Patched files between two crafted ones. */
const patchesBetween = 2;

const craftedNames = Object.entries(crafted).flatMap(([family, cases]) =>
    Object.keys(cases).map((name) => `crafted/${family}/${name}`)
);

function shuffled(items, random) {
    const result = [...items];
    for (let i = result.length - 1; i > 0; --i) {
        const j = random.below(i + 1);
        [result[i], result[j]] = [result[j], result[i]];
    }
    return result;
}

const labelOf = ({ name, patches }, mode) => [name, `~${mode}`, ...patches].join(" ");

/**
 * Labels without end: all crafted files in random order, patched ones between them, then patched ones alone. `every`:
 * every crafted file in every mode and every number of every sound file with every value instead, once.
 */
export function* labels(seed, every = false) {
    const random = new Random(seed);
    if (every) {
        for (const name of craftedNames) for (const mode of modeNames) yield `${name} ~${mode}`;
        for (const patch of everyPatch()) yield labelOf(patch, random.pick(modeNames));
        return;
    }
    for (const name of shuffled(craftedNames, random)) {
        yield `${name} ~${random.pick(modeNames)}`;
        for (let i = 0; i < patchesBetween; ++i) yield labelOf(randomPatch(random), random.pick(modeNames));
    }
    for (;;) yield labelOf(randomPatch(random), random.pick(modeNames));
}

export const craftedCount = craftedNames.length;

/** What a label counts for as a test: "crafted/views", or the layout that was patched. */
export function groupOf(label) {
    const [kind, name] = label.split(/[/ ]/);
    return kind === "crafted" ? `crafted/${name}` : (name ?? kind);
}

/** The bytes of a label and the mode of its queries. */
export function attackOf(label) {
    const [, name, mode, patches] = /^(.*?) ~(\w+)(?: (.*))?$/.exec(label) ?? [];
    if (name === undefined || modes[mode] === undefined) throw new Error(`'${label}' is the label of no attack`);
    if (!name.startsWith("crafted/")) return { bytes: patched(name, patches?.split(" ") ?? []), mode };
    const [, family] = name.split("/", 2);
    const make = crafted[family]?.[name.slice(`crafted/${family}/`.length)];
    if (make === undefined) throw new Error(`there is no file '${name}'`);
    return { bytes: make(), mode };
}
