// SPDX-License-Identifier: Apache-2.0
// Imports go one way. Each room lists the rooms it may see; itself is always allowed.
import { describe, expect, test } from "vitest";
import { includes, sourceFiles, typescriptImports, type Import } from "../../support/source-tree.js";

/** Imports that break the order and may stay, each with a reason: "from -> to": "why". */
const exceptions: Record<string, string> = {};

const below = (order: readonly string[]): Record<string, readonly string[]> =>
    Object.fromEntries(order.map((room, index) => [room, order.slice(0, index)]));

const typescriptRooms: Record<string, readonly string[]> = {
    // errors <- model <- arrow, machine <- plan <- planner, and plan <- native <- execute
    ...below(["errors", "model"]),
    // Text for terminals: of plans, and of all that the command line prints.
    printable: [],
    // What JavaScript shows of Arrow values: for users and for the command line.
    values: ["errors", "model", "arrow"],
    arrow: ["errors", "model"],
    machine: ["errors", "model"],
    plan: ["errors", "model", "printable", "arrow", "machine"],
    planner: ["errors", "model", "arrow", "machine", "plan"],
    native: ["errors", "model", "arrow", "machine", "plan"],
    execute: ["errors", "model", "arrow", "machine", "plan", "native"],
    // The public classes join the planner and the execution: nothing below them knows both.
    runtime: ["errors", "model", "arrow", "machine", "plan", "planner", "native", "execute"],
    index: ["errors", "model", "arrow", "values", "machine", "plan", "planner", "native", "execute", "runtime"],
    cli: ["printable", "values", "index"]
};

// Planners of queries beyond GPU memory: folders of src/planner/streaming; what lies in it directly is shared by them.
const streamingRooms: Record<string, readonly string[]> = {
    shared: [],
    join: ["shared"],
    group: ["shared"],
    // Joins by kernels have the layout, the load and the result of those by copy engines.
    coherent: ["shared", "join"],
    // What a join by kernels cannot make these cannot make either, and their tables are in the same host memory.
    baseline: ["shared", "join", "coherent"],
    // Operators of a tree are joins and group-bys, and none of these knows that it is part of one.
    tree: ["shared", "join", "group", "coherent"]
};

// The plain C++ of cuda/ that the engine is made of, too: what crosses the plugin's border, and device bytes.
const contract = ["cuda/api", "cuda/memory_model"];
const model = ["base", "memory", "model"];
const rows = [...model, "cpu/row"];
const operators = ["cpu/hash_join", "cpu/group_by"];
const engines = ["executor", "executor/cpu", "executor/device", "executor/streaming"];
const addon = ["addon/jobs", "addon/decode", "addon/encode"];
const nativeRooms: Record<string, readonly string[]> = {
    base: [],
    device: ["base", ...contract],
    memory: ["base"],
    model: ["base", "memory"],
    generate: model,
    "cpu/row": model,
    // Values of nested dictionaries are compared in the encoding that rows carry them in.
    transfer: rows,
    "cpu/radix_partition": rows,
    "cpu/materialize": rows,
    // Operators stand side by side: what two of them need belongs to a room below.
    "cpu/hash_join": [...rows, "cpu/radix_partition", "cpu/materialize"],
    "cpu/group_by": [...rows, "cpu/radix_partition", "cpu/materialize"],
    // What several engines share; the three of them and the sinks stand side by side.
    executor: [...model, "transfer", "device"],
    "executor/sinks": [...model, "transfer"],
    "executor/cpu": [...rows, "transfer", "cpu/radix_partition", "cpu/materialize", ...operators],
    "executor/device": [...model, ...contract, "transfer", "device", "executor"],
    // Keys are encoded as rows of the CPU engine have them, and values that no chunk holds are gathered as it does.
    "executor/streaming": [...rows, ...contract, "transfer", "cpu/materialize", "device", "executor"],
    // Arguments and results do not see each other: a job takes what makes its result as a function.
    "addon/jobs": [...model, "transfer", "cpu/radix_partition", "device", "executor", "executor/sinks"],
    "addon/decode": [...model, "transfer", "generate", "cuda/api", "device", ...engines, "addon/jobs"],
    "addon/encode": [...model, "transfer", "cpu/radix_partition", "cuda/api", "device", ...engines, "addon/jobs"],
    "addon/calls": [
        ...[...model, ...contract, "transfer", "generate", "device"],
        ...[...engines, "executor/sinks", ...addon]
    ],
    addon: ["base", ...addon, "addon/calls"]
};

