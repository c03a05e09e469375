// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "far_partition/far_partition.hpp"
#include "primitive/mix.cuh"
#include "support/device_array.hpp"
#include "support/far_memory.hpp"
#include "support/generators.hpp"
#include "support/row_hash.hpp"

namespace spillway::gpu_test {

inline uint64_t far_partition_of(uint64_t mixed, uint32_t column_bytes, int radix_bits) {
    const uint64_t top = column_bytes == 4 ? mixed & 0xffffffff : mixed >> 32;
    return radix_bits == 0 ? 0 : top >> (32 - radix_bits);
}
inline RowHash far_row_hash(uint64_t key, uint64_t payload) {
    RowHash state{kLowStart, kHighStart};
    hash_word(key, kValueStep, state);
    hash_word(payload, kValueStep, state);
    return state;
}

// Two columns on the host, with copies in the tiers that are asked for.
class FarInput {
  public:
    FarInput(std::vector<uint64_t> keys, uint32_t column_bytes, uint64_t seed)
        : keys_(std::move(keys)), column_bytes_(column_bytes) {
        payloads_.resize(keys_.size());
        for (uint64_t row = 0; row < keys_.size(); ++row) {
            payloads_[row] = random64(stream_of(seed, Purpose::kPayload), row);
        }
        if (column_bytes == 8) return;
        for (uint64_t& key : keys_) key &= 0xffffffff;
        for (uint64_t& payload : payloads_) payload &= 0xffffffff;
    }

    uint64_t rows() const { return keys_.size(); }
    uint32_t column_bytes() const { return column_bytes_; }

    // Columns begin one value behind a line: no more alignment than they must have.
    cuda::FarRelation in(FarTier tier) {
        std::unique_ptr<FarMemory>& memory = copies_[static_cast<int>(tier)];
        const uint64_t bytes = (rows() + 1) * column_bytes_;
        if (memory == nullptr) {
            memory = std::make_unique<FarMemory>(tier, 2 * bytes);
            std::vector<uint8_t> columns(2 * bytes, 0);
            for (uint64_t row = 0; row < rows(); ++row) {
                std::memcpy(&columns[(row + 1) * column_bytes_], &keys_[row], column_bytes_);
                std::memcpy(&columns[bytes + (row + 1) * column_bytes_], &payloads_[row], column_bytes_);
            }
            memory->put(columns.data(), columns.size());
        }
        cuda::FarRelation relation;
        relation.key = memory->data() + column_bytes_;
        relation.payload = memory->data() + bytes + column_bytes_;
        relation.rows = rows();
        relation.column_bytes = column_bytes_;
        return relation;
    }

    uint64_t mixed(uint64_t row) const {
        return column_bytes_ == 4 ? cuda::mix32(static_cast<uint32_t>(keys_[row])) : cuda::mix64(keys_[row]);
    }
    std::vector<uint64_t> counts(int radix_bits) const {
        std::vector<uint64_t> counts(1ULL << radix_bits, 0);
        for (uint64_t row = 0; row < rows(); ++row) ++counts[far_partition_of(mixed(row), column_bytes_, radix_bits)];
        return counts;
    }
    // Returns a hash of the rows of each partition, and remembers the hashes for as long as the bits stay the same.
    const std::vector<RowHash>& hashes(int radix_bits) const {
        if (hashes_.size() == 1ULL << radix_bits) return hashes_;
        hashes_.assign(1ULL << radix_bits, {});
        for (uint64_t row = 0; row < rows(); ++row) {
            RowHash& sum = hashes_[far_partition_of(mixed(row), column_bytes_, radix_bits)];
            sum = sum + far_row_hash(mixed(row), payloads_[row]);
        }
        return hashes_;
    }

  private:
    std::vector<uint64_t> keys_;
    std::vector<uint64_t> payloads_;
    const uint32_t column_bytes_;
    std::unique_ptr<FarMemory> copies_[3];
    mutable std::vector<RowHash> hashes_;
};

// One piece of a tier, or pages of several tiers in turns.
class FarOutput {
  public:
    static FarOutput piece(FarTier tier, const FarInput& input, int radix_bits) {
        FarOutput output;
        const uint64_t bytes = cuda::far_piece_bytes(input.rows(), input.column_bytes(), radix_bits);
        output.memory_.push_back(std::make_unique<FarMemory>(tier, bytes));
        output.destination_.piece.data = align(*output.memory_[0]);
        output.destination_.piece.bytes = bytes;
        return output;
    }
    // pages: 0 = as many as suffice whatever the keys.
    static FarOutput pages(const std::vector<FarTier>& tiers, const FarInput& input, int radix_bits, uint64_t page_rows,
                           uint64_t pages = 0) {
        FarOutput output;
        if (pages == 0) pages = cuda::far_pages_needed(input.rows(), page_rows, radix_bits);
        const uint64_t page_bytes = page_rows * 2 * input.column_bytes();
        const uint64_t each = (pages + tiers.size() - 1) / tiers.size();
        for (const FarTier tier : tiers) {
            output.memory_.push_back(std::make_unique<FarMemory>(tier, each * page_bytes));
        }
        std::vector<char*> addresses;
        for (uint64_t page = 0; page < pages; ++page) {
            addresses.push_back(align(*output.memory_[page % tiers.size()]) + page / tiers.size() * page_bytes);
        }
        output.page_bytes_ = page_bytes;
        output.pages_ = addresses;
        addresses.push_back(nullptr);  // an array of no pages has an address, too
        output.addresses_ = upload(addresses);
        output.destination_.pages.addresses = output.addresses_.data();
        output.destination_.pages.pages = pages;
        output.destination_.pages.page_rows = page_rows;
        return output;
    }

