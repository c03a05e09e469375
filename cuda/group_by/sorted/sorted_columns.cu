// SPDX-License-Identifier: Apache-2.0
// Bytes, for keys of k bytes in p passes of 8 bits and n columns of 4 bytes: (k + 2 p (k + 4)) n per row to sort, 4 n
// to reduce; with a dictionary k = 4, and p falls to as many passes as the numbers of the keys have bytes.
#include <algorithm>
#include <utility>

#include "device/launch.hpp"
#include "device/phase_times.hpp"
#include "device/published.hpp"
#include "group_by/plan/group_plan.hpp"
#include "group_by/plan/moved_bytes.hpp"
#include "group_by/sorted/dictionary.hpp"
#include "group_by/sorted/pack_words.hpp"
#include "group_by/sorted/reduce_runs.hpp"
#include "group_by/sorted/sort_pairs.hpp"
#include "group_by/sorted/sorted_columns.hpp"
#include "group_by/sorted/sorted_policy.hpp"
#include "group_by/tables/emit_dense.hpp"

namespace spillway::cuda { inline namespace grouping {

namespace {

// Words that are sorted with the keys. Values of 1 and 2 bytes and masks share words of 4: each is a sort less.
struct Carrier {
    uint32_t word_bytes = 4;
    uint32_t used_bits = 0;
    std::vector<WordPart> parts;
};

// Where an accumulator's values are.
struct CarriedField {
    int source = kNoField;
    size_t carrier = 0;
    uint32_t shift = 0;
    uint32_t width = 4;
};

class SortedColumns {
  public:
    SortedColumns(Device& device, const GroupByRequest& request, const GroupPlan& plan, GroupByFunction find_distinct)
        : device_(device), request_(request), plan_(plan), find_distinct_(find_distinct) {}

    GroupByResult run() {
        const PhaseScope match(device_, Phase::kMatch);
        keyed_ = find_keyed_rows(device_, request_.key_valid, request_.rows);
        if (keyed_.rows == 0) return allocate(0);
        make_keys();
        carry_fields();
        if (carriers_.empty()) {
            begin_groups(sort_pairs(device_, key_, key_, keyed_.rows, bits_));  // the keys alone, as their own values
        }
        for (size_t carrier = 0; carrier < carriers_.size(); ++carrier) sort_and_reduce(carrier);
        for (int a = 0; a < plan_.slots.accumulators; ++a) {
            if (counts_rows(a)) fill_runs(device_, runs_, plan_.slots.accumulator[a], {}, slots_);
        }
        emit();
        note_algorithm(device_, static_cast<int>(request_.algorithm));  // a dictionary comes from another one
        return std::move(result_);
    }

  private:
    GroupByResult allocate(uint64_t groups) {
        return allocate_groups(device_.memory(), plan_, request_.key.width, groups);
    }

    void make_keys() {
        key_ = request_.key;
        if (keyed_.valid != nullptr) {
            key_memory_ = pack_words(device_, keyed_, {{request_.key, 0}}, request_.key.width);
            key_.data = key_memory_.as();
        }
        if (request_.algorithm == GroupByAlgorithm::kDictionarySorted && encode()) return;
        bits_ = request_.all_key_bits ? all_bits(key_) : differing_bits(device_, key_, keyed_.rows);
    }

    // false: so many keys that their numbers would save nothing.
    bool encode() {
        GroupByRequest keys_alone;
        keys_alone.algorithm = GroupByAlgorithm::kHash;
        keys_alone.rows = keyed_.rows;
        keys_alone.key = key_;
        keys_alone.expected_groups = request_.expected_groups;
        GroupByResult found = find_distinct_(device_, keys_alone);
        if (found.groups > kDictionaryKeysMax) return false;
        distinct_ = std::move(found.keys);
        key_memory_ = encode_keys(device_, key_, keyed_.rows, distinct_.as(), found.groups);
        key_ = {key_memory_.as(), 4};
        bits_ = {0, 1};
        while (found.groups > 1ULL << bits_.end) ++bits_.end;
        return true;
    }

    // Rows of a group keep their order: the first one has the smallest number.
    bool is_first_row(int number) const {
        const Accumulator& a = plan_.slots.accumulator[number];
        const bool is_max = a.op == AccumulatorOp::kMax32 || a.op == AccumulatorOp::kMax64;
        return plan_.sources[number] == kRowNumberField && is_max && a.flip == ~0ULL && a.valid_bit == kNoBit;
    }
    bool counts_rows(int number) const {
        const Accumulator& a = plan_.slots.accumulator[number];
        return a.counts && a.valid_bit == kNoBit;
    }

    void carry_fields() {
        bool needs_masks = false;
        for (int a = 0; a < plan_.slots.accumulators; ++a) {
            if (plan_.slots.accumulator[a].valid_bit != kNoBit) needs_masks = true;
        }
        // Masks come first: they are there when a column that has them is reduced.
        if (needs_masks) carry(kMaskField);
        for (int a = 0; a < plan_.slots.accumulators; ++a) {
            if (plan_.sources[a] != kNoField) carry(plan_.sources[a]);
        }
    }

    DeviceColumn column_of(int source) const {
        if (source == kMaskField) return {plan_.mask.as(), plan_.mask_width};
        if (source == kRowNumberField) return {nullptr, plan_.row_number_width};
        return plan_.columns[source];
    }

