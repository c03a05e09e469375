// SPDX-License-Identifier: Apache-2.0
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <thread>

#include "key_sequence.cuh"
#include "partition_bench.hpp"
#include "rows.cuh"

namespace spillway::gpu_bench {

namespace {

// work(from, to) over parts of [0, n) on all cores.
void on_all_cores(uint64_t n, const std::function<void(uint64_t, uint64_t)>& work) {
    const uint64_t cores = std::max(1U, std::thread::hardware_concurrency());
    std::vector<std::thread> threads;
    for (uint64_t core = 0; core < cores; ++core) {
        const auto part = [n, cores](uint64_t i) { return n / cores * i + n % cores * i / cores; };
        threads.emplace_back(work, part(core), part(core + 1));
    }
    for (std::thread& thread : threads) thread.join();
}

constexpr uint64_t kTuplePageBytes = 2ULL << 20;

// Touched by all cores, then registered: cudaHostAlloc would take 0.28 s per GiB, this takes 0.1.
char* pinned_memory(uint64_t bytes) {
    void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::runtime_error("the system gave no host memory");
    madvise(memory, bytes, MADV_HUGEPAGE);
    on_all_cores(bytes / kTuplePageBytes, [memory](uint64_t from, uint64_t to) {
        std::memset(static_cast<char*>(memory) + from * kTuplePageBytes, 0, (to - from) * kTuplePageBytes);
    });
    SPILLWAY_CUDA_CHECK(cudaHostRegister(memory, bytes, cudaHostRegisterPortable | cudaHostRegisterMapped));
    return static_cast<char*>(memory);
}

char* peer_memory(cuda::Device& device, uint64_t bytes) {
    int devices = 0;
    SPILLWAY_CUDA_CHECK(cudaGetDeviceCount(&devices));
    for (int other = 0; other < devices; ++other) {
        int reaches = 0;
        if (other != device.ordinal()) {
            SPILLWAY_CUDA_CHECK(cudaDeviceCanAccessPeer(&reaches, device.ordinal(), other));
        }
        if (reaches == 0) continue;
        device.make_current();
        const cudaError_t enabled = cudaDeviceEnablePeerAccess(other, 0);
        if (enabled == cudaErrorPeerAccessAlreadyEnabled) {
            cuda::discard(enabled);
        } else {
            SPILLWAY_CUDA_CHECK(enabled);
        }
        void* memory = nullptr;
        SPILLWAY_CUDA_CHECK(cudaSetDevice(other));
        const cudaError_t status = cudaMalloc(&memory, bytes);
        device.make_current();
        SPILLWAY_CUDA_CHECK(status);
        return static_cast<char*>(memory);
    }
    throw std::invalid_argument("Expected a second GPU within reach for peer.");
}

__device__ uint64_t partition_row_hash(uint64_t key, uint64_t payload, uint64_t salt) {
    return cuda::mix64(cuda::mix64(key ^ salt) + payload);
}
constexpr uint64_t kFirstSalt = 0x243f6a8885a308d3ULL;
constexpr uint64_t kSecondSalt = 0x13198a2e03707344ULL;

__device__ void add_to_sums(uint64_t first, uint64_t second, unsigned long long* sums) {
    for (int lanes = 16; lanes > 0; lanes /= 2) {
        first += __shfl_down_sync(0xffffffffU, first, lanes);
        second += __shfl_down_sync(0xffffffffU, second, lanes);
    }
    if (threadIdx.x % 32 != 0) return;
    atomicAdd(&sums[0], first);
    atomicAdd(&sums[1], second);
}

__device__ uint64_t mixed_key(uint64_t key, uint32_t width) {
    return width == 4 ? cuda::mix32(static_cast<uint32_t>(key)) : cuda::mix64(key);
}

__global__ void sum_input_kernel(cuda::FarRelation in, unsigned long long* sums) {
    uint64_t first = 0;
    uint64_t second = 0;
    const uint64_t step = uint64_t{gridDim.x} * blockDim.x;
    for (uint64_t row = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; row < in.rows; row += step) {
        const uint64_t key = mixed_key(load(in.key, in.column_bytes, row), in.column_bytes);
        const uint64_t payload = load(in.payload, in.column_bytes, row);
        first += partition_row_hash(key, payload, kFirstSalt);
        second += partition_row_hash(key, payload, kSecondSalt);
    }
    add_to_sums(first, second, sums);
}

// sums[2]: rows outside of their partition.
__global__ void sum_partitions_kernel(cuda::FarRows rows, int bits, unsigned long long* sums) {
    uint64_t first = 0;
    uint64_t second = 0;
    const uint64_t p = blockIdx.x;
    const uint32_t width = rows.tuple_bytes / 2;
    const uint64_t step = uint64_t{gridDim.y} * blockDim.x;
    for (uint64_t i = uint64_t{blockIdx.y} * blockDim.x + threadIdx.x; i < rows.counts[p]; i += step) {
        const char* const row = rows.row(p, i);
        const uint64_t key = load(row, width, 0);
        const uint64_t top = width == 4 ? key : key >> 32;
        if (top >> (32 - bits) != p) atomicAdd(&sums[2], 1ULL);
        first += partition_row_hash(key, load(row, width, 1), kFirstSalt);
        second += partition_row_hash(key, load(row, width, 1), kSecondSalt);
    }
    add_to_sums(first, second, sums);
}

void fill_columns(cuda::Device& device, const PartitionBenchOptions& options, char* keys, char* payloads) {
    const uint32_t width = options.tuple_bytes / 2;
    const Shuffle shuffle(options.rows, options.seed);
    for_each_row(device, options.rows, [=] __device__(uint64_t row) {
        store(keys, width, row, shuffle(row));
        store(payloads, width, row, payload_value(Side::kProbe, 0, width, row));
    });
}

struct PartitionSums {
    explicit PartitionSums(cuda::Device& device)
        : device_(device), memory_(device.memory().allocate(sizeof values, "sums of rows")) {
        SPILLWAY_CUDA_CHECK(cudaMemsetAsync(memory_.as(), 0, sizeof values, device.stream()));
    }
    unsigned long long* data() const { return memory_.as<unsigned long long>(); }
    void read() {
        SPILLWAY_CUDA_CHECK(
            cudaMemcpyAsync(values, memory_.as(), sizeof values, cudaMemcpyDeviceToHost, device_.stream()));
        device_.synchronize();
    }
    uint64_t values[3] = {};

