// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>

#include "radix_partition/column_packs.hpp"
#include "radix_partition/pack_pass.hpp"
#include "radix_partition/pack_policy.hpp"

namespace spillway::cuda { inline namespace radix_partitioning {

std::vector<ColumnPack> plan_packs(const std::vector<DeviceColumn>& columns) {
    std::vector<uint32_t> order(columns.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](uint32_t a, uint32_t b) { return columns[a].width > columns[b].width; });
    std::vector<ColumnPack> packs;
    // Widths are powers of two and fall, so that a pack is filled to the last byte before the next one begins.
    uint32_t at = kPackBytesMax;
    for (const uint32_t column : order) {
        const uint32_t width = columns[column].width;
        if (!is_value_width(width)) throw Error(ErrorCode::kInvalid, "columns have 1, 2, 4, 8 or 16 bytes");
        if (at == kPackBytesMax) {
            packs.emplace_back();
            at = 0;
        }
        packs.back().fields.push_back({column, width, at});
        at += width;
        packs.back().words = 1;
        while (packs.back().row_bytes() < at) packs.back().words *= 2;
    }
    return packs;
}

std::vector<PackSource> pack_sources(const std::vector<ColumnPack>& packs, const DeviceRelation& relation) {
    std::vector<PackSource> sources;
    for (const ColumnPack& pack : packs) {
        PackSource source{};
        source.rows = pack.rows.as<uint32_t>();
        source.words = pack.words;
        // Padding is a copy of the first word.
        uint32_t used = 0;
        for (const PackField& field : pack.fields) {
            used = std::max(used, (field.offset + field.width + 3) / 4);
            const DeviceColumn& column = relation.columns[field.column];
            const auto first = static_cast<uint8_t>(field.offset / 4);
            const auto words = static_cast<uint8_t>(std::max(field.width / 4, 1U));
            if (column.data != nullptr && field.width >= 4) {
                source.array[source.arrays++] = {column.data, words, first};
                for (uint8_t w = 0; w < words; ++w) source.word[first + w] = {first, w, words};
                continue;
            }
            for (uint8_t w = 0; w < words; ++w) {
                const auto word = static_cast<uint8_t>(first + w);
                source.part[source.parts++] = {column.data, static_cast<uint8_t>(field.width), word,
                                               static_cast<uint8_t>(field.offset % 4 * 8),
                                               static_cast<uint8_t>(w * 32)};
                source.word[word] = {word, 0, 1};
            }
        }
        std::fill(source.word + used, source.word + source.words, source.word[0]);
        sources.push_back(source);
    }
    return sources;
}

DeviceRelation PackedRelation::by_place() const {
    DeviceRelation relation;
    relation.rows = places;
    relation.key = {nullptr, keys.layout.key_words * 4};
    relation.key_valid = key_valid.as<const uint32_t>();
    relation.columns = {{nullptr, place_width}};
    return relation;
}

int pack_radix_bits(uint64_t rows) {
    int bits = 0;
    while (bits < kPackPassBitsMax && rows * kPackBytesMax >> bits > kPackWindowBytes) ++bits;
    return bits;
}

}}  // namespace spillway::cuda::radix_partitioning
