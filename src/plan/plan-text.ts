// SPDX-License-Identifier: Apache-2.0
import { deviceConstants } from "../model/device-constants.js";
import { formatBytes, formatCount, formatMs } from "../model/sizes.js";
import { printable } from "../printable.js";
import type { DeviceChoice } from "./device-choice.js";
import { isOutOfCore, type UploadStage } from "./device-stages.js";
import type { GroupParts } from "./group-parts.js";
import { outOfCoreGroupLines, outOfCoreLines, outOfCoreTreeLines } from "./out-of-core-text.js";
import type { PartitionSet, PipelineStage, Plan, PlanStage } from "./plan.js";
import type { HeldRows } from "./stage.js";

function inputName(plan: Plan, index: number): string {
    const stage = index - plan.inputs.length;
    const what = plan.stages[stage]?.name === "group" ? "groups" : "rows";
    return plan.inputs[index]?.name ?? `the ${what} of stage ${stage + 1}`;
}

function setLine(set: PartitionSet): string {
    const bits = set.spec.radixBits;
    const spilled = Math.max(0, set.estimatedBytes - set.poolBytes);
    const where =
        spilled === 0
            ? "all in memory"
            : `${formatBytes(set.estimatedBytes - spilled)} in memory, ${formatBytes(spilled)} on disk`;
    return (
        `${formatCount(set.estimatedRows)} rows x ${set.rowBytes} B = ${formatBytes(set.estimatedBytes)}, ` +
        `2^${bits} partitions, ${formatBytes(set.spec.pageBytes)} pages: ${where}`
    );
}

/** Bytes of an upload, and what crosses the link of them. */
function sizeText({ bytes, sentBytes }: UploadStage): string {
    return sentBytes < bytes
        ? `${formatBytes(bytes)} as ${formatBytes(sentBytes)}: in as many bits as values need`
        : formatBytes(bytes);
}

function source(plan: Plan, stage: PlanStage): string {
    switch (stage.kind) {
        case "partition":
            return `from ${inputName(plan, stage.input)}`;
        case "streamingJoin":
            return `probe rows from ${inputName(plan, stage.probeInput)}`;
        case "hashGroup":
        case "pipeline":
            return `from ${inputName(plan, stage.input)}`;
        case "arrayJoin":
            return `keys from ${inputName(plan, stage.buildInput)}, rows from ${inputName(plan, stage.probeInput)}`;
        case "upload":
            return `from ${inputName(plan, stage.input)}: ${stage.columns.length} columns, ${sizeText(stage)}`;
        case "deliver":
            return (
                `about ${formatCount(stage.rowsOut)} rows, ${formatBytes(stage.bytes)}` +
                (stage.packed ? ", in as many bits as values need" : "")
            );
        case "deviceJoin": {
            const rows = `${formatCount(stage.rowsIn)} rows in, about ${formatCount(stage.rowsOut)} out`;
            if (!stage.pieces?.planned) return rows;
            return `${rows}, in pieces of ${formatCount(stage.pieces.rowsMax)} rows`;
        }
        case "deviceGroup":
            return `${formatCount(stage.rowsIn)} rows in, about ${formatCount(stage.rowsOut)} groups out`;
        case "deviceOutOfCoreJoin": {
            const [build, probe] = [inputName(plan, stage.buildInput), inputName(plan, stage.probeInput)];
            const rows = `${formatCount(stage.rowsIn)} rows in, about ${formatCount(stage.rowsOut)} out`;
            return `built from ${build}, probed with ${probe}: ${rows}`;
        }
        case "deviceOutOfCoreGroupBy": {
            const rows = `${formatCount(stage.rowsIn)} rows in, about ${formatCount(stage.rowsOut)} groups out`;
            return `from ${inputName(plan, stage.input)}: ${rows}`;
        }
        case "deviceOutOfCoreTree": {
            const names = stage.flows.map(({ input }) => inputName(plan, input)).join(", ");
            const rows = `${formatCount(stage.rowsIn)} rows in, about ${formatCount(stage.rowsOut)} out`;
            return `reads ${names}, one after the other: ${rows}`;
        }
        case "join":
        case "group":
            return "";
    }
}

