// SPDX-License-Identifier: Apache-2.0
#include "generate/tpch_rows.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "generate/text_pool.hpp"

namespace spillway {

namespace {

// Days since 1970-01-01.
constexpr int32_t kFirstOrderDate = 8035;  // 1992-01-01
constexpr int32_t kLastOrderDate = 10440;  // 1998-08-02: 151 days before the end of 1998
constexpr int32_t kCurrentDate = 9298;     // 1995-06-17
constexpr int64_t kSuppliersPerPart = 4;

constexpr std::array<std::string_view, 5> kPriorities = {"1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW"};
constexpr std::array<std::string_view, 4> kInstructions = {"DELIVER IN PERSON", "COLLECT COD", "NONE",
                                                           "TAKE BACK RETURN"};
constexpr std::array<std::string_view, 7> kModes = {"REG AIR", "AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB"};

enum TpchPurpose : uint64_t { kCountStream = 101, kOrderStream, kLineStream };

int64_t scaled(double scale, double per_unit, int64_t at_least) {
    return std::max<int64_t>(at_least, std::llround(scale * per_unit));
}

template <size_t Size>
std::string_view pick(const std::array<std::string_view, Size>& values, RandomSequence& random) {
    return values[random_below(random.next(), Size)];
}

std::string_view text(RandomSequence& random, uint32_t length_min, uint32_t length_max) {
    const auto length = static_cast<uint32_t>(random.between(length_min, length_max));
    return {TextPool::instance().piece(random.next(), length), length};
}

int64_t retail_price(int64_t part) {
    return 90000 + part / 10 % 20001 + 100 * (part % 1000);
}

}  // namespace

TpchSizes::TpchSizes(double scale)
    : orders(scaled(scale, 1'500'000, 1)),
      customers(scaled(scale, 150'000, 3)),
      parts(scaled(scale, 200'000, 1)),
      suppliers(scaled(scale, 10'000, 1)),
      clerks(scaled(scale, 1'000, 1)) {}

TpchRows::TpchRows(double scale, uint64_t seed)
    : sizes_(scale),
      count_stream_(random_stream(seed, kCountStream)),
      order_stream_(random_stream(seed, kOrderStream)),
      line_stream_(random_stream(seed, kLineStream)) {}

TpchOrder TpchRows::order(int64_t number) const {
    RandomSequence random(order_stream_, static_cast<uint64_t>(number));
    TpchOrder order;
    order.key = ((number >> 3) << 5) | (number & 7);
    // Every third customer has no order.
    const int64_t with_orders = sizes_.customers - sizes_.customers / 3;
    const int64_t customer = random.between(0, with_orders - 1);
    order.customer = customer / 2 * 3 + customer % 2 + 1;
    order.date = static_cast<int32_t>(random.between(kFirstOrderDate, kLastOrderDate));
    order.lines = line_count(number);
    order.clerk = random.between(1, sizes_.clerks);
    order.priority = pick(kPriorities, random);
    order.comment = text(random, 19, kOrderCommentBytesMax);
    return order;
}

TpchLine TpchRows::line(const TpchOrder& order, int32_t number) const {
    RandomSequence random(line_stream_, static_cast<uint64_t>(order.key) * 8 + static_cast<uint64_t>(number));
    TpchLine line;
    line.part = random.between(1, sizes_.parts);
    const int64_t nth = random.between(0, kSuppliersPerPart - 1);
    const int64_t step = sizes_.suppliers / kSuppliersPerPart + (line.part - 1) / sizes_.suppliers;
    line.supplier = (line.part + nth * step) % sizes_.suppliers + 1;
    line.quantity = random.between(1, 50);
    line.price = line.quantity * retail_price(line.part);
    line.discount = random.between(0, 10);
    line.tax = random.between(0, 8);
    line.ship_date = order.date + static_cast<int32_t>(random.between(1, 121));
    line.commit_date = order.date + static_cast<int32_t>(random.between(30, 90));
    line.receipt_date = line.ship_date + static_cast<int32_t>(random.between(1, 30));
    line.shipped = line.ship_date <= kCurrentDate;
    const bool returnable = line.receipt_date <= kCurrentDate;
    line.return_flag = !returnable ? "N" : (random.next() >> 63 != 0 ? "R" : "A");
    line.instruction = pick(kInstructions, random);
    line.mode = pick(kModes, random);
    line.comment = text(random, 10, kLineCommentBytesMax);
    return line;
}

}  // namespace spillway