// Joins in GPU memory stand side by side; equi_join is the door to all of them. "api" is what crosses the plugin's
// border, "policy" are the files with tuning numbers, which anybody may read.
const onDevice = ["api", "policy", "device", "primitive"];
const packed = [...onDevice, "radix_partition"];
const joined = [...packed, "materialize"];
const groups = [...packed, "group_by/plan", "group_by/tables"];
const streamed = [...joined, "tier", "link", "memory_model", "stream"];
const indexed = [...streamed, "row_index"];
const cudaRooms: Record<string, readonly string[]> = {
    policy: [],
    api: [],
    device: ["api", "policy"],
    primitive: ["api", "policy", "device"],
    tier: onDevice,
    link: onDevice,
    radix_partition: onDevice,
    materialize: onDevice,
    far_partition: onDevice,
    "group_by/plan": packed,
    "group_by/tables": groups,
    "group_by/columns": groups,
    "group_by/dense": groups,
    "group_by/packed": groups,
    "group_by/sorted": groups,
    group_by: [...groups, "group_by/columns", "group_by/dense", "group_by/packed", "group_by/sorted"],
    hash_join: joined,
    no_partitioning_join: joined,
    sort_merge_join: joined,
    pair_join: joined,
    bucket_chain_join: [...joined, "pair_join"],
    shared_histogram_join: [...joined, "pair_join"],
    // Its stable partition is the radix sort of the sort-merge joins on some bits of the key.
    gftr_join: [...joined, "pair_join", "sort_merge_join"],
    equi_join: [
        ...joined,
        "hash_join",
        "no_partitioning_join",
        "sort_merge_join",
        "bucket_chain_join",
        "shared_histogram_join",
        "pair_join",
        "gftr_join"
    ],
    relation: [...joined, "equi_join", "group_by", "group_by/plan", "group_by/sorted"],
    // The memory of operators follows from the sizes of the rooms below them.
    memory_model: ["api", "policy", "radix_partition", "far_partition", "hash_join"],
    stream: [...joined, "tier", "link", "memory_model"],
    row_index: streamed,
    staged_join: indexed,
    staged_group_by: [...streamed, "group_by", "group_by/plan", "group_by/sorted"],
    coherent_join: [...indexed, "far_partition", "hash_join"],
    baseline_join: [...indexed, "hash_join", "sort_merge_join", "staged_join", "coherent_join"],
    plugin: [
        ...[...onDevice, "tier", "link", "relation", "memory_model", "stream"],
        ...["staged_join", "staged_group_by", "coherent_join", "baseline_join"]
    ]
};

function typescriptRoom(path: string): string {
    const [, first = "", second] = path.split("/");
    return second === undefined ? first.replace(/\.ts$/, "") : first;
}

const streaming = "src/planner/streaming/";

function streamingRoom(path: string): string {
    const [first = "", second] = path.slice(streaming.length).split("/");
    return second === undefined ? "shared" : first;
}

function nativeRoom(path: string): string {
    const [top, ...folders] = path.split("/").slice(0, -1);
    return top === "cuda" ? `cuda/${folders.join("/")}` : folders.join("/");
}

/** What breaks the order, as readable lines. */
function violations(
    imports: readonly Import[],
    rooms: Record<string, readonly string[]>,
    roomOf: (path: string) => string
): string[] {
    return imports.flatMap(({ from, to, line }) => {
        const [source, target] = [roomOf(from), roomOf(to)];
        const allowed = rooms[source];
        if (allowed === undefined) return [`${from}: room '${source}' is not in the order of this test`];
        if (source === target || allowed.includes(target)) return [];
        if (Object.hasOwn(exceptions, `${from} -> ${to}`)) return [];
        return [`${from}:${line}: ${source} must not see ${target} (${to})`];
    });
}

/** Files that import each other, each circle as "a -> b -> a". */
function circles(imports: readonly Pick<Import, "from" | "to">[]): string[] {
    const targets = new Map<string, string[]>();
    for (const { from, to } of imports) targets.set(from, [...(targets.get(from) ?? []), to]);
    const found: string[] = [];
    const done = new Set<string>();
    const visit = (file: string, path: readonly string[]): void => {
        if (path.includes(file)) {
            found.push([...path.slice(path.indexOf(file)), file].join(" -> "));
        } else if (!done.has(file)) {
            for (const target of targets.get(file) ?? []) visit(target, [...path, file]);
            done.add(file);
        }
    };
    for (const file of targets.keys()) visit(file, []);
    return found;
}

