// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/bitmap.hpp"
#include "model/column_type.hpp"

namespace spillway {

// Borrowed rows of one column. All pointers are already advanced to row 0 of the view, except where a bit offset says
// how many bits to skip. Valid as long as whoever made it says (SourceReader: until its next read).
struct ColumnView {
    const ColumnType* type = nullptr;
    int64_t length = 0;
    const uint8_t* validity = nullptr;  // nullptr = every row valid
    int64_t validity_bit = 0;           // bit of row 0 in validity
    const uint8_t* data =
        nullptr;  // kFixed values, kBinary bytes (offsets index it), kView views, union type ids,
                  // kDictionary int32 indices into type->dictionary; kBool: bits, see data_bit. Need not be aligned.
    int64_t data_bit = 0;                      // kBool: bit of row 0 in data
    const uint8_t* offsets = nullptr;          // kBinary / kList: length + 1 offsets; kUnionDense: int32 child rows
    int64_t offset_base = 0;                   // subtract from each offset before indexing data / the child view
    std::vector<ColumnView> children;          // kList: child row (offset - offset_base); kFixedList: row i starts at
                                               // i * list_size; kStruct, kUnionSparse: same rows
    std::vector<const uint8_t*> view_buffers;  // kView: base pointers so that base[buffer_index] + offset is the value

    bool is_valid(int64_t row) const { return validity == nullptr || get_bit(validity, validity_bit + row); }
};

// All values of a dictionary column of one relation, unified over files and batches: equal values have equal indices.
struct Dictionary {
    ColumnType type;                            // value type
    ColumnView values;                          // distinct values; a NULL value never gets an index (the row is NULL)
    std::vector<std::shared_ptr<void>> owners;  // keep the memory behind `values` alive
    uint64_t bytes = 0;                         // memory held
};

}  // namespace spillway
