// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "addon/decode/decode.hpp"
#include "addon/decode/device.hpp"
#include "executor/streaming/chunk_columns.hpp"

namespace spillway::addon {

namespace {

OutOfCoreOperator decode_operator(const Field& field) {
    enum class Kind : uint8_t { kJoin, kGroup };
    Fields fields(field);
    const auto kind = fields["kind"].one_of<Kind>({{"join", Kind::kJoin}, {"group", Kind::kGroup}});
    if (kind == Kind::kGroup) {
        const Field group = fields["group"];
        OutOfCoreOperator op = decode_out_of_core_group(group.value(), group.path(), false);
        fields.finish();
        return op;
    }
    Fields join(fields["join"]);
    const cuda::StagedJoinSpec staged = decode_staged_join(join, false);
    const std::optional<cuda::CoherentOptions> coherent = decode_coherent(join["coherent"], staged);
    join.finish();
    fields.finish();
    if (!coherent) return staged;
    cuda::CoherentJoinSpec spec;
    spec.join = staged;
    spec.options = *coherent;
    return spec;
}

// A value of a result row of the join before.
cuda::PipeValue decode_pipe_value(const Field& field, const cuda::StagedJoinSpec& from, const ColumnType& type,
                                  ChunkPart part_of = ChunkPart::kWhole) {
    cuda::PipeValue value;
    // Halves and quarters of 128 bits are values that begin inside of a column.
    const PartPlace place = is_of_128(part_of) ? place_of(part_of) : PartPlace{0, chunk_width(type)};
    value.width = place.width;
    for (const Field& item : field.array()) {
        if (value.parts.size() == value.parts.capacity()) throw field.error("two parts at most");
        Fields fields(item);
        const ResultPart part = decode_gpu_part(fields, from, chunk_width(type));
        cuda::PipePart made;
        made.column = static_cast<int16_t>(part.value);
        made.validity = static_cast<int16_t>(part.validity);
        made.offset = static_cast<uint8_t>(part.offset + place.offset);
        made.mask = part.mask;
        value.parts.push_back(made);
    }
    if (value.parts.empty()) throw field.error("at least one part");
    return value;
}

// Integers are widened as the keys of sources are. Of dictionaries, all of which are unified, the indices count.
cuda::PipeKeyForm key_form(const KeySpec& key, const ColumnType& type, const Field& field) {
    const bool is_value = cuda::is_value_width(static_cast<uint32_t>(key.width)) && key.width <= type.byte_width;
    if (key.kind == KeyKind::kFixedBytes && is_value) return cuda::PipeKeyForm::kBits;
    if (key.kind == KeyKind::kFloat && type.byte_width >= 4) return cuda::PipeKeyForm::kFloat;
    if (key.kind == KeyKind::kDictionaryIndex && key.width == sizeof(int32_t)) return cuda::PipeKeyForm::kSigned;
    if (key.kind != KeyKind::kInteger) throw field.error("a key of 1, 2, 4, 8 or 16 bytes, or a float of 4 or 8");
    const bool is_signed = type.layout != Layout::kBool && type.order == Order::kSigned;
    return is_signed ? cuda::PipeKeyForm::kSigned : cuda::PipeKeyForm::kUnsigned;
}

// to: whose keys they are; nullptr: a group-by's.
void decode_pipe_keys(const Field& field, const cuda::StagedJoinSpec& from, const cuda::StagedJoinSpec* to,
                      cuda::PipeSpec& pipe) {
    const bool has_words = to != nullptr && to->key_columns > 0;
    std::vector<KeySpec> keys;
    for (const Field& item : field.array()) {
        if (keys.size() == static_cast<size_t>(cuda::kPipeKeysMax)) throw field.error("fewer keys");
        Fields fields(item);
        const Field described = fields["key"];
        const TypePtr type = decode_column(fields["type"]);
        Fields key(described);
        key["column"].integer(-kSafeInteger, kSafeInteger);  // there is no source that it could be of
        keys.push_back(decode_key(key, *type));
        cuda::PipeKey made;
        made.form = key_form(keys.back(), *type, described);
        made.value = decode_pipe_value(fields["parts"], from, *type);
        fields.finish();
        if (!has_words) check_key_bytes(field, keys, pipe.null_byte, pipe.key_bytes);
        made.width = static_cast<uint8_t>(keys.back().width);
        pipe.keys.push_back(made);
    }
    if (has_words) check_key_words(field, keys, pipe.null_byte, to->key_columns);
    if (!has_words) check_key_bytes(field, keys, pipe.null_byte, pipe.key_bytes);
    const std::vector<KeyPlace> places = packed_key_places(keys);
    for (size_t k = 0; k < places.size(); ++k) {
        pipe.keys[k].word = static_cast<uint8_t>(places[k].word);
        pipe.keys[k].offset = static_cast<uint8_t>(places[k].shift / 8);
    }
}

cuda::PipeColumn decode_pipe_column(const Field& field, const cuda::StagedJoinSpec& from, uint32_t wanted_width) {
    Fields fields(field);
    const TypePtr type = decode_column(fields["type"]);
    ChunkColumn chunk;
    chunk.validity = fields["validity"].boolean();
    chunk.part = decode_chunk_part(fields["part"]);
    const Field fill = fields["fill"];
    chunk.fill = decode_chunk_fill(fill);
    cuda::PipeColumn column;
    column.value = decode_pipe_value(fields["parts"], from, *type, chunk.validity ? ChunkPart::kWhole : chunk.part);
    fields.finish();
    const uint32_t width = chunk_width(chunk, *type);
    if (width != wanted_width) throw field.error("a column of the width that the operator has there");
    if (chunk.validity) {
        column.kind = cuda::PipeColumnKind::kPresence;
        return column;
    }
    check_fill(fill, chunk.fill, width);
    if (chunk.part == ChunkPart::kLow) column.kind = cuda::PipeColumnKind::kLow;
    if (chunk.part == ChunkPart::kHigh) column.kind = cuda::PipeColumnKind::kHigh;
    if (width <= sizeof column.fill) column.fill = fill_bits(*type, chunk.part, width, chunk.fill);
    return column;
}

cuda::PipeSpec decode_pipe(const Field& field, const cuda::StagedJoinSpec& from, const OutOfCoreOperator& op,
                           int32_t input) {
    const auto* const to = std::get_if<cuda::StagedJoinSpec>(&op);
    const cuda::ColumnWidths& widths = widths_of(op, input);
    Fields fields(field);
    cuda::PipeSpec pipe;
    pipe.presence = decode_presence(fields["presence"], from);
    pipe.key_bytes = key_bytes_of(op);
    pipe.key_columns = to == nullptr ? 0 : to->key_columns;
    pipe.null_byte = fields["nullByte"].int32(-1, null_byte_max(pipe.key_columns));
    decode_pipe_keys(fields["keys"], from, to, pipe);
    // Words of the key are the first columns, of which nothing is told beside.
    for (uint32_t c = 0; c < pipe.key_columns; ++c) {
        pipe.columns.push_back({cuda::PipeValue{}, cuda::PipeColumnKind::kKeyWord, 0});
    }
    const Field columns = fields["columns"];
    for (const Field& item : columns.array()) {
        const size_t at = pipe.columns.size();
        if (at >= widths.size()) throw columns.error("a column for each width of the operator");
        pipe.columns.push_back(decode_pipe_column(item, from, widths[at]));
    }
    fields.finish();
    if (pipe.columns.size() != widths.size()) throw columns.error("a column for each width of the operator");
    return pipe;
}

// Flows one after the other, and which input of each operator comes next.
class FlowDecoder {
  public:
    FlowDecoder(const std::vector<OutOfCoreOperator>& operators, const std::vector<const Source*>& sources)
        : operators_(operators), sources_(sources), next_(operators.size()) {}

