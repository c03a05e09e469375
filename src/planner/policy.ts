// SPDX-License-Identifier: Apache-2.0
import { deviceConstants } from "../model/device-constants.js";

/**
 * Every number that tunes the planner, with its meaning and evidence. Nothing here changes a result. Hardware speeds
 * stand in configs/machines/*.yaml, hardware sizes come from the machine itself.
 */
export interface Policy {
    /** Share of the budget that no stage plans with: values larger than average, allocator rounding, page lists. */
    readonly headroomShare: number;
    /** The same where a share would be next to nothing: blocks are rounded up to whole pages of the system. */
    readonly overheadBytes: number;
    readonly overheadBytesPerWorker: number;
    /**
     * Stack and arena of the C allocator of each worker beyond the second; Node's 128 MiB have room for two. Arenas
     * hold lists of pages, so they grow with the budget: 1.2 MB each at 190 MiB (16 workers).
     */
    readonly threadBytes: number;
    readonly threadBudgetShare: number;
    readonly threadBytesMax: number;
    /** Share of the L2 cache for a co-partition's table; the rest holds the probe rows and output that stream by. */
    readonly cacheShare: number;
    /** Share of the last-level cache, divided among the workers, up to which one big table is as good as small ones. */
    readonly lastLevelShare: number;
    /** A build side this many times smaller than the probe side is not worth partitioning the probe side for. */
    readonly streamingRatio: number;
    /** That holds as long as its tables stay below this: beyond, every probe is a TLB miss too. */
    readonly streamingTableBytesMax: number;
    /**
     * The same for each table of a pipeline, whose rows would otherwise be written before each join. TPC-H scale 1 on
     * two cores, CPU time: orders x lineitem, all 25 columns as batches, 2.9 s partitioned and 1.65 s past tables of
     * 250 MB; part x lineitem 3.6 and 2.0 s.
     */
    readonly pipelineTableBytesMax: number;
    /**
     * Probe rows of so many bytes are not partitioned for a single join either. The same tables with two columns of
     * each side, rows of 24 bytes: 240 ms partitioned, 220 past tables; part x lineitem 250 and 300.
     */
    readonly pipelineRowBytesMin: number;
    /**
     * Numbers of passes over its input that a pipeline may have where all build rows do not fit at once. Orders x
     * lineitem by date, two cores, CPU time: 170 ms in three passes, 214 in four, 378 where both sides are spilled.
     */
    readonly pipelinePasses: readonly number[];
    /**
     * A join that ends at a limit: share of the probe rows up to which it is not worth partitioning them, however large
     * the tables are.
     */
    readonly streamedShareMax: number;
    /**
     * That holds from so many bytes of the probe side on, for each row of the build side: one table of all rows takes
     * longer to make than tables of partitions. Two workers, ten rows of 2^22 x 2^24 of 48 bytes each: 125 ms with
     * probe rows that stream, 184 partitioned; of 2^22 x 2^22 248 and 146.
     */
    readonly streamedBytesPerRow: number;
    /** Bytes of hash table per build row: 5/2 slots of 12 bytes; of 8 when matches are only counted. */
    readonly slotBytesPerRow: number;
    readonly slotBytesPerCountedRow: number;
    /** Memory is reserved for the most: with counts, a chain (row numbers have gaps) and match flags. */
    readonly slotBytesPerRowMax: number;
    /** Widest first pass: 2^11 write-combining buffers of 128 to 512 bytes are what an L2 cache and TLB hold. */
    readonly firstPassBitsMax: number;
    /** Partitions smaller than this spend more time on their ends than on their rows. */
    readonly partitionRowsMin: number;
    /** Partitions per worker that even out unequal ones. */
    readonly partitionsPerWorker: number;
    /** Open pages (one per worker and partition) take at most this share of a partition set's memory. */
    readonly openPagesShare: number;
    /** A partition this many times (as a power of two) larger than the cache gets a second pass. */
    readonly secondPassBitsMin: number;
    /** Memory of a set that spills nearly everything, in open pages: some full ones must wait for their run. */
    readonly spareOpenPages: number;
    /** Pages: from what a disk transfers well, past what costs little to hand over, down to the pool's smallest. */
    readonly pageBytesMax: number;
    readonly pageBytesGood: number;
    readonly pageBytesMin: number;
    /** Partitions are not made so many that pages would have to be smaller: each costs two locks. */
    readonly pageBytesAffordable: number;
    /**
     * Budget per partition of a set that spills: runs on both sides are then a quarter of it each. 10 M x 10 M rows to
     * a file in 80 MB on two cores: 242 ms with runs of 16 KiB (2^10 partitions), 207 ms with 64 KiB (2^9).
     */
    readonly bytesPerSpilledPartition: number;
    /** Rows of a partition that are spilled together: beyond, one call costs little against its copy. */
    readonly spillRunBytesMax: number;
    /** That many, as long as a set has fewer runs than this: their records then take 6 MiB beside the budget. */
    readonly spilledRunsMax: number;
    /** Else they have as many as keep it so, up to this share of the budget for one run of each worker. */
    readonly spillRunBudgetShare: number;
    /** One write of spilled rows: the call (about 1 us) is noise against the copy (100 us for 256 KiB). */
    readonly spillWriteBytesMin: number;
    readonly spillWriteBytesMax: number;
    /**
     * Share of the usable memory up to which the rows of a set are expected to stay in the page cache when they spill:
     * Linux starts writing back at a tenth of the memory, and holds writers up at a fifth.
     */
    readonly cachedSpillShare: number;
    /** Pages are small enough that each worker fills this many per partition; else half of the memory is open ends. */
    readonly pagesPerPartition: number;
    /** Input that a worker reads at a time; two such buffers overlap reading and work. */
    readonly morselBytes: number;
    readonly morselRowsMin: number;
    readonly morselRowsMax: number;
    readonly readBuffers: number;
    /** Values longer than average: how much larger than average a morsel's variable bytes may be. */
    readonly variableSlack: number;
    /** Rows per worker below which another thread does not pay for its start. */
    readonly rowsPerWorkerMin: number;
    /**
     * Rows of both sides up to which a join that streams is one call: a thread and a turn of the event loop take 50 to
     * 100 us, as long as 10,000 rows do. Larger ones tell of their stages one by one.
     */
    readonly rowsAtOnceMax: number;
    /**
     * Rows of all inputs, and their bytes with those of dictionaries, up to which stages run on the event loop's
     * thread. They hold it for 20 to 100 us, where a thread and two turns of the event loop take 50 to 100. The other
     * bounds are for estimates that are wrong: rows that are expected of any stage, and rows that there can be if all
     * keys are equal, whose pairs take 1 to 10 ms.
     */
    readonly rowsHereMax: number;
    readonly bytesHereMax: number;
    readonly resultRowsHereMax: number;
    readonly pairsHereMax: number;
    /** Result batches: about a mebibyte keeps calls per batch rare and buffers in the L3 cache. */
    readonly batchBytes: number;
    /**
     * Batches of a large result for a reader in JavaScript, where each costs a turn of the event loop, an ArrayBuffer
     * and a view for each column: 832 MB of 13 columns take 59 ms of its thread with 1 MiB, 46 with 2, 27 with 4 and
     * 24 with 8.
     */
    readonly readBatchBytes: number;
    /** Results of that many of them are large. */
    readonly readBatchesMin: number;
    /** Share of the budget that they may take, being built and waiting, where it does not hold all rows anyway. */
    readonly readShare: number;
    /**
     * File batches: larger ones read faster later; each costs this much memory per worker, and the first write waits
     * for the first batch. 16 workers, 10 M x 10 M rows: 48 to 56 ms with 4 MiB, 46 with 2 MiB, 45 to 49 with 1 MiB.
     */
    readonly fileBatchBytes: number;
    /** Table batches: columns of several huge pages; small ones cost a page fault per 4 KiB (505 -> see commit). */
    readonly tableBatchBytes: number;
    /**
     * Where few rows are expected batches of a table have no more than several times as many, and this many at least:
     * memory for millions of them would be all that a budget of 512 MiB has for four queries of 1,000 rows.
     */
    readonly tableRowsMin: number;
    readonly tableRowsSlack: number;
    readonly batchRowsMin: number;
    /** Variable-length values: no batch ends before it has this many bytes, and none has more than this. */
    readonly batchBytesMin: number;
    readonly batchBytesMax: number;
    readonly batchRowsMax: number;
    /** Batches that wait for JavaScript. */
    readonly queuedBatches: number;
    /** A builder doubles its buffers as rows come. */
    readonly builderGrowth: number;
    /** Share of the budget that result batches may take where more rows than usual were asked for in each. */
    readonly outputShare: number;
    /** Share of the budget for hash tables and spilled rows that are read back. */
    readonly tableShare: number;
    /** Smallest table memory of a worker: one page of rows and its slots. */
    readonly tableBytesMin: number;
    /** Real partitions are larger than average ones by about this factor (hashing is not exact). */
    readonly partitionSlack: number;
    /** Probe sides above this many rows are shared by several workers, so that one heavy key keeps none alone busy. */
    readonly probeSplitRows: number;
    /** Rows sampled for the number of groups: 1 ms. */
    readonly sampleRows: number;
    /** Rows sampled for the keys of a join: unique or not, dense or not, skewed or not. */
    readonly joinSampleRows: number;
    /**
     * Relations of fewer rows are not sampled for the CPU, as no choice matters for them, unless a tree of operators
     * joins them with one of so many rows: what it gives goes by the keys of all. Few rows take 35 us of a worker.
     */
    readonly sampledFromRows: number;
    /**
     * For a GPU they are where two sides could have this many pairs: algorithms differ by whether keys of a side come
     * once. H200, 22,977 x 3,214 rows of one key: 17.9 ms by npj, 0.8 by smj-ur. Two samples of few rows take 1 ms.
     */
    readonly deviceSampledFromPairs: number;
    /**
     * Rows of each side that are sampled for the pairs of a join on a GPU, whose algorithms differ by the share of rows
     * that match: 4 ms, and 4 MiB for a moment. Two samples of s rows show s^2 / n pairs of n keys that all match, 127
     * of 2^27; fewer than pairsSeenMin would say nothing.
     */
    readonly pairSampleRows: number;
    readonly pairsSeenMin: number;
    /** Sides of fewer rows than this many samples are not worth one. */
    readonly pairSampleShareMin: number;
    /**
     * Joins of a tree have their sides sampled for pairs where its largest input has so many rows: as many rows of each
     * side as this share of those, and as many as these at least and at most. Fewer pairs than treePairsSeenMin say
     * less than numbers of keys do. Two samples of 1,024 rows take 40 us of a worker, of 16,384 rows 0.5 ms.
     */
    readonly treePairsFromRows: number;
    readonly treePairSampleShare: number;
    readonly treePairSampleRowsMin: number;
    readonly treePairSampleRowsMax: number;
    readonly treePairsSeenMin: number;
    /** Perfect hashing takes at most this many slots (of 4 bytes) per row; linear probing takes 32 to 64 bytes. */
    readonly perfectSlotsPerRow: number;
    /**
     * In a pipeline it may also take so many for each row that is looked up, where memory is plenty. 6 M rows, CPU time
     * on two cores past a perfect and a hash table: 1,000 keys over 6 M values 15 and 35 ms, over 24 M 21 and 35;
     * 200,000 keys over 24 M 35 and 71.
     */
    readonly perfectValuesPerLookup: number;
    /** Array join: at most this many values (of a bit each) per key. */
    readonly arrayValuesPerRow: number;
    /**
     * Both ends of the sample's range get this share of it more, for keys that it did not see. Sorted keys: the sample
     * ends 1/64 (joinSampleRows / 256 pieces) of the rows before the last one.
     */
    readonly arrayRangeSlack: number;
    /**
     * Share of the budget for its bitmaps: it has no pages. 16 workers, 10 M x 10 M rows in 40 MB: 13 ms with nine
     * bitmaps (a share of 0.3), so that seven workers had nothing to do, 10 ms with 16 in ample memory.
     */
    readonly arrayShare: number;
    /** Hash group-by: rows per group below which partitioning first is cheaper than merging the workers' tables. */
    readonly rowsPerGroupMin: number;
    /**
     * Texts of at most so many bytes lie in the rows themselves (native/cpu/row/inline_text.hpp), unless that takes
     * this many times what a reference and a text of mean length do.
     */
    readonly inlineTextBytesMax: number;
    readonly inlineTextGrowthMax: number;
    /** Where no input of a query has so many rows, texts are not looked at for it. */
    readonly inlineTextRowsMin: number;
    /**
     * Distinct values are counted as groups from so many rows on, however many values there are; of fewer a further
     * stage costs more than it saves. CPU time with sets of values and with groups on two cores: 65,536 rows of 10
     * values 5.1 and 3.7 ms, of 65,536 values 8.6 and 6.2; 32,768 rows of 10 values 3.4 and 2.9, of 32,768 values 5.2
     * and 5.4. TPC-H scale 1, two threads: 7 values of l_linenumber 159 and 35 ms, 200,000 of l_partkey 294 and 93,
     * 933,889 of l_extendedprice 1,287 and 195; 16 threads on these cores: 608 and 56, 629 and 134, 2,063 and 303.
     */
    readonly countedGroupsRowsMin: number;
    /** Group-by: bytes per group beside key and states (slots, chain). */
    readonly groupOverheadBytes: number;
    /** Bytes of a variable-length value where nothing is known (streams). */
    readonly unknownValueBytes: number;
    /** Rows of a stream whose length nobody stated. */
    readonly unknownRows: number;
    /** Memory an intermediate result is planned for beyond its estimate. */
    readonly estimateSlack: number;
    /** Dictionaries: values as read, unified values and the tables that map indices. */
    readonly dictionaryFactor: number;
    /** Batches of a stream are pushed in groups of this size. */
    readonly streamGroupBytes: number;
    /**
     * GPU: copies of the rows of a table that an operation holds beside it (packed rows, their partitions, row
     * numbers), of which each has a key. Not measured yet.
     */
    readonly deviceRowCopies: number;
    readonly deviceKeyBytes: number;
    /**
     * GPU: share of the memory that a join leaves for the pieces of its result. The rest is for chunks that warps leave
     * open, for row numbers of gathered columns beside the values, and for the allocator. Not measured yet.
     */
    readonly devicePieceShare: number;
    readonly devicePieceRowBytes: number;
    /** GPU: share of its memory that a query out of core takes whose rows the user's code reads. Not measured yet. */
    readonly deviceReaderShare: number;
    /** GPU: pieces of fewer rows are not planned; starting the copies of a piece takes as long as they do. */
    readonly devicePieceRowsMin: number;
    /**
     * "npj-perfect": most slots (of 4 bytes) per row of the build side, unless they are few. Not measured yet.
     */
    readonly devicePerfectSlotsPerRow: number;
    readonly devicePerfectRangeMin: number;
    /**
     * A sample of a join's side has as many keys as show this many pairs of equal ones, if they were drawn at random
     * from twice as many values as there are rows; with 4 pairs one such relation in 55 shows none. The planner takes
     * "npj-perfect" where a sample would have shown so many of keys from their range.
     */
    readonly repeatsSeenMin: number;
    /** Keys of such a sample at most. */
    readonly joinSampleRowsMax: number;
    /**
     * GPU: pinned memory for the copies of a stage; four halves for each worker. An upload of 1 GiB by 16 workers takes
     * 22 ms with 8 MiB for each and 202 ms with 0.6 MiB (H200): what a copy costs beside its bytes is some 25 us.
     */
    readonly deviceStagingBytesPerWorker: number;
    /** Smaller inputs cross the link as they are: what they take is the start of copies. */
    readonly devicePackedRowsMin: number;
    /** Values that take a larger share of their bits than that are not packed. */
    readonly devicePackedShareMax: number;
    /** Packing is worth the trouble where the predicted time is at most this share of that without it. */
    readonly devicePackedGain: number;
    readonly deviceStagingBytesMin: number;
    readonly deviceStagingBytesMax: number;
    /** It takes no larger share of the budget: readers of files hold half as much in each of two buffers. */
    readonly deviceStagingShare: number;
    /**
     * What a value takes a worker that gathers it by row number, in no order and in the order of the rows, of fixed
     * width and of text: 2^25 values of 8 bytes and of 8 to 31, in pages of 4 KiB. Measured on a worker's own clock, of
     * a machine of two cores that others kept busy. Rows of a chunk come out partition by partition, so that values of
     * the next row are far away: three columns of 2^26 rows, gathered by 16 workers, took a join 546 ms, and 209 where
     * they were carried, which is 27 ns for a value (H200).
     */
    readonly gatherNs: { readonly value: number; readonly text: number };
    readonly gatherOrderedNs: { readonly value: number; readonly text: number };
}

