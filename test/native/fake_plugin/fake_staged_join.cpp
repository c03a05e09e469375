// SPDX-License-Identifier: Apache-2.0
// Joins of relations larger than GPU memory in the most obvious way: a map of the build side's keys.
#include "fake_staged_join.hpp"

#include <algorithm>

#include "memory_model/baseline_memory.hpp"
#include "memory_model/coherent_memory.hpp"
#include "memory_model/staged_memory.hpp"

namespace fake {

namespace {

void check_sizes(const StagedJoinSpec& spec) {
    const StreamSizes& sizes = spec.sizes;
    require(is_key_width(spec.key_bytes), "keys have 4 or 8 bytes");
    require(
        sizes.radix_bits >= 0 && sizes.radix_bits <= kFirstPassBitsMax && sizes.chunk_rows > 0 && sizes.chunk_slots > 0,
        "impossible sizes");
    require(sizes.page_rows > 0 && (sizes.page_rows & (sizes.page_rows - 1)) == 0, "pages of 2^n rows");
    const bool rows = spec.result == JoinResultKind::kRows;
    require(!rows || (sizes.result_rows > 0 && sizes.result_slots > 0), "no room for a result");
    require(sizes.filter_words != 1 && (sizes.filter_words & (sizes.filter_words - 1)) == 0, "filters of 2^n words");
    require(!spec.kind.keeps_unmatched_probe() || sizes.filter_words == 0,
            "a filter would lose probe rows without a partner");
}

void check_coherent(const CoherentJoinSpec& spec) {
    require(spec.join.can_be_coherent(), "no payload, or one like the key");
    const uint64_t page_bytes = spec.options.page_rows * 2 * spec.join.key_bytes;
    require(page_bytes >= 128 && page_bytes <= 2U << 20, "pages of 128 bytes to 2 MiB");
    require(spec.join.sizes.filter_words == 0 && spec.join.sizes.disk_blocks == 0, "no filter and no disk");
    require(spec.options.partitioner <= FarPartitioner::kBest, "a partitioner that exists");
    require(spec.options.device_bytes > 0, "memory of the GPU");
    require(!spec.options.perfect_hash || (spec.join.kind.inner() && spec.join.result != JoinResultKind::kRows),
            "perfect hashing for counts of inner joins");
    for (const uint64_t rows : spec.rows) {
        const uint64_t chunk_rows = spec.join.sizes.chunk_rows;
        require((rows + chunk_rows - 1) / chunk_rows <= spec.options.chunks, "fewer chunks");
    }
}

// An H100, as the device that is listed.
constexpr spillway::cuda::GpuFacts kFacts{9, 132, 232448, 233472};

uint64_t near_rows_of(const CoherentJoinSpec& spec) {
    const uint64_t device_bytes = spec.options.device_bytes;
    const spillway::cuda::CoherentMemory memory = spillway::cuda::coherent_join_memory(spec, kFacts, device_bytes);
    return memory.near_pages(device_bytes) * memory.page_rows;
}

std::vector<uint32_t> output_widths(const StagedJoinSpec& spec) {
    const auto widths = spec.output_widths();
    return {widths.begin(), widths.end()};
}

}  // namespace

StagedJoin::StagedJoin(spillway_cuda_gpu* gpu, const StagedJoinSpec& spec, const DiskCalls* disk)
    : Stream(gpu, spec.sizes, disk, output_widths(spec)),
      spec_(spec),
      coherent_(false),
      filter_(spec.sizes.filter_words) {
    check_sizes(spec);
    require(sizes_.pages * sizes_.page_rows >= sizes_.chunk_rows + sizes_.page_rows, "too few pages");
    const spillway::cuda::StagedJoinMemory memory = spillway::cuda::staged_join_memory(spec);
    for (const int side : {kBuildSide, kProbeSide}) {
        row_bytes_[side] = memory.row_bytes[side];
        chunk_bytes_[side] = memory.chunk_bytes[side];
        require(row_bytes_[side] <= 4 * kJoinWordsMax, "rows have 128 bytes at most");
    }
    memory_ = OperationMemory(gpu, memory.device_bytes, "a join out of core");
}

// Rows are near as far as pages of GPU memory have room for them, or in turns.
StagedJoin::StagedJoin(spillway_cuda_gpu* gpu, const CoherentJoinSpec& spec)
    : Stream(gpu, spec.join.sizes, nullptr, output_widths(spec.join)),
      spec_(spec.join),
      coherent_(true),
      rows_max_{spec.rows[0], spec.rows[1]},
      filter_(0),
      row_bytes_{2 * spec.join.key_bytes, 2 * spec.join.key_bytes},
      turns_(spec.options.shares) {
    check_sizes(spec.join);
    check_coherent(spec);
    perfect_ = spec.options.perfect_hash;
    near_rows_ = near_rows_of(spec);
    memory_ = OperationMemory(gpu, spec.options.device_bytes, "a join out of core");
}

// One row has too many partners for a table of linear probing here.
constexpr uint64_t kRowsOfKeyMax = 1000;

StagedJoin::StagedJoin(spillway_cuda_gpu* gpu, const BaselineJoinSpec& spec)
    : Stream(gpu, spec.join.sizes, nullptr, output_widths(spec.join)),
      spec_(spec.join),
      coherent_(false),
      spills_(false),
      rows_max_{spec.build_rows, UINT64_MAX},
      filter_(0) {
    check_sizes(spec.join);
    require(spec.join.kind.inner(), "inner joins alone");
    const bool probes = spec.algorithm == BaselineJoin::kStreamProbe;
    const bool has_table = probes ? spec.stream_probe == StreamProbe::kTable : spec.algorithm == BaselineJoin::kNpjFar;
    if (has_table) rows_of_key_max_ = kRowsOfKeyMax;
    memory_ = OperationMemory(gpu, spillway::cuda::baseline_join_memory(spec).device_bytes, "a join out of core");
}

Row StagedJoin::row_of(const Chunk& chunk, int side, uint64_t row) const {
    Row made;
    made.has_key = chunk.key_valid == nullptr || (chunk.key_valid[row / 32] >> (row % 32) & 1) != 0;
    const uint32_t key_bytes = spec_.key_bytes;
    if (made.has_key) std::memcpy(&made.key, static_cast<const char*>(chunk.key) + row * key_bytes, key_bytes);
    for (size_t c = 0; c < spec_.widths[side].size(); ++c) {
        const uint32_t width = spec_.widths[side][c];
        made.columns.emplace_back(static_cast<const char*>(chunk.columns[c]) + row * width, width);
    }
    return made;
}

uint64_t StagedJoin::partition_of(const Row& row) const {
    const int32_t bits = sizes_.radix_bits;
    return bits == 0 ? 0 : row.key * 0x9e3779b97f4a7c15ULL >> (64 - bits);
}

bool StagedJoin::stays(const Row& row) const {
    return !spills_ || partition_of(row) < sizes_.resident_partitions;
}

void StagedJoin::run(int input, const SourceCalls& source, const SinkCalls* sink) {
    sink_ = sink;
    input == kBuildSide ? build(source) : probe(source);
}

void StagedJoin::build(const SourceCalls& source) {
    const uint64_t partitions = 1ULL << sizes_.radix_bits;
    read(kBuildSide, source, spec_.key_bytes, spec_.widths[kBuildSide], "lost-build", [&](const Chunk& chunk) {
        require(report_.rows[kBuildSide] <= rows_max_[kBuildSide], "a side has too many rows");
        for (uint64_t i = 0; i < chunk.rows; ++i) {
            Row row = row_of(chunk, kBuildSide, i);
            if (row.has_key) {
                filter_.add(row.key);
                if (perfect_ && table_.count(row.key) > 0) {
                    throw Failure{SPILLWAY_CUDA_UNSUPPORTED, "perfect hashing: a key of the build side comes twice"};
                }
                table_.emplace(row.key, rows_.size());
                if (rows_of_key_max_ > 0 && table_.count(row.key) > rows_of_key_max_) {
                    throw Failure{SPILLWAY_CUDA_UNSUPPORTED, "linear probing is not for one key in very many rows"};
                }
                if (!stays(row) && spill(kBuildSide, row)) {
                    rows_on_disk_.push_back(rows_.size());
                    row.columns.clear();
                }
            }
            rows_.push_back(std::move(row));
        }
    });
    matched_.resize(rows_.size());
    report_.resident_partitions = std::min<uint64_t>(partitions, sizes_.resident_partitions);
    report_.input_ms[kBuildSide] = 0.5;
}

void StagedJoin::join_row(const Row& probe) {
    const JoinKind& kind = spec_.kind;
    const auto range = probe.has_key ? table_.equal_range(probe.key) : std::make_pair(table_.end(), table_.end());
    bool found = false;
    for (auto match = range.first; match != range.second; ++match) {
        const std::vector<std::string>& columns = rows_[match->second].columns;
        if (!std::equal(columns.begin(), columns.begin() + spec_.key_columns, probe.columns.begin())) continue;
        found = true;
        matched_[match->second] = true;
        if (kind.pairs()) give_row(&rows_[match->second], &probe);
    }
    if (kind.pairs() && !found && kind.keep_unmatched_probe) give_row(nullptr, &probe);
    if (kind.emit == JoinEmit::kProbeOnce && found != kind.anti) give_row(nullptr, &probe);
}

void StagedJoin::probe(const SourceCalls& source) {
    const JoinKind& kind = spec_.kind;
    be_slow(gpu_);
    read(kProbeSide, source, spec_.key_bytes, spec_.widths[kProbeSide], "lost-probe", [&](const Chunk& chunk) {
        require(report_.rows[kProbeSide] <= rows_max_[kProbeSide], "a side has too many rows");
        for (uint64_t i = 0; i < chunk.rows; ++i) {
            Row row = row_of(chunk, kProbeSide, i);
            if (filter_.is_used() && !(row.has_key && filter_.passes(row.key))) {
                ++report_.dropped_rows;
            } else if (!row.has_key || stays(row)) {
                join_row(row);
            } else if (!spill(kProbeSide, row)) {
                probe_rows_.push_back(std::move(row));
            }
        }
    });
    report_.input_ms[kProbeSide] = 0.25;
    join_spilled();
    for (size_t i = 0; i < rows_.size(); ++i) {
        if (kind.pairs() && kind.keep_unmatched_build && !matched_[i]) give_row(&rows_[i], nullptr);
        if (kind.emit == JoinEmit::kBuildOnce && matched_[i] != kind.anti) give_row(&rows_[i], nullptr);
    }
    finish();
}

void StagedJoin::give_row(const Row* build, const Row* probe) {
    ++report_.result_rows;
    const Row& any = build == nullptr ? *probe : *build;
    const int bits = (build == nullptr ? 0 : kBuildPresent) | (probe == nullptr ? 0 : kProbePresent) |
                     (any.has_key ? kKeyPresent : 0);
    if (spec_.result == JoinResultKind::kSums) report_.sums.resize(spec_.output.size());
    std::vector<std::string> values;
    for (size_t c = 0; c < spec_.output.size(); ++c) {
        const JoinOutputColumn& output = spec_.output[c];
        std::string value(spec_.output_width(output), '\0');
        if (output.side == OutputSide::kPresence) {
            value[0] = static_cast<char>(bits);
        } else if (output.side == OutputSide::kKey) {
            std::memcpy(value.data(), &any.key, value.size());
        } else if (const Row* const row = output.side == OutputSide::kBuild ? build : probe; row != nullptr) {
            value = row->columns[output.column];
        }
        if (spec_.result == JoinResultKind::kSums) {
            uint64_t word = 0;
            std::memcpy(&word, value.data(), std::min<size_t>(value.size(), 8));
            report_.sums[c] += word;
        }
        values.push_back(std::move(value));
    }
    if (spec_.result == JoinResultKind::kRows) give(values);
}

// A row that is neither resident nor without a key.
bool StagedJoin::spill(int side, const Row& row) {
    const uint64_t turn = turns_.device + uint64_t{turns_.host};
    if (turn > 0 ? turned_rows_++ % turn < turns_.device : near_rows_ > 0) {
        if (turn == 0) --near_rows_;
        return false;
    }
    if (!spills_to_disk(side, row_bytes_[side])) return false;
    disk_.append(side, bytes_of(row));
    return true;
}

std::string StagedJoin::bytes_of(const Row& row) const {
    std::string bytes(reinterpret_cast<const char*>(&row.key), sizeof row.key);
    for (const std::string& column : row.columns) bytes += column;
    return bytes;
}

Row StagedJoin::row_from(const char* bytes, int side) const {
    Row row;
    std::memcpy(&row.key, bytes, sizeof row.key);
    bytes += sizeof row.key;
    for (const uint32_t width : spec_.widths[side]) {
        row.columns.emplace_back(bytes, width);
        bytes += width;
    }
    return row;
}

// Probe rows of spilled partitions, now that the build rows of all of them are there.
void StagedJoin::join_spilled() {
    fail_here("lost-spilled");
    if (disk_.usable()) {
        const std::string build = disk_.read(kBuildSide);
        const char* from = build.data();
        for (const size_t row : rows_on_disk_) {
            rows_[row] = row_from(from, kBuildSide);
            from += bytes_of(rows_[row]).size();
        }
    }
    for (const Row& row : probe_rows_) join_row(row);
    if (!disk_.usable()) return;
    const std::string probe = disk_.read(kProbeSide);
    for (const char* from = probe.data(); from < probe.data() + probe.size();) {
        const Row row = row_from(from, kProbeSide);
        from += bytes_of(row).size();
        join_row(row);
    }
}

}  // namespace fake
