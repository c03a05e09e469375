// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <tuple>

#include "device/launch.hpp"
#include "device/phase_times.hpp"
#include "primitive/prefix_sum.hpp"
#include "radix_partition/plan_regions.hpp"
#include "radix_partition/radix_partition.hpp"
#include "radix_partition/radix_policy.hpp"
#include "radix_partition/tile_size.hpp"
#include "row_index/row_index.hpp"
#include "row_index/sort_regions.cuh"

namespace spillway::cuda { inline namespace row_index {

namespace {

// Returns how many bits leave kBucketRows rows or fewer to a bucket, but no more than there are.
uint32_t bucket_bits_for(uint64_t rows, uint32_t bits_max) {
    uint32_t bits = 0;
    while (bits < bits_max && (kBucketRows << bits) < rows) ++bits;
    return bits;
}

uint32_t shift_of(uint64_t power) {
    uint32_t shift = 0;
    while ((1ULL << shift) < power) ++shift;
    return shift;
}

// What a block of sort_regions() gets beside its static memory.
uint64_t sort_shared_bytes(Device& device) {
    return std::min<uint64_t>(kSortSharedBytes, device.properties().shared_bytes_per_block_optin - kSortStaticBytes);
}
// Rows of a region that are sorted in shared memory beside the counters, two bytes each for their order.
uint32_t staged_rows(Device& device, const RowLayout& layout, uint32_t buckets) {
    const uint64_t counters = (buckets + 3) / 4 * sizeof(uint4);
    const uint64_t rows = (sort_shared_bytes(device) - counters) / (layout.row_bytes() + sizeof(uint16_t));
    return static_cast<uint32_t>(std::min<uint64_t>(rows, UINT16_MAX));
}

// Regions of each batch begin at the scratch's first row: begin[] counts from the first batch on.
__global__ void begin_batches(uint64_t regions, uint32_t split_bits, const uint64_t* first_of_batch,
                              const uint64_t* begin, uint64_t* end, uint64_t* front, uint64_t* back) {
    const uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= regions) return;
    const uint64_t before = begin[first_of_batch[i >> split_bits]];
    end[i] -= before;
    front[i] -= before;
    back[i] -= before;
}

template <class Word>
void launch_sort(Device& device, const SortPass& pass, uint64_t regions, const uint32_t* rows, uint32_t row_words,
                 uint32_t key_words, uint32_t* to) {
    const auto words = static_cast<uint32_t>(row_words * sizeof(uint32_t) / sizeof(Word));
    launch(key_words == 1 ? sort_regions<1, Word> : sort_regions<2, Word>, dim3(static_cast<unsigned>(regions)),
           dim3(kSortThreads), sort_shared_bytes(device), device.stream(), pass, reinterpret_cast<const Word*>(rows),
           words, reinterpret_cast<Word*>(to));
}

__global__ void set_directory(const IndexedPartition* from, IndexedPartition* to, uint64_t partitions) {
    const uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < partitions) to[i] = from[i];
}
__global__ void set_pages(const uint32_t* from, uint32_t* to, uint64_t pages) {
    const uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < pages) to[i] = from[i];
}

}  // namespace

RowIndex::RowIndex(Device& device, Parcels& parcels, RowPages& pages, const RowLayout& layout, int radix_bits,
                   uint64_t partition_rows_max)
    : device_(device),
      parcels_(parcels),
      pages_(pages),
      layout_(layout),
      radix_bits_(static_cast<uint32_t>(radix_bits)),
      partition_rows_max_(std::min<uint64_t>({partition_rows_max, pages.capacity_rows(), kEqualKeys - 1})),
      scratch_rows_max_(index_scratch_rows(partition_rows_max_)),
      partitions_(1ULL << radix_bits) {
    MemoryPool& memory = device.memory();
    scratch_rows_ = memory.allocate(scratch_rows_max_ * layout.row_bytes(), "rows to be indexed");
    buckets_ =
        memory.allocate(index_buckets_max(pages.capacity_rows(), partitions_) * sizeof(uint32_t), "index of rows");
    directory_ = memory.allocate(partitions_ * sizeof(IndexedPartition), "directory of the index");
    page_lists_ = memory.allocate(pages.capacity_rows() / pages.page_rows() * sizeof(uint32_t), "lists of pages");
}