    void carry(int source) {
        for (const CarriedField& field : fields_) {
            if (field.source == source) return;
        }
        const DeviceColumn column = column_of(source);
        const uint32_t bits = 8 * column.width;
        size_t to = 0;
        while (to < carriers_.size() && carriers_[to].used_bits + bits > 32) ++to;
        if (to == carriers_.size()) carriers_.emplace_back();
        Carrier& carrier = carriers_[to];
        if (column.width == 8) carrier.word_bytes = 8;
        fields_.push_back({source, to, carrier.used_bits, column.width});
        carrier.parts.push_back({column, carrier.used_bits});
        carrier.used_bits += bits;
    }

    const CarriedField& field_of(int source) const {
        return *std::find_if(fields_.begin(), fields_.end(), [&](const CarriedField& f) { return f.source == source; });
    }
    SortedField sorted_field(const CarriedField& field, const Allocation& words) const {
        return {words.as(), carriers_[field.carrier].word_bytes, field.shift, field.width};
    }

    void sort_and_reduce(size_t number) {
        device_.check_cancelled();
        const Carrier& carrier = carriers_[number];
        const DeviceColumn& first = carrier.parts[0].column;
        Allocation packed;
        DeviceColumn words = {first.data, carrier.word_bytes};
        if (keyed_.valid != nullptr || first.data == nullptr || first.width != carrier.word_bytes) {
            packed = pack_words(device_, keyed_, carrier.parts, carrier.word_bytes);
            words.data = packed.as();
        }
        SortedPairs sorted = sort_pairs(device_, key_, words, keyed_.rows, bits_);
        packed.reset();
        if (number == 0) begin_groups(std::move(sorted));
        Allocation& values = number == 0 ? first_words_ : sorted.values;
        SortedField masks;
        if (!fields_.empty() && fields_[0].source == kMaskField) masks = sorted_field(fields_[0], first_words_);
        for (int a = 0; a < plan_.slots.accumulators; ++a) {
            const Accumulator& accumulator = plan_.slots.accumulator[a];
            const int source = plan_.sources[a];
            // Values that are counted have masks alone, which came first.
            const CarriedField& field = source == kNoField ? fields_[0] : field_of(source);
            if (counts_rows(a) || field.carrier != number) continue;
            const SortedField value = source == kNoField ? SortedField() : sorted_field(field, values);
            if (is_first_row(a)) {
                fill_runs(device_, runs_, accumulator, value, slots_);
            } else {
                reduce_runs(device_, runs_, accumulator, value, masks, slots_);
            }
        }
        if (masks.words == nullptr) first_words_.reset();
    }

    // By the keys of the first sort; those of later ones are the same.
    void begin_groups(SortedPairs sorted) {
        const DeviceColumn keys = {sorted.keys.as(), key_.width};
        runs_ = find_runs(device_, keys, keyed_.rows);
        result_ = allocate(runs_.groups);
        result_.groups = runs_.groups;
        if (distinct_) {
            result_.keys = std::move(distinct_);  // numbers of keys are numbers of runs
        } else {
            write_run_keys(device_, runs_, keys, result_.keys.as());
        }
        first_words_ = std::move(sorted.values);
        slots_.groups = runs_.groups;
        slots_.entries = (runs_.groups + 1) & ~1ULL;
        slot_memory_ = device_.memory().allocate(slots_.entries * 4 * plan_.slots.words, "accumulators of groups");
        slots_.words = slot_memory_.as<uint32_t>();
        count_moved(device_, slot_memory_.bytes());
        if (!slot_memory_) return;
        SPILLWAY_CUDA_CHECK(cudaMemsetAsync(slot_memory_.as(), 0, slot_memory_.bytes(), device_.stream()));
    }

    void emit() {
        const cudaStream_t stream = device_.stream();
        // A whole word, as it is read.
        const Allocation overflows = device_.memory().allocate(sizeof(uint64_t), "sums that overflow");
        SPILLWAY_CUDA_CHECK(cudaMemsetAsync(overflows.as(), 0, overflows.bytes(), stream));
        // Each group's thread writes the key that it has read to the same place.
        GroupSink sink = sink_of(plan_, result_, runs_.groups);
        sink.overflows = overflows.as<uint32_t>();
        // Keys and accumulators read, keys and values written.
        count_moved(device_, runs_.groups * plan_.slot_bytes() + result_bytes(device_, request_, plan_, runs_.groups));
        emit_dense_groups(device_, plan_.key_words,
                          {result_.keys.as<const void>(), slots_.words, slots_.groups, slots_.entries}, sink);
        const auto bits = static_cast<uint32_t>(read_published<uint64_t>(device_, overflows.as()));
        result_.sum_overflows = overflow_flags(plan_, bits);
    }

    Device& device_;
    const GroupByRequest& request_;
    const GroupPlan& plan_;
    const GroupByFunction find_distinct_;
    KeyedRows keyed_;
    DeviceColumn key_;  // of rows that have one, or its number
    Allocation key_memory_;
    KeyBits bits_;
    Allocation distinct_;  // kDictionarySorted: the key of each number
    std::vector<Carrier> carriers_;
    std::vector<CarriedField> fields_;
    Runs runs_;
    GroupByResult result_;
    Allocation first_words_;  // of the first carrier, sorted: the masks are there
    RunSlots slots_;
    Allocation slot_memory_;
};

}  // namespace

GroupByResult group_by_sorted_columns(Device& device, const GroupByRequest& request, const GroupPlan& plan,
                                      GroupByFunction find_distinct) {
    return SortedColumns(device, request, plan, find_distinct).run();
}

}}  // namespace spillway::cuda::grouping
