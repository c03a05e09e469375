// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>
#include <utility>

#include "far_partition/far_partition.hpp"
#include "far_partition/far_policy.hpp"
#include "far_partition/far_sizes.hpp"
#include "far_partition/launch_pass.hpp"

namespace spillway::cuda { inline namespace far_partitioning {

namespace {

bool is_aligned(const void* address, uint64_t bytes) {
    return reinterpret_cast<uintptr_t>(address) % bytes == 0;
}
void require(bool holds, const char* what) {
    if (!holds) throw Error(ErrorCode::kInvalid, std::string("far partitioning: ") + what);
}

void check(const FarRelation& in, const FarDestination& to, const FarPartitionOptions& options) {
    require(in.column_bytes == 4 || in.column_bytes == 8, "columns of 4 or 8 bytes");
    require(in.rows == 0 || (in.key != nullptr && in.payload != nullptr), "a key and a payload");
    require(is_aligned(in.key, in.column_bytes) && is_aligned(in.payload, in.column_bytes), "columns are aligned");
    require(in.rows < 1ULL << 48, "less than 2^48 rows");
    require(options.radix_bits >= 0 && options.radix_bits <= kFirstPassBitsMax, "0 to 12 radix bits");
    require(options.split_bits >= 0 && options.radix_bits + options.split_bits <= 32, "counts of up to 32 bits");
    require(static_cast<int>(options.partitioner) < kFarPartitioners, "a partitioner that exists");
    require(to.piece.data == nullptr || to.pages.addresses == nullptr, "one piece or pages, not both");
    if (to.pages.addresses != nullptr) {
        const uint64_t page_rows = to.pages.page_rows;
        require(page_rows != 0 && (page_rows & (page_rows - 1)) == 0, "a power of two of rows per page");
        require(page_rows <= 1ULL << 31 && page_rows * 2 * in.column_bytes >= kFarLineBytes, "pages of whole lines");
        require(to.pages.pages <= kPagesMax && in.rows / page_rows <= kPagesMax, "less than 2^26 pages");
    } else {
        require(in.rows == 0 || to.piece.data != nullptr, "a destination");
        require(is_aligned(to.piece.data, kFarLineBytes), "a piece that begins at a line of 128 bytes");
        require(in.key_valid == nullptr, "a key in each row where partitions are one piece");
        require(!options.reversed_keys, "mixed keys where partitions are one piece");
    }
}

// kLinear sorts whole batches and leaves no row out: where some have no key, kShared takes its place, or kStandard
// where the buffers of that do not fit.
FarPartitionOptions options_for(const FarRelation& in, const DeviceProperties& properties,
                                FarPartitionOptions options) {
    if (options.partitioner != FarPartitioner::kLinear || in.key_valid == nullptr) return options;
    const int bits_max = far_bits_max(properties, FarPartitioner::kShared, in.column_bytes);
    options.partitioner = options.radix_bits <= bits_max ? FarPartitioner::kShared : FarPartitioner::kStandard;
    return options;
}

uint32_t log2_of(uint64_t power) {
    uint32_t bits = 0;
    while (1ULL << bits < power) ++bits;
    return bits;
}

class FarPartitioning {
  public:
    FarPartitioning(Device& device, const FarRelation& in, const FarDestination& to, const FarPartitionOptions& options)
        : device_(device),
          options_(options_for(in, device.properties(), options)),
          to_(to),
          partitions_(1ULL << options.radix_bits) {
        const cudaStream_t own = device.stream();
        pass_.stream = options.stream == nullptr ? own : options.stream;
        if (pass_.stream != own) join_streams(own, pass_.stream, joint_);
        pass_.in = in;
        pass_.radix_bits = options.radix_bits;
        pass_.split_counts = options.split_counts;
        pass_.split_bits = options.split_bits;
        pass_.reversed_keys = options.reversed_keys;
        const uint64_t blocks =
            options.grid == 0 ? static_cast<uint64_t>(device.properties().multiprocessors) : options.grid;
        pass_.grid = static_cast<uint32_t>(std::min(blocks, (in.rows + kSliceRows - 1) / kSliceRows));
        target().tuple_bytes = 2 * in.column_bytes;
        result_.radix_bits = options.radix_bits;
        result_.tuple_bytes = 2 * in.column_bytes;
    }
    // Blocks of the pool go in the order of the device's stream.
    ~FarPartitioning() {
        try {
            if (pass_.stream != device_.stream()) join_streams(pass_.stream, device_.stream(), joint_);
        } catch (const Error&) {
            // The device is lost, and with it what runs there.
        }
    }

