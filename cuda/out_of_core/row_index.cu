// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cub/device/device_scan.cuh>

#include "device/launch.hpp"
#include "device/phase_times.hpp"
#include "out_of_core/row_index.hpp"
#include "out_of_core/row_tiles.cuh"

namespace spillway::cuda {

namespace {

// Rows per bucket: from half of kBucketRows to kBucketRows on average, while keys have bits enough.
uint32_t bucket_bits_for(uint64_t rows, uint32_t bits_max) {
    uint32_t bits = 0;
    while (bits < bits_max && (kBucketRows << bits) < rows) ++bits;
    return bits;
}

unsigned blocks_of(uint64_t items) {
    return static_cast<unsigned>((items + kOutOfCoreThreads - 1) / kOutOfCoreThreads);
}

// bucket[b] = rows of bucket b; bucket[buckets] = all rows, where the last one ends. Counters of one partition stay in
// the L2 cache.
template <int kKeyWords>
__global__ void count_buckets(const uint32_t* rows, uint32_t row_words, uint64_t count, uint32_t radix_bits,
                              uint32_t bucket_bits, uint32_t* bucket) {
    const uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i == 0) bucket[1ULL << bucket_bits] = static_cast<uint32_t>(count);
    if (i >= count) return;
    atomicAdd(bucket + bucket_of<kKeyWords>(row_key<kKeyWords>(rows + i * row_words), radix_bits, bucket_bits), 1U);
}

// Before: bucket[b] is where bucket b ends. Each row takes the last place left, so that it ends as where b begins.
template <int kKeyWords, class Word>
__global__ void place_rows(const Word* rows, uint32_t row_words, uint64_t count, IndexedPartition indexed,
                           uint32_t radix_bits, uint32_t page_shift, const uint32_t* page, uint32_t* bucket, Word* to) {
    const uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const Word* const from = rows + i * row_words;
    const uint64_t key = row_key<kKeyWords>(reinterpret_cast<const uint32_t*>(from));
    uint32_t* const left = bucket + indexed.first_bucket + bucket_of<kKeyWords>(key, radix_bits, indexed.bucket_bits);
    const uint32_t row = atomicSub(left, 1U) - 1;
    const uint64_t slot = row & ((1U << page_shift) - 1);
    const uint64_t place = (static_cast<uint64_t>(page[indexed.first_page + (row >> page_shift)]) << page_shift) + slot;
    for (uint32_t w = 0; w < row_words; ++w) to[place * row_words + w] = from[w];
}

__global__ void set_directory(const IndexedPartition* from, IndexedPartition* to, uint64_t partitions) {
    const uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < partitions) to[i] = from[i];
}
__global__ void set_pages(const uint32_t* from, uint32_t* to, uint64_t pages) {
    const uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < pages) to[i] = from[i];
}

uint32_t shift_of(uint64_t power) {
    uint32_t shift = 0;
    while ((1ULL << shift) < power) ++shift;
    return shift;
}

}  // namespace

RowIndex::RowIndex(Device& device, Parcels& parcels, RowPages& pages, uint32_t row_words, uint32_t key_words,
                   int radix_bits, uint64_t partition_rows_max)
    : device_(device),
      parcels_(parcels),
      pages_(pages),
      row_words_(row_words),
      key_words_(key_words),
      radix_bits_(static_cast<uint32_t>(radix_bits)),
      partition_rows_max_(std::min<uint64_t>({partition_rows_max, pages.capacity_rows(), UINT32_MAX})),
      partitions_(1ULL << radix_bits) {
    MemoryPool& memory = device.memory();
    scratch_rows_ = memory.allocate(partition_rows_max_ * row_words * sizeof(uint32_t), "rows to be indexed");
    buckets_ = memory.allocate(buckets_max(pages.capacity_rows(), partitions_) * sizeof(uint32_t), "index of rows");
    directory_ = memory.allocate(partitions_ * sizeof(IndexedPartition), "directory of the index");
    page_lists_ = memory.allocate(pages.capacity_rows() / pages.page_rows() * sizeof(uint32_t), "lists of pages");
    size_t bytes = 0;
    const auto most = static_cast<int64_t>(buckets_max(partition_rows_max_, 1));
    auto* const nothing = static_cast<uint32_t*>(nullptr);
    SPILLWAY_CUDA_CHECK(cub::DeviceScan::InclusiveSum(nullptr, bytes, nothing, nothing, most, device.stream()));
    scan_scratch_bytes_ = bytes;
    scan_scratch_ = memory.allocate(bytes, "prefix sum");
}

