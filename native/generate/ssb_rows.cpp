// SPDX-License-Identifier: Apache-2.0
#include "generate/ssb_rows.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "generate/order_rules.hpp"
#include "generate/vocabularies.hpp"

namespace spillway {

namespace {

enum SsbPurpose : uint64_t {
    kSsbCountStream = 201,
    kSsbOrderStream,
    kSsbLineStream,
    kSsbCustomerStream,
    kSsbSupplierStream,
    kSsbPartStream
};

// 200,000 more with each doubling of the scale.
int64_t part_count(double scale) {
    return scale < 1 ? scaled_count(scale, 200'000, 1) : int64_t{200'000} * (1 + std::ilogb(scale));
}

SsbParty draw_party(RandomSequence& random) {
    SsbParty party{.contact = Contact(random, SsbRows::kAddressBytesMax)};
    const auto digit = static_cast<uint32_t>(random_below(random.next(), SsbVocabularies::kCitiesOfNation));
    party.city = static_cast<uint32_t>(party.contact.nation) * SsbVocabularies::kCitiesOfNation + digit;
    return party;
}

// The paper names Christmas and leaves the other seasons and the holidays open; these are those of its own generator.
uint32_t season_of(int32_t month) {
    if (month <= 3) return kWinter;
    if (month == 4) return kSpring;
    if (month <= 8) return kSummer;
    return month <= 10 ? kFall : kChristmas;
}

bool is_holiday(int32_t month, int32_t day) {
    constexpr std::pair<int32_t, int32_t> kHolidays[] = {{1, 1}, {2, 20}, {4, 20},  {5, 10},  {5, 31},
                                                         {7, 4}, {9, 1},  {10, 31}, {11, 19}, {12, 24}};
    return std::find(std::begin(kHolidays), std::end(kHolidays), std::pair(month, day)) != std::end(kHolidays);
}

}  // namespace

SsbSizes::SsbSizes(double scale)
    : orders(scaled_count(scale, 1'500'000, 1)),
      customers(scaled_count(scale, 30'000, 3)),
      parts(part_count(scale)),
      suppliers(scaled_count(scale, 2'000, 1)) {}

int32_t SsbLine::supply_cost() const {
    return static_cast<int32_t>(retail_price(part) * 6 / 10);
}

SsbRows::SsbRows(double scale, uint64_t seed)
    : sizes_(scale),
      seed_(seed),
      count_stream_(random_stream(seed, kSsbCountStream)),
      order_stream_(random_stream(seed, kSsbOrderStream)),
      line_stream_(random_stream(seed, kSsbLineStream)) {}

RandomSequence SsbRows::sequence(uint64_t purpose, int64_t number) const {
    return {random_stream(seed_, purpose), static_cast<uint64_t>(number)};
}

int32_t SsbRows::line_count(int64_t order) const {
    return draw_line_count(count_stream_, order);
}

SsbOrder SsbRows::order(int64_t number) const {
    RandomSequence random(order_stream_, static_cast<uint64_t>(number));
    SsbOrder order;
    order.key = order_key(number);
    order.customer = draw_customer(random, sizes_.customers);
    order.day = static_cast<int32_t>(random.between(kFirstOrderDate, kLastOrderDate));
    order.lines = line_count(number);
    order.priority = TpchVocabularies::instance().priorities.draw(random);
    return order;
}

SsbLine SsbRows::line(const SsbOrder& order, int32_t number) const {
    RandomSequence random(line_stream_, static_cast<uint64_t>(order.key) * 8 + static_cast<uint64_t>(number));
    SsbLine line;
    line.part = random.between(1, sizes_.parts);
    line.supplier = random.between(1, sizes_.suppliers);
    line.quantity = static_cast<int32_t>(random.between(1, 50));
    line.price = static_cast<int32_t>(line.quantity * retail_price(line.part));
    line.discount = static_cast<int32_t>(random.between(0, 10));
    line.tax = static_cast<int32_t>(random.between(0, 8));
    line.commit_day = order.day + static_cast<int32_t>(random.between(30, 90));
    line.mode = TpchVocabularies::instance().modes.draw(random);
    return line;
}

SsbParty SsbRows::customer(int64_t number) const {
    RandomSequence random = sequence(kSsbCustomerStream, number);
    SsbParty customer = draw_party(random);
    customer.segment = TpchVocabularies::instance().segments.draw(random);
    return customer;
}

SsbParty SsbRows::supplier(int64_t number) const {
    RandomSequence random = sequence(kSsbSupplierStream, number);
    return draw_party(random);
}

SsbPart SsbRows::part(int64_t number) const {
    RandomSequence random = sequence(kSsbPartStream, number);
    const TpchVocabularies& words = TpchVocabularies::instance();
    const SsbVocabularies& own = SsbVocabularies::instance();
    SsbPart part;
    const auto colors = draw_different<kPartWords + 1>(random, words.colors);
    part.color = colors[kPartWords];
    for (uint32_t i = 0; i < kPartWords; ++i) part.name.add(words.colors[colors[i]]);
    part.brand = own.brands.draw(random);
    part.category = part.brand / (own.brands.size() / own.categories.size());
    part.manufacturer = part.category / (own.categories.size() / own.manufacturers.size());
    part.type = words.part_types.draw(random);
    part.size = static_cast<int32_t>(random.between(1, 50));
    part.container = words.containers.draw(random);
    return part;
}

SsbDay::SsbDay(int32_t day) {
    using namespace std::chrono;
    const sys_days when{days{day}};
    const year_month_day date{when};
    year = static_cast<int32_t>(date.year());
    month = static_cast<int32_t>(static_cast<unsigned>(date.month()));
    day_of_month = static_cast<int32_t>(static_cast<unsigned>(date.day()));
    day_of_week = 1 + static_cast<int32_t>(weekday{when}.c_encoding());
    day_of_year = 1 + static_cast<int32_t>((when - sys_days{date.year() / January / 1}).count());
    season = season_of(month);
    last_in_month = date == year_month_day{date.year() / date.month() / last};
    holiday = is_holiday(month, day_of_month);
}

}  // namespace spillway
