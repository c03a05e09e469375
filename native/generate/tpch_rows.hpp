// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include "generate/random.hpp"

namespace spillway {

// Column rules of the TPC-H specification, clause 4.2.3. Order number n of 1 .. orders is a function of (seed, n), its
// lines of (seed, n, line), so both tables can be made independently, in any order, and agree.

struct TpchSizes {
    explicit TpchSizes(double scale);
    int64_t orders;
    int64_t customers;
    int64_t parts;
    int64_t suppliers;
    int64_t clerks;
};

struct TpchOrder {
    int64_t key = 0;  // 8 of every 32 values are used
    int64_t customer = 0;
    int32_t date = 0;  // days since 1970-01-01
    int32_t lines = 0;
    int64_t clerk = 0;
    std::string_view priority;
    std::string_view comment;
};

struct TpchLine {
    int64_t part = 0;
    int64_t supplier = 0;
    int64_t quantity = 0;  // units
    int64_t price = 0;     // hundredths, as discount and tax
    int64_t discount = 0;
    int64_t tax = 0;
    int32_t ship_date = 0;
    int32_t commit_date = 0;
    int32_t receipt_date = 0;
    bool shipped = false;  // by the current date of the specification
    std::string_view return_flag;
    std::string_view instruction;
    std::string_view mode;
    std::string_view comment;

    // What the order pays for the line, in hundredths; rounds down after each step.
    int64_t charge() const { return price * (100 - discount) / 100 * (100 + tax) / 100; }
    std::string_view status() const { return shipped ? "F" : "O"; }
};

class TpchRows {
  public:
    TpchRows(double scale, uint64_t seed);
    const TpchSizes& sizes() const { return sizes_; }
    int32_t line_count(int64_t order) const {
        return 1 + static_cast<int32_t>(random_below(random64(count_stream_, static_cast<uint64_t>(order)), 7));
    }
    TpchOrder order(int64_t number) const;
    TpchLine line(const TpchOrder& order, int32_t line) const;

    static constexpr uint32_t kStatusBytesMax = 1;
    static constexpr uint32_t kPriorityBytesMax = 15;
    static constexpr uint32_t kClerkBytes = 15;
    static constexpr uint32_t kOrderCommentBytesMax = 78;
    static constexpr uint32_t kInstructionBytesMax = 17;
    static constexpr uint32_t kModeBytesMax = 7;
    static constexpr uint32_t kLineCommentBytesMax = 43;

  private:
    const TpchSizes sizes_;
    const uint64_t count_stream_;
    const uint64_t order_stream_;
    const uint64_t line_stream_;
};

}  // namespace spillway
