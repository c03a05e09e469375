// SPDX-License-Identifier: Apache-2.0
import type { DeviceMemoryModel, StagedGroupByMemory, StagedJoinMemory } from "../../plan/device-memory-model.js";
import type { OutOfCoreGroupShape, OutOfCoreGroupSizes } from "../../plan/out-of-core-group-stage.js";
import type { OutOfCoreShape, OutOfCoreSizes } from "../../plan/out-of-core-stage.js";

// The model takes some microseconds for each answer and plans compare many sizes, the same ones again and again.

/** Sizes of other memory and of disks, which take no GPU memory. */
const onHost = { spillBlockBytes: 0, peerBytes: 0, spillBytes: 0, diskBlockBytes: 0, diskBlocks: 0 };
const none = { radixBits: 0, chunkRows: 0, chunkSlots: 1, pageRows: 0, pages: 0, resultRows: 0, resultSlots: 1 };
const noHostChunks = { hostChunkRows: 0, hostChunkSlots: 1 };

/** Sizes of joins and of group-bys of which nothing is chosen. */
export const noSizes: OutOfCoreSizes = { ...none, ...noHostChunks, ...onHost, residentPartitions: 0, filterWords: 0 };
const noGroupSizes: OutOfCoreGroupSizes = { ...none, ...noHostChunks, ...onHost, mergeRows: 0, preAggregation: "auto" };

/** What is made for a key the first time it is asked for. */
function remembered<T>(known: Map<string, T>, key: string, make: () => T): T {
    const found = known.get(key);
    if (found !== undefined) return found;
    const made = make();
    known.set(key, made);
    return made;
}

/** What joins of one shape take of GPU memory. */
export class JoinMemory {
    /** Bytes of a row of each side, whatever the sizes. */
    public readonly rowBytes: StagedJoinMemory["rowBytes"];
    /** Bytes of a row of the result as it leaves the GPU, whatever the sizes. */
    public readonly resultRowBytes: number;
    readonly #known = new Map<string, StagedJoinMemory>();

    public constructor(
        public readonly model: DeviceMemoryModel,
        public readonly shape: OutOfCoreShape
    ) {
        ({ rowBytes: this.rowBytes, resultRowBytes: this.resultRowBytes } = this.of(noSizes));
    }

    public of({ radixBits, chunkRows, chunkSlots, pageRows, pages, ...more }: OutOfCoreSizes): StagedJoinMemory {
        const { filterWords, resultRows, resultSlots } = more;
        const sizes = { radixBits, chunkRows, chunkSlots, pageRows, pages, filterWords, resultRows, resultSlots };
        return remembered(this.#known, Object.values(sizes).join(), () =>
            this.model.stagedJoinMemory({ ...this.shape, sizes: { ...noSizes, ...sizes } })
        );
    }

    /** Bytes of a row of the wider side. */
    public get widestRowBytes(): number {
        return Math.max(this.rowBytes.build, this.rowBytes.probe);
    }
}

/** What group-bys of one shape take of GPU memory. */
export class GroupMemory {
    /** Bytes of a partial row, whatever the sizes. */
    public readonly rowBytes: number;
    /** Bytes of a group as it leaves the GPU, whatever the sizes. */
    public readonly resultRowBytes: number;
    readonly #known = new Map<string, StagedGroupByMemory>();

    public constructor(
        private readonly model: DeviceMemoryModel,
        private readonly shape: OutOfCoreGroupShape
    ) {
        // So many rows that no column of theirs is rounded up.
        const resultRows = 2 ** 20;
        const { rowBytes, resultBytes } = this.of({ ...noGroupSizes, resultRows });
        this.rowBytes = rowBytes;
        this.resultRowBytes = resultBytes / resultRows;
    }

    public of({
        radixBits,
        chunkRows,
        chunkSlots,
        pageRows,
        pages,
        ...more
    }: OutOfCoreGroupSizes): StagedGroupByMemory {
        const { mergeRows, resultRows, resultSlots } = more;
        const sizes = { radixBits, chunkRows, chunkSlots, pageRows, pages, mergeRows, resultRows, resultSlots };
        return remembered(this.#known, Object.values(sizes).join(), () =>
            this.model.stagedGroupByMemory({ ...this.shape, sizes: { ...noGroupSizes, ...sizes } })
        );
    }

    /** Bytes of a chunk of so many rows. */
    public chunkBytes(chunkRows: number): number {
        return this.of({ ...noGroupSizes, chunkRows }).chunkBytes;
    }
}

/** What operators beyond GPU memory take of it: the model, with its answers for the shapes of one query. */
export class DeviceMemory {
    readonly #joins = new Map<string, JoinMemory>();
    readonly #groups = new Map<string, GroupMemory>();

    public constructor(private readonly model: DeviceMemoryModel) {}

    public ofJoin(shape: OutOfCoreShape): JoinMemory {
        return remembered(this.#joins, JSON.stringify(shape), () => new JoinMemory(this.model, shape));
    }

    public ofGroupBy(shape: OutOfCoreGroupShape): GroupMemory {
        return remembered(this.#groups, JSON.stringify(shape), () => new GroupMemory(this.model, shape));
    }
}