void RowIndex::build(const std::vector<uint64_t>& partitions) {
    std::vector<IndexedPartition> directory(partitions_);
    std::vector<uint32_t> lists;
    uint64_t buckets = 0;
    for (const uint64_t partition : partitions) {
        IndexedPartition& indexed = directory[partition];
        indexed.bucket_bits = bucket_bits_for(pages_.rows(partition), key_words_ * 32 - radix_bits_);
        indexed.first_bucket = buckets;
        indexed.first_page = lists.size();
        buckets += (1ULL << indexed.bucket_bits) + 1;
        const std::vector<uint32_t>& pages = pages_.pages(partition);
        lists.insert(lists.end(), pages.begin(), pages.end());
    }
    launch(set_directory, dim3(blocks_of(partitions_)), dim3(kOutOfCoreThreads), 0, device_.stream(),
           parcels_.send(directory), directory_.as<IndexedPartition>(), partitions_);
    launch(set_pages, dim3(blocks_of(lists.size())), dim3(kOutOfCoreThreads), 0, device_.stream(), parcels_.send(lists),
           page_lists_.as<uint32_t>(), lists.size());
    SPILLWAY_CUDA_CHECK(cudaMemsetAsync(buckets_.as(), 0, buckets * sizeof(uint32_t), device_.stream()));
    for (const uint64_t partition : partitions) sort(partition, directory[partition]);
}

void RowIndex::sort(uint64_t partition, const IndexedPartition& indexed) {
    const uint64_t rows = pages_.rows(partition);
    if (rows == 0) return;
    if (rows > partition_rows_max_) throw Error(ErrorCode::kInternal, "a partition is too large to be indexed");
    uint32_t* const from = scratch_rows_.as<uint32_t>();
    uint32_t* const bucket = buckets_.as<uint32_t>();
    uint32_t* const own = bucket + indexed.first_bucket;
    const dim3 grid(blocks_of(rows));
    const dim3 block(kOutOfCoreThreads);
    const uint32_t shift = shift_of(pages_.page_rows());
    const uint32_t* const lists = page_lists_.as<const uint32_t>();
    const cudaStream_t stream = device_.stream();
    pages_.gather(partition, 0, rows, from);
    count_moved(device_, 3 * rows * row_words_ * sizeof(uint32_t));
    launch(key_words_ == 1 ? count_buckets<1> : count_buckets<2>, grid, block, 0, stream, from, row_words_, rows,
           radix_bits_, indexed.bucket_bits, own);
    size_t bytes = scan_scratch_bytes_;
    SPILLWAY_CUDA_CHECK(cub::DeviceScan::InclusiveSum(scan_scratch_.as(), bytes, own, own,
                                                      static_cast<int64_t>(1ULL << indexed.bucket_bits), stream));
    if (row_words_ % 4 == 0) {
        launch(key_words_ == 1 ? place_rows<1, uint4> : place_rows<2, uint4>, grid, block, 0, stream,
               reinterpret_cast<const uint4*>(from), row_words_ / 4, rows, indexed, radix_bits_, shift, lists, bucket,
               reinterpret_cast<uint4*>(pages_.data()));
    } else if (row_words_ % 2 == 0) {
        launch(key_words_ == 1 ? place_rows<1, uint2> : place_rows<2, uint2>, grid, block, 0, stream,
               reinterpret_cast<const uint2*>(from), row_words_ / 2, rows, indexed, radix_bits_, shift, lists, bucket,
               reinterpret_cast<uint2*>(pages_.data()));
    } else {
        launch(key_words_ == 1 ? place_rows<1, uint32_t> : place_rows<2, uint32_t>, grid, block, 0, stream,
               static_cast<const uint32_t*>(from), row_words_, rows, indexed, radix_bits_, shift, lists, bucket,
               pages_.data());
    }
}

IndexView RowIndex::view() const {
    IndexView view;
    view.rows = pages_.data();
    view.partition = directory_.as<const IndexedPartition>();
    view.bucket = buckets_.as<const uint32_t>();
    view.page = page_lists_.as<const uint32_t>();
    view.row_words = row_words_;
    view.key_words = key_words_;
    view.page_shift = shift_of(pages_.page_rows());
    view.radix_bits = radix_bits_;
    return view;
}

}  // namespace spillway::cuda
