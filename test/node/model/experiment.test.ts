// SPDX-License-Identifier: Apache-2.0
// The option `experiment`: what it takes, and which joins take what of it.
import { describe, expect, test } from "vitest";
import { SpillwayError } from "../../../src/errors.js";
import { joinAlgorithms } from "../../../src/model/algorithms.js";
import { checkKnobs } from "../../../src/model/debug-knobs.js";
import { checkExperiment, checkExperimentOf } from "../../../src/model/experiment.js";

describe("values", () => {
    test("are kept as they are", () => {
        const all = {
            ...{ partitioner: "bulk", interleave: { device: 1, far: 3 }, chunkRows: 64, radixBits: 0 },
            ...{ secondRadixBits: 14, partitionBlocks: 1, gatherBlocks: 1024, pages: "mapped" },
            ...{ coPartitionJoin: "bucket-chaining", streamProbe: "sorted", overlap: false }
        };
        expect(checkExperiment(all)).toEqual(all);
        expect(checkExperiment({ coPartitionJoin: "perfect" })).toEqual({ coPartitionJoin: "perfect" });
        expect(checkExperiment({ residentShare: 0 })).toEqual({ residentShare: 0 });
        expect(checkExperiment(undefined)).toEqual({});
        expect(checkKnobs({ debug: { workers: 2 }, experiment: { radixBits: 3 } })).toEqual({
            workers: 2,
            radixBits: 3
        });
    });

    test.each([
        [{ partitioner: "auto" }, "experiment.partitioner"],
        [{ pages: "interleaved" }, "experiment.pages"],
        [{ coPartitionJoin: "linear" }, "experiment.coPartitionJoin"],
        [{ interleave: { device: 1 } }, "experiment.interleave.far"],
        [{ interleave: { device: 0, far: 0 } }, "experiment.interleave"],
        [{ interleave: { device: -1, far: 1 } }, "experiment.interleave.device"],
        [{ interleave: { device: 1, far: 65_537 } }, "experiment.interleave.far"],
        [{ interleave: { device: 1, far: 1 }, residentShare: 0.5 }, "experiment.interleave"],
        [{ residentShare: 1.01 }, "experiment.residentShare"],
        [{ residentShare: "all" }, "experiment.residentShare"],
        [{ chunkRows: 63 }, "experiment.chunkRows"],
        [{ chunkRows: 2 ** 30 + 1 }, "experiment.chunkRows"],
        [{ radixBits: 15 }, "experiment.radixBits"],
        [{ secondRadixBits: -1 }, "experiment.secondRadixBits"],
        [{ partitionBlocks: 0 }, "experiment.partitionBlocks"],
        [{ gatherBlocks: 1025 }, "experiment.gatherBlocks"],
        [{ streamProbe: "hash" }, "experiment.streamProbe"],
        [{ overlap: 1 }, "experiment.overlap"]
    ])("%j is refused", (experiment, option) => {
        const refused = (): unknown => checkExperiment(experiment);
        expect(refused).toThrow(SpillwayError);
        expect(refused).toThrow(expect.objectContaining({ code: "INVALID_ARGUMENT", details: { option } }));
    });

    test("an unknown name is refused with the nearest one", () => {
        expect(() => checkExperiment({ chunkRow: 64 })).toThrow(/chunkRow.*chunkRows/);
    });
});

test("a join that has a name takes what changes it, and nothing else", () => {
    const refused = joinAlgorithms.filter((algorithm) => {
        try {
            checkExperimentOf(algorithm, { radixBits: 3, chunkRows: 64 });
            return false;
        } catch (error) {
            expect(error).toMatchObject({ code: "INVALID_ARGUMENT", details: { algorithm } });
            return true;
        }
    });
    expect(joinAlgorithms.filter((algorithm) => !refused.includes(algorithm))).toEqual([
        ...["auto", "staged", "triton", "triton-uncached", "cpu-partitioned"]
    ]);
    expect(() => checkExperimentOf("staged", { interleave: { device: 1, far: 1 } })).toThrow(
        /`experiment.interleave` changes nothing of `algorithm` "staged", which takes `residentShare`, `chunkRows`/
    );
    expect(() => checkExperimentOf("npj", { radixBits: 1 })).toThrow(/"npj", which takes none; leave it out/);
    expect(() => checkExperimentOf("stream-probe", { streamProbe: "table", overlap: false })).not.toThrow();
    expect(() => checkExperimentOf("npj-far", { overlap: true })).toThrow(/which takes `interleave`, `chunkRows`;/);
    expect(() => checkExperimentOf("cpu-partitioned", { streamProbe: "table" })).toThrow(/changes nothing/);
    expect(() => checkExperimentOf("cpu-radix", { radixBits: 1, secondRadixBits: 2 })).not.toThrow();
    expect(() => checkExperimentOf("triton-uncached", { residentShare: 0.5 })).toThrow(/changes nothing/);
});