    std::vector<TreeFlow> decode(const Field& field) {
        std::vector<TreeFlow> flows;
        const std::vector<Field> items = field.array();
        for (size_t i = 0; i < items.size(); ++i) flows.push_back(decode_flow(items[i], i + 1 == items.size()));
        if (flows.empty()) throw field.error("at least one flow");
        for (size_t op = 0; op < operators_.size(); ++op) {
            if (next_[op] != inputs_of(operators_[op])) {
                throw field.error("flows through all inputs of operator " + std::to_string(op));
            }
        }
        return flows;
    }

  private:
    TreeFlow decode_flow(const Field& field, bool last) {
        Fields fields(field);
        TreeFlow flow;
        flow.source = fields["source"].int32(0, static_cast<int32_t>(sources_.size()) - 1);
        const Field side = fields["side"];
        const Field steps = fields["steps"];
        fields.finish();
        for (const Field& step : steps.array()) flow.steps.push_back(decode_step(step, flow.steps));
        if (flow.steps.empty()) throw steps.error("at least one step");
        if (gives_rows(flow.steps.back()) != last) {
            throw steps.error(last ? "steps that end in the last input of an operator"
                                   : "steps that end in an input which is not the last, but for the last flow");
        }
        const OutOfCoreOperator& first = operator_of(flow.steps[0]);
        flow.side = decode_chunk_side(side, *sources_[static_cast<size_t>(flow.source)], key_bytes_of(first),
                                      widths_of(first, flow.steps[0].input), join_of(first));
        check_has_keys(side, first, flow.side.keys.size());
        const bool of_group = join_of(first) == nullptr;
        const auto is_strange = [of_group](const ChunkColumn& column) {
            return column.distinct.has_value() || is_text_extreme(column.part) ||
                   (of_group && column.column == kKeyWordColumn);
        };
        const std::vector<ChunkColumn>& columns = flow.side.columns;
        if (flow.side.numbered || std::any_of(columns.begin(), columns.end(), is_strange))
            throw side.error("keys and columns that rows of a tree have");
        return flow;
    }