function setFilledBy(stage: PlanStage): number | undefined {
    return "output" in stage && stage.output.to === "set" ? stage.output.set : undefined;
}

/** Which aggregates of a group-by each of its parts makes, and why there are several. */
function partsLine({ parts }: GroupParts): string {
    const made = parts.map(({ names }) => names.join(", ")).join("; ");
    return (
        `a group-by in ${parts.length} parts, whose groups are joined, as a part adds up ` +
        `${deviceConstants.groupAggregatesMax} numbers for a key at most: ${made}`
    );
}

function deviceLines({ device, deviceReason, deviceMemory, groupParts = [] }: Plan): string[] {
    if (deviceMemory !== null) {
        const { limitBytes, estimatedBytes, uploadedBytes, downloadedBytes, elseOutOfCore } = deviceMemory;
        const copies = `${formatBytes(uploadedBytes)} uploaded, ${formatBytes(downloadedBytes)} downloaded`;
        const memory = `about ${formatBytes(estimatedBytes)} of GPU memory, ${formatBytes(limitBytes)} allowed`;
        const lines = ["device", `  ${device}: ${copies}; ${memory}`];
        if (elseOutOfCore === true) lines.push("  if GPU memory runs out, the query is planned again, out of core");
        if (deviceReason !== null) lines.push(`  out of core: ${deviceReason}`);
        return [...lines, ...groupParts.map((one) => `  ${partsLine(one)}`)];
    }
    return deviceReason === null ? [] : ["device", `  ${device}: ${deviceReason}`];
}

/** Predicted time of each phase, and why it is this algorithm. */
function choiceLines({ algorithm, predictedMs, reason }: DeviceChoice): string[] {
    const { transformMs, matchMs, materializeMs } = predictedMs;
    const phases = [
        transformMs > 0 ? `transform ${formatMs(transformMs)}` : "",
        matchMs > 0 ? `match ${formatMs(matchMs)}` : "",
        materializeMs > 0 ? `materialize ${formatMs(materializeMs)}` : ""
    ].filter((phase) => phase !== "");
    return [`${algorithm}: ${phases.join(", ")}`, `because: ${reason}`];
}

/** What a stage holds beside buffers and output. */
function tablesOf({ kind }: PlanStage): string {
    return isOutOfCore(kind) ? "spilled rows at most" : "tables";
}

/** Where the rows of a stage wait for a later one. */
function heldLine({ limitBytes, diskBytes }: HeldRows): string {
    const limit = formatBytes(limitBytes);
    if (diskBytes === undefined) return `its rows are held in host memory, ${limit} at most`;
    if (diskBytes === 0) return `its rows are held in host memory, those beyond ${limit} on disk`;
    return `its rows are held: ${limit} in host memory, about ${formatBytes(diskBytes)} on disk`;
}

/** How many rows are expected behind each join. */
function pipelineLines(plan: Plan, { rowsIn, rowsOut, rowsOfJoins, group, spec }: PipelineStage): string[] {
    const counts = [rowsIn, ...rowsOfJoins].map(formatCount).join(" -> ");
    const groups = group === undefined ? "" : `, about ${formatCount(rowsOut)} groups out`;
    const lines = [`rows through its joins: ${counts}${groups}`];
    const { passes } = spec;
    if (passes === undefined) return lines;
    const part = `each past the rows of ${inputName(plan, passes.input)} in one range of keys`;
    return [...lines, `in ${passes.bounds.length + 1} passes, ${part}, as all of these do not fit at once`];
}

