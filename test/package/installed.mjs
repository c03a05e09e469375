// SPDX-License-Identifier: Apache-2.0
// The package as a user gets it: packed from the sources of this tree as a fresh checkout has them, installed into an
// empty folder, its engine built there, used by the API and the command line, installed once more by `npm ci`.
// node test/package/installed.mjs [--keep]   needs node_modules, a registry of packages and a compiler; 2 minutes on 2
//                                            cores. --keep: leaves the folder and says where it is
// The last line is "N passed, N failed".
import { spawn, spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../..", import.meta.url));
const base = mkdtempSync(join(tmpdir(), "spillway-package-"));
const [checkout, project, cache] = ["checkout", "project", "cache"].map((name) => join(base, name));
const environment = {
    ...{ ...process.env, XDG_CACHE_HOME: cache, SPILLWAY_ENGINE_FOLDER: "", NODE_ENV: "" },
    // Whether the package has all that an engine is made of shows as well without optimization (a quarter of the time).
    SPILLWAY_QUICK: "ON"
};
const sum = { passed: 0, failed: 0 };

function run(command, args, { cwd = project, env = {} } = {}) {
    const options = { cwd, env: { ...environment, ...env }, encoding: "utf8", maxBuffer: 2 ** 28 };
    const { status, stdout, stderr } = spawnSync(command, args, options);
    return { status, stdout, stderr, text: `${stdout}${stderr}` };
}

/** Runs a command that has to succeed; gives what it printed on stdout. */
function done(command, args, options) {
    const { status, stdout, text } = run(command, args, options);
    if (status !== 0) throw new Error(`${command} ${args.join(" ")} ended with ${status}: ${text}`);
    return stdout;
}

function expect(holds, what) {
    if (!holds) throw new Error(what);
}

/** A step of the way; the others need it, so a failure ends the run. */
async function step(name, work) {
    const start = Date.now();
    try {
        await work();
        sum.passed += 1;
        console.log(`passed  ${name} (${((Date.now() - start) / 1000).toFixed(1)} s)`);
    } catch (error) {
        sum.failed += 1;
        console.log(`failed: ${name}: ${error.message}`);
        throw error;
    }
}

/** The files of a checkout, as git knows them, without anything that was built. */
function copySources() {
    const listed = done("git", ["ls-files", "-z", "--cached", "--others", "--exclude-standard"], { cwd: root });
    for (const name of listed.split("\0").filter((each) => each !== "" && existsSync(join(root, each)))) {
        mkdirSync(dirname(join(checkout, name)), { recursive: true });
        cpSync(join(root, name), join(checkout, name));
    }
    symlinkSync(join(root, "node_modules"), join(checkout, "node_modules"));
}

function pack() {
    const packed = done("npm", ["pack", "--json", "--silent"], { cwd: checkout });
    const [{ files, filename, size, unpackedSize }] = JSON.parse(packed);
    const names = files.map(({ path }) => path);
    for (const name of ["dist/index.js", "dist/index.d.ts", "dist/cli/main.js", "dist/machine/profiles.json"]) {
        expect(names.includes(name), `${name} is not in the package`);
    }
    const unwanted = names.filter((name) => /^(test|build|src|docs\/results|configs\/experiments)\/|\.map$/.test(name));
    expect(unwanted.length === 0, `the package holds ${unwanted.slice(0, 5).join(", ")}`);
    console.log(`        ${files.length} files, ${size} bytes packed, ${unpackedSize} unpacked`);
    return join(checkout, filename);
}

const program = `
    import { tableFromArrays } from "apache-arrow";
    import { openRuntime } from "spillway";
    const runtime = await openRuntime({ memory: { host: "64MiB" } });
    const left = runtime.fromTable(tableFromArrays({ k: Int32Array.of(1, 2, 3), a: Int32Array.of(10, 20, 30) }));
    const right = runtime.fromTable(tableFromArrays({ k: Int32Array.of(2, 3, 3), b: Int32Array.of(5, 6, 7) }));
    const rows = await left.join(right, { on: "k" }).toTable();
    console.log(JSON.stringify(rows.toArray().map((row) => row.toJSON()).sort((x, y) => x.b - y.b)));
    await runtime.close();
`;
const expected = '[{"k":2,"a":20,"b":5},{"k":3,"a":30,"b":6},{"k":3,"a":30,"b":7}]';

function use() {
    expect(done(process.execPath, ["query.mjs"]).trim() === expected, "the API gives other rows");
    const count = done("npx", [
        "spillway",
        "join",
        "orders.arrow",
        "lineitem.arrow",
        "--on",
        "o_orderkey=l_orderkey",
        "--count"
    ]);
    expect(/^[\d,]+\s*$/.test(count), `the command line prints ${count}`);
}

const engines = () => (existsSync(join(cache, "spillway")) ? readdirSync(join(cache, "spillway")) : []);

function withoutCompiler() {
    // Node and npm alone on the PATH.
    const tools = join(base, "tools");
    mkdirSync(tools);
    for (const name of ["node", "npx", "npm", "sh", "env"]) {
        symlinkSync(done("which", [name]).trim(), join(tools, name));
    }
    const { status, stderr } = run("npx", ["spillway", "build"], { env: { PATH: tools, CXX: "" } });
    expect(status === 1 && /needs a C\+\+20 compiler, CMake .*apt-get install g\+\+ cmake make/s.test(stderr), stderr);
    expect(engines().length === 0, `a build that could not begin left ${engines().join(", ")}`);
}

function notWritable() {
    const file = join(base, "file");
    writeFileSync(file, "");
    const { status, stderr } = run("npx", ["spillway", "build"], { env: { SPILLWAY_ENGINE_FOLDER: join(file, "in") } });
    expect(status === 1 && /'.*file\/in.*SPILLWAY_ENGINE_FOLDER/s.test(stderr), stderr);
}

/** Ends a build as Ctrl-C does; nothing of it stays. */
async function stopped() {
    const child = spawn("npx", ["spillway", "build", "--cuda", "off"], {
        ...{ cwd: project, env: environment, stdio: "ignore", detached: true }
    });
    const ended = new Promise((resolve) => child.once("close", resolve));
    const until = Date.now() + 60_000;
    const isCompiling = () => engines().some((name) => existsSync(join(cache, "spillway", name, "CMakeFiles")));
    while (!isCompiling() && Date.now() < until) await sleep(200);
    expect(isCompiling(), "no build began");
    await sleep(2000);
    process.kill(-child.pid, "SIGINT");
    await ended;
    await sleep(1000); // the last process of the group
    expect(engines().length === 0, `a build that was stopped left ${engines().join(", ")}`);
}

try {
    let tarball = "";
    mkdirSync(project);
    writeFileSync(join(project, "package.json"), '{ "name": "project", "version": "1.0.0", "type": "module" }');
    writeFileSync(join(project, "query.mjs"), program);
    await step("pack a fresh checkout", () => {
        copySources();
        tarball = pack();
    });
    await step("install it into an empty folder", () =>
        done("npm", ["install", "--omit=dev", "--no-audit", "--no-fund", "--save", tarball, "apache-arrow"])
    );
    await step("without its engine, it says how to build it", () => {
        const { status, stderr } = run(process.execPath, ["query.mjs"]);
        expect(status !== 0 && stderr.includes("NATIVE_MISSING") && stderr.includes("npx spillway build"), stderr);
    });
    await step("without a compiler, it says what is missing", withoutCompiler);
    await step("a folder that cannot be written is named", notWritable);
    await step("a build that is stopped leaves nothing", stopped);
    await step("npx spillway build", () => {
        done("npx", ["spillway", "build", "--cuda", "off"]);
        expect(engines().length === 1, `the folder of engines holds ${engines().join(", ")}`);
    });
    await step("use the API and the command line", () => {
        done("npx", ["spillway", "generate", "tpch", ".", "--scale", "0.01"]);
        use();
    });
    await step("use it after npm ci, with nothing built again", () => {
        done("npm", ["ci", "--no-audit", "--no-fund"]);
        use();
        const again = run("npx", ["spillway", "build", "--cuda", "off"]);
        expect(again.status === 0 && /The engine is built: /.test(again.stderr), again.text);
    });
} catch {
    // The failed step has been told.
}
if (process.argv.includes("--keep")) console.log(`left in ${base}`);
else rmSync(base, { recursive: true, force: true });
console.log(`${sum.passed} passed, ${sum.failed} failed`);
process.exitCode = sum.failed > 0 || sum.passed === 0 ? 1 : 0;