    // before: the steps of the same flow.
    TreeStep decode_step(const Field& field, const std::vector<TreeStep>& before) {
        Fields fields(field);
        TreeStep step;
        step.op = fields["operator"].int32(0, static_cast<int32_t>(operators_.size()) - 1);
        const Field input = fields["input"];
        step.input = input.int32(0, inputs_of(operator_of(step)) - 1);
        const Field pipe = fields["pipe"];
        fields.finish();
        int32_t& next = next_[static_cast<size_t>(step.op)];
        if (step.input != next) throw input.error("each input once, in order");
        ++next;
        if (before.empty()) {
            if (!pipe.is_null()) throw pipe.error("null in the first step, whose rows are of the source");
            return step;
        }
        const cuda::StagedJoinSpec* const from = join_of(operator_of(before.back()));
        const bool rows = from != nullptr && from->result == cuda::JoinResultKind::kRows;
        if (!rows || !gives_rows(before.back())) throw field.error("a step behind the last input of a join of rows");
        const OutOfCoreOperator& op = operator_of(step);
        if (std::holds_alternative<cuda::CoherentJoinSpec>(op)) {
            throw field.error("another operator, where a join takes the pages of all rows before they come");
        }
        step.pipe = decode_pipe(pipe, *from, op, step.input);
        check_has_keys(pipe, op, step.pipe.keys.size());
        return step;
    }

    const OutOfCoreOperator& operator_of(const TreeStep& step) const {
        return operators_[static_cast<size_t>(step.op)];
    }
    bool gives_rows(const TreeStep& step) const { return step.input + 1 == inputs_of(operator_of(step)); }
    // Without keys a join would pair all rows.
    void check_has_keys(const Field& field, const OutOfCoreOperator& op, size_t keys) const {
        if (join_of(op) != nullptr && keys == 0) throw field.error("an object with keys");
    }

