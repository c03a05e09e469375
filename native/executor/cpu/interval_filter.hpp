// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "model/row_layout.hpp"
#include "model/stage_spec.hpp"
#include "transfer/source.hpp"

namespace spillway {

// Tells which morsels have no key in an interval by a look at the key's column alone, so that other columns are not
// read of them: where keys lie in order, each of several passes reads its part of the rows. One per worker.
class IntervalFilter {
  public:
    // key: one integer (is_one_integer()), of `column` of the source. Both must outlive this.
    IntervalFilter(const Source& source, const KeyPart& key, int32_t column, const KeyInterval& interval,
                   MemoryBudget& budget, JobControl& control)
        : key_(key), interval_(interval), reader_(source, {column}, budget, control), words_(kRows) {}

    bool any(const Morsel& morsel);

  private:
    static constexpr int64_t kRows = 16384;  // a read of 128 KiB

    const KeyPart& key_;
    const KeyInterval interval_;
    SourceReader reader_;
    std::vector<uint64_t> words_;
};

}  // namespace spillway
