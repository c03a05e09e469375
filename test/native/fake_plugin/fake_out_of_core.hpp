// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "fake_bloom_filter.hpp"
#include "fake_disk.hpp"
#include "fake_gpu.hpp"

namespace fake {

// What an operation out of core takes: pages that stay as long as it does, and memory for chunks, which come and go.
struct OperationMemory {
    OperationMemory() = default;
    OperationMemory(spillway_cuda_gpu* gpu, uint64_t bytes, const char* purpose)
        : of(gpu), claim(std::make_shared<Claim>(gpu, bytes, purpose)) {
        const ClaimUser user(claim);
        pages = Room(gpu, bytes / 2, purpose);
        chunks = Room(gpu, bytes - bytes / 2, "chunks");
    }
    spillway_cuda_gpu* of = nullptr;
    std::shared_ptr<Claim> claim;
    Room pages;
    Room chunks;
};

// The lock is others' while the caller's code runs, and so is the memory of chunks that have been used.
template <class Call>
int32_t call_back(OperationMemory& memory, Call call) {
    const uint64_t bytes = memory.chunks.bytes();
    memory.chunks = Room();
    lock().unlock();
    const int32_t told = call();
    lock().lock();
    if (told < 0) throw Failure{SPILLWAY_CUDA_CANCELLED, "a source or sink of the caller failed"};
    const ClaimUser user(memory.claim);
    memory.chunks = Room(memory.of, bytes, "chunks");
    return told;
}

// What the real plugin takes for these sizes (JoinShape::device_bytes), written down once more.
uint64_t out_of_core_bytes(const spillway_cuda_out_of_core_spec& spec);

// A spec that owns its arrays.
struct OutOfCorePlan {
    explicit OutOfCorePlan(const spillway_cuda_out_of_core_spec& given);
    spillway_cuda_out_of_core_spec spec;
    std::vector<uint32_t> widths[2];
    std::vector<spillway_cuda_output_column> outputs;
    spillway_cuda_coherent coherent{};

    bool is_coherent() const { return spec.coherent != nullptr; }
    uint64_t row_bytes(int side) const;
    uint32_t output_width(const spillway_cuda_output_column& output) const;
};

struct Row {
    bool has_key = true;
    uint64_t key = 0;
    std::vector<std::string> columns;
};

// A join whose build side is in a map. Chunks are read when they are released and result rows written when they are
// closed, as late as the real one may, so that whoever reuses their memory too early is found out.
class OutOfCore {
  public:
    OutOfCore(spillway_cuda_gpu* gpu, const spillway_cuda_out_of_core_spec& spec);
    void build(const spillway_cuda_source& source, const spillway_cuda_sink* sink, uint64_t* partition_rows);
    void probe(const spillway_cuda_source& source, const spillway_cuda_sink* sink, uint64_t* sums,
               spillway_cuda_out_of_core_report* report);

  private:
    struct Window {
        uint64_t rows;
        std::vector<void*> columns;
        std::vector<std::string> values;  // of each column
    };
    template <class Use>
    void read(const spillway_cuda_source& source, int side, Use use);
    Row row_of(const spillway_cuda_chunk& chunk, int side, uint64_t row) const;
    uint64_t partition_of(const Row& row) const;
    // True: the row's bytes are on disk.
    bool spill(int side, const Row& row);
    std::string bytes_of(const Row& row) const;
    Row row_from(const char* bytes, int side) const;
    void join_spilled();
    void join_row(const Row& probe);
    // nullptr: there is none.
    void give(const Row* build, const Row* probe);
    void flush();
    void close_oldest();

    spillway_cuda_gpu* gpu_;
    OutOfCorePlan plan_;
    FakeDisk disk_;
    FakeBloomFilter filter_;
    OperationMemory memory_;
    const spillway_cuda_sink* sink_ = nullptr;
    std::vector<Row> rows_;             // of the build side
    std::vector<size_t> rows_on_disk_;  // of them, which have lost their columns
    std::deque<Row> probe_rows_;        // of spilled partitions, in memory
    uint64_t memory_bytes_ = 0;         // of spilled rows there
    uint64_t near_rows_ = 0;            // that kernels alone still put into GPU memory
    std::vector<bool> matched_;
    std::unordered_multimap<uint64_t, size_t> table_;
    std::vector<std::string> pending_;  // result rows, column by column
    uint64_t pending_rows_ = 0;
    std::deque<Window> open_;
    int closed_windows_ = 0;
    std::vector<uint64_t> sums_;
    spillway_cuda_out_of_core_report report_{};
};

void out_of_core_bytes(const spillway_cuda_out_of_core_spec* spec, uint64_t* bytes, spillway_cuda_status* status);
void begin_out_of_core(spillway_cuda_gpu* gpu, const spillway_cuda_out_of_core_spec* spec,
                       spillway_cuda_out_of_core** join, spillway_cuda_status* status);
void build_out_of_core(spillway_cuda_out_of_core* join, const spillway_cuda_source* source,
                       const spillway_cuda_sink* sink, uint64_t* partition_rows, spillway_cuda_status* status);
void probe_out_of_core(spillway_cuda_out_of_core* join, const spillway_cuda_source* source,
                       const spillway_cuda_sink* sink, uint64_t* sums, spillway_cuda_out_of_core_report* report,
                       spillway_cuda_status* status);
void free_out_of_core(spillway_cuda_out_of_core* join);

}  // namespace fake

struct spillway_cuda_out_of_core {
    spillway_cuda_gpu* gpu;
    fake::OutOfCore join;
};