function details(plan: Plan, stage: PlanStage): string[] {
    const lines: string[] = [];
    const from = source(plan, stage);
    if (from !== "") lines.push(from);
    const filled = stage.kind === "partition" ? stage.set : setFilledBy(stage);
    const set = filled === undefined ? undefined : plan.sets[filled];
    if (set !== undefined) lines.push(setLine(set));
    if (stage.kind === "join" || stage.kind === "streamingJoin") {
        lines.push(
            `${stage.spec.scheme} tables, ${formatCount(stage.rowsIn)} rows in, about ${formatCount(stage.rowsOut)} out`
        );
    }
    if (stage.kind === "arrayJoin") {
        const rows = `${formatCount(stage.rowsIn)} rows in, about ${formatCount(stage.rowsOut)} out`;
        lines.push(`a bit for each of ${formatCount(stage.spec.keyValues)} key values, ${rows}`);
    }
    if (stage.kind === "pipeline") lines.push(...pipelineLines(plan, stage));
    if (stage.kind === "group" || stage.kind === "hashGroup") {
        lines.push(`${formatCount(stage.rowsIn)} rows in, about ${formatCount(stage.rowsOut)} groups out`);
    }
    if (stage.kind === "deviceJoin" || stage.kind === "deviceGroup") lines.push(...choiceLines(stage.choice));
    if (stage.kind === "deviceOutOfCoreJoin") lines.push(...outOfCoreLines(stage));
    if (stage.kind === "deviceOutOfCoreGroupBy") lines.push(...outOfCoreGroupLines(stage));
    if (stage.kind === "deviceOutOfCoreTree") lines.push(...outOfCoreTreeLines(stage));
    if ("holds" in stage && stage.holds !== undefined) lines.push(heldLine(stage.holds));
    const { inputBytes, tableBytes, outputBytes } = stage.memory;
    const memory = [
        inputBytes > 0 ? `buffers ${formatBytes(inputBytes)}` : "",
        tableBytes > 0 ? `${tablesOf(stage)} ${formatBytes(tableBytes)}` : "",
        outputBytes > 0 ? `output ${formatBytes(outputBytes)}` : ""
    ].filter((part) => part !== "");
    if (memory.length > 0) lines.push(`memory: ${memory.join(", ")}`);
    return lines;
}

/** What is tried before the stages. */
function firstLines({ first, limit = 0 }: Plan): string[] {
    if (first === undefined) return [];
    const rows = first.inputs.map((input) => `${formatCount(input.rows)} rows of ${input.name}`);
    const names = first.stages.map(({ name }) => name).join(", ");
    return [
        "first",
        `  the first ${rows.join(" and ")}, which are likely to give ${formatCount(limit)} rows: ` +
            `${names} on the ${first.device} (about ${formatMs(first.predictedMs)}); the stages run if they do not`
    ];
}

const limitText = ({ limit }: Plan): string => (limit === undefined ? "" : `at most ${formatCount(limit)} rows: `);

/** A plan as a person reads it; names in it cannot break a line or command the terminal. */
export function planText(plan: Plan): string {
    const lines = ["inputs"];
    for (const { name, rows, exact, bytes, where } of plan.inputs) {
        const size = where === "stream" ? "a stream of batches" : `${formatBytes(bytes)} in ${where}`;
        lines.push(`  ${name}: ${exact ? "" : "about "}${formatCount(rows)} rows, ${size}`);
    }
    lines.push(...firstLines(plan), "stages");
    if (plan.limit === 0) lines.push("  none: no rows are wanted");
    plan.stages.forEach((stage, i) => {
        lines.push(`  ${i + 1}. ${stage.name}: ${stage.algorithm} (about ${formatMs(stage.predictedMs)})`);
        for (const line of details(plan, stage)) lines.push(`     ${line}`);
    });
    const { memory, result } = plan;
    lines.push(
        ...deviceLines(plan),
        "memory",
        `  budget ${formatBytes(memory.budgetBytes)}, ${plan.threads} thread${plan.threads === 1 ? "" : "s"}; ` +
            (memory.minimumBytes === null ? "" : `this plan needs ${formatBytes(memory.minimumBytes)} at least, `) +
            `${formatBytes(memory.wantedBytes)} to keep everything in memory`,
        "result",
        `  ${limitText(plan)}about ${formatCount(result.rows)} rows x ${formatCount(result.rowBytes)} B: ` +
            result.columns.map(({ name, type }) => `${name} ${type}`).join(", "),
        `predicted time ${formatMs(plan.predictedMs)}`
    );
    return lines.map(printable).join("\n");
}

/** What `explain()` gives: print it, or read `.plan`. */
export class Explanation {
    public constructor(public readonly plan: Plan) {}

    public toString(): string {
        return planText(this.plan);
    }

    public toJSON(): Plan {
        return this.plan;
    }

    public [Symbol.for("nodejs.util.inspect.custom")](): string {
        return this.toString();
    }
}
