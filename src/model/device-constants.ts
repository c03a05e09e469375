// SPDX-License-Identifier: Apache-2.0

/**
 * Numbers of kernels and operators that plans depend on. cuda/memory_model/device_constants.cpp says where each is
 * defined and explained. `npx vitest run test/node/planner/device-constants.test.ts -u` asks the engine and writes
 * this file; without -u it compares the two.
 */
export const deviceConstants = {
    buildPresent: 1,
    probePresent: 2,
    keyPresent: 4,
    keyBytesMax: 8,
    valueBytesMax: 16,
    aggregatedBytesMax: 8,
    rowWordsMax: 8,
    joinWordsMax: 32,
    rowColumnsMax: 28,
    firstPassBitsMax: 12,
    groupAggregatesMax: 28,
    sumPartsMax: 24,
    radixPassBitsMax: 8,
    joinPartitionRowsMax: 8192,
    wholeRowWordsMax: 8,
    packPassBitsMax: 8,
    packWindowBytes: 8388608,
    packedPartitionRows: 2048,
    packedRadixBitsMax: 16,
    rangeFilterShareMin: 0.25,
    rangeFilterRowsMin: 4194304,
    rangeFilterBuildMax: 2,
    gatheredShareMax: 0.125,
    gatheredWideShareMax: 0.29,
    gatheredWideRowBytes: 20,
    gatheredBothShareMax: 0.22,
    gatheredBothWideRowBytes: 16,
    gatheredRowsMin: 33554432,
    partnerKeysMax: 268435456,
    joinPartitionFill: 0.97,
    joinReservedBytes: 8320,
    longMatchRows: 512,
    longPairsMin: 524288,
    longPairsPerProbeRow: 4,
    longPairsPerBuildRow: 8,
    longPairsPerBareBuildRow: 1,
    joinTableRowBytes: 8,
    sortSharedBytes: 112640,
    sortStaticBytes: 1024,
    bucketRows: 4,
    npjSlotsPerRow: 2,
    npjSlotBitsMin: 6,
    perfectSlotsPerRow: 16,
    perfectSlotsFree: 65536,
    groupRadixBits: 7,
    groupSlicesMax: 2,
    groupNarrowFillOfOneWord: 0.9,
    groupNarrowFillOfTwoWords: 0.8,
    groupNarrowSlicesOfOneWord: 2,
    groupNarrowSlicesOfTwoWords: 3,
    groupNarrowValueWordsMax: 4,
    groupHashSumPartWords: 2,
    spilledGroupChunks: 4,
    mergedRowsPerRow: 5,
    filterBits: 4,
    filterWordsMax: 1099511627776,
    deviceBlockStepBytes: 512,
    hostSlots: 2,
    diskThreads: 4,
    farPagesMax: 67108862,
    coherentPageBytesMin: 65536,
    coherentGatherDivisor: 4,
    coherentSecondPassDivisor: 2,
    stagingBytes: 33554432
};

// prettier-ignore
export const deviceJoinAlgorithms = [
    "phj-tr",
    "npj",
    "npj-perfect",
    "phj-ur",
    "smj-ur",
    "smj-tr",
    "smj-merge",
    "phj-shared",
    "phj-gftr"
] as const;

// prettier-ignore
export const deviceGroupAlgorithms = [
    "hgb",
    "pgb-tr",
    "sgb-ur",
    "pgb-ur",
    "sgb-tr",
    "sgb-de-tr",
    "hgb-global"
] as const;

// prettier-ignore
export const deviceFarPartitioners = [
    "standard",
    "linear",
    "shared",
    "hierarchical",
    "bulk"
] as const;

// prettier-ignore
export const deviceBaselineJoins = [
    "stream-probe",
    "npj-far",
    "cpu-partitioned"
] as const;

// prettier-ignore
export const deviceStreamProbes = [
    "sorted",
    "partitioned",
    "table"
] as const;
