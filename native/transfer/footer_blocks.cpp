// SPDX-License-Identifier: Apache-2.0
#include "transfer/footer_blocks.hpp"

#include <algorithm>
#include <cstring>

#include "memory/counted_array.hpp"
#include "transfer/ipc_limits.hpp"

namespace spillway {

namespace {

constexpr int64_t kFooterWindowBytes = 64 * 1024;
constexpr int64_t kBlockBytes = 24;       // int64 offset, int32 metadata and padding, int64 body
constexpr int64_t kFooterTailBytes = 10;  // length of the footer and the magic
constexpr char kMagic[] = "ARROW1";
constexpr size_t kMagicBytes = 6;
// Slots of Footer in File.fbs.
constexpr int kDictionarySlot = 2;
constexpr int kRecordSlot = 3;

// Bytes of a flatbuffer that stays in its file.
class FooterBytes {
  public:
    FooterBytes(FileWindow& window, const std::string& path, int32_t file, FooterBlocks::Range range)
        : window_(&window), path_(&path), file_(file), range_(range) {}
    int64_t size() const { return range_.bytes; }
    const uint8_t* at(int64_t position, int64_t bytes) const {
        return window_->read(file_, range_.offset + position, bytes, kFooterWindowBytes);
    }
    const std::string& path() const { return *path_; }

  private:
    FileWindow* window_;
    const std::string* path_;
    int32_t file_;
    FooterBlocks::Range range_;
};

FooterBlocks::Range find_footer(const FileTable& files, int32_t file, FileWindow& window) {
    const std::string& path = files.path(file);
    const int64_t size = files.bytes(file);
    const auto missing = [&] {
        return truncated_file(path, "the footer is missing, as if its writer had not finished");
    };
    if (size < kIpcHeadBytes + kFooterTailBytes) throw missing();
    const uint8_t* tail = window.read(file, size - kFooterTailBytes, kFooterTailBytes, 0);
    if (std::memcmp(tail + 4, kMagic, kMagicBytes) != 0) throw missing();
    uint32_t bytes;
    std::memcpy(&bytes, tail, sizeof bytes);
    if (bytes == 0 || bytes > size - kIpcHeadBytes - kFooterTailBytes) {
        throw damaged_file(path, "the length of its footer is impossible");
    }
    return {size - kFooterTailBytes - bytes, bytes};
}

}  // namespace

FooterBlocks::FooterBlocks(const FileTable& files, int32_t file, MemoryBudget& budget)
    : files_(files),
      file_(file),
      budget_(budget),
      dictionary_window_(files, budget, kFooterWindowBytes),
      record_window_(files, budget, kFooterWindowBytes),
      footer_(find_footer(files, file, record_window_)) {
    const Flatbuffer<FooterBytes> footer(FooterBytes(record_window_, files.path(file), file, footer_));
    const FlatTable root = footer.root();
    dictionaries_ = footer.vector(root, kDictionarySlot, kBlockBytes);
    records_ = footer.vector(root, kRecordSlot, kBlockBytes);
}

FooterBlocks::Range FooterBlocks::list(const FlatVector& vector) const {
    return {footer_.offset + vector.first, vector.count * kBlockBytes};
}

FooterBlocks::Block FooterBlocks::read(FileWindow& window, int64_t index) const {
    const bool is_dictionary = index < dictionaries_.count;
    const Range blocks = list(is_dictionary ? dictionaries_ : records_);
    const int64_t at = (is_dictionary ? index : index - dictionaries_.count) * kBlockBytes;
    const uint8_t* bytes = window.read(file_, blocks.offset + at, kBlockBytes, blocks.bytes - at);
    Block block;
    int32_t metadata_bytes;
    std::memcpy(&block.offset, bytes, 8);
    std::memcpy(&metadata_bytes, bytes + 8, 4);
    std::memcpy(&block.body_bytes, bytes + 16, 8);
    block.metadata_bytes = metadata_bytes;
    const std::string& path = files_.path(file_);
    if (block.offset < kIpcHeadBytes || metadata_bytes < kIpcPrefixBytes || metadata_bytes > kIpcMetadataBytesMax ||
        block.body_bytes < 0) {
        throw damaged_file(path, "the footer describes an impossible batch " + std::to_string(index));
    }
    const int64_t left = files_.bytes(file_) - block.metadata_bytes;
    if (block.offset > left || block.body_bytes > left - block.offset) {
        throw truncated_file(path, "batch " + std::to_string(index) + " lies behind its end");
    }
    return block;
}

FooterBlocks::Block FooterBlocks::block(int64_t index) {
    return read(index < dictionaries_.count ? dictionary_window_ : record_window_, index);
}

void FooterBlocks::require_disjoint(const JobControl& control) {
    if (!are_ascending(control)) sort_and_compare(control);
}

// Writers list blocks as they lie: both lists rise, and so does what comes of merging them.
bool FooterBlocks::are_ascending(const JobControl& control) {
    int64_t end = 0;
    int64_t dictionary = 0;
    int64_t record = dictionaries_.count;
    while (dictionary < dictionaries_.count || record < count()) {
        if ((dictionary + record) % 4096 == 0) control.check();
        bool takes_dictionary = record == count();
        if (dictionary < dictionaries_.count && record < count()) {
            takes_dictionary = block(dictionary).offset < block(record).offset;
        }
        const Block next = block(takes_dictionary ? dictionary++ : record++);
        if (next.offset < end) return false;
        end = next.end();
    }
    return true;
}

void FooterBlocks::sort_and_compare(const JobControl& control) {
    struct Extent {
        int64_t begin;
        int64_t end;
    };
    CountedArray<Extent> extents("a footer whose batches are in disorder");
    Extent* all = extents.append(budget_, static_cast<size_t>(count()));
    for (int64_t i = 0; i < count(); ++i) {
        if (i % 4096 == 0) control.check();
        const Block next = block(i);
        all[i] = {next.offset, next.end()};
    }
    std::sort(all, all + count(), [](const Extent& a, const Extent& b) { return a.begin < b.begin; });
    for (int64_t i = 1; i < count(); ++i) {
        if (all[i].begin >= all[i - 1].end) continue;
        throw damaged_file(files_.path(file_), "its footer names the bytes from " + std::to_string(all[i].begin) +
                                                   " on in two batches; write the file again");
    }
}

}  // namespace spillway
