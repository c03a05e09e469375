// SPDX-License-Identifier: Apache-2.0
#include "memory_model/device_constants.hpp"

#include "api/group_spec.hpp"
#include "api/join_spec.hpp"
#include "api/stream_spec.hpp"
#include "coherent_join/coherent_policy.hpp"
#include "device/device_policy.hpp"
#include "equi_join/equi_join_policy.hpp"
#include "far_partition/far_policy.hpp"
#include "group_by/plan/group_policy.hpp"
#include "hash_join/join_memory.hpp"
#include "hash_join/join_policy.hpp"
#include "memory_model/stream_memory.hpp"
#include "no_partitioning_join/npj_policy.hpp"
#include "radix_partition/pack_policy.hpp"
#include "radix_partition/radix_policy.hpp"
#include "row_index/row_index_policy.hpp"
#include "staged_group_by/staged_group_policy.hpp"
#include "staged_join/staged_join_policy.hpp"
#include "stream/stream_policy.hpp"

namespace spillway::cuda { inline namespace memory_model {

std::vector<DeviceConstant> device_constants() {
    return {
        {"buildPresent", kBuildPresent},
        {"probePresent", kProbePresent},
        {"keyPresent", kKeyPresent},
        {"keyBytesMax", kKeyBytesMax},
        {"valueBytesMax", kValueBytesMax},
        {"aggregatedBytesMax", kAggregatedBytesMax},
        {"rowWordsMax", kRowWordsMax},
        {"joinWordsMax", kJoinWordsMax},
        {"rowColumnsMax", kRowColumnsMax},
        {"firstPassBitsMax", kFirstPassBitsMax},
        {"groupAggregatesMax", kGroupAggregatesMax},
        {"sumPartsMax", kSumPartsMax},
        {"radixPassBitsMax", kPassBitsMax},
        {"joinPartitionRowsMax", kPartitionRowsMax},
        {"wholeRowWordsMax", kWholeRowWordsMax},
        {"packPassBitsMax", kPackPassBitsMax},
        {"packWindowBytes", kPackWindowBytes},
        {"packedPartitionRows", kPackedPartitionRows},
        {"packedRadixBitsMax", kPackedRadixBitsMax},
        {"rangeFilterShareMin", kRangeFilterShareMin},
        {"rangeFilterRowsMin", kRangeFilterRowsMin},
        {"rangeFilterBuildMax", kRangeFilterBuildMax},
        {"gatheredShareMax", kGatheredShareMax},
        {"gatheredWideShareMax", kGatheredWideShareMax},
        {"gatheredWideRowBytes", kGatheredWideRowBytes},
        {"gatheredBothShareMax", kGatheredBothShareMax},
        {"gatheredBothWideRowBytes", kGatheredBothWideRowBytes},
        {"gatheredRowsMin", kGatheredRowsMin},
        {"partnerKeysMax", kPartnerKeysMax},
        {"joinPartitionFill", kPartitionFill},
        {"joinReservedBytes", kJoinReservedBytes},
        {"longMatchRows", kLongMatchRows},
        {"longPairsMin", kLongPairsMin},
        {"longPairsPerProbeRow", kLongPairsPerProbeRow},
        {"longPairsPerBuildRow", kLongPairsPerBuildRow},
        {"longPairsPerBareBuildRow", kLongPairsPerBareBuildRow},
        // A build row's link of a chain and, with as many buckets as rows, a bucket.
        {"joinTableRowBytes", JoinMemory::bytes(1, 0, 1, false) - JoinMemory::bytes(0, 0, 0, false)},
        {"sortSharedBytes", kSortSharedBytes},
        {"sortStaticBytes", kSortStaticBytes},
        {"bucketRows", kBucketRows},
        {"npjSlotsPerRow", kSlotsPerRow},
        {"npjSlotBitsMin", kSlotBitsMin},
        {"perfectSlotsPerRow", kRangeSlotsPerRow},
        {"perfectSlotsFree", kRangeSlotsFree},
        {"groupRadixBits", kGroupRadixBits},
        {"groupSlicesMax", kSlicesMax},
        {"groupNarrowFillOfOneWord", narrow_fill(1)},
        {"groupNarrowFillOfTwoWords", narrow_fill(2)},
        {"groupNarrowSlicesOfOneWord", column_groups_slices_max(1)},
        {"groupNarrowSlicesOfTwoWords", column_groups_slices_max(2)},
        {"groupNarrowValueWordsMax", kNarrowValueWordsMax},
        {"groupHashSumPartWords", narrow_part_words(true, 1, true)},
        {"spilledGroupChunks", kGroupChunks},
        {"mergedRowsPerRow", 1 + kGroupByRowsPerRow},
        {"filterBits", kFilterBits},
        {"filterWordsMax", kFilterWordsMax},
        {"deviceBlockStepBytes", kDeviceBlockSizes.granularity_bytes},
        {"hostSlots", kHostSlots},
        {"diskThreads", kDiskThreads},
        {"farPagesMax", kPagesMax},
        {"coherentPageBytesMin", kCoherentPageBytesMin},
        {"coherentGatherDivisor", kGatherMultiprocessorShare},
        {"coherentSecondPassDivisor", kSecondPassMultiprocessorShare},
        // An uploader and a downloader have these slots each.
        {"stagingBytes", 2 * kStagingSlots * kStagingChunkBytes},
    };
}

}}  // namespace spillway::cuda::memory_model
