// SPDX-License-Identifier: Apache-2.0
#include "transfer/batch_cursor.hpp"

#include "transfer/batch_header.hpp"

namespace spillway {

namespace {

// Per reader and uncounted, so not larger: 40 batches of 20 rows.
constexpr int64_t kHeaderWindowBytes = 16 * 1024;
constexpr int64_t kSmallHeaderBytes = kHeaderWindowBytes / 4;

}  // namespace

BatchCursor::BatchCursor(const SourceSpec& spec, const SourceParts& parts, MemoryBudget& budget)
    : spec_(spec), parts_(parts), budget_(budget), window_(*parts.files, budget, kHeaderWindowBytes) {}

const BatchPosition& BatchCursor::at(int64_t batch) {
    if (batch == batch_) return position_;
    batch_ = -1;  // until all is there
    dictionaries_.clear();
    const auto known = static_cast<int64_t>(spec_.batches.size());
    if (batch < known) {
        const BatchLayout& layout = spec_.batches[static_cast<size_t>(batch)];
        find_variadic_starts(layout, starts_);
        for (const int32_t index : layout.dictionaries) dictionaries_.push_back({index, 0});
        position_ = {&layout, parts_.numbers[static_cast<size_t>(batch)], parts_.files.get(), nullptr, nullptr};
    } else {
        read_header(batch - known);
    }
    position_.variadic_starts = starts_.data();
    position_.dictionaries = dictionaries_.data();
    batch_ = batch;
    return position_;
}

void BatchCursor::read_header(int64_t batch) {
    const BatchPlaces& places = *parts_.places;
    const BatchPlace& place = places[batch];
    const BatchPlaces::Number number = places.number(batch);
    const int32_t file = parts_.first_file + number.file;
    const std::string& path = parts_.files->path(file);
    const int64_t extent = places.extent(batch);
    const bool is_small = extent > 0 && extent <= kSmallHeaderBytes;
    const uint8_t* metadata = window_.read(file, place.offset, place.metadata_bytes, is_small ? kHeaderWindowBytes : 0);
    const MessagePrefix prefix = message_prefix(metadata, place.metadata_bytes, path);
    const MessageView view(MetadataBytes(metadata + prefix.bytes, prefix.flatbuffer_bytes, path));
    const MessageHead head = read_message_head(view);
    if (head.type != MessageHead::kRecordBatch && head.type != MessageHead::kDictionaryBatch) {
        view.fail("a message is neither a record batch nor a dictionary");
    }
    layout_bytes_.release();
    layout_bytes_ = reserve_layout(budget_, place.metadata_bytes);
    const int64_t body = place.offset + place.metadata_bytes;
    if (head.body_bytes < 0 || head.body_bytes > parts_.files->bytes(file) - body) {
        throw truncated_file(path, "the body at byte " + std::to_string(place.offset) + " is incomplete");
    }
    read_batch_layout(view, head, {parts_.plans, parts_.counts}, body, head.body_bytes, layout_, starts_);
    layout_.file = file;
    position_ = {&layout_, number.number, parts_.files.get(), starts_.data(), nullptr};
    // Bytes may change although all that tells of a write stays: what is read must be sound all the same.
    check_batch(parts_.plans, parts_.counts, position_);
    if (layout_.rows != places.first_row(batch + 1) - places.first_row(batch)) parts_.files->fail_changed(file);
    if (parts_.own < 0) return;
    const SourceParts::Provider& provider = parts_.providers[static_cast<size_t>(parts_.own)];
    const FileBatches& batches = *provider.batches;
    const FileBatches::FileSets& sets = batches.files[static_cast<size_t>(number.file)];
    for (int32_t node = 0; node < batches.dictionary_nodes; ++node) {
        const int32_t version = batches.version_of(place.dictionaries, node);
        const int32_t values = provider.first_values + sets.values_of_node[static_cast<size_t>(node)];
        dictionaries_.push_back(version < 0 ? DictionaryRef{} : DictionaryRef{values, version});
    }
}

const uint8_t* BatchCursor::in_memory(int32_t file, int64_t offset, int64_t bytes) {
    return window_.holds(file, offset, bytes) ? window_.read(file, offset, bytes, 0) : nullptr;
}

}  // namespace spillway
