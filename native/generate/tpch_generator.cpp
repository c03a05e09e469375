// SPDX-License-Identifier: Apache-2.0
#include "generate/tpch_generator.hpp"

#include <algorithm>
#include <cstring>

#include "generate/generated_batch.hpp"
#include "generate/ordered_delivery.hpp"
#include "generate/tpch_rows.hpp"

namespace spillway {

namespace {

constexpr int64_t kMeanLines = 4;  // 1 .. 7, uniform

// Appends fixed-width values to a column.
class ValueWriter {
  public:
    explicit ValueWriter(OutputColumn& column) : at_(column.data.data()) {}
    template <class Value>
    void put(Value value) {
        std::memcpy(at_, &value, sizeof value);
        at_ += sizeof value;
    }
    void put_decimal(int64_t value) {  // 128 bits
        put(value);
        put(value >> 63);
    }

  private:
    uint8_t* at_;
};

std::string_view clerk_name(int64_t clerk, char (&name)[TpchRows::kClerkBytes]) {
    std::memcpy(name, "Clerk#", 6);
    for (int digit = static_cast<int>(TpchRows::kClerkBytes) - 1; digit >= 6; --digit) {
        name[digit] = static_cast<char>('0' + clerk % 10);
        clerk /= 10;
    }
    return {name, TpchRows::kClerkBytes};
}

void fill_orders(const TpchRows& rows, int64_t first_order, OutputBatch& out) {
    auto& columns = out.columns;
    ValueWriter key(columns[0]), customer(columns[1]), price(columns[3]), date(columns[4]), ship(columns[7]);
    TextWriter status(columns[2]), priority(columns[5]), clerk(columns[6]), comment(columns[8]);
    char clerk_text[TpchRows::kClerkBytes];
    for (int64_t i = 0; i < out.rows; ++i) {
        const TpchOrder order = rows.order(first_order + i);
        int64_t total = 0;
        int32_t shipped = 0;
        for (int32_t number = 1; number <= order.lines; ++number) {
            const TpchLine line = rows.line(order, number);
            total += line.charge();
            shipped += line.shipped ? 1 : 0;
        }
        key.put(order.key);
        customer.put(order.customer);
        status.append(shipped == order.lines ? "F" : (shipped == 0 ? "O" : "P"));
        price.put_decimal(total);
        date.put(order.date);
        priority.append(order.priority);
        clerk.append(clerk_name(order.clerk, clerk_text));
        ship.put(int32_t{0});
        comment.append(order.comment);
    }
    for (TextWriter* text : {&status, &priority, &clerk, &comment}) text->finish();
}

void fill_lineitem(const TpchRows& rows, int64_t first_order, int64_t last_order, OutputBatch& out) {
    auto& columns = out.columns;
    ValueWriter key(columns[0]), part(columns[1]), supplier(columns[2]), line_number(columns[3]), quantity(columns[4]),
        price(columns[5]), discount(columns[6]), tax(columns[7]), ship(columns[10]), commit(columns[11]),
        receipt(columns[12]);
    TextWriter flag(columns[8]), status(columns[9]), instruction(columns[13]), mode(columns[14]), comment(columns[15]);
    for (int64_t i = first_order; i <= last_order; ++i) {
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
            flag.append(line.return_flag);
            status.append(line.status());
            ship.put(line.ship_date);
            commit.put(line.commit_date);
            receipt.put(line.receipt_date);
            instruction.append(line.instruction);
            mode.append(line.mode);
            comment.append(line.comment);
        }
    }
    for (TextWriter* text : {&flag, &status, &instruction, &mode, &comment}) text->finish();
}

}  // namespace

int64_t generate_tpch(const TpchSpec& spec, MemoryBudget& budget, JobControl& control, BatchSink& sink) {
    check_spec(spec);
    const TpchRows rows(spec.scale, spec.seed);
    const int64_t orders = rows.sizes().orders;
    const bool is_orders = spec.table == TpchTable::kOrders;
    const int64_t batch_orders = is_orders ? spec.batch_rows : std::max<int64_t>(1, spec.batch_rows / kMeanLines);
    // Order numbers begin at 1.
    const auto first_order = [=](int64_t batch) { return batch * batch_orders + 1; };
    const auto last_order = [=](int64_t batch) { return std::min(orders, (batch + 1) * batch_orders); };

    BatchRecipe recipe;
    recipe.columns = generated_columns(spec);
    recipe.batches = (orders + batch_orders - 1) / batch_orders;
    recipe.workers = spec.workers;
    if (is_orders) {
        recipe.text_bytes_max = {0,
                                 0,
                                 TpchRows::kStatusBytesMax,
                                 0,
                                 0,
                                 TpchRows::kPriorityBytesMax,
                                 TpchRows::kClerkBytes,
                                 0,
                                 TpchRows::kOrderCommentBytesMax};
        recipe.rows = [&](int64_t batch) { return last_order(batch) - first_order(batch) + 1; };
        recipe.fill = [&](int64_t batch, OutputBatch& out) { fill_orders(rows, first_order(batch), out); };
    } else {
        recipe.text_bytes_max = {0,
                                 0,
                                 0,
                                 0,
                                 0,
                                 0,
                                 0,
                                 0,
                                 TpchRows::kStatusBytesMax,
                                 TpchRows::kStatusBytesMax,
                                 0,
                                 0,
                                 0,
                                 TpchRows::kInstructionBytesMax,
                                 TpchRows::kModeBytesMax,
                                 TpchRows::kLineCommentBytesMax};
        recipe.rows = [&](int64_t batch) {
            int64_t lines = 0;
            for (int64_t i = first_order(batch); i <= last_order(batch); ++i) lines += rows.line_count(i);
            return lines;
        };
        recipe.fill = [&](int64_t batch, OutputBatch& out) {
            fill_lineitem(rows, first_order(batch), last_order(batch), out);
        };
    }
    return deliver_in_order(recipe, budget, control, sink);
}

}  // namespace spillway