describe("TypeScript", () => {
    const imports = typescriptImports(sourceFiles("src"));

    test("rooms import downwards only", () => {
        expect(imports.length).toBeGreaterThan(0);
        expect(violations(imports, typescriptRooms, typescriptRoom)).toEqual([]);
    });

    test("planners beyond GPU memory share steps, and one file chooses among them", () => {
        const seen = imports.filter(({ to }) => to.startsWith(streaming));
        const inside = seen.filter(({ from }) => from.startsWith(streaming));
        expect(inside.length).toBeGreaterThan(0);
        expect(violations(inside, streamingRooms, streamingRoom)).toEqual([]);
        const outside = seen.filter(({ from, to }) => !from.startsWith(streaming) && streamingRoom(to) !== "shared");
        expect([...new Set(outside.map(({ from }) => from))]).toEqual(["src/planner/plan-out-of-core.ts"]);
    });

    test("no files import each other in a circle, not even types", () => {
        const made = [
            { from: "a", to: "b" },
            { from: "b", to: "c" },
            { from: "c", to: "b" },
            { from: "a", to: "c" }
        ];
        expect(circles(made)).toEqual(["b -> c -> b"]);
        expect(circles(imports)).toEqual([]);
    });

    test("every import names a file that exists", () => {
        const known = new Set(sourceFiles("src").map((file) => file.path));
        expect(imports.filter(({ to }) => !known.has(to))).toEqual([]);
    });

    test("every file is reached from the package's entry or its program", () => {
        const reached = new Set(["src/index.ts", "src/cli/main.ts"]);
        for (let before = 0; before !== reached.size;) {
            before = reached.size;
            for (const { from, to } of imports) if (reached.has(from)) reached.add(to);
        }
        const paths = sourceFiles("src").map((file) => file.path);
        expect(paths.filter((path) => !reached.has(path))).toEqual([]);
    });
});

describe("C++", () => {
    const files = sourceFiles("native");
    const imports = includes([...files, ...sourceFiles("cuda")]).filter(({ from }) => from.startsWith("native/"));

    test("rooms include downwards only", () => {
        expect(imports.length).toBeGreaterThan(0);
        const own = imports.filter(({ to }) => to.startsWith("native/") || to.startsWith("cuda/"));
        expect(violations(own, nativeRooms, nativeRoom)).toEqual([]);
        const used = new Set(files.map(({ path }) => nativeRoom(path)));
        expect(Object.keys(nativeRooms).filter((room) => !used.has(room))).toEqual([]);
    });

    test("every quoted include is found from native/", () => {
        const known = new Set(files.map((file) => file.path));
        expect(imports.filter(({ to }) => !known.has(to) && !/^cuda\/(api|memory_model)\//.test(to))).toEqual([]);
    });

    test("every header is included somewhere", () => {
        const everywhere = includes([...files, ...sourceFiles("test/native", "cuda")]);
        const used = new Set(everywhere.map(({ to }) => to));
        const headers = files.map((file) => file.path).filter((path) => /\.(hpp|h)$/.test(path));
        expect(headers.filter((path) => !used.has(path))).toEqual([]);
    });

    test("Node-API is seen by the addon alone", () => {
        const users = files.filter((file) =>
            /#\s*include\s*[<"](napi|node_api|js_native_api|uv|node)[.\w]*h/.test(file.text)
        );
        expect(users.map((file) => file.path).filter((path) => !path.startsWith("native/addon/"))).toEqual([]);
    });

    test("CUDA syntax and launches stay in cuda/", () => {
        const users = [...files, ...sourceFiles("src")].filter((file) => /<<<|__global__|cuda_runtime/.test(file.text));
        expect(users.map((file) => file.path)).toEqual([]);
    });
});

describe("CUDA", () => {
    const files = sourceFiles("cuda");
    const imports = includes(files);
    const room = (path: string): string =>
        path.endsWith("_policy.hpp") ? "policy" : path.split("/").slice(1, -1).join("/");

    test("rooms include downwards only", () => {
        expect(imports.length).toBeGreaterThan(0);
        expect(violations(imports, cudaRooms, room)).toEqual([]);
        expect(Object.keys(cudaRooms).filter((name) => files.every(({ path }) => room(path) !== name))).toEqual([]);
    });

    test("every quoted include is found in cuda/", () => {
        const known = new Set(files.map((file) => file.path));
        expect(imports.filter(({ to }) => !known.has(to))).toEqual([]);
    });

    test("every header is included somewhere", () => {
        const tests = sourceFiles("native", "test/native", "test/gpu", "test/bench");
        const used = new Set(includes([...files, ...tests]).map(({ to }) => to));
        const headers = files.map((file) => file.path).filter((path) => /\.(hpp|cuh|h)$/.test(path));
        expect(headers.filter((path) => !used.has(path))).toEqual([]);
    });
});

test("no exception outlives its reason", () => {
    const all = [...typescriptImports(sourceFiles("src")), ...includes(sourceFiles("native", "cuda"))];
    const existing = new Set(all.map(({ from, to }) => `${from} -> ${to}`));
    expect(Object.keys(exceptions).filter((name) => !existing.has(name))).toEqual([]);
});