  private:
    cuda::Device& device_;
    cuda::Allocation memory_;
};

}  // namespace

FarBlock::FarBlock(cuda::Device& device, TuplePlace place, uint64_t bytes)
    : place_(place), bytes_((bytes + kTuplePageBytes) / kTuplePageBytes * kTuplePageBytes) {
    if (place == TuplePlace::kHost) {
        data_ = pinned_memory(bytes_);
    } else if (place == TuplePlace::kPeer) {
        data_ = peer_memory(device, bytes_);
    } else {
        memory_ = device.memory().allocate(bytes_, "relation or partitions");
        data_ = memory_.as<char>();
    }
}

FarBlock::~FarBlock() {
    if (place_ == TuplePlace::kHost) {
        cuda::discard(cudaHostUnregister(data_));
        munmap(data_, bytes_);
    } else if (place_ == TuplePlace::kPeer) {
        cuda::discard(cudaFree(data_));
    }
}

PartitionInput::PartitionInput(cuda::Device& device, const PartitionBenchOptions& options)
    : columns(device, options.source, options.rows * options.tuple_bytes + 128) {
    const uint32_t width = options.tuple_bytes / 2;
    const uint64_t column_bytes = (options.rows * width + 127) / 128 * 128;
    char* const keys = columns.data();
    char* const payloads = keys + column_bytes;
    fill_columns(device, options, keys, payloads);
    relation.key = keys;
    relation.payload = payloads;
    relation.rows = options.rows;
    relation.column_bytes = width;
    PartitionSums sums(device);
    cuda::launch(sum_input_kernel, grid_of(device), dim3(kBlockThreads), 0, device.stream(), relation, sums.data());
    sums.read();
    std::copy(sums.values, sums.values + 2, expected);
}

std::vector<uint64_t> count_on_cpu(const cuda::FarRelation& relation, int bits) {
    std::vector<uint64_t> counts(1ULL << bits, 0);
    const int shift = 32 - bits;
    on_all_cores(relation.rows, [&](uint64_t from, uint64_t to) {
        std::vector<uint64_t> own(counts.size(), 0);
        if (relation.column_bytes == 4) {
            const auto* const keys = static_cast<const uint32_t*>(relation.key);
            for (uint64_t row = from; row < to; ++row) ++own[uint64_t{cuda::mix32(keys[row])} >> shift];
        } else {
            const auto* const keys = static_cast<const uint64_t*>(relation.key);
            for (uint64_t row = from; row < to; ++row) ++own[cuda::mix64(keys[row]) >> 32 >> shift];
        }
        for (size_t p = 0; p < own.size(); ++p) __atomic_fetch_add(&counts[p], own[p], __ATOMIC_RELAXED);
    });
    return counts;
}

std::string verify_partitions(cuda::Device& device, const PartitionInput& input,
                              const cuda::FarPartitions& partitions) {
    uint64_t rows = 0;
    for (const uint64_t count : partitions.counts) rows += count;
    if (rows != input.relation.rows) return "there are " + std::to_string(rows) + " rows";
    const auto count = static_cast<unsigned>(partitions.partitions());
    const unsigned blocks = grid_of(device).x;
    PartitionSums sums(device);
    cuda::launch(sum_partitions_kernel, dim3(count, blocks / count + 1), dim3(kBlockThreads), 0, device.stream(),
                 partitions.device_rows(), partitions.radix_bits, sums.data());
    sums.read();
    if (sums.values[2] != 0) return std::to_string(sums.values[2]) + " rows are in the wrong partition";
    if (sums.values[0] != input.expected[0] || sums.values[1] != input.expected[1]) {
        return "the rows are not those of the input";
    }
    return "";
}

}  // namespace spillway::gpu_bench
