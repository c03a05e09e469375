// SPDX-License-Identifier: Apache-2.0
#include "generate/ssb_tables.hpp"

#include <array>
#include <memory>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "generate/column_writer.hpp"
#include "generate/ssb_rows.hpp"

namespace spillway {

namespace {

const SsbVocabularies& ssb_words() {
    return SsbVocabularies::instance();
}
const TpchVocabularies& common_words() {
    return TpchVocabularies::instance();
}

void fill_lineorder(const SsbRows& rows, int64_t first, int64_t count, OutputBatch& out) {
    auto& columns = out.columns;
    ValueWriter key(columns[0]), line_number(columns[1]), customer(columns[2]), part(columns[3]), supplier(columns[4]),
        order_date(columns[5]), quantity(columns[8]), price(columns[9]), total_price(columns[10]),
        discount(columns[11]), revenue(columns[12]), cost(columns[13]), tax(columns[14]), commit_date(columns[15]);
    WordWriter priority(columns[6], common_words().priorities), ship_priority(columns[7], ssb_words().ship_priorities),
        mode(columns[16], common_words().modes);
    std::array<SsbLine, kLinesMax> lines;
    for (int64_t i = first + 1; i <= first + count; ++i) {
        const SsbOrder order = rows.order(i);
        const int32_t order_day = SsbDay(order.day).key();
        int32_t total = 0;
        for (int32_t number = 1; number <= order.lines; ++number) {
            const SsbLine& line = lines[static_cast<size_t>(number - 1)] = rows.line(order, number);
            total += line.charge();
        }
        for (int32_t number = 1; number <= order.lines; ++number) {
            const SsbLine& line = lines[static_cast<size_t>(number - 1)];
            key.put(order.key);
            line_number.put(number);
            customer.put(order.customer);
            part.put(line.part);
            supplier.put(line.supplier);
            order_date.put(order_day);
            priority.put(order.priority);
            ship_priority.put(0);
            quantity.put(line.quantity);
            price.put(line.price);
            total_price.put(total);
            discount.put(line.discount);
            revenue.put(line.revenue());
            cost.put(line.supply_cost());
            tax.put(line.tax);
            commit_date.put(SsbDay(line.commit_day).key());
            mode.put(line.mode);
        }
    }
    finish_texts(priority, ship_priority, mode);
}

void fill_ssb_customers(const SsbRows& rows, int64_t first, int64_t count, OutputBatch& out) {
    auto& columns = out.columns;
    ValueWriter key(columns[0]);
    TextWriter name(columns[1]), address(columns[2]), phone(columns[6]);
    WordWriter city(columns[3], ssb_words().cities), nation(columns[4], common_words().nations),
        region(columns[5], common_words().regions), segment(columns[7], common_words().segments);
    for (int64_t number = first + 1; number <= first + count; ++number) {
        const SsbParty customer = rows.customer(number);
        key.put(number);
        name.append(NumberedName("Customer#", number));
        address.append(customer.contact.address());
        city.put(customer.city);
        nation.put(static_cast<uint32_t>(customer.contact.nation));
        region.put(static_cast<uint32_t>(region_of_nation(customer.contact.nation)));
        phone.append(customer.contact.phone());
        segment.put(customer.segment);
    }
    finish_texts(name, address, city, nation, region, phone, segment);
}

void fill_ssb_suppliers(const SsbRows& rows, int64_t first, int64_t count, OutputBatch& out) {
    auto& columns = out.columns;
    ValueWriter key(columns[0]);
    TextWriter name(columns[1]), address(columns[2]), phone(columns[6]);
    WordWriter city(columns[3], ssb_words().cities), nation(columns[4], common_words().nations),
        region(columns[5], common_words().regions);
    for (int64_t number = first + 1; number <= first + count; ++number) {
        const SsbParty supplier = rows.supplier(number);
        key.put(number);
        name.append(NumberedName("Supplier#", number));
        address.append(supplier.contact.address());
        city.put(supplier.city);
        nation.put(static_cast<uint32_t>(supplier.contact.nation));
        region.put(static_cast<uint32_t>(region_of_nation(supplier.contact.nation)));
        phone.append(supplier.contact.phone());
    }
    finish_texts(name, address, city, nation, region, phone);
}

void fill_ssb_parts(const SsbRows& rows, int64_t first, int64_t count, OutputBatch& out) {
    auto& columns = out.columns;
    ValueWriter key(columns[0]), size(columns[7]);
    TextWriter name(columns[1]);
    WordWriter manufacturer(columns[2], ssb_words().manufacturers), category(columns[3], ssb_words().categories),
        brand(columns[4], ssb_words().brands), color(columns[5], common_words().colors),
        type(columns[6], common_words().part_types), container(columns[8], common_words().containers);
    for (int64_t number = first + 1; number <= first + count; ++number) {
        const SsbPart part = rows.part(number);
        key.put(number);
        name.append(part.name);
        manufacturer.put(part.manufacturer);
        category.put(part.category);
        brand.put(part.brand);
        color.put(part.color);
        type.put(part.type);
        size.put(part.size);
        container.put(part.container);
    }
    finish_texts(name, manufacturer, category, brand, color, type, container);
}

void fill_days(int64_t first, int64_t count, OutputBatch& out) {
    auto& columns = out.columns;
    ValueWriter key(columns[0]), year(columns[4]), year_month_number(columns[5]), day_in_week(columns[7]),
        day_in_month(columns[8]), day_in_year(columns[9]), month_in_year(columns[10]), week_in_year(columns[11]);
    TextWriter text(columns[1]);
    WordWriter day_of_week(columns[2], ssb_words().days), month(columns[3], ssb_words().months),
        year_month(columns[6], ssb_words().year_months), season(columns[12], ssb_words().seasons);
    BitWriter last_in_week(columns[13]), last_in_month(columns[14]), holiday(columns[15]), weekday(columns[16]);
    for (int64_t i = first; i < first + count; ++i) {
        const SsbDay day(SsbDay::kFirst + static_cast<int32_t>(i));
        const auto month_word = static_cast<uint32_t>(day.month - 1);
        const auto years = static_cast<uint32_t>(day.year - SsbVocabularies::kFirstYear);
        const std::string month_name(ssb_words().months[month_word]);
        key.put(day.key());
        text.append(month_name + " " + std::to_string(day.day_of_month) + ", " + std::to_string(day.year));
        day_of_week.put(static_cast<uint32_t>(day.day_of_week - 1));
        month.put(month_word);
        year.put(day.year);
        year_month_number.put(day.year * 100 + day.month);
        year_month.put(years * ssb_words().months.size() + month_word);
        day_in_week.put(day.day_of_week);
        day_in_month.put(day.day_of_month);
        day_in_year.put(day.day_of_year);
        month_in_year.put(day.month);
        week_in_year.put((day.day_of_year - 1) / 7 + 1);
        season.put(day.season);
        last_in_week.put(day.day_of_week == 7);
        last_in_month.put(day.last_in_month);
        holiday.put(day.holiday);
        weekday.put(day.day_of_week != 1 && day.day_of_week != 7);
    }
    finish_texts(text, day_of_week, month, year_month, season);
}

std::vector<TableColumn> lineorder_columns() {
    return {int64_of("lo_orderkey"),
            int32_of("lo_linenumber"),
            int64_of("lo_custkey"),
            int64_of("lo_partkey"),
            int64_of("lo_suppkey"),
            int32_of("lo_orderdate"),
            word_of("lo_orderpriority", common_words().priorities),
            word_of("lo_shippriority", ssb_words().ship_priorities),
            int32_of("lo_quantity"),
            int32_of("lo_extendedprice"),
            int32_of("lo_ordtotalprice"),
            int32_of("lo_discount"),
            int32_of("lo_revenue"),
            int32_of("lo_supplycost"),
            int32_of("lo_tax"),
            int32_of("lo_commitdate"),
            word_of("lo_shipmode", common_words().modes)};
}

std::vector<TableColumn> party_columns(const std::string& letter, const std::string& key, std::string_view prefix,
                                       int64_t count) {
    return {int64_of(letter + key),
            text_of(letter + "_name", NumberedName::bytes_max(prefix, count)),
            text_of(letter + "_address", SsbRows::kAddressBytesMax),
            word_of(letter + "_city", ssb_words().cities),
            word_of(letter + "_nation", common_words().nations),
            word_of(letter + "_region", common_words().regions),
            text_of(letter + "_phone", Contact::kPhoneBytes)};
}

std::vector<TableColumn> ssb_part_columns() {
    return {int64_of("p_partkey"),
            text_of("p_name", Phrase::bytes_max(common_words().colors, SsbRows::kPartWords)),
            word_of("p_mfgr", ssb_words().manufacturers),
            word_of("p_category", ssb_words().categories),
            word_of("p_brand1", ssb_words().brands),
            word_of("p_color", common_words().colors),
            word_of("p_type", common_words().part_types),
            int32_of("p_size"),
            word_of("p_container", common_words().containers)};
}

std::vector<TableColumn> date_columns() {
    constexpr uint32_t kDateBytesMax = 18;  // "September 30, 1998"
    return {int32_of("d_datekey"),
            text_of("d_date", kDateBytesMax),
            word_of("d_dayofweek", ssb_words().days),
            word_of("d_month", ssb_words().months),
            int32_of("d_year"),
            int32_of("d_yearmonthnum"),
            word_of("d_yearmonth", ssb_words().year_months),
            int32_of("d_daynuminweek"),
            int32_of("d_daynuminmonth"),
            int32_of("d_daynuminyear"),
            int32_of("d_monthnuminyear"),
            int32_of("d_weeknuminyear"),
            word_of("d_sellingseason", ssb_words().seasons),
            bool_of("d_lastdayinweekfl"),
            bool_of("d_lastdayinmonthfl"),
            bool_of("d_holidayfl"),
            bool_of("d_weekdayfl")};
}

using SharedSsbRows = std::shared_ptr<const SsbRows>;
using FillSsbRows = void (*)(const SsbRows& rows, int64_t first, int64_t count, OutputBatch& out);

TableRecipe plain_ssb_table(std::vector<TableColumn> columns, int64_t count, const SharedSsbRows& rows,
                            FillSsbRows fill) {
    return TableRecipe::of_rows(
        std::move(columns), count,
        [rows, fill](int64_t first, int64_t units, OutputBatch& out) { fill(*rows, first, units, out); });
}

TableRecipe lineorder_table(const SharedSsbRows& rows) {
    const auto lines_of = [rows](int64_t number) { return rows->line_count(number); };
    return TableRecipe::of_orders(
        lineorder_columns(), rows->sizes().orders, lines_of,
        [rows](int64_t first, int64_t count, OutputBatch& out) { fill_lineorder(*rows, first, count, out); });
}

}  // namespace

TableRecipe ssb_table(BenchmarkTable table, double scale, uint64_t seed) {
    const auto rows = std::make_shared<const SsbRows>(scale, seed);
    const SsbSizes& sizes = rows->sizes();
    switch (table) {
        case BenchmarkTable::kSsbLineorder:
            return lineorder_table(rows);
        case BenchmarkTable::kSsbCustomer: {
            auto columns = party_columns("c", "_custkey", "Customer#", sizes.customers);
            columns.push_back(word_of("c_mktsegment", common_words().segments));
            return plain_ssb_table(std::move(columns), sizes.customers, rows, fill_ssb_customers);
        }
        case BenchmarkTable::kSsbSupplier:
            return plain_ssb_table(party_columns("s", "_suppkey", "Supplier#", sizes.suppliers), sizes.suppliers, rows,
                                   fill_ssb_suppliers);
        case BenchmarkTable::kSsbPart:
            return plain_ssb_table(ssb_part_columns(), sizes.parts, rows, fill_ssb_parts);
        case BenchmarkTable::kSsbDate:
            return TableRecipe::of_rows(date_columns(), SsbDay::kCount, fill_days);
        default:
            fail_check("a table of the Star Schema Benchmark", __FILE__, __LINE__);
    }
}

}  // namespace spillway
