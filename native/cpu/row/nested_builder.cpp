// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/error.hpp"
#include "cpu/row/nested_codec.hpp"
#include "cpu/row/nested_node.hpp"

namespace spillway {

namespace {

bool contains_view(const ColumnType& type) {
    return type.layout == Layout::kView || std::any_of(type.children.begin(), type.children.end(), contains_view);
}

void replace_views(ColumnType& type) {
    if (type.layout == Layout::kView) {
        type.layout = Layout::kBinary;
        type.byte_width = 4;
    }
    for (ColumnType& child : type.children) replace_views(child);
}

}  // namespace

TypePtr materialized_type(const TypePtr& type) {
    if (!contains_view(*type)) return type;
    auto copy = std::make_shared<ColumnType>(*type);
    replace_views(*copy);
    return copy;
}

struct NestedBuilder::State {
    State(TypePtr type, MemoryBudget& budget) : root(std::move(type), budget) {}
    NestedNode root;
};

NestedBuilder::NestedBuilder(TypePtr type, MemoryBudget& budget)
    : state_(std::make_unique<State>(materialized_type(type), budget)) {}
NestedBuilder::~NestedBuilder() = default;

void NestedBuilder::append_null() {
    state_->root.append_nulls(1);
}

void NestedBuilder::append(const uint8_t* bytes, uint64_t size) {
    const uint8_t* end = state_->root.read_rows(bytes, 1);
    SPILLWAY_CHECK(end == bytes + size);
}

int64_t NestedBuilder::length() const {
    return state_->root.length();
}

uint64_t NestedBuilder::bytes() const {
    return state_->root.bytes();
}

OutputColumn NestedBuilder::finish() {
    return state_->root.finish();
}

}  // namespace spillway