void RowIndex::build(const std::vector<uint64_t>& partitions) {
    uint64_t rows = 0;
    for (const uint64_t partition : partitions) rows += pages_.rows(partition);
    // The same for all of them: sizes of hashed partitions differ by what equal keys make of them, and more buckets
    // would not help there.
    const int split_max = pass_bits_max(device_.properties(), static_cast<int>(layout_.row_words));
    const uint64_t mean = partitions.empty() ? 0 : (rows + partitions.size() - 1) / partitions.size();
    const uint32_t key_bits = layout_.key_words * 32 - radix_bits_;
    bucket_bits_ = bucket_bits_for(mean, std::min(key_bits, static_cast<uint32_t>(split_max) + kSortBitsMax));
    split_bits_ = std::min({bucket_bits_, static_cast<uint32_t>(split_max), 32 - radix_bits_});
    std::vector<IndexedPartition> directory(partitions_);
    std::vector<uint32_t> lists;
    uint64_t buckets = 0;
    for (const uint64_t partition : partitions) {
        directory[partition] = {buckets, lists.size(), bucket_bits_, 0};
        buckets += (1ULL << bucket_bits_) + 1;
        const std::vector<uint32_t>& pages = pages_.pages(partition);
        lists.insert(lists.end(), pages.begin(), pages.end());
    }
    if (buckets * sizeof(uint32_t) > buckets_.bytes()) throw Error(ErrorCode::kInternal, "more buckets than planned");
    const auto [sent_directory, sent_lists] = parcels_.send_together(directory, lists);
    launch(set_directory, grid_of_threads(partitions_, kStreamThreads), dim3(kStreamThreads), 0, device_.stream(),
           sent_directory, directory_.as<IndexedPartition>(), partitions_);
    launch(set_pages, grid_of_threads(lists.size(), kStreamThreads), dim3(kStreamThreads), 0, device_.stream(),
           sent_lists, page_lists_.as<uint32_t>(), lists.size());
    // Partitions without rows have empty buckets; the others write all of theirs.
    SPILLWAY_CUDA_CHECK(cudaMemsetAsync(buckets_.as(), 0, buckets * sizeof(uint32_t), device_.stream()));
    sort(plan_sort(partitions, directory));
}

// Regions of all partitions: their pages. Batches follow each other, each as much as the scratch holds.
RowIndex::SortPlan RowIndex::plan_sort(const std::vector<uint64_t>& partitions,
                                       const std::vector<IndexedPartition>& directory) const {
    const uint64_t tile_rows = split_tile_rows(device_, layout_, static_cast<int>(split_bits_));
    SortPlan plan;
    SortGroup batch;
    uint64_t tiles = 0;
    const auto close = [&] {
        if (batch.parents == 0) return;
        plan.first_tile.push_back(tiles);
        plan.batches.push_back(batch);
        batch = {};
        batch.first_region = plan.begin.size();
        batch.first_parent = plan.indexed.size();
        batch.first_tile = plan.first_tile.size();
        tiles = 0;
    };
    for (const uint64_t partition : partitions) {
        uint64_t left = pages_.rows(partition);
        if (left == 0) continue;
        if (left > partition_rows_max_) throw Error(ErrorCode::kInternal, "a partition is too large to be indexed");
        if (batch.parents == kSortPartitions || batch.rows + left > partition_rows_max_) close();
        batch.rows += left;
        for (const uint32_t page : pages_.pages(partition)) {
            const uint64_t rows = std::min(left, pages_.page_rows());
            plan.begin.push_back(page * pages_.page_rows());
            plan.end.push_back(plan.begin.back() + rows);
            plan.parent.push_back(batch.parents);
            plan.first_tile.push_back(tiles);
            tiles += (rows + tile_rows - 1) / tile_rows;
            left -= rows;
            ++batch.regions;
        }
        plan.indexed.push_back(directory[partition]);
        plan.first_of_batch.push_back(batch.first_parent << split_bits_);
        ++batch.parents;
    }
    close();
    return plan;
}

