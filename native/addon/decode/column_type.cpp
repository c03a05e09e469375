// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include "addon/decode/decode.hpp"
#include "addon/jobs/handles.hpp"
#include "model/type_size.hpp"

namespace spillway::addon {

namespace {

constexpr int kDepthMax = 64;  // nesting of types; recursion must not exhaust the stack

int32_t decode_width(const Field& field, Layout layout) {
    const int32_t width = field.int32(0, kInt32Max);
    switch (layout) {
        case Layout::kFixed:
            if (width == 0) throw field.error("an integer from 1 to " + std::to_string(kInt32Max));
            break;
        case Layout::kBinary:
        case Layout::kList:
            if (width != 4 && width != 8) throw field.error("4 or 8 (width of an offset)");
            break;
        case Layout::kDictionary:
            if (width != 1 && width != 2 && width != 4 && width != 8) throw field.error("1, 2, 4 or 8 (index width)");
            break;
        default:
            break;  // no width of its own
    }
    return width;
}

void check_children(const ColumnType& type, const Field& field) {
    const size_t children = type.children.size();
    switch (type.layout) {
        case Layout::kList:
        case Layout::kFixedList:
        case Layout::kDictionary:
            if (children != 1) throw field.error("an array with one child type");
            break;
        case Layout::kStruct:
            break;
        case Layout::kUnionSparse:
        case Layout::kUnionDense:
            if (children != type.type_ids.size()) throw field.error("an array with one child per entry of 'typeIds'");
            break;
        default:
            if (children != 0) throw field.error("an empty array for this layout");
            break;
    }
}

ColumnType decode_type(const Field& field, int depth) {
    if (depth > kDepthMax) throw field.error("nested at most " + std::to_string(kDepthMax) + " levels deep");
    Fields fields(field);
    ColumnType type;
    type.name = fields["name"].string();
    type.layout = fields["layout"].one_of<Layout>({{"null", Layout::kNull},
                                                   {"bool", Layout::kBool},
                                                   {"fixed", Layout::kFixed},
                                                   {"binary", Layout::kBinary},
                                                   {"view", Layout::kView},
                                                   {"list", Layout::kList},
                                                   {"fixedList", Layout::kFixedList},
                                                   {"struct", Layout::kStruct},
                                                   {"unionSparse", Layout::kUnionSparse},
                                                   {"unionDense", Layout::kUnionDense},
                                                   {"dictionary", Layout::kDictionary}});
    type.order = fields["order"].one_of<Order>({{"signed", Order::kSigned},
                                                {"unsigned", Order::kUnsigned},
                                                {"float", Order::kFloat},
                                                {"decimal", Order::kDecimal},
                                                {"bytes", Order::kBytes}});
    type.byte_width = decode_width(fields["byteWidth"], type.layout);
    // The order of a dictionary column itself says how its indices are read; values are ordered by child 0.
    if (fields.has("indexSigned")) {
        const bool index_signed = fields["indexSigned"].boolean();
        if (type.layout == Layout::kDictionary) type.order = index_signed ? Order::kSigned : Order::kUnsigned;
    }
    type.nullable = fields["nullable"].boolean();
    type.utf8 = fields["utf8"].boolean();
    type.list_size = fields["listSize"].integer(0, kInt32Max);
    for (const Field& id : fields["typeIds"].array()) type.type_ids.push_back(static_cast<int8_t>(id.int32(0, 127)));
    const Field children = fields["children"];
    for (const Field& child : children.array()) type.children.push_back(decode_type(child, depth + 1));
    check_children(type, children);
    fields.finish();
    return type;
}

constexpr uint64_t kColumnTypeTag = 9;  // that of no HandleKind

// What a description was found to be, which its JS object then carries (napi_wrap).
using Known = Box<const ColumnType>;

// Behind a tag that no other copy of the addon has.
Known* known_of(napi_env env, napi_value object) {
    const napi_type_tag tag = type_tag(kColumnTypeTag);
    bool tagged = false;
    void* known = nullptr;
    if (napi_check_object_type_tag(env, object, &tag, &tagged) != napi_ok || !tagged) return nullptr;
    return napi_unwrap(env, object, &known) == napi_ok ? static_cast<Known*>(known) : nullptr;
}

bool is_frozen(Napi::Env env, const Napi::Value& value) {
    const auto object = env.Global().Get("Object").As<Napi::Object>();
    return object.Get("isFrozen").As<Napi::Function>().Call(object, {value}).ToBoolean().Value();
}

// A frozen description describes the same for ever: each query reads some of all columns of its relations several
// times, 3 us for each. (The relations freeze what is inside of theirs, too.)
void keep_if_frozen(const Napi::Value& value, const TypePtr& type) {
    const Napi::Env env = value.Env();
    if (!is_frozen(env, value)) return;
    const napi_type_tag tag = type_tag(kColumnTypeTag);
    if (napi_type_tag_object(env, value, &tag) != napi_ok) return;
    auto known = std::make_unique<Known>(Known{type});
    const auto drop = [](napi_env, void* data, void*) { delete static_cast<Known*>(data); };
    if (napi_wrap(env, value, known.get(), drop, nullptr, nullptr) == napi_ok) known.release();
}

}  // namespace

TypePtr decode_column(const Field& field) {
    const Napi::Value& value = field.value();
    const Known* const known = value.IsObject() ? known_of(value.Env(), value) : nullptr;
    if (known != nullptr) return known->value;
    const auto type = std::make_shared<const ColumnType>(decode_type(field, 0));
    check_row_size(*type, type->name);
    keep_if_frozen(value, type);
    return type;
}

std::vector<TypePtr> decode_columns(const Field& field) {
    std::vector<TypePtr> columns;
    for (const Field& column : field.array()) columns.push_back(decode_column(column));
    return columns;
}

}  // namespace spillway::addon
