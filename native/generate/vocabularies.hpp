// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "generate/random.hpp"

namespace spillway {

// A closed list of texts that a column draws its values from. Rows know the number of a text, which is its index in
// the dictionary where the column has one: no text is compared.
class Vocabulary {
  public:
    explicit Vocabulary(std::vector<std::string> words);
    std::string_view operator[](uint32_t word) const { return words_[word]; }
    uint32_t size() const { return static_cast<uint32_t>(words_.size()); }
    uint32_t longest() const { return longest_; }  // bytes
    uint32_t draw(RandomSequence& random) const {
        return static_cast<uint32_t>(random_below(random.next(), words_.size()));
    }

  private:
    std::vector<std::string> words_;
    uint32_t longest_ = 0;
};

// The lists of clause 4.2.2.13 of the TPC-H specification and of the tables of nations and regions in 4.2.3.
struct TpchVocabularies {
    static const TpchVocabularies& instance();

    const Vocabulary regions;
    const Vocabulary nations;
    const Vocabulary segments;
    const Vocabulary manufacturers;
    const Vocabulary brands;  // five of each manufacturer: number m * 5 + n
    const Vocabulary part_types;
    const Vocabulary containers;
    const Vocabulary colors;
    const Vocabulary order_statuses;
    const Vocabulary priorities;
    const Vocabulary return_flags;
    const Vocabulary line_statuses;
    const Vocabulary instructions;
    const Vocabulary modes;

  private:
    TpchVocabularies();
};

// Those of the Star Schema Benchmark that TPC-H does not have.
struct SsbVocabularies {
    static constexpr int32_t kFirstYear = 1992;
    static constexpr int32_t kYears = 7;
    static constexpr uint32_t kCitiesOfNation = 10;

    static const SsbVocabularies& instance();

    const Vocabulary manufacturers;
    const Vocabulary categories;  // five of each manufacturer
    const Vocabulary brands;      // forty of each category
    const Vocabulary cities;      // number n * kCitiesOfNation + digit
    const Vocabulary ship_priorities;
    const Vocabulary days;  // Sunday first
    const Vocabulary months;
    const Vocabulary year_months;  // of all years, in order
    const Vocabulary seasons;

  private:
    SsbVocabularies();
};

enum SellingSeason : uint32_t { kWinter, kSpring, kSummer, kFall, kChristmas };
enum OrderStatus : uint32_t { kOrderFilled, kOrderOpen, kOrderPartial };
enum LineStatus : uint32_t { kLineFilled, kLineOpen };
enum ReturnFlag : uint32_t { kAccepted, kNotReturned, kReturned };

int32_t region_of_nation(int32_t nation);

}  // namespace spillway
