// SPDX-License-Identifier: Apache-2.0
#include "generate/tpch_tables.hpp"

#include <memory>
#include <utility>

#include "base/error.hpp"
#include "generate/column_writer.hpp"
#include "generate/tpch_rows.hpp"

namespace spillway {

namespace {

using SharedRows = std::shared_ptr<const TpchRows>;

const TpchVocabularies& tpch_words() {
    return TpchVocabularies::instance();
}

void fill_regions(const TpchRows& rows, int64_t first, int64_t count, OutputBatch& out) {
    auto& columns = out.columns;
    ValueWriter key(columns[0]);
    WordWriter name(columns[1], tpch_words().regions);
    TextWriter comment(columns[2]);
    for (int64_t region = first; region < first + count; ++region) {
        key.put(static_cast<int32_t>(region));
        name.put(static_cast<uint32_t>(region));
        comment.append(rows.region_comment(region));
    }
    finish_texts(name, comment);
}

void fill_nations(const TpchRows& rows, int64_t first, int64_t count, OutputBatch& out) {
    auto& columns = out.columns;
    ValueWriter key(columns[0]), region(columns[2]);
    WordWriter name(columns[1], tpch_words().nations);
    TextWriter comment(columns[3]);
    for (int64_t nation = first; nation < first + count; ++nation) {
        key.put(static_cast<int32_t>(nation));
        name.put(static_cast<uint32_t>(nation));
        region.put(region_of_nation(static_cast<int32_t>(nation)));
        comment.append(rows.nation_comment(nation));
    }
    finish_texts(name, comment);
}

void fill_suppliers(const TpchRows& rows, int64_t first, int64_t count, OutputBatch& out) {
    auto& columns = out.columns;
    ValueWriter key(columns[0]), nation(columns[3]), balance(columns[5]);
    TextWriter name(columns[1]), address(columns[2]), phone(columns[4]), comment(columns[6]);
    for (int64_t number = first + 1; number <= first + count; ++number) {
        const TpchSupplier supplier = rows.supplier(number);
        key.put(number);
        name.append(NumberedName("Supplier#", number));
        address.append(supplier.contact.address());
        nation.put(supplier.contact.nation);
        phone.append(supplier.contact.phone());
        balance.put_decimal(supplier.balance);
        comment.append(supplier.comment());
    }
    finish_texts(name, address, phone, comment);
}

void fill_customers(const TpchRows& rows, int64_t first, int64_t count, OutputBatch& out) {
    auto& columns = out.columns;
    ValueWriter key(columns[0]), nation(columns[3]), balance(columns[5]);
    TextWriter name(columns[1]), address(columns[2]), phone(columns[4]), comment(columns[7]);
    WordWriter segment(columns[6], tpch_words().segments);
    for (int64_t number = first + 1; number <= first + count; ++number) {
        const TpchCustomer customer = rows.customer(number);
        key.put(number);
        name.append(NumberedName("Customer#", number));
        address.append(customer.contact.address());
        nation.put(customer.contact.nation);
        phone.append(customer.contact.phone());
        balance.put_decimal(customer.balance);
        segment.put(customer.segment);
        comment.append(customer.comment);
    }
    finish_texts(name, address, phone, segment, comment);
}

void fill_parts(const TpchRows& rows, int64_t first, int64_t count, OutputBatch& out) {
    const TpchVocabularies& words = tpch_words();
    auto& columns = out.columns;
    ValueWriter key(columns[0]), size(columns[5]), price(columns[7]);
    TextWriter name(columns[1]), comment(columns[8]);
    WordWriter manufacturer(columns[2], words.manufacturers), brand(columns[3], words.brands),
        type(columns[4], words.part_types), container(columns[6], words.containers);
    for (int64_t number = first + 1; number <= first + count; ++number) {
        const TpchPart part = rows.part(number);
        key.put(number);
        name.append(part.name);
        manufacturer.put(part.manufacturer);
        brand.put(part.brand);
        type.put(part.type);
        size.put(part.size);
        container.put(part.container);
        price.put_decimal(retail_price(number));
        comment.append(part.comment);
    }
    finish_texts(name, manufacturer, brand, type, container, comment);
}

void fill_part_suppliers(const TpchRows& rows, int64_t first, int64_t count, OutputBatch& out) {
    auto& columns = out.columns;
    ValueWriter part(columns[0]), supplier(columns[1]), available(columns[2]), cost(columns[3]);
    TextWriter comment(columns[4]);
    for (int64_t number = first + 1; number <= first + count; ++number) {
        for (int64_t nth = 0; nth < TpchRows::kSuppliersPerPart; ++nth) {
            const TpchPartSupplier offer = rows.part_supplier(number, nth);
            part.put(number);
            supplier.put(offer.supplier);
            available.put(offer.available);
            cost.put_decimal(offer.cost);
            comment.append(offer.comment);
        }
    }
    finish_texts(comment);
}

void fill_orders(const TpchRows& rows, int64_t first, int64_t count, OutputBatch& out) {
    auto& columns = out.columns;
    ValueWriter key(columns[0]), customer(columns[1]), price(columns[3]), date(columns[4]), ship(columns[7]);
    WordWriter status(columns[2], tpch_words().order_statuses), priority(columns[5], tpch_words().priorities);
    TextWriter clerk(columns[6]), comment(columns[8]);
    for (int64_t number = first + 1; number <= first + count; ++number) {
        const TpchOrder order = rows.order(number);
        int64_t total = 0;
        int32_t shipped = 0;
        for (int32_t line_number = 1; line_number <= order.lines; ++line_number) {
            const TpchLine line = rows.line(order, line_number);
            total += line.charge();
            shipped += line.shipped ? 1 : 0;
        }
        key.put(order.key);
        customer.put(order.customer);
        status.put(shipped == order.lines ? kOrderFilled : (shipped == 0 ? kOrderOpen : kOrderPartial));
        price.put_decimal(total);
        date.put(order.date);
        priority.put(order.priority);
        clerk.append(NumberedName("Clerk#", order.clerk));
        ship.put(int32_t{0});
        comment.append(order.comment);
    }
    finish_texts(status, priority, clerk, comment);
}

void fill_lineitem(const TpchRows& rows, int64_t first, int64_t count, OutputBatch& out) {
    const TpchVocabularies& words = tpch_words();
    auto& columns = out.columns;
    ValueWriter key(columns[0]), part(columns[1]), supplier(columns[2]), line_number(columns[3]), quantity(columns[4]),
        price(columns[5]), discount(columns[6]), tax(columns[7]), ship(columns[10]), commit(columns[11]),
        receipt(columns[12]);
    WordWriter flag(columns[8], words.return_flags), status(columns[9], words.line_statuses),
        instruction(columns[13], words.instructions), mode(columns[14], words.modes);
    TextWriter comment(columns[15]);
    for (int64_t i = first + 1; i <= first + count; ++i) {
        const TpchOrder order = rows.order(i);
        for (int32_t number = 1; number <= order.lines; ++number) {
            const TpchLine line = rows.line(order, number);
            key.put(order.key);
            part.put(line.part);
            supplier.put(line.supplier);
            line_number.put(number);
            quantity.put_decimal(line.quantity * 100);
            price.put_decimal(line.price);
            discount.put_decimal(line.discount);
            tax.put_decimal(line.tax);
            flag.put(line.return_flag);
            status.put(line.status());
            ship.put(line.ship_date);
            commit.put(line.commit_date);
            receipt.put(line.receipt_date);
            instruction.put(line.instruction);
            mode.put(line.mode);
            comment.append(line.comment);
        }
    }
    finish_texts(flag, status, instruction, mode, comment);
}

std::vector<TableColumn> supplier_columns(const TpchSizes& sizes) {
    return {int64_of("s_suppkey"),
            text_of("s_name", NumberedName::bytes_max("Supplier#", sizes.suppliers)),
            text_of("s_address", Contact::kAddressBytesMax),
            int32_of("s_nationkey"),
            text_of("s_phone", Contact::kPhoneBytes),
            decimal_of("s_acctbal"),
            text_of("s_comment", TpchRows::kSupplierCommentBytesMax)};
}

std::vector<TableColumn> customer_columns(const TpchSizes& sizes) {
    return {int64_of("c_custkey"),
            text_of("c_name", NumberedName::bytes_max("Customer#", sizes.customers)),
            text_of("c_address", Contact::kAddressBytesMax),
            int32_of("c_nationkey"),
            text_of("c_phone", Contact::kPhoneBytes),
            decimal_of("c_acctbal"),
            word_of("c_mktsegment", tpch_words().segments),
            text_of("c_comment", TpchRows::kCustomerCommentBytesMax)};
}

std::vector<TableColumn> part_columns() {
    const TpchVocabularies& words = tpch_words();
    return {int64_of("p_partkey"),
            text_of("p_name", Phrase::bytes_max(words.colors, TpchRows::kPartWords)),
            word_of("p_mfgr", words.manufacturers),
            word_of("p_brand", words.brands),
            word_of("p_type", words.part_types),
            int32_of("p_size"),
            word_of("p_container", words.containers),
            decimal_of("p_retailprice"),
            text_of("p_comment", TpchRows::kPartCommentBytesMax)};
}

std::vector<TableColumn> orders_columns(const TpchSizes& sizes) {
    return {int64_of("o_orderkey"),
            int64_of("o_custkey"),
            word_of("o_orderstatus", tpch_words().order_statuses),
            decimal_of("o_totalprice"),
            int32_of("o_orderdate"),
            word_of("o_orderpriority", tpch_words().priorities),
            text_of("o_clerk", NumberedName::bytes_max("Clerk#", sizes.clerks)),
            int32_of("o_shippriority"),
            text_of("o_comment", TpchRows::kOrderCommentBytesMax)};
}

std::vector<TableColumn> lineitem_columns() {
    const TpchVocabularies& words = tpch_words();
    return {int64_of("l_orderkey"),
            int64_of("l_partkey"),
            int64_of("l_suppkey"),
            int32_of("l_linenumber"),
            decimal_of("l_quantity"),
            decimal_of("l_extendedprice"),
            decimal_of("l_discount"),
            decimal_of("l_tax"),
            word_of("l_returnflag", words.return_flags),
            word_of("l_linestatus", words.line_statuses),
            int32_of("l_shipdate"),
            int32_of("l_commitdate"),
            int32_of("l_receiptdate"),
            word_of("l_shipinstruct", words.instructions),
            word_of("l_shipmode", words.modes),
            text_of("l_comment", TpchRows::kLineCommentBytesMax)};
}

TableRecipe lineitem_table(const SharedRows& rows) {
    return TableRecipe::of_orders(
        lineitem_columns(), rows->sizes().orders, [rows](int64_t number) { return rows->line_count(number); },
        [rows](int64_t first, int64_t count, OutputBatch& out) { fill_lineitem(*rows, first, count, out); });
}

TableRecipe part_supplier_table(const SharedRows& rows) {
    TableRecipe table;
    table.columns = {int64_of("ps_partkey"), int64_of("ps_suppkey"), int32_of("ps_availqty"),
                     decimal_of("ps_supplycost"), text_of("ps_comment", TpchRows::kPartSupplierCommentBytesMax)};
    table.units = rows->sizes().parts;
    table.unit_rows_mean = table.unit_rows_max = TpchRows::kSuppliersPerPart;
    table.rows = [](int64_t, int64_t count) { return count * TpchRows::kSuppliersPerPart; };
    table.fill = [rows](int64_t first, int64_t count, OutputBatch& out) {
        fill_part_suppliers(*rows, first, count, out);
    };
    return table;
}

using FillRows = void (*)(const TpchRows& rows, int64_t first, int64_t count, OutputBatch& out);

TableRecipe plain_table(std::vector<TableColumn> columns, int64_t count, const SharedRows& rows, FillRows fill) {
    return TableRecipe::of_rows(
        std::move(columns), count,
        [rows, fill](int64_t first, int64_t units, OutputBatch& out) { fill(*rows, first, units, out); });
}

}  // namespace

TableRecipe tpch_table(BenchmarkTable table, double scale, uint64_t seed) {
    const auto rows = std::make_shared<const TpchRows>(scale, seed);
    const TpchSizes& sizes = rows->sizes();
    const TpchVocabularies& words = tpch_words();
    switch (table) {
        case BenchmarkTable::kTpchRegion:
            return plain_table({int32_of("r_regionkey"), word_of("r_name", words.regions),
                                text_of("r_comment", TpchRows::kRegionCommentBytesMax)},
                               words.regions.size(), rows, fill_regions);
        case BenchmarkTable::kTpchNation:
            return plain_table({int32_of("n_nationkey"), word_of("n_name", words.nations), int32_of("n_regionkey"),
                                text_of("n_comment", TpchRows::kNationCommentBytesMax)},
                               words.nations.size(), rows, fill_nations);
        case BenchmarkTable::kTpchSupplier:
            return plain_table(supplier_columns(sizes), sizes.suppliers, rows, fill_suppliers);
        case BenchmarkTable::kTpchCustomer:
            return plain_table(customer_columns(sizes), sizes.customers, rows, fill_customers);
        case BenchmarkTable::kTpchPart:
            return plain_table(part_columns(), sizes.parts, rows, fill_parts);
        case BenchmarkTable::kTpchPartsupp:
            return part_supplier_table(rows);
        case BenchmarkTable::kTpchOrders:
            return plain_table(orders_columns(sizes), sizes.orders, rows, fill_orders);
        case BenchmarkTable::kTpchLineitem:
            return lineitem_table(rows);
        default:
            fail_check("a table of TPC-H", __FILE__, __LINE__);
    }
}

}  // namespace spillway
