// SPDX-License-Identifier: Apache-2.0
#include "transfer/file_batches.hpp"

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "transfer/batch_header.hpp"
#include "transfer/file_facts.hpp"
#include "transfer/file_window.hpp"
#include "transfer/footer_blocks.hpp"
#include "transfer/ipc_limits.hpp"

namespace spillway {

void BatchPlaces::reserve(MemoryBudget& budget, int64_t batches) {
    // Asked for at once, so that an error tells how much all of it is.
    const auto bytes = static_cast<uint64_t>(batches) * (sizeof(BatchPlace) + sizeof(int64_t));
    if (bytes > CountedArray<BatchPlace>::kUncountedBytes) budget.reserve(bytes, places_.purpose()).release();
    places_.reserve(budget, static_cast<size_t>(batches));
    first_rows_.reserve(budget, static_cast<size_t>(batches));
}

void BatchPlaces::begin_file(int32_t file) {
    files_.push_back({count(), file});
}

bool BatchPlaces::add(MemoryBudget& budget, const BatchPlace& place, int64_t rows) {
    int64_t total;
    if (__builtin_add_overflow(rows_, rows, &total)) return false;
    first_rows_.push_back(budget, rows_);
    places_.push_back(budget, place);
    rows_ = total;
    return true;
}

void BatchPlaces::fit(MemoryBudget& budget) {
    places_.fit(budget);
    first_rows_.fit(budget);
}

BatchPlaces::Number BatchPlaces::number(int64_t batch) const {
    const auto after = std::upper_bound(files_.begin(), files_.end(), batch,
                                        [](int64_t wanted, const FileBegin& begin) { return wanted < begin.batch; });
    SPILLWAY_CHECK(after != files_.begin());
    const FileBegin& found = *(after - 1);
    return {found.file, batch - found.batch};
}

int64_t BatchPlaces::extent(int64_t batch) const {
    if (batch + 1 >= count() || number(batch).file != number(batch + 1).file) return 0;
    return std::max<int64_t>(0, (*this)[batch + 1].offset - (*this)[batch].offset);
}

uint64_t FileBatches::counted_bytes() const {
    uint64_t bytes = records.counted_bytes() + dictionary_sets.counted_bytes();
    for (const Values& list : values) bytes += list.places.counted_bytes() + list.versions.counted_bytes();
    return bytes;
}

namespace {

constexpr int64_t kWindowBytes = 64 * 1024;
// Messages of at most this size are read with those behind them; of larger ones the metadata alone.
constexpr int64_t kSmallMessageBytes = 8 * 1024;
constexpr int64_t kLargeHeadBytes = 4 * 1024;  // mostly all of the metadata
constexpr int64_t kCheckEvery = 1024;

class Builder {
  public:
    Builder(const FileBatchesSpec& spec, MemoryBudget& budget, const JobControl& control)
        : spec_(spec), budget_(budget), control_(control) {
        for (const FileBatchesSpec::File& file : spec.files) {
            batches_.paths.push_back(file.path);
            batches_.stamps.push_back(file.stamp);
        }
        for (const TypePtr& column : spec.columns) plans_.push_back(plan_column(*column, *column, counts_));
        dictionaries_ = dictionary_nodes(plans_);
        batches_.dictionary_nodes = static_cast<int32_t>(dictionaries_.size());
        facts_ = std::make_unique<FactsOfHeaders>(plans_, counts_, dictionaries_, budget);
        files_ = std::make_unique<FileTable>(batches_.paths, batches_.stamps);
        window_ = std::make_unique<FileWindow>(*files_, budget, kWindowBytes);
    }

    FileBatches build(FileFacts& facts) {
        for (size_t f = 0; f < spec_.files.size(); ++f) {
            begin_file(static_cast<int32_t>(f));
            try {
                spec_.files[f].is_stream ? scan_stream() : scan_footer();
            } catch (const Error& error) {
                if (error.code() != ErrorCode::kBudgetTooSmall) throw;
                throw too_many_batches(error);
            }
        }
        batches_.records.fit(budget_);
        batches_.dictionary_sets.fit(budget_);
        for (FileBatches::Values& values : batches_.values) {
            values.places.fit(budget_);
            values.versions.fit(budget_);
        }
        facts = facts_->finish(batches_);
        return std::move(batches_);
    }

  private:
    struct Message {
        int64_t offset = 0;
        int64_t metadata_bytes = 0;
        int64_t body_bytes = 0;
    };

    const FileBatchesSpec::File& file() const { return spec_.files[static_cast<size_t>(file_)]; }
    const std::string& path() const { return file().path; }

    Error too_many_batches(const Error& error) const {
        auto details = error.details();
        details.emplace_back("path", path());
        return Error(error.code(),
                     "'" + path() + "' has too many batches for the budget: " + error.message() +
                         ", or write the file again with more rows in each record batch",
                     std::move(details));
    }

