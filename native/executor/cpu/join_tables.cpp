// SPDX-License-Identifier: Apache-2.0
#include "executor/cpu/join_tables.hpp"

#include <algorithm>
#include <utility>

namespace spillway {

std::unique_ptr<BuiltTable> JoinTables::of_partition(int32_t p, TableRoom room) const {
    auto built = std::make_unique<BuiltTable>();
    if (JoinTable::counts_streamed(spec_.scheme, use_, build_.layout())) {
        built->table = make_counter(p, room);
        return built->table == nullptr ? nullptr : std::move(built);
    }
    built->rows.emplace(build_.load(p, built->memory), build_.layout());
    return finish(std::move(built), room);
}

std::unique_ptr<BuiltTable> JoinTables::of_pages(int32_t p, size_t begin, size_t end) const {
    auto built = std::make_unique<BuiltTable>();
    built->rows.emplace(build_.load_pages(p, begin, end, built->memory), build_.layout());
    return finish(std::move(built), {});
}

std::unique_ptr<BuiltTable> JoinTables::of_rows(const RowSpan& rows) const {
    auto built = std::make_unique<BuiltTable>();
    built->rows.emplace(std::vector<RowSpan>{rows}, build_.layout());
    return finish(std::move(built), {});
}

std::unique_ptr<BuiltTable> JoinTables::finish(std::unique_ptr<BuiltTable> built, TableRoom room) const {
    built->table = JoinTable::build(spec_.scheme, use_, *built->rows, probe_layout_, spec_.perfect_range_max,
                                    spec_.hash_mask, build_.budget(), room);
    if (built->table == nullptr) return nullptr;
    if (marks_build_rows(spec_)) {
        const auto numbers = std::max<uint64_t>(built->rows->numbers(), 1);
        built->matched = Buffer::allocate(build_.budget(), numbers, "match flags", true);
    }
    return built;
}

std::unique_ptr<JoinTable> JoinTables::make_counter(int32_t p, TableRoom room) const {
    const auto each = [&](const std::function<bool(const RowSpan&)>& body) {
        PageCursor cursor(build_, p, 0, build_.page_count(p));
        for (RowSpan span; cursor.next(span) && body(span);) control_.check();
    };
    return JoinTable::build_counter(build_.partition(p).rows, build_.layout().row_bytes, each, spec_.hash_mask,
                                    build_.budget(), room);
}

}  // namespace spillway
