// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "cpu/row/row_encoder.hpp"

namespace spillway {

void place_row(const EncodedRows& encoded, int64_t i, uint8_t* row, uint8_t* heap) {
    std::memcpy(row, encoded.data + i * encoded.row_bytes, encoded.row_bytes);
    for (uint32_t f = 0; f < encoded.var_fields; ++f) {
        uint8_t* slot = row + encoded.var_offsets[f];
        VarRef ref;
        std::memcpy(&ref, slot, sizeof ref);
        if (ref.length == 0) continue;
        std::memcpy(heap, encoded.var_pointers[f * encoded.var_stride + i], ref.length);
        ref.distance = static_cast<uint32_t>(heap - slot);
        std::memcpy(slot, &ref, sizeof ref);
        heap += ref.length;
    }
}

}  // namespace spillway