    void begin_file(int32_t number) {
        file_ = number;
        batches_.records.begin_file(number);
        FileBatches::FileSets sets;
        sets.first_set = batches_.set_count();
        ids_.clear();
        const auto first = static_cast<int32_t>(batches_.values.size());
        for (const int64_t id : file().dictionary_ids) {
            const auto known = std::find(ids_.begin(), ids_.end(), id);
            const size_t node = sets.values_of_node.size();
            SPILLWAY_CHECK(node < dictionaries_.size());
            sets.values_of_node.push_back(first + static_cast<int32_t>(known - ids_.begin()));
            if (known != ids_.end()) continue;
            ids_.push_back(id);
            batches_.values.emplace_back();
            batches_.values.back().type = dictionaries_[node].values[0];
            batches_.values.back().places.begin_file(number);
        }
        SPILLWAY_CHECK(sets.values_of_node.size() == dictionaries_.size());
        batches_.files.push_back(std::move(sets));
        first_values_ = first;
        new_set_ = true;
    }

    void scan_footer() {
        FooterBlocks footer(*files_, file_, budget_);
        footer.require_disjoint(control_);
        batches_.records.reserve(budget_, batches_.records.count() + footer.count() - footer.dictionaries());
        for (int64_t i = 0; i < footer.count(); ++i) {
            if (i % kCheckEvery == 0) control_.check();
            const FooterBlocks::Block block = footer.block(i);
            const int64_t extent = block.metadata_bytes + block.body_bytes;
            const uint8_t* metadata = read(block.offset, block.metadata_bytes, extent);
            const MessagePrefix prefix = message_prefix(metadata, block.metadata_bytes, path());
            const MessageView view(MetadataBytes(metadata + prefix.bytes, prefix.flatbuffer_bytes, path()));
            const MessageHead head = read_message_head(view);
            if (head.body_bytes < 0 || head.body_bytes > block.body_bytes) {
                view.fail("batch " + std::to_string(i) + " has a longer body than its block");
            }
            add(view, head, {block.offset, block.metadata_bytes, head.body_bytes});
        }
    }

    void scan_stream() {
        const int64_t size = files_->bytes(file_);
        const int64_t prefix = stream_prefix_bytes(size);
        int64_t extent = 0;  // of the message before
        int64_t messages = 0;
        for (int64_t offset = file().begin; offset + prefix <= size; offset += extent) {
            if (messages++ % kCheckEvery == 0) control_.check();
            const int64_t length = stream_metadata_bytes(offset, prefix, extent);
            if (length == 0) break;
            if (length > size - offset - prefix) {
                throw truncated_file(path(), message_at(offset) + " is incomplete");
            }
            const uint8_t* metadata = read(offset, prefix + length, extent);
            const MessageView view(MetadataBytes(metadata + prefix, length, path()));
            const MessageHead head = read_message_head(view);
            if (head.type == MessageHead::kSchema) view.fail("it has two schemas");
            const int64_t body = offset + prefix + length;
            if (head.body_bytes < 0 || head.body_bytes > size - body) {
                throw truncated_file(path(), "the body at byte " + std::to_string(offset) + " is incomplete");
            }
            add(view, head, {offset, prefix + length, head.body_bytes});
            extent = prefix + length + head.body_bytes;
        }
    }

    // All messages of a stream have a prefix of this length, as its first one has. Messages from before Arrow 0.15
    // begin with their length, which is never 0 there.
    int64_t stream_prefix_bytes(int64_t size) {
        uint32_t word = kIpcContinuation;
        if (size >= kIpcPrefixBytes) std::memcpy(&word, read(0, kIpcPrefixBytes, 0), sizeof word);
        const bool is_length = word != kIpcContinuation && word != 0;
        return is_length ? kIpcPrefixBytes - int64_t{sizeof word} : kIpcPrefixBytes;
    }

    static std::string message_at(int64_t offset) { return "the message at byte " + std::to_string(offset); }

    // 0 at the end of the stream.
    int64_t stream_metadata_bytes(int64_t offset, int64_t prefix, int64_t extent) {
        uint32_t words[2] = {kIpcContinuation, 0};
        const auto bytes = static_cast<size_t>(prefix);
        uint8_t* const end = reinterpret_cast<uint8_t*>(words) + sizeof words;
        std::memcpy(end - bytes, read(offset, prefix, extent), bytes);
        if (words[0] != kIpcContinuation) {
            throw damaged_file(path(), "there is no message at byte " + std::to_string(offset));
        }
        if (words[1] > kIpcMetadataBytesMax)
            throw damaged_file(path(), message_at(offset) + " has an impossible length");
        return words[1];
    }

    // extent: bytes to the next message, about.
    const uint8_t* read(int64_t offset, int64_t bytes, int64_t extent) {
        return window_->read(file_, offset, bytes, extent <= kSmallMessageBytes ? kWindowBytes : kLargeHeadBytes);
    }

    void add(const MessageView& view, const MessageHead& head, const Message& message) {
        require_known_version(view, head, file().has_union);
        if (head.type == MessageHead::kRecordBatch) {
            add_records(view, head, message);
        } else if (head.type == MessageHead::kDictionaryBatch) {
            add_values(view, head, message);
        } else {
            view.fail("a message is neither a record batch nor a dictionary");
        }
    }