    cuda::FarDestination& destination() { return destination_; }
    void clear() {
        for (auto& memory : memory_) memory->clear();
    }
    void look() {
        for (auto& memory : memory_) memory->look();
    }
    bool take(const char* address, void* row, uint64_t bytes) {
        for (auto& memory : memory_) {
            if (!memory->has(address)) continue;
            memory->take(address, row, bytes);
            return true;
        }
        return false;
    }
    // Whatever is in the first so many pages.
    void forget_pages(uint64_t pages) {
        for (uint64_t page = 0; page < pages; ++page) {
            for (auto& memory : memory_) {
                if (memory->has(pages_[page])) memory->forget(pages_[page], page_bytes_);
            }
        }
    }
    bool is_untouched() const {
        return std::all_of(memory_.begin(), memory_.end(), [](const auto& memory) { return memory->is_untouched(); });
    }

  private:
    // Pages begin at a line: cudaMalloc and cudaHostAlloc align their memory, and guards are whole lines.
    static char* align(const FarMemory& memory) {
        CHECK_EQ(reinterpret_cast<uintptr_t>(memory.data()) % 128, 0U);
        return memory.data();
    }

    std::vector<std::unique_ptr<FarMemory>> memory_;
    std::vector<char*> pages_;
    uint64_t page_bytes_ = 0;
    DeviceArray<char*> addresses_;
    cuda::FarDestination destination_;
};

// Every row once, in its partition, and no other byte written.
inline void check_far_partitions(const FarInput& input, FarOutput& output, const cuda::FarPartitions& partitions,
                                 const std::string& what) {
    CHECK_EQ(partitions.partitions(), 1ULL << partitions.radix_bits);
    const std::vector<uint64_t> counts = input.counts(partitions.radix_bits);
    const std::vector<RowHash>& expected = input.hashes(partitions.radix_bits);
    std::vector<char*> pages;
    const cuda::FarRows rows = partitions.host_rows(test_device(), pages);
    output.look();
    for (uint64_t p = 0; p < partitions.partitions(); ++p) {
        const auto is_wrong = [&](const std::string& how) {
            fail(what + ", partition " + std::to_string(p) + how, __FILE__, __LINE__);
        };
        if (partitions.counts[p] != counts[p]) {
            is_wrong(" has " + std::to_string(partitions.counts[p]) + " rows, not " + std::to_string(counts[p]));
        }
        RowHash found;
        for (uint64_t i = 0; i < counts[p]; ++i) {
            uint8_t bytes[16];
            if (!output.take(rows.row(p, i), bytes, partitions.tuple_bytes)) {
                is_wrong(": a row lies outside of the destination");
            }
            uint64_t key = 0;
            uint64_t payload = 0;
            std::memcpy(&key, bytes, input.column_bytes());
            std::memcpy(&payload, bytes + input.column_bytes(), input.column_bytes());
            found = found + far_row_hash(key, payload);
        }
        if (found != expected[p]) is_wrong(" has other rows than it should");
    }
    if (!output.is_untouched()) fail(what + ": bytes that belong to no row were written", __FILE__, __LINE__);
}

// Every partitioner with its name.
inline std::vector<std::pair<const char*, cuda::FarPartitioner>> far_partitioners() {
    std::vector<std::pair<const char*, cuda::FarPartitioner>> all;
    for (int p = 0; p < cuda::kFarPartitioners; ++p) {
        all.emplace_back(cuda::kFarPartitionerNames[p], static_cast<cuda::FarPartitioner>(p));
    }
    return all;
}

// Into an output that is cleared before.
inline void check_far(FarInput& input, FarTier source, FarOutput& output, const cuda::FarPartitionOptions& options,
                      const std::string& what) {
    output.clear();
    const cuda::FarPartitions partitions =
        cuda::far_partition(test_device(), input.in(source), output.destination(), options);
    check_far_partitions(input, output, partitions, what);
}

// Every partitioner that has room for so many partitions.
inline void check_every_far(FarInput& input, FarTier source, FarOutput& output, cuda::FarPartitionOptions options,
                            const std::string& what) {
    for (const auto& [name, partitioner] : far_partitioners()) {
        options.partitioner = partitioner;
        const int most = cuda::far_bits_max(test_device().properties(), partitioner, input.column_bytes());
        if (options.radix_bits > most) continue;
        check_far(input, source, output, options,
                  std::string(name) + ", " + what + ", " + std::to_string(input.rows()) + " rows of " +
                      std::to_string(2 * input.column_bytes()) + " bytes, " + std::to_string(options.radix_bits) +
                      " bits from " + tier_name(source));
    }
}

}  // namespace spillway::gpu_test
