// SPDX-License-Identifier: Apache-2.0
// What goes to disk when the pool of pages is full: no more than one write is to take, and nothing is lost when the
// write fails.
#include <cerrno>
#include <memory>

#include "base/hash.hpp"
#include "cpu/radix_partition/radix_partitioner.hpp"
#include "support/failing_calls.hpp"
#include "support/table.hpp"
#include "support/test.hpp"

namespace spillway::test {

namespace {

constexpr uint64_t kPoolBytes = 256 * kKiB;
constexpr uint64_t kWriteBytes = 8 * kKiB;

// Rows of one word, which all have the same key: one partition fills the pool.
struct FrequentKey {
    FrequentKey()
        : set(frequent_spec(), RowLayout::make({type_of(Kind::kInt64, false)}, {KeySpec{}}, {}, NullKeys::kDrop),
              budget, std::make_shared<SpillSpace>("/tmp"), control),
          partitioner(std::make_unique<RadixPartitioner>(set)) {}

    static PartitionSpec frequent_spec() {
        PartitionSpec spec;
        spec.keys.resize(1);
        spec.radix_bits = 2;
        spec.page_bytes = kKiB;
        spec.pool_bytes = kPoolBytes;
        spec.spill_run_bytes = 2 * kKiB;
        spec.spill_write_bytes = kWriteBytes;
        spec.spill = true;
        spec.pack_spilled = false;
        spec.workers = 1;
        return spec;
    }
    // Until something was spilled, or the write failed.
    void fill() {
        std::vector<uint64_t> words(64, mix64(77));
        EncodedRows encoded;
        encoded.row_bytes = 8;
        encoded.data = reinterpret_cast<uint8_t*>(words.data());
        encoded.rows = static_cast<int64_t>(words.size());
        while (control.spilled_bytes == 0) partitioner->append(0, encoded);
    }

    MemoryBudget budget{8 * kMiB};
    JobControl control;
    PartitionedRows set;
    std::unique_ptr<RadixPartitioner> partitioner;
};

}  // namespace

// Rows that stay in memory need not be read back.
TEST(radix_partition_of_a_frequent_key_spills_as_much_as_one_write_takes) {
    FrequentKey rows;
    rows.fill();
    EXPECT(rows.set.pool().pages_in_use() * kKiB > kPoolBytes / 2);
    EXPECT(rows.control.spilled_bytes <= kWriteBytes + 2 * kKiB);
    EXPECT(rows.control.spilled_bytes >= kWriteBytes / 4);
}

// They are the pool's: whoever tries in another way needs the memory.
TEST(radix_partition_pages_of_a_failed_write_go_back) {
    FrequentKey rows;
    {
        const WithFailingCalls full({.pwritev = ENOSPC});
        EXPECT_ERROR(kDiskFull, rows.fill());
    }
    rows.partitioner.reset();
    for (int32_t p = 0; p <= rows.set.null_partition(); ++p) rows.set.free_partition(p);
    EXPECT_EQ(rows.set.pool().pages_in_use(), 0u);
}

}  // namespace spillway::test
