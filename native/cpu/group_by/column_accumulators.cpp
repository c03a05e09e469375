// SPDX-License-Identifier: Apache-2.0
#include "cpu/group_by/column_accumulators.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/load.hpp"
#include "cpu/group_by/aggregate_state.hpp"
#include "cpu/group_by/load_numbers.hpp"

namespace spillway {

namespace {

constexpr uint64_t kBoundMax = uint64_t{1} << 63;

// Decimals of at least 2^62 are too large for 64 bits in min and max: no other has the bits that stand for none.
constexpr uint64_t kChosenMax = uint64_t{1} << 62;

}  // namespace

ColumnAccumulators::ColumnAccumulators(const GroupPlan& plan, TableMemory& memory)
    : memory_(memory), kernels_(column_kernels()) {
    for (const AggregatePlan& aggregate : plan.aggregates) take(aggregate);
    make_lines();
    const bool single = plan.layout.keys.empty();
    const auto rows = static_cast<size_t>(single ? kRowsMax : kPlacedRows);
    numbers_.resize(single ? 2 : 2 * kLanes);
    chosen_.resize(single ? 1 : kLanes);
    scratch_ = std::make_unique_for_overwrite<uint64_t[]>((numbers_.size() + chosen_.size()) * rows);
    uint64_t* next = scratch_.get();
    for (Numbers& numbers : numbers_) numbers.words = next, next += rows;
    for (uint64_t*& chosen : chosen_) chosen = next, next += rows;
}

bool ColumnAccumulators::folds(const AggregatePlan& aggregate, Fold& fold) {
    if (aggregate.decode != nullptr || aggregate.order != nullptr) return false;
    const bool is_signed = is_signed_integer(aggregate.number);
    switch (aggregate.state) {
        case StateKind::kSumInteger:
            fold = is_signed ? Fold::kSumSigned : Fold::kSumUnsigned;
            return true;
        case StateKind::kSumFloat:
            fold = Fold::kSumFloat;
            return true;
        case StateKind::kSumDecimal:
            fold = Fold::kSumDecimal;
            return aggregate.value_bytes == 16;
        case StateKind::kMinWord:
            fold = is_signed ? Fold::kMinSigned : Fold::kMinUnsigned;
            return true;
        case StateKind::kMaxWord:
            fold = is_signed ? Fold::kMaxSigned : Fold::kMaxUnsigned;
            return true;
        case StateKind::kMinFixed:
        case StateKind::kMaxFixed:
            fold = aggregate.state == StateKind::kMinFixed ? Fold::kMinDecimal : Fold::kMaxDecimal;
            return aggregate.value_type->order == Order::kDecimal && aggregate.value_bytes == 16;
        default:
            return false;
    }
}

void ColumnAccumulators::take(const AggregatePlan& aggregate) {
    if (aggregate.state == StateKind::kCountRows || aggregate.state == StateKind::kCountValues) {
        row_counts_.push_back({&aggregate, null_count_of(aggregate)});
        return;
    }
    Fold fold;
    if (!folds(aggregate, fold)) {
        if (aggregate.state != StateKind::kNull) others_.push_back(&aggregate);
        return;
    }
    for (Accumulator& known : accumulators_) {
        if (known.fold != fold || known.plan().view != aggregate.view) continue;
        known.targets.push_back(&aggregate);
        return;
    }
    Accumulator accumulator;
    accumulator.fold = fold;
    accumulator.targets.push_back(&aggregate);
    accumulator.nulls = null_count_of(aggregate);
    accumulators_.push_back(std::move(accumulator));
}

int32_t ColumnAccumulators::null_count_of(const AggregatePlan& aggregate) {
    if (aggregate.field == nullptr || !aggregate.field->type->nullable) return -1;
    const auto known = std::find_if(nulls_.begin(), nulls_.end(),
                                    [&](const NullCount& nulls) { return nulls.view == aggregate.view; });
    const auto index = static_cast<int32_t>(known - nulls_.begin());
    if (known == nulls_.end()) nulls_.push_back({aggregate.view});
    return index;
}

ColumnAccumulators::Step ColumnAccumulators::step_of(Fold fold) {
    switch (fold) {
        case Fold::kSumSigned:
        case Fold::kSumUnsigned:
        case Fold::kSumDecimal:
            return Step::kAdd;
        case Fold::kSumFloat:
            return Step::kAddDoubles;
        default:
            return Step::kChoose;
    }
}

// Min and max keep the greatest signed word of the values with these bits inverted: ~x falls where x rises, and an
// unsigned word compares as a signed one without its top bit.
uint64_t ColumnAccumulators::flip_of(Fold fold) {
    switch (fold) {
        case Fold::kMinSigned:
        case Fold::kMinDecimal:
            return ~uint64_t{0};
        case Fold::kMinUnsigned:
            return ~kSignBit;
        case Fold::kMaxUnsigned:
            return kSignBit;
        default:
            return 0;
    }
}

// A value that changes nothing; flipped it is the least signed word.
uint64_t ColumnAccumulators::neutral_of(Fold fold) {
    return step_of(fold) == Step::kChoose ? kSignBit ^ flip_of(fold) : 0;
}

void ColumnAccumulators::make_lines() {
    std::stable_sort(accumulators_.begin(), accumulators_.end(),
                     [](const Accumulator& a, const Accumulator& b) { return step_of(a.fold) < step_of(b.fold); });
    for (uint32_t i = 0; i < accumulators_.size(); ++i) {
        const Step step = step_of(accumulators_[i].fold);
        if (lines_.empty() || lines_.back().step != step || lines_.back().count == kLanes) {
            lines_.push_back({step, i, 0});
        }
        ++lines_.back().count;
    }
}

void ColumnAccumulators::release() {
    block_.release();
    room_ = 0;
}

bool ColumnAccumulators::reset(uint32_t groups, uint32_t copies, uint64_t bytes_max) {
    release();
    uint64_t arrays = 1 + nulls_.size();
    for (const Line& line : lines_) arrays += line.stride();
    const uint64_t places = uint64_t{groups} * copies;
    if (arrays * places * sizeof(uint64_t) > bytes_max) return false;
    try {
        block_ = TableBlock(memory_, arrays * places * sizeof(uint64_t));
    } catch (const TableFull&) {
        return false;
    }
    room_ = groups;
    copy_bits_ = static_cast<uint32_t>(std::countr_zero(copies));
    std::memset(block_.data(), 0, arrays * places * sizeof(uint64_t));
    auto* next = reinterpret_cast<uint64_t*>(block_.data());
    for (Line& line : lines_) {
        line.words = next;
        for (uint32_t lane = 0; lane < line.count; ++lane) {
            Accumulator& accumulator = accumulators_[line.first + lane];
            accumulator.words = next + lane;
            accumulator.stride = line.stride();
            clear(accumulator, places);
        }
        next += places * line.stride();
    }
    rows_ = next;
    for (NullCount& nulls : nulls_) nulls.rows = next += places;
    return true;
}

void ColumnAccumulators::clear(Accumulator& accumulator, uint64_t places) {
    accumulator.bound = 0;
    const uint64_t empty = step_of(accumulator.fold) == Step::kChoose ? kSignBit : 0;
    const bool floats = accumulator.fold == Fold::kSumFloat;
    uint64_t* words = accumulator.words;
    for (uint64_t place = 0; place < places; ++place, words += accumulator.stride) {
        words[0] = empty;
        if (floats) words[accumulator.stride / 2] = 0;
    }
}

void ColumnAccumulators::add(const ColumnRows& rows, int64_t count, const uint32_t* places, const Groups& groups) {
    const Rows added{rows, count, places, groups};
    for (Numbers& numbers : numbers_) numbers.view = -1;
    count_rows(added);
    if (places == nullptr) {
        for (Accumulator& accumulator : accumulators_) add_single(added, accumulator);
    } else {
        for (const Line& line : lines_) add_line(added, line);
    }
}

void ColumnAccumulators::count_rows(const Rows& rows) {
    if (rows.places == nullptr) {
        rows_[0] += static_cast<uint64_t>(rows.count);
    } else {
        for (int64_t i = 0; i < rows.count; ++i) ++rows_[rows.places[i]];
    }
    for (NullCount& nulls : nulls_) {
        const ColumnView& view = (*rows.rows.views)[static_cast<size_t>(nulls.view)];
        if (!any_null(view, rows.rows.begin, rows.count)) continue;
        const int64_t bit = view.validity_bit + rows.rows.begin;
        for (int64_t i = 0; i < rows.count; ++i) {
            nulls.rows[rows.places == nullptr ? 0 : rows.places[i]] += get_bit(view.validity, bit + i) ? 0 : 1;
        }
    }
}

// Those of the accumulator's column, or room for them in place of the ones that were used least recently.
ColumnAccumulators::Numbers& ColumnAccumulators::numbers_of(const Accumulator& accumulator, bool ordered, bool& known) {
    const int32_t view = accumulator.plan().view;
    auto found = std::find_if(numbers_.begin(), numbers_.end(), [&](const Numbers& numbers) {
        return numbers.view == view && numbers.ordered == ordered;
    });
    known = found != numbers_.end();
    if (!known) {
        found = std::min_element(numbers_.begin(), numbers_.end(),
                                 [](const Numbers& a, const Numbers& b) { return a.used < b.used; });
        found->view = view;
        found->ordered = ordered;
    }
    found->used = ++uses_;
    return *found;
}

// The values as numbers of 8 bytes side by side, as order words for min and max of floats: those of the column where
// they are such, else widened. The values of NULLs are anything.
const uint8_t* ColumnAccumulators::load(const Rows& rows, const Accumulator& accumulator) {
    const AggregatePlan& plan = accumulator.plan();
    const ColumnView& view = rows.view(accumulator);
    const bool ordered = is_float(plan.number) && accumulator.fold != Fold::kSumFloat;
    if (!ordered && view.type->layout != Layout::kBool && view.type->byte_width == 8) {
        return view.data + rows.rows.begin * 8;
    }
    bool known = false;
    const Numbers& numbers = numbers_of(accumulator, ordered, known);
    if (known) return numbers.bytes();
    load_numbers(plan.number, view, rows.rows.begin, rows.count, numbers.words);
    if (ordered) {
        for (int64_t i = 0; i < rows.count; ++i) {
            numbers.words[i] = order_word(std::bit_cast<double>(numbers.words[i]));
        }
    }
    return numbers.bytes();
}

// The low words of the decimals, those of NULLs too, and what they add up to.
const ColumnAccumulators::Numbers& ColumnAccumulators::narrow(const Rows& rows, const Accumulator& accumulator) {
    bool known = false;
    Numbers& numbers = numbers_of(accumulator, false, known);
    if (!known) {
        const uint8_t* decimals = rows.view(accumulator).data + rows.rows.begin * 16;
        numbers.narrow = kernels_.narrow_decimals(decimals, rows.count, numbers.words);
    }
    return numbers;
}

const uint8_t* ColumnAccumulators::without_nulls(const Rows& rows, const Accumulator& accumulator, const uint8_t* words,
                                                 uint32_t lane) {
    const ColumnView& view = rows.view(accumulator);
    if (!any_null(view, rows.rows.begin, rows.count)) return words;
    kernels_.choose_words(words, view.validity, view.validity_bit + rows.rows.begin, rows.count,
                          neutral_of(accumulator.fold), chosen_[lane]);
    return reinterpret_cast<const uint8_t*>(chosen_[lane]);
}

ColumnAccumulators::Values ColumnAccumulators::values(const Rows& rows, Accumulator& accumulator, uint32_t lane) {
    switch (accumulator.fold) {
        case Fold::kSumSigned:
        case Fold::kSumUnsigned:
            return integers(rows, accumulator, lane);
        case Fold::kSumDecimal:
            return decimals(rows, accumulator, lane);
        case Fold::kMinDecimal:
        case Fold::kMaxDecimal:
            return chosen_decimals(rows, accumulator, lane);
        default:
            return {without_nulls(rows, accumulator, load(rows, accumulator), lane), 0};
    }
}

ColumnAccumulators::Values ColumnAccumulators::integers(const Rows& rows, Accumulator& accumulator, uint32_t lane) {
    const uint8_t* words = without_nulls(rows, accumulator, load(rows, accumulator), lane);
    const bool is_signed = accumulator.fold == Fold::kSumSigned;
    const WordSum sum = (is_signed ? kernels_.sum_signed : kernels_.sum_unsigned)(words, rows.count);
    if (make_headroom(rows, accumulator, sum.magnitude)) return {words, sum.sum};
    add_to_records(rows, accumulator, [&](uint8_t* record, const AggregatePlan& target, int64_t i) {
        auto& state = *state_at<IntegerSum>(record, target);
        const auto word = spillway::load<uint64_t>(words, i);
        state.set(state.value() + (is_signed ? __int128{static_cast<int64_t>(word)} : __int128{word}));
    });
    return {nullptr, 0};
}

ColumnAccumulators::Values ColumnAccumulators::decimals(const Rows& rows, Accumulator& accumulator, uint32_t lane) {
    const ColumnView& view = rows.view(accumulator);
    const uint8_t* decimals = view.data + rows.rows.begin * 16;
    const bool plain = rows.places == nullptr && view.validity == nullptr;
    const Numbers* numbers = plain ? nullptr : &narrow(rows, accumulator);
    const DecimalSum64 sum = plain ? kernels_.sum_decimals(decimals, rows.count) : numbers->narrow;
    if (sum.wide == 0 && make_headroom(rows, accumulator, sum.magnitude)) {
        if (plain) return {decimals, sum.sum};
        const uint8_t* words = without_nulls(rows, accumulator, numbers->bytes(), lane);
        if (words == numbers->bytes() || rows.places != nullptr) return {words, sum.sum};
        return {words, kernels_.sum_signed(words, rows.count).sum};
    }
    add_to_records(rows, accumulator, [&](uint8_t* record, const AggregatePlan& target, int64_t i) {
        if (!view.is_valid(rows.rows.begin + i)) return;
        add_decimal<2>(state_at<uint64_t>(record, target), decimals + i * 16);
    });
    return {nullptr, 0};
}

ColumnAccumulators::Values ColumnAccumulators::chosen_decimals(const Rows& rows, Accumulator& accumulator,
                                                               uint32_t lane) {
    const Numbers& numbers = narrow(rows, accumulator);
    if (numbers.narrow.wide == 0 && numbers.narrow.magnitude < kChosenMax) {
        return {without_nulls(rows, accumulator, numbers.bytes(), lane), 0};
    }
    const bool min = accumulator.fold == Fold::kMinDecimal;
    const ColumnView& view = rows.view(accumulator);
    const uint8_t* decimals = view.data + rows.rows.begin * 16;
    add_to_records(rows, accumulator, [&](uint8_t* record, const AggregatePlan& target, int64_t i) {
        if (view.is_valid(rows.rows.begin + i)) choose_decimal(decimals + i * 16, min, record, target);
    });
    return {nullptr, 0};
}

// Can values of this magnitude be added in 64 bits? Moves earlier sums out of the way.
bool ColumnAccumulators::make_headroom(const Rows& rows, Accumulator& accumulator, uint64_t magnitude) {
    const auto count = static_cast<uint64_t>(rows.count);
    if (magnitude >= kBoundMax / count - 1) return false;
    const uint64_t more = count * (magnitude + 1);
    if (accumulator.bound >= kBoundMax - more) flush(accumulator, rows.groups);
    accumulator.bound += more;
    return true;
}

template <class Add>
void ColumnAccumulators::add_to_records(const Rows& rows, Accumulator& accumulator, Add add) {
    for (const AggregatePlan* target : accumulator.targets) {
        for (int64_t i = 0; i < rows.count; ++i) {
            const uint32_t group = rows.places == nullptr ? 0 : rows.places[i] >> copy_bits_;
            add(rows.groups.records[group], *target, i);
        }
    }
}

void ColumnAccumulators::add_single(const Rows& rows, Accumulator& accumulator) {
    const Values values = this->values(rows, accumulator, 0);
    if (values.words == nullptr) return;
    const Step step = step_of(accumulator.fold);
    if (step == Step::kAdd) {
        accumulator.words[0] += values.sum;
    } else if (step == Step::kAddDoubles) {
        const CompensatedSum more = kernels_.sum_doubles(values.words, rows.count);
        auto* sum = reinterpret_cast<double*>(accumulator.words);
        double& compensation = sum[accumulator.stride / 2];
        add_exactly(more.sum, *sum, compensation);
        compensation += more.compensation;
    } else {
        const bool is_unsigned = accumulator.fold == Fold::kMinUnsigned || accumulator.fold == Fold::kMaxUnsigned;
        const bool min = accumulator.fold == Fold::kMinSigned || accumulator.fold == Fold::kMinUnsigned ||
                         accumulator.fold == Fold::kMinDecimal;
        const WordExtremes found =
            (is_unsigned ? kernels_.extremes_unsigned : kernels_.extremes_signed)(values.words, rows.count);
        auto& best = *reinterpret_cast<int64_t*>(accumulator.words);
        best = std::max(best, static_cast<int64_t>((min ? found.min : found.max) ^ flip_of(accumulator.fold)));
    }
}

void ColumnAccumulators::add_line(const Rows& rows, const Line& line) {
    const uint8_t* words[kLanes];
    uint64_t flips[kLanes] = {};
    uint32_t ready = 0;
    for (uint32_t lane = 0; lane < line.count; ++lane) {
        Accumulator& accumulator = accumulators_[line.first + lane];
        flips[lane] = flip_of(accumulator.fold);
        words[lane] = values(rows, accumulator, lane).words;
        ready += words[lane] != nullptr ? 1 : 0;
    }
    if (ready == 0) return;
    if (line.count == 1) return fold_lane(rows, line, words[0], flips[0]);
    for (uint32_t lane = 0; lane < line.count; ++lane) {
        if (words[lane] != nullptr) continue;
        std::fill_n(chosen_[lane], rows.count, neutral_of(accumulators_[line.first + lane].fold));
        words[lane] = reinterpret_cast<const uint8_t*>(chosen_[lane]);
    }
    for (uint32_t lane = line.count; lane < kLanes; ++lane) words[lane] = words[0];  // nobody reads what comes of it
    switch (line.step) {
        case Step::kAdd:
            return kernels_.add_quads(words, rows.places, rows.count, line.words);
        case Step::kAddDoubles:
            return kernels_.add_double_quads(words, rows.places, rows.count, reinterpret_cast<double*>(line.words));
        case Step::kChoose:
            return kernels_.choose_quads(words, flips, rows.places, rows.count, line.words);
    }
}

void ColumnAccumulators::fold_lane(const Rows& rows, const Line& line, const uint8_t* words, uint64_t flip) {
    const uint32_t* places = rows.places;
    if (line.step == Step::kAdd) {
        uint64_t* sums = line.words;
        for (int64_t i = 0; i < rows.count; ++i) sums[places[i]] += spillway::load<uint64_t>(words, i);
    } else if (line.step == Step::kAddDoubles) {
        auto* sums = reinterpret_cast<double*>(line.words);
        for (int64_t i = 0; i < rows.count; ++i) {
            double* sum = sums + uint64_t{places[i]} * 2;
            add_exactly(spillway::load<double>(words, i), sum[0], sum[1]);
        }
    } else {
        auto* best = reinterpret_cast<int64_t*>(line.words);
        for (int64_t i = 0; i < rows.count; ++i) {
            int64_t& mine = best[places[i]];
            mine = std::max(mine, static_cast<int64_t>(spillway::load<uint64_t>(words, i) ^ flip));
        }
    }
}

}  // namespace spillway
