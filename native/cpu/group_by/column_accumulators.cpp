// SPDX-License-Identifier: Apache-2.0
#include "cpu/group_by/column_accumulators.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "base/load.hpp"
#include "cpu/group_by/aggregate_state.hpp"
#include "cpu/group_by/load_numbers.hpp"

namespace spillway {

namespace {

constexpr uint64_t kBoundMax = uint64_t{1} << 63;

uint64_t neutral_of(bool min, bool is_signed) {
    const uint64_t least = is_signed ? kSignBit : 0;
    return min ? ~least : least;
}

// Decimals of at least 2^62 are too large for 64 bits in min and max: no other has the bits that stand for none.
constexpr uint64_t kChosenMax = uint64_t{1} << 62;

void choose_decimal(const uint8_t* decimal, bool min, uint8_t* record, const AggregatePlan& target) {
    uint8_t* state = record + target.offset;
    uint8_t& has_value = record[target.flag_offset];
    if (has_value != 0) {
        const int order = compare_decimals(decimal, state, 2);
        if (min ? order >= 0 : order <= 0) return;
    }
    std::memcpy(state, decimal, 16);
    has_value = 1;
}

struct Decimal {
    uint64_t words[2];
    explicit Decimal(uint64_t low) : words{low, static_cast<uint64_t>(static_cast<int64_t>(low) >> 63)} {}
    const uint8_t* bytes() const { return reinterpret_cast<const uint8_t*>(words); }
};

}  // namespace

ColumnAccumulators::ColumnAccumulators(const GroupPlan& plan, TableMemory& memory)
    : memory_(memory),
      kernels_(column_kernels()),
      numbers_(std::make_unique_for_overwrite<uint64_t[]>(kRowsMax)),
      chosen_(std::make_unique_for_overwrite<uint64_t[]>(kRowsMax)) {
    for (const AggregatePlan& aggregate : plan.aggregates) take(aggregate);
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

void ColumnAccumulators::release() {
    block_.release();
    room_ = 0;
}

bool ColumnAccumulators::reset(uint32_t groups, uint32_t copies, uint64_t bytes_max) {
    release();
    uint64_t arrays = 1 + nulls_.size();
    for (const Accumulator& accumulator : accumulators_) arrays += accumulator.fold == Fold::kSumFloat ? 2 : 1;
    const uint64_t words = uint64_t{groups} * copies;
    if (arrays * words * sizeof(uint64_t) > bytes_max) return false;
    try {
        block_ = TableBlock(memory_, arrays * words * sizeof(uint64_t));
    } catch (const TableFull&) {
        return false;
    }
    room_ = groups;
    copy_bits_ = static_cast<uint32_t>(std::countr_zero(copies));
    auto* next = reinterpret_cast<uint64_t*>(block_.data());
    std::memset(next, 0, (1 + nulls_.size()) * words * sizeof(uint64_t));
    rows_ = next;
    for (NullCount& nulls : nulls_) nulls.rows = next += words;
    next += words;
    for (Accumulator& accumulator : accumulators_) {
        accumulator.words = next;
        clear(accumulator);
        next += accumulator.fold == Fold::kSumFloat ? 2 * words : words;
    }
    return true;
}

void ColumnAccumulators::clear(Accumulator& accumulator) {
    accumulator.bound = 0;
    const uint64_t words = places();
    switch (accumulator.fold) {
        case Fold::kMinSigned:
        case Fold::kMinDecimal:
            std::fill_n(accumulator.words, words, neutral_of(true, true));
            return;
        case Fold::kMaxSigned:
        case Fold::kMaxDecimal:
            std::fill_n(accumulator.words, words, neutral_of(false, true));
            return;
        case Fold::kMinUnsigned:
            std::fill_n(accumulator.words, words, neutral_of(true, false));
            return;
        case Fold::kMaxUnsigned:
            std::fill_n(accumulator.words, words, neutral_of(false, false));
            return;
        case Fold::kSumFloat:
            std::memset(accumulator.words, 0, 2 * words * sizeof(uint64_t));
            return;
        default:
            std::memset(accumulator.words, 0, words * sizeof(uint64_t));
            return;
    }
}

void ColumnAccumulators::add(const ColumnRows& rows, int64_t count, const uint32_t* places, const Groups& groups) {
    const Step step{rows, count, places, groups};
    numbers_view_ = -1;
    count_rows(step);
    for (Accumulator& accumulator : accumulators_) {
        switch (accumulator.fold) {
            case Fold::kSumSigned:
            case Fold::kSumUnsigned:
                add_integers(step, accumulator);
                break;
            case Fold::kSumDecimal:
                add_decimals(step, accumulator);
                break;
            case Fold::kSumFloat:
                add_floats(step, accumulator);
                break;
            case Fold::kMinDecimal:
            case Fold::kMaxDecimal:
                choose_decimals(step, accumulator);
                break;
            default:
                choose(step, accumulator);
                break;
        }
    }
}

void ColumnAccumulators::count_rows(const Step& step) {
    if (step.places == nullptr) {
        rows_[0] += static_cast<uint64_t>(step.count);
    } else {
        for (int64_t i = 0; i < step.count; ++i) ++rows_[step.places[i]];
    }
    for (NullCount& nulls : nulls_) {
        const ColumnView& view = (*step.rows.views)[static_cast<size_t>(nulls.view)];
        if (view.validity == nullptr) continue;
        const int64_t bit = view.validity_bit + step.rows.begin;
        if (step.places == nullptr) {
            for (int64_t i = 0; i < step.count; ++i) nulls.rows[0] += get_bit(view.validity, bit + i) ? 0 : 1;
        } else {
            for (int64_t i = 0; i < step.count; ++i) {
                nulls.rows[step.places[i]] += get_bit(view.validity, bit + i) ? 0 : 1;
            }
        }
    }
}

// The values as numbers of 8 bytes side by side, as order words for min and max of floats: those of the column where
// they are such, else widened. The values of NULLs are anything.
const uint8_t* ColumnAccumulators::numbers(const Step& step, const Accumulator& accumulator) {
    const AggregatePlan& plan = accumulator.plan();
    const ColumnView& view = (*step.rows.views)[static_cast<size_t>(plan.view)];
    const bool ordered = is_float(plan.number) && accumulator.fold != Fold::kSumFloat;
    if (!ordered && view.type->layout != Layout::kBool && view.type->byte_width == 8) {
        return view.data + step.rows.begin * 8;
    }
    const auto* words = reinterpret_cast<const uint8_t*>(numbers_.get());
    if (numbers_view_ == plan.view && numbers_ordered_ == ordered) return words;
    load_numbers(plan.number, view, step.rows.begin, step.count, numbers_.get());
    if (ordered) {
        for (int64_t i = 0; i < step.count; ++i) numbers_[i] = order_word(std::bit_cast<double>(numbers_[i]));
    }
    numbers_view_ = plan.view;
    numbers_ordered_ = ordered;
    return words;
}

const uint8_t* ColumnAccumulators::without_nulls(const Step& step, const ColumnView& view, const uint8_t* words,
                                                 uint64_t neutral) {
    if (view.validity == nullptr) return words;
    kernels_.choose_words(words, view.validity, view.validity_bit + step.rows.begin, step.count, neutral,
                          chosen_.get());
    return reinterpret_cast<const uint8_t*>(chosen_.get());
}

void ColumnAccumulators::add_integers(const Step& step, Accumulator& accumulator) {
    const ColumnView& view = (*step.rows.views)[static_cast<size_t>(accumulator.plan().view)];
    const uint8_t* words = without_nulls(step, view, numbers(step, accumulator), 0);
    const bool is_signed = accumulator.fold == Fold::kSumSigned;
    const WordSum sum = (is_signed ? kernels_.sum_signed : kernels_.sum_unsigned)(words, step.count);
    if (make_headroom(step, accumulator, sum.magnitude)) return add_words(step, accumulator, words, sum);
    add_to_records(step, accumulator, [&](uint8_t* record, const AggregatePlan& target, int64_t i) {
        auto& state = *state_at<IntegerSum>(record, target);
        const auto word = load<uint64_t>(words, i);
        state.set(state.value() + (is_signed ? __int128{static_cast<int64_t>(word)} : __int128{word}));
    });
}

// The low words of the decimals, those of NULLs too, and what they add up to.
const uint8_t* ColumnAccumulators::decimal_words(const Step& step, const Accumulator& accumulator, DecimalSum64& sum) {
    const int32_t at = accumulator.plan().view;
    const ColumnView& view = (*step.rows.views)[static_cast<size_t>(at)];
    if (numbers_view_ != at) {
        narrow_ = kernels_.narrow_decimals(view.data + step.rows.begin * 16, step.count, numbers_.get());
        numbers_view_ = at;
    }
    sum = narrow_;
    return reinterpret_cast<const uint8_t*>(numbers_.get());
}

void ColumnAccumulators::add_decimals(const Step& step, Accumulator& accumulator) {
    const ColumnView& view = (*step.rows.views)[static_cast<size_t>(accumulator.plan().view)];
    const uint8_t* decimals = view.data + step.rows.begin * 16;
    const bool plain = step.places == nullptr && view.validity == nullptr;
    DecimalSum64 sum{};
    const uint8_t* words = nullptr;
    if (plain) {
        sum = kernels_.sum_decimals(decimals, step.count);
    } else {
        words = decimal_words(step, accumulator, sum);
    }
    if (sum.wide == 0 && make_headroom(step, accumulator, sum.magnitude)) {
        if (!plain) words = without_nulls(step, view, words, 0);
        if (!plain && step.places == nullptr) sum.sum = kernels_.sum_signed(words, step.count).sum;
        return add_words(step, accumulator, words, {sum.sum, sum.magnitude});
    }
    add_to_records(step, accumulator, [&](uint8_t* record, const AggregatePlan& target, int64_t i) {
        if (!view.is_valid(step.rows.begin + i)) return;
        add_decimal<2>(state_at<uint64_t>(record, target), decimals + i * 16);
    });
}

// Can values of this magnitude be added in 64 bits? Moves earlier sums out of the way.
bool ColumnAccumulators::make_headroom(const Step& step, Accumulator& accumulator, uint64_t magnitude) {
    const auto count = static_cast<uint64_t>(step.count);
    if (magnitude >= kBoundMax / count - 1) return false;
    const uint64_t more = count * (magnitude + 1);
    if (accumulator.bound >= kBoundMax - more) flush(accumulator, step.groups);
    accumulator.bound += more;
    return true;
}

void ColumnAccumulators::add_words(const Step& step, Accumulator& accumulator, const uint8_t* words,
                                   const WordSum& sum) {
    uint64_t* sums = accumulator.words;
    if (step.places == nullptr) {
        sums[0] += sum.sum;
        return;
    }
    for (int64_t i = 0; i < step.count; ++i) sums[step.places[i]] += load<uint64_t>(words, i);
}

template <class Add>
void ColumnAccumulators::add_to_records(const Step& step, Accumulator& accumulator, Add add) {
    for (const AggregatePlan* target : accumulator.targets) {
        for (int64_t i = 0; i < step.count; ++i) {
            const uint32_t group = step.places == nullptr ? 0 : step.places[i] >> copy_bits_;
            add(step.groups.records[group], *target, i);
        }
    }
}

void ColumnAccumulators::add_floats(const Step& step, Accumulator& accumulator) {
    const ColumnView& view = (*step.rows.views)[static_cast<size_t>(accumulator.plan().view)];
    const uint8_t* words = without_nulls(step, view, numbers(step, accumulator), 0);  // the bits of +0
    auto* sums = reinterpret_cast<double*>(accumulator.words);
    double* compensations = sums + places();
    if (step.places == nullptr) {
        const CompensatedSum sum = kernels_.sum_doubles(words, step.count);
        add_exactly(sum.sum, sums[0], compensations[0]);
        compensations[0] += sum.compensation;
        return;
    }
    for (int64_t i = 0; i < step.count; ++i) {
        const uint32_t place = step.places[i];
        add_exactly(load<double>(words, i), sums[place], compensations[place]);
    }
}

void ColumnAccumulators::choose(const Step& step, Accumulator& accumulator) {
    const Fold fold = accumulator.fold;
    const bool is_signed = fold == Fold::kMinSigned || fold == Fold::kMaxSigned;
    const bool min = fold == Fold::kMinSigned || fold == Fold::kMinUnsigned;
    const ColumnView& view = (*step.rows.views)[static_cast<size_t>(accumulator.plan().view)];
    const uint8_t* words = numbers(step, accumulator);
    choose_words(step, accumulator, without_nulls(step, view, words, neutral_of(min, is_signed)));
}

void ColumnAccumulators::choose_decimals(const Step& step, Accumulator& accumulator) {
    const bool min = accumulator.fold == Fold::kMinDecimal;
    const ColumnView& view = (*step.rows.views)[static_cast<size_t>(accumulator.plan().view)];
    DecimalSum64 sum{};
    const uint8_t* words = decimal_words(step, accumulator, sum);
    if (sum.wide == 0 && sum.magnitude < kChosenMax) {
        return choose_words(step, accumulator, without_nulls(step, view, words, neutral_of(min, true)));
    }
    const uint8_t* decimals = view.data + step.rows.begin * 16;
    add_to_records(step, accumulator, [&](uint8_t* record, const AggregatePlan& target, int64_t i) {
        if (view.is_valid(step.rows.begin + i)) choose_decimal(decimals + i * 16, min, record, target);
    });
}

void ColumnAccumulators::choose_words(const Step& step, Accumulator& accumulator, const uint8_t* words) {
    const auto run = [&]<class T>(T, auto found, auto better) {
        auto* best = reinterpret_cast<T*>(accumulator.words);
        if (step.places == nullptr) {
            best[0] = better(best[0], static_cast<T>(found()));
            return;
        }
        for (int64_t i = 0; i < step.count; ++i) {
            T& mine = best[step.places[i]];
            mine = better(mine, load<T>(words, i));
        }
    };
    const auto lesser = [](auto a, auto b) { return b < a ? b : a; };
    const auto greater = [](auto a, auto b) { return b > a ? b : a; };
    switch (accumulator.fold) {
        case Fold::kMinSigned:
        case Fold::kMinDecimal:
            return run(
                int64_t{}, [&] { return kernels_.extremes_signed(words, step.count).min; }, lesser);
        case Fold::kMaxSigned:
        case Fold::kMaxDecimal:
            return run(
                int64_t{}, [&] { return kernels_.extremes_signed(words, step.count).max; }, greater);
        case Fold::kMinUnsigned:
            return run(
                uint64_t{}, [&] { return kernels_.extremes_unsigned(words, step.count).min; }, lesser);
        default:
            return run(
                uint64_t{}, [&] { return kernels_.extremes_unsigned(words, step.count).max; }, greater);
    }
}

uint64_t ColumnAccumulators::count_of(uint32_t group, int32_t nulls) const {
    const uint64_t first = uint64_t{group} << copy_bits_;
    uint64_t count = 0;
    for (uint64_t place = first; place < first + copies(); ++place) {
        count += rows_[place];
        if (nulls >= 0) count -= nulls_[static_cast<size_t>(nulls)].rows[place];
    }
    return count;
}

void ColumnAccumulators::keep_word(Accumulator& accumulator, uint64_t word, uint8_t* record,
                                   const AggregatePlan& target) {
    switch (accumulator.fold) {
        case Fold::kSumDecimal:
            add_decimal<2>(state_at<uint64_t>(record, target), Decimal(word).bytes());
            return;
        case Fold::kMinDecimal:
        case Fold::kMaxDecimal: {
            const bool min = accumulator.fold == Fold::kMinDecimal;
            if (word != neutral_of(min, true)) choose_decimal(Decimal(word).bytes(), min, record, target);
            return;
        }
        case Fold::kMinSigned:
        case Fold::kMinUnsigned: {
            auto& state = *state_at<uint64_t>(record, target);
            state = std::min(state, accumulator.fold == Fold::kMinSigned ? word ^ kSignBit : word);
            return;
        }
        case Fold::kMaxSigned:
        case Fold::kMaxUnsigned: {
            auto& state = *state_at<uint64_t>(record, target);
            state = std::max(state, accumulator.fold == Fold::kMaxSigned ? word ^ kSignBit : word);
            return;
        }
        default: {
            auto& state = *state_at<IntegerSum>(record, target);
            state.set(state.value() + static_cast<int64_t>(word));
            return;
        }
    }
}

// The values only: their counts go to the records at the very end.
void ColumnAccumulators::flush(Accumulator& accumulator, const Groups& groups) {
    for (uint32_t group = 0; group < groups.count; ++group) {
        const uint64_t first = uint64_t{group} << copy_bits_;
        for (uint64_t place = first; place < first + copies(); ++place) {
            for (const AggregatePlan* target : accumulator.targets) {
                uint8_t* record = groups.records[group];
                if (accumulator.fold != Fold::kSumFloat) {
                    keep_word(accumulator, accumulator.words[place], record, *target);
                    continue;
                }
                const auto* sums = reinterpret_cast<const double*>(accumulator.words);
                auto& state = *state_at<FloatSum>(record, *target);
                state.add(sums[place]);
                state.compensation += sums[places() + place];
            }
        }
    }
    clear(accumulator);
}

void ColumnAccumulators::flush(const Groups& groups) {
    if (room_ == 0) return;
    for (Accumulator& accumulator : accumulators_) {
        flush(accumulator, groups);
        for (uint32_t group = 0; group < groups.count; ++group) {
            const uint64_t count = count_of(group, accumulator.nulls);
            for (const AggregatePlan* target : accumulator.targets) {
                uint8_t* record = groups.records[group];
                switch (accumulator.fold) {
                    case Fold::kSumSigned:
                    case Fold::kSumUnsigned:
                        state_at<IntegerSum>(record, *target)->count += count;
                        break;
                    case Fold::kSumDecimal:
                        state_at<uint64_t>(record, *target)[3] += count;
                        break;
                    case Fold::kSumFloat:
                        state_at<FloatSum>(record, *target)->count += count;
                        break;
                    case Fold::kMinDecimal:
                    case Fold::kMaxDecimal:
                        break;  // choose_decimal()
                    default:
                        if (count > 0) record[target->flag_offset] = 1;
                        break;
                }
            }
        }
    }
    for (const RowCount& rows : row_counts_) {
        for (uint32_t group = 0; group < groups.count; ++group) {
            *state_at<uint64_t>(groups.records[group], *rows.aggregate) += count_of(group, rows.nulls);
        }
    }
    std::memset(rows_, 0, (1 + nulls_.size()) * places() * sizeof(uint64_t));
}

}  // namespace spillway