    FarPartitions run() {
        has_pages() ? prepare_pages() : prepare_piece();
        prepare_buffers();
        launch_far_partitioner(options_.partitioner, pass_);
        if (pass_.combining.memory_buffers > 0 && pass_.grid > 0) launch_far_drain(pass_);
        finish();
        return std::move(result_);
    }

  private:
    bool has_pages() const { return to_.pages.addresses != nullptr; }
    FarTarget& target() { return pass_.combining.target; }
    uint64_t tuple_bytes() const { return result_.tuple_bytes; }

    Allocation zeroed(uint64_t bytes, const char* what) {
        Allocation memory = device_.memory().allocate(bytes, what);
        SPILLWAY_CUDA_CHECK(cudaMemsetAsync(memory.as(), 0, bytes, pass_.stream));
        return memory;
    }
    Allocation uploaded(const std::vector<uint64_t>& values, const char* what) {
        const uint64_t bytes = values.size() * sizeof(uint64_t);
        Allocation memory = device_.memory().allocate(bytes, what);
        SPILLWAY_CUDA_CHECK(cudaMemcpyAsync(memory.as(), values.data(), bytes, cudaMemcpyHostToDevice, pass_.stream));
        return memory;
    }
    std::vector<uint64_t> downloaded(const Allocation& memory) {
        std::vector<uint64_t> values(memory.bytes() / sizeof(uint64_t));
        SPILLWAY_CUDA_CHECK(
            cudaMemcpyAsync(values.data(), memory.as(), memory.bytes(), cudaMemcpyDeviceToHost, pass_.stream));
        SPILLWAY_CUDA_CHECK(cudaStreamSynchronize(pass_.stream));
        return values;
    }

    // Cursors, the next page, the mark of a failure; read together at the end.
    void prepare_control() {
        control_ = zeroed((partitions_ + 2) * sizeof(uint64_t), "cursors of partitions");
        target().cursors = control_.as<uint64_t>();
        target().next_page = target().cursors + partitions_;
        target().failed = reinterpret_cast<uint32_t*>(target().next_page + 1);
    }

    void prepare_piece() {
        prepare_control();
        if (to_.piece.counts != nullptr) {
            result_.counts.assign(to_.piece.counts, to_.piece.counts + partitions_);
        } else {
            const Allocation counts = zeroed(partitions_ * sizeof(uint64_t), "histogram");
            launch_far_histogram(pass_, counts.as<uint64_t>());
            result_.counts = downloaded(counts);
        }
        const uint64_t align_rows = kFarAlignBytes / tuple_bytes();
        uint64_t rest = pass_.in.rows;
        uint64_t end = 0;
        for (const uint64_t count : result_.counts) {
            require(count <= rest, "counts that are those of the keys");
            rest -= count;
            const uint64_t begin = (end + align_rows - 1) / align_rows * align_rows;
            result_.begin.push_back(begin);
            if (count > 0) end = begin + count;
        }
        require(rest == 0, "counts that are those of the keys");
        require(end <= to_.piece.bytes / tuple_bytes(), "a piece that holds all partitions with their gaps");
        result_.device_counts = uploaded(result_.counts, "rows of partitions");
        result_.device_begin = uploaded(result_.begin, "first rows of partitions");
        result_.data = static_cast<char*>(to_.piece.data);
        target().data = result_.data;
        target().counts = result_.device_counts.as<const uint64_t>();
        target().begin = result_.device_begin.as<const uint64_t>();
    }

    void prepare_pages() {
        prepare_control();
        uint64_t slots = 2;
        while (slots < to_.pages.pages * kDirectorySlotsPerPage) slots *= 2;
        directory_ = zeroed(slots * sizeof(uint64_t), "directory of pages");
        target().pages = to_.pages.addresses;
        target().page_count = to_.pages.pages;
        target().directory = directory_.as<uint64_t>();
        target().directory_mask = slots - 1;
        target().page_shift = log2_of(to_.pages.page_rows);
        result_.page_shift = target().page_shift;
    }

    void prepare_buffers() {
        const uint64_t page_bytes = has_pages() ? to_.pages.page_rows * tuple_bytes() : 0;
        const FarSizes sizes = far_sizes(device_.properties(), options_, result_.tuple_bytes, page_bytes);
        require(sizes.fits, "no more partitions than fit the shared memory of a block");
        pass_.shared_bytes = sizes.shared_bytes;
        pass_.batch_rows = sizes.buffer_rows;
        if (sizes.memory_buffers == 0 || pass_.grid == 0) return;
        CombiningPass& pass = pass_.combining;
        pass.shift = static_cast<uint32_t>(32 - options_.radix_bits);
        pass.partitions = static_cast<uint32_t>(partitions_);
        pass.buffer_rows = sizes.buffer_rows;
        pass.memory_rows = sizes.memory_rows;
        pass.memory_buffers = sizes.memory_buffers;
        buffers_ = device_.memory().allocate(pass_.grid * sizes.block_memory_bytes(result_.tuple_bytes),
                                             "buffers of partitions");
        leftovers_ = device_.memory().allocate(pass_.grid * partitions_ * sizeof(Leftover), "left-over rows");
        pass.memory = buffers_.as<char>();
        pass.leftovers = leftovers_.as<Leftover>();
    }

