// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "generate/random.hpp"
#include "generate/row_text.hpp"

namespace spillway {

// Column rules of the Star Schema Benchmark (O'Neil, O'Neil, Chen: "Star Schema Benchmark", revision 3, 2009). Row (or
// order) number n of a table, from 1 on, is a function of (seed, n), and a line of (seed, n, line). Amounts are whole
// cents. Numbers of words are those of SsbVocabularies or, where that has no such list, of TpchVocabularies.

struct SsbSizes {
    explicit SsbSizes(double scale);
    int64_t orders;
    int64_t customers;
    int64_t parts;
    int64_t suppliers;
};

// A customer or a supplier, who have the same columns but for the market segment.
struct SsbParty {
    Contact contact;
    uint32_t city = 0;     // ten of each nation: number n * 10 + digit
    uint32_t segment = 0;  // customers only
};

struct SsbPart {
    Phrase name;
    uint32_t color = 0;
    uint32_t manufacturer = 0;
    uint32_t category = 0;  // five of each manufacturer
    uint32_t brand = 0;     // forty of each category
    uint32_t type = 0;
    int32_t size = 0;
    uint32_t container = 0;
};

struct SsbOrder {
    int64_t key = 0;
    int64_t customer = 0;
    int32_t day = 0;  // days since 1970-01-01
    int32_t lines = 0;
    uint32_t priority = 0;
};

struct SsbLine {
    int64_t part = 0;
    int64_t supplier = 0;
    int32_t quantity = 0;
    int32_t price = 0;  // of the quantity
    int32_t discount = 0;
    int32_t tax = 0;
    int32_t commit_day = 0;
    uint32_t mode = 0;

    int32_t revenue() const { return static_cast<int32_t>(int64_t{price} * (100 - discount) / 100); }
    int32_t charge() const { return static_cast<int32_t>(int64_t{revenue()} * (100 + tax) / 100); }
    // Of one piece: three fifths of what it is sold for.
    int32_t supply_cost() const;
};

class SsbRows {
  public:
    SsbRows(double scale, uint64_t seed);
    const SsbSizes& sizes() const { return sizes_; }
    int32_t line_count(int64_t order) const;
    SsbOrder order(int64_t number) const;
    SsbLine line(const SsbOrder& order, int32_t line) const;
    SsbParty customer(int64_t number) const;
    SsbParty supplier(int64_t number) const;
    SsbPart part(int64_t number) const;

    static constexpr uint32_t kAddressBytesMax = 25;
    static constexpr uint32_t kPartWords = 2;

  private:
    RandomSequence sequence(uint64_t purpose, int64_t number) const;

    const SsbSizes sizes_;
    const uint64_t seed_;
    const uint64_t count_stream_;
    const uint64_t order_stream_;
    const uint64_t line_stream_;
};

// One day of the calendar that the table `date` holds: every day of 1992 to 1998.
struct SsbDay {
    explicit SsbDay(int32_t day);  // days since 1970-01-01

    static constexpr int32_t kFirst = 8035;  // 1992-01-01
    static constexpr int32_t kCount = 2557;

    int32_t key() const { return (year * 100 + month) * 100 + day_of_month; }  // 19980802

    int32_t year;
    int32_t month;         // 1 .. 12
    int32_t day_of_month;  // 1 .. 31
    int32_t day_of_week;   // 1 = Sunday .. 7
    int32_t day_of_year;   // 1 .. 366
    uint32_t season;       // of SsbVocabularies::seasons
    bool last_in_month;
    bool holiday;
};

}  // namespace spillway
