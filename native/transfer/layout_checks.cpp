// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <limits>

#include "base/bitmap.hpp"
#include "base/checked_size.hpp"
#include "transfer/node_plan.hpp"

// Everything that can be checked about a batch without reading its data. A corrupt header may hold any int64, so every
// sum and product here saturates: a saturated need is larger than any buffer and ends in the right error. Children need
// not have a buffer, so there a saturated number of rows is an error of its own.
namespace spillway {

namespace {

constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();

int64_t bit_bytes(int64_t bits) {
    return bits / 8 + (bits % 8 != 0);
}

class BatchChecker {
  public:
    explicit BatchChecker(const BatchPosition& batch) : batch_(batch), layout_(*batch.layout) {}

    void counts(const SchemaCounts& schema) const {
        count("field nodes", schema.nodes, static_cast<int64_t>(layout_.nodes.size()));
        count("view columns", schema.variadics, static_cast<int64_t>(layout_.variadic_counts.size()));
        int64_t buffers = schema.buffers;
        for (const int32_t variadic : layout_.variadic_counts) {
            if (variadic < 0) throw corrupt_batch(batch_, kAllColumns, "have a negative number of view buffers");
            buffers += variadic;
        }
        count("buffers", buffers, static_cast<int64_t>(layout_.buffers.size()));
    }

    void column(const NodePlan& plan) const {
        const BatchLayout::Node& node = batch_.node(plan);
        if (node.length != layout_.rows) {
            throw corrupt_batch(
                batch_, plan.name,
                "has " + std::to_string(node.length) + " rows, the batch " + std::to_string(layout_.rows));
        }
        // The planner relied on it: no NULL bits are kept for such a column.
        if (!plan.type->nullable && plan.type->layout != Layout::kNull && !is_union(plan) && node.null_count > 0) {
            throw corrupt_batch(batch_, plan.name,
                                "is declared non-nullable but has " + std::to_string(node.null_count) + " NULLs");
        }
        check(plan);
    }

  private:
    static bool is_union(const NodePlan& plan) {
        return plan.type->layout == Layout::kUnionSparse || plan.type->layout == Layout::kUnionDense;
    }

    void count(const char* what, int64_t wanted, int64_t found) const {
        if (wanted == found) return;
        throw corrupt_batch(batch_, kAllColumns,
                            "together have " + std::to_string(found) + " " + what + " instead of the " +
                                std::to_string(wanted) + " of the schema");
    }

    void region(const NodePlan& plan, int64_t index, const char* what, int64_t wanted) const {
        const BatchLayout::Region& region = batch_.buffer(plan, index);
        if (region.length < 0) throw corrupt_batch(batch_, plan.name, std::string("has a negative length of ") + what);
        if (region.length < wanted) throw short_buffer(batch_, plan.name, what, wanted, region.length);
        if (region.length == 0) return;
        if (!batch_.in_file()) {
            if (region.pointer == nullptr) throw corrupt_batch(batch_, plan.name, std::string("has no ") + what);
            return;
        }
        if (region.offset < 0) throw corrupt_batch(batch_, plan.name, std::string("has a negative offset of ") + what);
        const int64_t end = add_or_max(region.offset, region.length);
        const int64_t file_bytes = batch_.files->bytes(layout_.file);
        if (end <= file_bytes) return;
        const std::string& path = batch_.files->path(layout_.file);
        throw Error(ErrorCode::kFileTruncated,
                    "'" + path + "' is truncated: the " + what + " of column '" + plan.name + "' in batch " +
                        std::to_string(batch_.number) + " end at byte " + std::to_string(end) + ", but the file has " +
                        std::to_string(file_bytes) + " bytes; copy or write it again",
                    {{"path", path},
                     {"column", plan.name},
                     {"batch", std::to_string(batch_.number)},
                     {"wantedBytes", std::to_string(end)},
                     {"foundBytes", std::to_string(file_bytes)}});
    }

