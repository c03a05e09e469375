// SPDX-License-Identifier: Apache-2.0
import { existsSync } from "node:fs";
import { join } from "node:path";
import { benchmarkTables, type GenerateOptions, type Relation, type Runtime } from "../../index.js";
import { defineCommand, defineCommandGroup, type ArgumentsOf, type CommandContext } from "../command.js";
import { parseCount, parseNumber, parseSeed } from "../parse/numbers.js";
import { otherFormatOf } from "../parse/output.js";
import { parseList } from "../parse/lists.js";
import { didYouMean } from "../parse/nearest.js";
import { parsePayload } from "../parse/payload.js";
import { progressFor } from "../render/progress.js";
import { formatBytes, formatCount } from "../render/quantities.js";
import { UsageError } from "../usage-error.js";
import { openTarget } from "./generate-target.js";
import { openCommandRuntime, runtimeOptions } from "./shared-options.js";

const sharedPositionals = {
    folder: { type: "string", demandOption: true, describe: "Folder for the files; made if it is missing" }
} as const;

const sharedOptions = {
    seed: { type: "string", default: "1", describe: "The same seed gives the same rows; 0 to 2^64 - 1" },
    overwrite: { type: "boolean", default: false, describe: "Replace files that exist" },
    json: { type: "boolean", default: false, describe: "Report the files as JSON" },
    quiet: { type: "boolean", alias: "q", default: false, describe: "Nothing on stderr but errors" },
    ...runtimeOptions
} as const;

const relationOptions = {
    rows: { type: "string", alias: "n", default: "1M", describe: "Rows of left.arrow, such as 10M or 1e7" },
    "right-rows": { type: "string", describe: "Rows of right.arrow (default: as many)" },
    duplicates: { type: "string", default: "1", describe: "Left rows per key; above 1 the join is m:n" },
    zipf: { type: "string", default: "0", describe: "Skew of the right keys: Zipf exponent, 0 = uniform" },
    "match-ratio": { type: "string", default: "1", describe: "Share of right rows that have a partner" },
    "key-type": { type: "string", choices: ["int32", "int64"], default: "int64", describe: "Type of the keys" },
    sparse: { type: "boolean", default: false, describe: "Keys scattered over the type's range, not 0, 1, 2 ..." },
    sorted: { type: "boolean", default: false, describe: "Keys in ascending order, not shuffled" },
    payload: { type: "string", default: "1", describe: "Left columns: how many int64, or price:float64,note:utf8(24)" },
    "right-payload": { type: "string", default: "1", describe: "Right columns, likewise" },
    ...sharedOptions
} as const;

const tableOptions = {
    scale: { type: "string", alias: "s", default: "1", describe: "1 = 1.5 M orders and about 6 M line items" },
    tables: { type: "string", array: true, describe: "Only these tables, separated by commas (default: all)" },
    part: { type: "string", describe: "Only this part of each table, counted from 1; needs --of" },
    of: { type: "string", describe: "How many parts there are; together they are the tables" },
    dictionary: {
        type: "boolean",
        default: false,
        describe: "Dictionaries, not plain text, for columns with a closed list of texts"
    },
    ...sharedOptions
} as const;

type SharedArguments = ArgumentsOf<typeof sharedPositionals, typeof sharedOptions>;
type TableArguments = ArgumentsOf<typeof sharedPositionals, typeof tableOptions>;
type RelationArguments = ArgumentsOf<typeof sharedPositionals, typeof relationOptions>;

// What Runtime.generate() takes.
const scaleMax = 1e6;
const partsMax = 1_000_000;

type Benchmark = keyof typeof benchmarkTables;

interface GeneratedFile {
    file: string;
    options: GenerateOptions;
}

/** left.arrow holds every key, right.arrow refers to them. */
function relationFiles(args: RelationArguments): GeneratedFile[] {
    const rows = parseCount("rows", args.rows);
    const rightRows = args["right-rows"] == null ? rows : parseCount("right-rows", args["right-rows"]);
    const duplicates = parseCount("duplicates", args.duplicates, 1);
    if (rightRows > 0 && rows < duplicates) {
        throw new UsageError(
            `--rows ${rows} is less than --duplicates ${duplicates}: no key has all of its rows, ` +
                "and right.arrow would have none to refer to. Give more --rows or fewer --duplicates."
        );
    }
    if (args.sparse && args.sorted) {
        throw new UsageError("--sparse and --sorted exclude each other: scattered keys have no order; give one.");
    }
    const seed = parseSeed("seed", args.seed);
    const key = {
        type: args["key-type"],
        order: args.sorted ? ("sorted" as const) : ("shuffled" as const),
        sparse: args.sparse
    };
    const left = {
        rows,
        seed,
        key: { ...key, role: "primary" as const, duplicates },
        payload: parsePayload("payload", args.payload, "left")
    };
    const right = {
        rows: rightRows,
        seed: BigInt.asUintN(64, seed + 1n), // the same seed would pair the random numbers of both files
        key: {
            ...key,
            role: "foreign" as const,
            domainRows: Math.floor(rows / duplicates),
            zipf: parseNumber("zipf", args.zipf, 0, 10),
            matchRatio: parseNumber("match-ratio", args["match-ratio"], 0, 1)
        },
        payload: parsePayload("right-payload", args["right-payload"], "right")
    };
    return [
        { file: "left.arrow", options: left },
        { file: "right.arrow", options: right }
    ];
}

