// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "memory/buffer.hpp"
#include "model/column_view.hpp"
#include "transfer/batch_cursor.hpp"
#include "transfer/source_parts.hpp"

namespace spillway {

// Memory of one node of one reader, used again for every slice.
struct NodeScratch {
    Buffer validity;
    Buffer data;     // values, bytes, views, type ids, unified dictionary indices
    Buffer offsets;  // binary, list, dense union
    Buffer bytes;    // views: data buffers; dictionaries: validity when a value is NULL
    Buffer codes;    // dictionaries: indices as they lie in the file; views: segments to read

    struct Range {  // rows of a union member, or bytes of a view data buffer, that the slice needs
        int64_t begin = 0;
        int64_t end = 0;
        int64_t used = 0;  // views: bytes of the values alone
    };
    // Offsets of a file that are in `offsets`: what looked ahead at them has read them for who reads the rows.
    struct KeptOffsets {
        int32_t file = -1;
        int64_t begin = 0;  // in the file
        int64_t bytes = 0;
    };
    KeptOffsets kept_offsets;
    std::vector<Range> ranges;
    Reservation lists;  // of `ranges` and ColumnView::view_buffers, where they are long
    std::vector<NodeScratch> children;
};

// Rows [row, row + rows) of one node of one batch; whoever makes it keeps them inside the node.
struct Slice {
    const NodePlan& plan;
    const BatchPosition& batch;
    int64_t row;
    int64_t rows;

    Slice child(size_t k, int64_t child_row, int64_t child_rows) const {
        return {plan.children[k], batch, child_row, child_rows};
    }
    const BatchLayout::Region& buffer(int64_t i) const { return batch.buffer(plan, i); }
    Error corrupt(const std::string& what) const { return corrupt_batch(batch, plan.name, what); }
};

// Reads slices of nodes, recursively, and checks what it hands out. One per SourceReader, which looks behind all slices
// of a piece whether their file was written to meanwhile.
class SliceReader {
  public:
    // cursor: that of the batches whose slices are read.
    SliceReader(const SourceParts& parts, BatchCursor& cursor, MemoryBudget& budget, MemoryStructure structure)
        : parts_(parts), cursor_(cursor), budget_(budget), structure_(structure) {}

    void read(const Slice& slice, NodeScratch& scratch, ColumnView& view);
    // Bytes that read() would need, judged by offsets (and views) alone. Never decreases when rows are added.
    uint64_t slice_bytes(const Slice& slice, NodeScratch& scratch);
    // Bytes of the values of a kBinary (NULLs too) or kView node, judged by offsets or views alone.
    uint64_t value_bytes(const Slice& slice, NodeScratch& scratch);
    // Bytes of the longest of them.
    uint64_t longest_value(const Slice& slice, NodeScratch& scratch);
    // Bytes handed out by read() since the last call.
    uint64_t take_bytes_read() { return std::exchange(bytes_read_, 0); }

  private:
    struct OffsetRange {
        int64_t first = 0;
        int64_t last = 0;
    };
    using Region = BatchLayout::Region;

    // File: copies into `scratch`. Memory: borrows. Never nullptr.
    const uint8_t* fetch(const Slice& slice, const Region& region, int64_t begin, int64_t bytes, Buffer& scratch);
    // The same for what says where values are (offsets, views, indices, type ids, validity): see MemoryStructure.
    const uint8_t* fetch_structure(const Slice& slice, const Region& region, int64_t begin, int64_t bytes,
                                   Buffer& scratch);
    // Copies in both cases.
    void copy(const Slice& slice, const Region& region, int64_t begin, int64_t bytes, uint8_t* out);
    uint8_t* reserve(Buffer& buffer, uint64_t bytes);

    void read_validity(const Slice& slice, NodeScratch& scratch, ColumnView& view);
    void read_null(const Slice& slice, NodeScratch& scratch, ColumnView& view);
    void read_bool(const Slice& slice, NodeScratch& scratch, ColumnView& view);
    OffsetRange read_offsets(const Slice& slice, NodeScratch& scratch, ColumnView& view);
    const uint8_t* fetch_offsets(const Slice& slice, NodeScratch& scratch);
    OffsetRange peek_offsets(const Slice& slice, NodeScratch& scratch);
    void read_binary(const Slice& slice, NodeScratch& scratch, ColumnView& view);
    void read_children(const Slice& slice, int64_t row, int64_t rows, NodeScratch& scratch, ColumnView& view);
    void check_list_end(const Slice& slice, int64_t last) const;
    void check_bytes_end(const Slice& slice, int64_t last) const;

    // slice_unions.cpp
    void read_type_ids(const Slice& slice, NodeScratch& scratch, ColumnView& view);
    void read_dense_union(const Slice& slice, NodeScratch& scratch, ColumnView& view);
    void find_member_rows(const Slice& slice, NodeScratch& scratch, const ColumnView& view);

    // slice_views.cpp
    void read_views(const Slice& slice, NodeScratch& scratch, ColumnView& view);
    void find_view_ranges(const Slice& slice, NodeScratch& scratch, const ColumnView& view);
    void fetch_view_ranges(const Slice& slice, NodeScratch& scratch, ColumnView& view);
    void gather_view_values(const Slice& slice, NodeScratch& scratch, ColumnView& view);
    uint64_t view_value_bytes(const Slice& slice, NodeScratch& scratch);

    // slice_dictionaries.cpp
    void read_dictionary(const Slice& slice, NodeScratch& scratch, ColumnView& view);
    template <class Code>
    void remap_codes(const Slice& slice, uint64_t values, const int32_t* table, const uint8_t* codes,
                     NodeScratch& scratch, ColumnView& view);

    const SourceParts& parts_;
    BatchCursor& cursor_;
    MemoryBudget& budget_;
    const MemoryStructure structure_;
    uint64_t bytes_read_ = 0;
};

// Bits that a row takes when that is the same for every row; -1 when rows have strings, lists or dense unions in them.
int64_t constant_row_bits(const NodePlan& plan);

}  // namespace spillway