    void validity(const NodePlan& plan) const {
        const BatchLayout::Node& node = batch_.node(plan);
        const bool present = node.null_count != 0 && batch_.buffer(plan, 0).length > 0;
        if (node.null_count > 0 && !present) {
            throw corrupt_batch(batch_, plan.name,
                                "has " + std::to_string(node.null_count) + " NULLs but no validity bitmap");
        }
        region(plan, 0, "validity bitmap", present ? bit_bytes(add_or_max(node.bit_offset, node.length)) : 0);
    }

    void child_rows(const NodePlan& plan, const NodePlan& child, int64_t wanted) const {
        const int64_t found = batch_.node(child).length;
        if (found >= wanted && wanted < kHuge) return;
        throw corrupt_batch(
            batch_, child.name,
            "has " + std::to_string(found) + " rows but '" + plan.name + "' needs " + std::to_string(wanted));
    }

    // length + 1 offsets; an empty column may leave out its only one.
    void offsets(const NodePlan& plan, int64_t rows) const {
        region(plan, 1, "offsets",
               rows == 0 ? 0 : multiply_or_max<int64_t>(add_or_max<int64_t>(rows, 1), plan.type->byte_width));
    }

    void check(const NodePlan& plan) const {
        const BatchLayout::Node& node = batch_.node(plan);
        if (node.length < 0 || node.bit_offset < 0 || node.null_count > node.length) {
            if (!is_union(plan) || node.length < 0) {
                throw corrupt_batch(batch_, plan.name,
                                    "claims " + std::to_string(node.length) + " rows and " +
                                        std::to_string(node.null_count) + " NULLs");
            }
        }
        buffers(plan, node.length, node.bit_offset);
        for (const NodePlan& child : plan.children) check(child);
        if (plan.type->layout == Layout::kFixedList) {
            child_rows(plan, plan.children[0], multiply_or_max<int64_t>(node.length, plan.type->list_size));
        } else if (plan.type->layout == Layout::kStruct || plan.type->layout == Layout::kUnionSparse) {
            for (const NodePlan& child : plan.children) child_rows(plan, child, node.length);
        }
    }

    void buffers(const NodePlan& plan, int64_t rows, int64_t bit_offset) const {
        switch (plan.type->layout) {
            case Layout::kNull:
                return;
            case Layout::kBool:
                validity(plan);
                return region(plan, 1, "bits", rows == 0 ? 0 : bit_bytes(add_or_max(bit_offset, rows)));
            case Layout::kFixed:
                validity(plan);
                return region(plan, 1, "values", multiply_or_max<int64_t>(rows, plan.type->byte_width));
            case Layout::kDictionary:
                validity(plan);
                return region(plan, 1, "dictionary indices", multiply_or_max<int64_t>(rows, plan.type->byte_width));
            case Layout::kBinary:
                validity(plan);
                offsets(plan, rows);
                return region(plan, 2, "bytes", 0);
            case Layout::kView: {
                validity(plan);
                region(plan, 1, "views", multiply_or_max<int64_t>(rows, 16));
                const int32_t variadic = layout_.variadic_counts[static_cast<size_t>(plan.variadic)];
                for (int32_t i = 0; i < variadic; ++i) region(plan, 2 + i, "view data", 0);
                return;
            }
            case Layout::kList:
                validity(plan);
                return offsets(plan, rows);
            case Layout::kFixedList:
            case Layout::kStruct:
                return validity(plan);
            case Layout::kUnionSparse:
                return region(plan, 0, "type ids", rows);
            case Layout::kUnionDense:
                region(plan, 0, "type ids", rows);
                return region(plan, 1, "offsets", multiply_or_max<int64_t>(rows, 4));
        }
    }

    const BatchPosition& batch_;
    const BatchLayout& layout_;
};

}  // namespace

void check_batch(const std::vector<NodePlan>& plans, const SchemaCounts& counts, const BatchPosition& batch) {
    if (batch.layout->rows < 0) {
        throw corrupt_batch(batch, kAllColumns, "claim " + std::to_string(batch.layout->rows) + " rows");
    }
    const BatchChecker checker(batch);
    checker.counts(counts);
    for (const NodePlan& plan : plans) checker.column(plan);
}

}  // namespace spillway