/** `--part 2 --of 8`, or the whole. */
function parsePart({ part, of }: TableArguments): { part: number; parts: number } {
    if (part == null && of == null) return { part: 1, parts: 1 };
    if (part == null || of == null) {
        const [given, missing] = part == null ? ["of", "part"] : ["part", "of"];
        throw new UsageError(`--${given} needs --${missing} beside it, such as --part 2 --of 8.`);
    }
    const parts = parseCount("of", of, 1, partsMax);
    return { part: parseCount("part", part, 1, parts), parts };
}

/** "orders.arrow", or "orders.02-of-16.arrow": names of parts in the order of their rows. */
function tableFile(table: string, part: number, parts: number): string {
    if (parts === 1) return `${table}.arrow`;
    return `${table}.${String(part).padStart(String(parts).length, "0")}-of-${parts}.arrow`;
}

function chosenTables(args: TableArguments, known: readonly string[]): string[] {
    if (args.tables == null) return [...known];
    const chosen = parseList("tables", args.tables);
    const unknown = chosen.find((table) => !known.includes(table));
    if (unknown == null) return chosen;
    throw new UsageError(
        `--tables names "${unknown}", which is none of ${known.join(", ")}${didYouMean(unknown, known)}`
    );
}

function tableFiles(args: TableArguments, benchmark: Benchmark): GeneratedFile[] {
    const scale = parseNumber("scale", args.scale, 0, scaleMax);
    if (scale === 0)
        throw new UsageError(`--scale needs a number above 0 and at most ${scaleMax}, not "${args.scale}".`);
    const seed = parseSeed("seed", args.seed);
    const { part, parts } = parsePart(args);
    const { dictionary } = args;
    return chosenTables(args, benchmarkTables[benchmark]).map((table) => ({
        file: tableFile(table, part, parts),
        options: { benchmark, table, scale, seed, dictionary, part, parts } as GenerateOptions
    }));
}

async function generateFile(
    runtime: Runtime,
    file: GeneratedFile,
    args: SharedArguments,
    context: CommandContext
): Promise<Relation> {
    const bar = progressFor(context.stderr, args.quiet);
    try {
        return await runtime.generate(file.options, {
            path: join(args.folder, file.file),
            overwrite: args.overwrite,
            signal: context.signal,
            onProgress: (event) => bar.update(event)
        });
    } finally {
        bar.end();
    }
}

/** All files or, where nothing has been replaced, none: a part of them is of no use. */
async function generateAll(files: GeneratedFile[], args: SharedArguments, context: CommandContext): Promise<void> {
    if (args.folder === "-") {
        throw new UsageError(
            "generate writes several files, which standard output cannot hold; name a folder " +
                "(./- for one of that name)."
        );
    }
    if (otherFormatOf(args.folder) !== null && !existsSync(args.folder)) {
        throw new UsageError(
            `generate writes Arrow files into a folder, but "${args.folder}" is named as a file of another ` +
                "format; name a folder."
        );
    }
    await using runtime = await openCommandRuntime(args);
    const target = await openTarget(
        args.folder,
        files.map(({ file }) => file)
    );
    if (!args.overwrite) target.refuseExisting();
    const written: { path: string; rows: number | null; bytes: number | null }[] = [];
    try {
        for (const file of files) {
            const { rows, bytes } = await generateFile(runtime, file, args, context);
            const path = join(args.folder, file.file);
            written.push({ path, rows, bytes });
            if (!args.quiet) context.say(`${path}: ${formatCount(rows ?? 0)} rows, ${formatBytes(bytes ?? 0)}`);
        }
    } catch (error) {
        context.say(...(await target.undo(written.map(({ path }) => path))));
        throw error;
    }
    if (args.json) await context.printJson(`${JSON.stringify({ files: written })}\n`);
}

const remedies = {
    OUTPUT_EXISTS: "Give --overwrite to replace it, or another folder.",
    OUTPUT_FAILED: "Name a folder that exists or can be made, and that this user may write to.",
    DISK_FULL: "Free space, or name a folder on another disk."
} as const;

const generateRelations = defineCommand({
    usage: "relations <folder>",
    synopsis: "generate relations FOLDER [options]",
    describe: "left.arrow with unique keys and right.arrow that refers to them, each with payload columns",
    examples: [["$0 generate relations data --rows 10M --right-rows 40M --zipf 1", "A skewed foreign key"]],
    positionals: sharedPositionals,
    options: relationOptions,
    remedies,
    run: (args, context) => generateAll(relationFiles(args), args, context)
});

const generateTpch = defineCommand({
    usage: "tpch <folder>",
    synopsis: "generate tpch FOLDER [options]",
    describe: "The eight tables of TPC-H, an Arrow file each, with own random numbers and comments",
    examples: [
        ["$0 generate tpch data --scale 10", "15 M orders and about 60 M line items"],
        ["$0 generate tpch data --tables orders,lineitem --part 2 --of 8", "An eighth of two tables"]
    ],
    positionals: sharedPositionals,
    options: tableOptions,
    remedies,
    run: (args, context) => generateAll(tableFiles(args, "tpch"), args, context)
});

const generateSsb = defineCommand({
    usage: "ssb <folder>",
    synopsis: "generate ssb FOLDER [options]",
    describe: "The five tables of the Star Schema Benchmark, an Arrow file each, with own random numbers",
    examples: [["$0 generate ssb data --scale 10 --dictionary", "About 60 M rows of lineorder and four dimensions"]],
    positionals: sharedPositionals,
    options: tableOptions,
    remedies,
    run: (args, context) => generateAll(tableFiles(args, "ssb"), args, context)
});

export const generateCommand = defineCommandGroup({
    usage: "generate",
    synopsis: "generate COMMAND",
    describe: "Write relations to try things with: keys of any skew, or the tables of TPC-H or SSB",
    examples: [],
    subcommands: [generateRelations, generateTpch, generateSsb]
});
