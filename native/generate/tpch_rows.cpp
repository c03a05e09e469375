// SPDX-License-Identifier: Apache-2.0
#include "generate/tpch_rows.hpp"

#include <cstring>

#include "generate/vocabularies.hpp"

namespace spillway {

namespace {

constexpr int32_t kCurrentDate = 9298;  // 1995-06-17, in days since 1970-01-01

enum TpchPurpose : uint64_t {
    kCountStream = 101,
    kOrderStream,
    kLineStream,
    kSupplierStream,
    kCustomerStream,
    kPartStream,
    kPartSupplierStream,
    kNationStream,
    kRegionStream,
    kJudgedStream
};

int64_t draw_balance(RandomSequence& random) {
    return random.between(-99'999, 999'999);
}

// Puts "Customer" and behind it the word over two places of a comment, as the specification has it.
void write_judgement(TpchSupplier& supplier, std::string_view word, RandomSequence& random) {
    constexpr std::string_view kWho = "Customer";
    const auto room = static_cast<int64_t>(supplier.comment_size - kWho.size() - word.size());
    const int64_t who = random.between(0, room);
    const int64_t what = random.between(who, room) + static_cast<int64_t>(kWho.size());
    std::memcpy(supplier.comment_bytes.data() + who, kWho.data(), kWho.size());
    std::memcpy(supplier.comment_bytes.data() + what, word.data(), word.size());
}

}  // namespace

TpchSizes::TpchSizes(double scale)
    : orders(scaled_count(scale, 1'500'000, 1)),
      customers(scaled_count(scale, 150'000, 3)),
      parts(scaled_count(scale, 200'000, 1)),
      suppliers(scaled_count(scale, 10'000, 1)),
      clerks(scaled_count(scale, 1'000, 1)),
      complaints(scaled_count(scale, 5, 0)) {}

TpchRows::TpchRows(double scale, uint64_t seed)
    : sizes_(scale),
      seed_(seed),
      count_stream_(random_stream(seed, kCountStream)),
      order_stream_(random_stream(seed, kOrderStream)),
      line_stream_(random_stream(seed, kLineStream)),
      judged_(static_cast<uint64_t>(sizes_.suppliers), random_stream(seed, kJudgedStream)) {}

RandomSequence TpchRows::sequence(uint64_t purpose, int64_t number) const {
    return {random_stream(seed_, purpose), static_cast<uint64_t>(number)};
}

int64_t TpchRows::supplier_of(int64_t part, int64_t nth) const {
    const int64_t step = sizes_.suppliers / kSuppliersPerPart + (part - 1) / sizes_.suppliers;
    return (part + nth * step) % sizes_.suppliers + 1;
}

TpchOrder TpchRows::order(int64_t number) const {
    RandomSequence random(order_stream_, static_cast<uint64_t>(number));
    TpchOrder order;
    order.key = order_key(number);
    order.customer = draw_customer(random, sizes_.customers);
    order.date = static_cast<int32_t>(random.between(kFirstOrderDate, kLastOrderDate));
    order.lines = line_count(number);
    order.clerk = random.between(1, sizes_.clerks);
    order.priority = TpchVocabularies::instance().priorities.draw(random);
    order.comment = draw_text(random, 19, kOrderCommentBytesMax);
    return order;
}

TpchLine TpchRows::line(const TpchOrder& order, int32_t number) const {
    RandomSequence random(line_stream_, static_cast<uint64_t>(order.key) * 8 + static_cast<uint64_t>(number));
    const TpchVocabularies& words = TpchVocabularies::instance();
    TpchLine line;
    line.part = random.between(1, sizes_.parts);
    line.supplier = supplier_of(line.part, random.between(0, kSuppliersPerPart - 1));
    line.quantity = random.between(1, 50);
    line.price = line.quantity * retail_price(line.part);
    line.discount = random.between(0, 10);
    line.tax = random.between(0, 8);
    line.ship_date = order.date + static_cast<int32_t>(random.between(1, 121));
    line.commit_date = order.date + static_cast<int32_t>(random.between(30, 90));
    line.receipt_date = line.ship_date + static_cast<int32_t>(random.between(1, 30));
    line.shipped = line.ship_date <= kCurrentDate;
    const bool returnable = line.receipt_date <= kCurrentDate;
    line.return_flag = !returnable ? kNotReturned : (random.next() >> 63 != 0 ? kReturned : kAccepted);
    line.instruction = words.instructions.draw(random);
    line.mode = words.modes.draw(random);
    line.comment = draw_text(random, 10, kLineCommentBytesMax);
    return line;
}

TpchSupplier TpchRows::supplier(int64_t number) const {
    RandomSequence random = sequence(kSupplierStream, number);
    TpchSupplier supplier{.contact = Contact(random, Contact::kAddressBytesMax)};
    supplier.balance = draw_balance(random);
    const std::string_view comment = draw_text(random, 25, kSupplierCommentBytesMax);
    std::memcpy(supplier.comment_bytes.data(), comment.data(), comment.size());
    supplier.comment_size = static_cast<uint32_t>(comment.size());
    const auto rank = static_cast<int64_t>(judged_(static_cast<uint64_t>(number - 1)));
    if (rank < sizes_.complaints) {
        write_judgement(supplier, "Complaints", random);
    } else if (rank < 2 * sizes_.complaints) {
        write_judgement(supplier, "Recommends", random);
    }
    return supplier;
}

TpchCustomer TpchRows::customer(int64_t number) const {
    RandomSequence random = sequence(kCustomerStream, number);
    TpchCustomer customer{.contact = Contact(random, Contact::kAddressBytesMax)};
    customer.balance = draw_balance(random);
    customer.segment = TpchVocabularies::instance().segments.draw(random);
    customer.comment = draw_text(random, 29, kCustomerCommentBytesMax);
    return customer;
}

TpchPart TpchRows::part(int64_t number) const {
    RandomSequence random = sequence(kPartStream, number);
    const TpchVocabularies& words = TpchVocabularies::instance();
    TpchPart part;
    for (const uint32_t color : draw_different<kPartWords>(random, words.colors)) part.name.add(words.colors[color]);
    part.brand = words.brands.draw(random);
    part.manufacturer = part.brand / (words.brands.size() / words.manufacturers.size());
    part.type = words.part_types.draw(random);
    part.size = static_cast<int32_t>(random.between(1, 50));
    part.container = words.containers.draw(random);
    part.comment = draw_text(random, 5, kPartCommentBytesMax);
    return part;
}

TpchPartSupplier TpchRows::part_supplier(int64_t part, int64_t nth) const {
    RandomSequence random = sequence(kPartSupplierStream, (part - 1) * kSuppliersPerPart + nth);
    TpchPartSupplier offer;
    offer.supplier = supplier_of(part, nth);
    offer.available = static_cast<int32_t>(random.between(1, 9999));
    offer.cost = random.between(100, 100'000);
    offer.comment = draw_text(random, 49, kPartSupplierCommentBytesMax);
    return offer;
}

std::string_view TpchRows::nation_comment(int64_t nation) const {
    RandomSequence random = sequence(kNationStream, nation);
    return draw_text(random, 31, kNationCommentBytesMax);
}

std::string_view TpchRows::region_comment(int64_t region) const {
    RandomSequence random = sequence(kRegionStream, region);
    return draw_text(random, 31, kRegionCommentBytesMax);
}

}  // namespace spillway