    const std::vector<OutOfCoreOperator>& operators_;
    const std::vector<const Source*>& sources_;
    std::vector<int32_t> next_;
};

// Outputs with row numbers, by flow.
std::vector<int32_t> decode_row_numbers(const Field& field, const cuda::StagedJoinSpec& join, size_t flows) {
    std::vector<int32_t> numbers;
    for (const Field& item : field.array()) {
        numbers.push_back(item.int32(-1, static_cast<int32_t>(join.output.size()) - 1));
        if (numbers.back() < 0) continue;
        const cuda::JoinOutputColumn& output = join.output[static_cast<size_t>(numbers.back())];
        const bool of_side = output.side == cuda::OutputSide::kBuild || output.side == cuda::OutputSide::kProbe;
        const uint32_t width = join.output_width(output);
        if (!of_side || (width != 4 && width != 8)) throw item.error("an output with the row numbers of a source");
    }
    if (numbers.size() != flows) throw field.error("an output for each flow");
    return numbers;
}

// The last join of the tree, and the sources of its flows.
struct JoinedSources {
    const cuda::StagedJoinSpec& join;
    std::vector<const Source*> sources;
};

ResultColumn decode_result_column(const Field& field, const JoinedSources& from,
                                  const std::vector<int32_t>& row_numbers) {
    Fields column(field);
    ResultColumn made;
    made.type = decode_column(column["type"]);
    const Field parts = column["parts"];
    column.finish();
    const uint32_t width = is_text(*made.type) ? kTextCodeBytes : chunk_width(*made.type);
    for (const Field& part : parts.array()) {
        Fields fields(part);
        const bool of_gpu = fields["from"].one_of<bool>({{"gpu", true}, {"flow", false}});
        const Field flow = fields["flow"];
        const int32_t number = flow.int32(-1, static_cast<int32_t>(row_numbers.size()) - 1);
        if ((number < 0) != of_gpu) throw flow.error("a flow for what is not the GPU's, else -1");
        if (of_gpu) {
            made.parts.push_back(decode_gpu_part(fields, from.join, width));
        } else {
            const auto at = static_cast<size_t>(number);
            if (row_numbers[at] < 0) throw flow.error("a flow with row numbers");
            made.parts.push_back(decode_source_part(fields, from.join, *from.sources[at], *made.type));
            made.parts.back().source = number;
        }
        if ((made.parts.back().source != kOfGpu) != made.is_gathered()) throw parts.error("parts of one origin");
    }
    if (made.parts.empty()) throw parts.error("at least one part");
    return made;
}

TreeJoinResult decode_join_rows(Fields& fields, const JoinedSources& from) {
    TreeJoinResult result;
    result.presence = decode_presence(fields["presence"], from.join);
    result.packed = fields["packed"].boolean();
    result.row_numbers = decode_row_numbers(fields["rowNumbers"], from.join, from.sources.size());
    for (const Field& item : fields["columns"].array()) {
        result.columns.push_back(decode_result_column(item, from, result.row_numbers));
    }
    return result;
}

TreeGroupResult decode_groups(Fields& fields, const cuda::StagedGroupBySpec& group) {
    TreeGroupResult result;
    result.null_byte = fields["nullByte"].int32(-1, static_cast<int32_t>(group.key_bytes) - 1);
    for (const Field& column : fields["columns"].array()) {
        result.columns.push_back(decode_group_result(column, group));
    }
    return result;
}

void decode_tree_result(const Field& field, const std::vector<const Source*>& sources, OutOfCoreTree& tree) {
    Fields fields(field);
    const auto* const join = tree.root_join();
    const Field kind = fields["kind"];
    const bool is_join = kind.one_of<bool>({{"join", true}, {"group", false}});
    if (is_join != (join != nullptr)) throw kind.error("the kind of the last operator");
    if (is_join) {
        JoinedSources from{*join, {}};
        for (const TreeFlow& flow : tree.flows) from.sources.push_back(sources[static_cast<size_t>(flow.source)]);
        tree.result = decode_join_rows(fields, from);
    } else {
        const auto& root = tree.operators[static_cast<size_t>(tree.root().op)];
        tree.result = decode_groups(fields, std::get<cuda::StagedGroupBySpec>(root));
    }
    fields.finish();
}

}  // namespace

OutOfCoreTree decode_out_of_core_tree(const Napi::Value& value, const std::vector<const Source*>& sources) {
    Fields fields(value, "spec");
    OutOfCoreTree tree;
    const Field operators = fields["operators"];
    for (const Field& item : operators.array()) tree.operators.push_back(decode_operator(item));
    if (tree.operators.empty()) throw operators.error("at least one operator");
    tree.flows = FlowDecoder(tree.operators, sources).decode(fields["flows"]);
    decode_tree_result(fields["result"], sources, tree);
    tree.workers = fields["workers"].int32(1, kWorkersMax);
    fields.finish();
    return tree;
}

}  // namespace spillway::addon