    void finish() {
        const std::vector<uint64_t> control = downloaded(control_);
        const auto failed = static_cast<uint32_t>(control[partitions_ + 1]);
        result_.pages_used = control[partitions_];
        require((failed & kCountsWrong) == 0, "counts that are those of the keys");
        if ((failed & kPagesExhausted) != 0) throw out_of_pages();
        uint64_t rows = 0;
        for (uint64_t p = 0; p < partitions_; ++p) rows += control[p];
        const bool are_all = pass_.in.key_valid == nullptr;
        if (are_all ? rows != pass_.in.rows : rows > pass_.in.rows) {
            throw Error(ErrorCode::kInternal, "far partitioning lost or repeated rows");
        }
        if (has_pages()) list_pages({control.begin(), control.begin() + static_cast<std::ptrdiff_t>(partitions_)});
    }

    Error out_of_pages() const {
        const uint64_t page_bytes = to_.pages.page_rows * tuple_bytes();
        Error error(ErrorCode::kOutOfMemory, "partitions took all " + std::to_string(to_.pages.pages) +
                                                 " pages of the pool; " + std::to_string(result_.pages_used) +
                                                 " were wanted");
        error.tier = Tier::kHost;
        error.limit_reached = true;
        error.wanted_bytes = result_.pages_used * page_bytes;
        error.free_bytes = error.limit_bytes = to_.pages.pages * page_bytes;
        return error;
    }

    void list_pages(std::vector<uint64_t> counts) {
        uint64_t pages = 0;
        for (const uint64_t count : counts) {
            result_.begin.push_back(pages);
            pages += (count + to_.pages.page_rows - 1) / to_.pages.page_rows;
        }
        if (pages != result_.pages_used) throw Error(ErrorCode::kInternal, "far partitioning lost pages");
        result_.counts = std::move(counts);
        result_.device_counts = uploaded(result_.counts, "rows of partitions");
        result_.device_begin = uploaded(result_.begin, "first pages of partitions");
        if (pages > 0) {
            result_.page_list = device_.memory().allocate(pages * sizeof(char*), "pages of partitions");
            launch_list_pages(pass_, result_.device_begin.as<const uint64_t>(), result_.page_list.as<char*>());
        }
        SPILLWAY_CUDA_CHECK(cudaStreamSynchronize(pass_.stream));
    }

    Device& device_;
    const FarPartitionOptions options_;
    const FarDestination to_;
    const uint64_t partitions_;
    Event joint_;
    FarPass pass_;
    FarPartitions result_;
    Allocation control_;
    Allocation directory_;
    Allocation buffers_;
    Allocation leftovers_;
};

}  // namespace

uint64_t far_piece_bytes(uint64_t rows, uint32_t column_bytes, int radix_bits) {
    return rows * 2 * column_bytes + (kFarAlignBytes << radix_bits);
}

uint64_t far_pages_needed(uint64_t rows, uint64_t page_rows, int radix_bits) {
    return rows / page_rows + std::min<uint64_t>(rows, 1ULL << radix_bits);
}

FarRows FarPartitions::device_rows() const {
    FarRows rows;
    rows.data = data;
    rows.pages = page_list.as<char*>();
    rows.begin = device_begin.as<const uint64_t>();
    rows.counts = device_counts.as<const uint64_t>();
    rows.page_shift = page_shift;
    rows.tuple_bytes = tuple_bytes;
    return rows;
}

FarRows FarPartitions::host_rows(Device& device, std::vector<char*>& pages) const {
    pages.resize(pages_used);
    if (data == nullptr && pages_used > 0) {
        SPILLWAY_CUDA_CHECK(cudaMemcpyAsync(pages.data(), page_list.as(), pages_used * sizeof(char*),
                                            cudaMemcpyDeviceToHost, device.stream()));
        device.synchronize();
    }
    FarRows rows = device_rows();
    rows.pages = pages.data();
    rows.begin = begin.data();
    rows.counts = counts.data();
    return rows;
}

FarPartitions far_partition(Device& device, const FarRelation& relation, const FarDestination& destination,
                            const FarPartitionOptions& options) {
    check(relation, destination, options);
    device.check_cancelled();
    return FarPartitioning(device, relation, destination, options).run();
}

}}  // namespace spillway::cuda::far_partitioning