// All rows are counted first; then each batch is two kernels, so that launches do not count where partitions are small.
void RowIndex::sort(const SortPlan& plan) {
    if (plan.batches.empty()) return;
    const uint64_t regions = static_cast<uint64_t>(plan.indexed.size()) << split_bits_;
    const Allocation counts = device_.memory().allocate((regions + 1) * sizeof(uint64_t), "histogram");
    SPILLWAY_CUDA_CHECK(cudaMemsetAsync(counts.as(), 0, (regions + 1) * sizeof(uint64_t), device_.stream()));
    // No structured binding: lambdas of C++17 do not capture its names.
    RowRegions all;
    const IndexedPartition* indexed = nullptr;
    const uint64_t* first_of_batch = nullptr;
    std::tie(all.begin, all.end, all.parent, all.first_tile, indexed, first_of_batch) =
        parcels_.send_together(plan.begin, plan.end, plan.parent, plan.first_tile, plan.indexed, plan.first_of_batch);
    const auto regions_of = [&](const SortGroup& batch) {
        RowRegions in;
        in.rows = pages_.data();
        in.regions = batch.regions;
        in.total_rows = batch.rows;
        in.begin = all.begin + batch.first_region;
        in.end = all.end + batch.first_region;
        in.parent = all.parent + batch.first_region;
        in.first_tile = all.first_tile + batch.first_tile;
        return in;
    };
    const auto done = static_cast<int>(radix_bits_);
    const auto bits = static_cast<int>(split_bits_);
    for (const SortGroup& batch : plan.batches) {
        count_split(device_, layout_, regions_of(batch), done, bits,
                    counts.as<uint64_t>() + (batch.first_parent << split_bits_));
    }
    const Regions split = Regions::open(device_, counts.as<const uint64_t>(), regions);
    launch(begin_batches, grid_of_threads(regions, kStreamThreads), dim3(kStreamThreads), 0, device_.stream(), regions,
           split_bits_, first_of_batch, split.begin.as<const uint64_t>(), split.end.as<uint64_t>(),
           split.front.as<uint64_t>(), split.back.as<uint64_t>());
    exclusive_sum(device_, counts.as<uint64_t>(), regions + 1);
    SortPass pass;
    pass.page = page_lists_.as<const uint32_t>();
    pass.bucket = buckets_.as<uint32_t>();
    pass.split_bits = split_bits_;
    pass.radix_bits = radix_bits_;
    pass.bucket_bits = bucket_bits_;
    pass.page_shift = shift_of(pages_.page_rows());
    pass.more_words = layout_.more_words;
    pass.more_at = layout_.more_at;
    pass.staged_max = staged_rows(device_, layout_, pass.buckets());
    for (const SortGroup& batch : plan.batches) {
        const uint64_t first = batch.first_parent << split_bits_;
        move_split(device_, layout_, regions_of(batch), done, bits, split.front.as<uint64_t>() + first,
                   split.back.as<uint64_t>() + first, scratch_rows_.as<uint32_t>());
        pass.end = split.end.as<const uint64_t>() + first;
        pass.first = counts.as<const uint64_t>() + first;
        pass.partition = indexed + batch.first_parent;
        count_moved(device_, 2 * batch.rows * layout_.row_bytes());
        const auto sort_by = layout_.row_words % 4 == 0   ? launch_sort<uint4>
                             : layout_.row_words % 2 == 0 ? launch_sort<uint2>
                                                          : launch_sort<uint32_t>;
        sort_by(device_, pass, batch.parents << split_bits_, scratch_rows_.as<const uint32_t>(), layout_.row_words,
                layout_.key_words, pages_.data());
    }
}

IndexView RowIndex::view() const {
    IndexView view;
    view.rows = pages_.data();
    view.partition = directory_.as<const IndexedPartition>();
    view.bucket = buckets_.as<const uint32_t>();
    view.page = page_lists_.as<const uint32_t>();
    view.row_words = layout_.row_words;
    view.key_words = layout_.key_words;
    view.page_shift = shift_of(pages_.page_rows());
    view.radix_bits = radix_bits_;
    view.more_words = layout_.more_words;
    view.more_at = layout_.more_at;
    return view;
}

}}  // namespace spillway::cuda::row_index
