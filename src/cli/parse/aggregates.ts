// SPDX-License-Identifier: Apache-2.0
import type { AggregateName, AggregateOf } from "../../index.js";
import { didYouMean } from "./nearest.js";
import { UsageError } from "../usage-error.js";

/** Command-line word of each aggregate and its name in the API. */
const aggregateNames = {
    sum: "sum",
    min: "min",
    max: "max",
    mean: "mean",
    count: "count",
    first: "first",
    any: "any",
    "count-distinct": "countDistinct"
} as const satisfies Record<string, AggregateName>;

/** What other systems call them. */
const otherNames: ReadonlyMap<string, keyof typeof aggregateNames> = new Map([
    ["avg", "mean"],
    ["average", "mean"],
    ["total", "sum"]
]);

type AggregateWord = keyof typeof aggregateNames;

function parseAggregate(item: string): [name: string, aggregate: AggregateOf<string>] {
    const match = /^(?:([^=]+)=)?([a-zA-Z_-]+):(.+)$/.exec(item);
    if (match == null) {
        throw new UsageError(
            `--aggregate needs NAME=FUNCTION:COLUMN, such as 'revenue=sum:price' or 'n=count:*', not "${item}".`
        );
    }
    const [, name, word, column] = match;
    const known = Object.keys(aggregateNames) as AggregateWord[];
    const found = known.find((candidate) => candidate === word || aggregateNames[candidate] === word);
    if (found == null) {
        const other = otherNames.get(word!.toLowerCase());
        const near = other === undefined ? didYouMean(word!.toLowerCase(), known) : `; it is called ${other} here.`;
        const hint = near || `; known are ${known.join(", ")}.`;
        throw new UsageError(`--aggregate does not know the function "${word}"${hint}`);
    }
    if (column === "*" && found !== "count") {
        throw new UsageError(`--aggregate: only count takes *, "${item}" needs a column.`);
    }
    const defaultName = column === "*" ? found : `${column}_${found.replace("-", "_")}`;
    return [name ?? defaultName, { [aggregateNames[found]]: column! } as AggregateOf<string>];
}

/** `revenue=sum:price,n=count:*`; without a name the result column is called `price_sum`. */
export function parseAggregates(texts: readonly string[]): Record<string, AggregateOf<string>> {
    const aggregates = Object.create(null) as Record<string, AggregateOf<string>>; // `__proto__` is a name too
    for (const item of texts.flatMap((text) => text.split(","))) {
        const [name, aggregate] = parseAggregate(item.trim());
        if (name in aggregates) throw new UsageError(`--aggregate names two results "${name}".`);
        aggregates[name] = aggregate;
    }
    return aggregates;
}