export const defaultPolicy: Policy = Object.freeze({
    headroomShare: 1 / 16,
    overheadBytes: 256 * 1024,
    overheadBytesPerWorker: 64 * 1024,
    threadBytes: 192 * 1024,
    threadBudgetShare: 1 / 200,
    threadBytesMax: 2 * 1024 * 1024,
    cacheShare: 0.5,
    lastLevelShare: 0.5,
    streamingRatio: 8,
    streamingTableBytesMax: 64 * 1024 * 1024,
    pipelineTableBytesMax: 256 * 1024 * 1024,
    pipelineRowBytesMin: 48,
    pipelinePasses: [2, 3, 4, 6, 8],
    streamedShareMax: 1 / 32,
    streamedBytesPerRow: 100,
    slotBytesPerRow: 30,
    slotBytesPerCountedRow: 20,
    slotBytesPerRowMax: 56,
    firstPassBitsMax: 11,
    partitionRowsMin: 2048,
    partitionsPerWorker: 8,
    openPagesShare: 0.25,
    secondPassBitsMin: 2,
    spareOpenPages: 1.25,
    pageBytesMax: 256 * 1024,
    pageBytesGood: 4096,
    pageBytesMin: 1024,
    pageBytesAffordable: 2048,
    bytesPerSpilledPartition: 128 * 1024,
    spillRunBytesMax: 64 * 1024,
    spilledRunsMax: 256 * 1024,
    spillRunBudgetShare: 1 / 64,
    spillWriteBytesMin: 16 * 1024,
    spillWriteBytesMax: 256 * 1024,
    cachedSpillShare: 1 / 16,
    pagesPerPartition: 4,
    morselBytes: 512 * 1024,
    morselRowsMin: 1024,
    morselRowsMax: 64 * 1024,
    readBuffers: 2,
    variableSlack: 2,
    rowsPerWorkerMin: 32 * 1024,
    rowsAtOnceMax: 64 * 1024,
    rowsHereMax: 2048,
    bytesHereMax: 256 * 1024,
    resultRowsHereMax: 8192,
    pairsHereMax: 1024 * 1024,
    batchBytes: 1024 * 1024,
    readBatchBytes: 4 * 1024 * 1024,
    readBatchesMin: 32,
    readShare: 1 / 16,
    fileBatchBytes: 2 * 1024 * 1024,
    tableBatchBytes: 32 * 1024 * 1024,
    tableRowsMin: 64 * 1024,
    tableRowsSlack: 4,
    batchRowsMin: 1024,
    batchBytesMin: 16 * 1024,
    batchBytesMax: 64 * 1024 * 1024,
    batchRowsMax: 1024 * 1024,
    queuedBatches: 4,
    builderGrowth: 2,
    outputShare: 0.25,
    tableShare: 0.3,
    tableBytesMin: 256 * 1024,
    partitionSlack: 1.25,
    probeSplitRows: 512 * 1024,
    sampleRows: 64 * 1024,
    joinSampleRows: 16 * 1024,
    sampledFromRows: 16 * 1024,
    deviceSampledFromPairs: 4 * 1024 * 1024,
    pairSampleRows: 128 * 1024 - 256,
    pairsSeenMin: 32,
    pairSampleShareMin: 16,
    treePairsFromRows: 128 * 1024,
    treePairSampleShare: 1 / 64,
    treePairSampleRowsMin: 1024,
    treePairSampleRowsMax: 16 * 1024,
    treePairsSeenMin: 64,
    perfectSlotsPerRow: 2,
    perfectValuesPerLookup: 4,
    arrayValuesPerRow: 8,
    arrayRangeSlack: 1 / 32,
    arrayShare: 0.6,
    rowsPerGroupMin: 16,
    inlineTextBytesMax: 32,
    inlineTextGrowthMax: 2,
    inlineTextRowsMin: 16 * 1024,
    countedGroupsRowsMin: 32 * 1024,
    groupOverheadBytes: 24,
    unknownValueBytes: 24,
    unknownRows: 10_000_000,
    estimateSlack: 1.5,
    dictionaryFactor: 3,
    streamGroupBytes: 8 * 1024 * 1024,
    deviceRowCopies: 3,
    deviceKeyBytes: 8,
    devicePieceShare: 0.5,
    deviceReaderShare: 7 / 8,
    devicePieceRowBytes: 24,
    devicePieceRowsMin: 64 * 1024,
    devicePerfectSlotsPerRow: deviceConstants.perfectSlotsPerRow,
    devicePerfectRangeMin: deviceConstants.perfectSlotsFree,
    repeatsSeenMin: 4,
    joinSampleRowsMax: Infinity,
    deviceStagingBytesPerWorker: 8 * 1024 * 1024,
    devicePackedRowsMin: 256 * 1024,
    devicePackedShareMax: 0.9,
    devicePackedGain: 0.97,
    deviceStagingBytesMin: 1024 * 1024,
    deviceStagingBytesMax: 256 * 1024 * 1024,
    deviceStagingShare: 1 / 4,
    gatherNs: { value: 22, text: 77 },
    gatherOrderedNs: { value: 22, text: 18 }
});

/** Least value of the option `memory.host`; queries may need more and then say how much. */
export const smallestBudgetBytes = 1024 * 1024;

/** The same of `memory.device`: the plugin takes memory from the driver in pieces of some MiB. */
export const smallestDeviceBytes = 1024 * 1024;
