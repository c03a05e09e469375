// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "generate/order_rules.hpp"
#include "generate/permutation.hpp"
#include "generate/random.hpp"
#include "generate/row_text.hpp"

namespace spillway {

// Column rules of the TPC-H specification, clause 4.2.3. Row (or order) number n of a table, from 1 on, is a function
// of (seed, n), and a line of (seed, n, line), so tables can be made independently, in any order, and agree. Numbers of
// words are those of TpchVocabularies.

struct TpchSizes {
    explicit TpchSizes(double scale);
    int64_t orders;
    int64_t customers;
    int64_t parts;
    int64_t suppliers;
    int64_t clerks;
    int64_t complaints;  // suppliers that their customers complain of; as many are recommended
};

struct TpchSupplier {
    Contact contact;
    int64_t balance = 0;  // hundredths, as every amount
    std::array<char, 100> comment_bytes{};
    uint32_t comment_size = 0;
    std::string_view comment() const { return {comment_bytes.data(), comment_size}; }
};

struct TpchCustomer {
    Contact contact;
    int64_t balance = 0;
    uint32_t segment = 0;
    std::string_view comment{};
};

struct TpchPart {
    Phrase name;
    uint32_t manufacturer = 0;
    uint32_t brand = 0;
    uint32_t type = 0;
    int32_t size = 0;
    uint32_t container = 0;
    std::string_view comment;
};

struct TpchPartSupplier {
    int64_t supplier = 0;
    int32_t available = 0;
    int64_t cost = 0;
    std::string_view comment;
};

struct TpchOrder {
    int64_t key = 0;
    int64_t customer = 0;
    int32_t date = 0;  // days since 1970-01-01
    int32_t lines = 0;
    int64_t clerk = 0;
    uint32_t priority = 0;
    std::string_view comment;
};

struct TpchLine {
    int64_t part = 0;
    int64_t supplier = 0;
    int64_t quantity = 0;  // units
    int64_t price = 0;
    int64_t discount = 0;
    int64_t tax = 0;
    int32_t ship_date = 0;
    int32_t commit_date = 0;
    int32_t receipt_date = 0;
    bool shipped = false;  // by the current date of the specification
    uint32_t return_flag = 0;
    uint32_t instruction = 0;
    uint32_t mode = 0;
    std::string_view comment;

    // What the order pays for the line; rounds down after each step.
    int64_t charge() const { return price * (100 - discount) / 100 * (100 + tax) / 100; }
    uint32_t status() const { return shipped ? kLineFilled : kLineOpen; }
};

class TpchRows {
  public:
    TpchRows(double scale, uint64_t seed);
    const TpchSizes& sizes() const { return sizes_; }
    int32_t line_count(int64_t order) const { return draw_line_count(count_stream_, order); }
    TpchOrder order(int64_t number) const;
    TpchLine line(const TpchOrder& order, int32_t line) const;
    TpchSupplier supplier(int64_t number) const;
    TpchCustomer customer(int64_t number) const;
    TpchPart part(int64_t number) const;
    // The suppliers of a part have the numbers 0 .. 3; a line draws one of them.
    TpchPartSupplier part_supplier(int64_t part, int64_t nth) const;
    std::string_view nation_comment(int64_t nation) const;
    std::string_view region_comment(int64_t region) const;

    static constexpr int64_t kSuppliersPerPart = 4;
    static constexpr uint32_t kPartWords = 5;
    static constexpr uint32_t kOrderCommentBytesMax = 78;
    static constexpr uint32_t kLineCommentBytesMax = 43;
    static constexpr uint32_t kSupplierCommentBytesMax = 100;
    static constexpr uint32_t kCustomerCommentBytesMax = 116;
    static constexpr uint32_t kPartCommentBytesMax = 22;
    static constexpr uint32_t kPartSupplierCommentBytesMax = 198;
    static constexpr uint32_t kNationCommentBytesMax = 114;
    static constexpr uint32_t kRegionCommentBytesMax = 115;

  private:
    RandomSequence sequence(uint64_t purpose, int64_t number) const;
    int64_t supplier_of(int64_t part, int64_t nth) const;

    const TpchSizes sizes_;
    const uint64_t seed_;
    const uint64_t count_stream_;
    const uint64_t order_stream_;
    const uint64_t line_stream_;
    const Permutation judged_;  // of suppliers: those whose comments tell what customers think
};

}  // namespace spillway