    void read_layout(const MessageView& view, const MessageHead& head, const Message& message,
                     const std::vector<NodePlan>& plans, const SchemaCounts& counts, int64_t number) {
        const int64_t body = message.offset + message.metadata_bytes;
        layout_bytes_.release();
        layout_bytes_ = reserve_layout(budget_, message.metadata_bytes);
        read_batch_layout(view, head, {plans, counts}, body, message.body_bytes, layout_, starts_);
        layout_.file = file_;
        const BatchPosition position{&layout_, number, files_.get(), starts_.data(), nullptr};
        check_batch(plans, counts, position);
        require_bytes(position);
    }

    // Rows of NULLs, of structs without fields and the like have no bytes, and no engine counts 2^52 of them.
    void require_bytes(const BatchPosition& position) const {
        if (layout_.rows <= std::numeric_limits<int32_t>::max()) return;
        int64_t bytes = 0;
        for (const BatchLayout::Region& region : layout_.buffers) {
            if (__builtin_add_overflow(bytes, region.length, &bytes)) return;
        }
        if (layout_.rows / 8 <= bytes) return;
        throw corrupt_batch(position, kAllColumns,
                            "claim " + std::to_string(layout_.rows) + " rows with " + std::to_string(bytes) +
                                " bytes behind them; a batch of more than 2147483647 rows needs a bit for each");
    }

    void add_records(const MessageView& view, const MessageHead& head, const Message& message) {
        read_layout(view, head, message, plans_, counts_, batches_.records.next_number());
        if (new_set_ && !dictionaries_.empty()) add_set();
        const int64_t set = std::max<int64_t>(0, batches_.set_count() - 1);
        add_place(batches_.records, message, set);
        facts_->add_records(layout_, starts_);
    }

    void add_place(BatchPlaces& places, const Message& message, int64_t set) {
        if (set > std::numeric_limits<int32_t>::max()) throw damaged_file(path(), "it replaces dictionaries too often");
        const BatchPlace place{message.offset, static_cast<int32_t>(message.metadata_bytes), static_cast<int32_t>(set)};
        if (places.add(budget_, place, layout_.rows)) return;
        throw damaged_file(path(), "it brings the relation to more than 2^63 rows");
    }

    void add_set() {
        const FileBatches::FileSets& sets = batches_.files.back();
        int32_t* set = batches_.dictionary_sets.append(budget_, dictionaries_.size());
        for (size_t i = 0; i < dictionaries_.size(); ++i) {
            const FileBatches::Values& values = batches_.values[static_cast<size_t>(sets.values_of_node[i])];
            set[i] = static_cast<int32_t>(values.versions.size()) - 1;
        }
        facts_->use_set(batches_, sets, batches_.set_count() - 1);
        new_set_ = false;
    }

    void add_values(const MessageView& view, const MessageHead& head, const Message& message) {
        const auto known = std::find(ids_.begin(), ids_.end(), head.dictionary);
        if (known == ids_.end()) {
            view.fail("dictionary " + std::to_string(head.dictionary) + " belongs to no column");
        }
        const int32_t index = first_values_ + static_cast<int32_t>(known - ids_.begin());
        FileBatches::Values& values = batches_.values[static_cast<size_t>(index)];
        const std::vector<int32_t>& of_node = batches_.files.back().values_of_node;
        const auto node = static_cast<size_t>(std::find(of_node.begin(), of_node.end(), index) - of_node.begin());
        const DictionaryNode& dictionary = dictionaries_[node];
        read_layout(view, head, message, dictionary.plans, dictionary.counts, values.places.count());
        const bool is_new = values.versions.empty() || !head.is_delta;
        if (is_new && !values.versions.empty() && !file().is_stream) {
            view.fail("dictionary " + std::to_string(head.dictionary) + " appears twice");
        }
        if (values.places.count() >= std::numeric_limits<int32_t>::max()) view.fail("it has too many dictionaries");
        if (is_new) {
            values.versions.push_back(budget_, static_cast<int32_t>(values.places.count()));
            new_set_ = true;
        }
        add_place(values.places, message, 0);
        facts_->add_values(index, is_new, layout_);
    }

    const FileBatchesSpec& spec_;
    MemoryBudget& budget_;
    const JobControl& control_;
    FileBatches batches_;
    std::vector<NodePlan> plans_;
    SchemaCounts counts_;
    std::vector<DictionaryNode> dictionaries_;
    std::unique_ptr<FactsOfHeaders> facts_;
    std::unique_ptr<FileTable> files_;
    std::unique_ptr<FileWindow> window_;
    Reservation layout_bytes_;
    BatchLayout layout_;
    std::vector<int64_t> starts_;
    // These belong to the file at hand.
    int32_t file_ = 0;
    std::vector<int64_t> ids_;
    int32_t first_values_ = 0;
    bool new_set_ = true;  // the next record batch has other dictionaries than the one before
};

}  // namespace

FileBatches open_file_batches(const FileBatchesSpec& spec, MemoryBudget& budget, const JobControl& control,
                              FileFacts& facts) {
    return Builder(spec, budget, control).build(facts);
}

}  // namespace spillway
