// SPDX-License-Identifier: Apache-2.0
// For the host alone, like .cpp files; but the mix of keys is declared for both.
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <new>
#include <numeric>
#include <system_error>
#include <thread>

#include "baseline_join/baseline_join_policy.hpp"
#include "baseline_join/cpu_partition.hpp"
#include "baseline_join/stream_lines.hpp"
#include "primitive/mix.cuh"

namespace spillway::cuda { inline namespace baseline_join {

namespace {

// Buffers of all threads and partitions, each beginning with a cache line.
class LineBuffers {
  public:
    explicit LineBuffers(uint64_t bytes)
        : data_(static_cast<uint8_t*>(::operator new (bytes, std::align_val_t{kCacheLineBytes}))) {}
    LineBuffers(const LineBuffers&) = delete;
    LineBuffers& operator=(const LineBuffers&) = delete;
    ~LineBuffers() { ::operator delete (data_, std::align_val_t{kCacheLineBytes}); }
    uint8_t* data() const { return data_; }

  private:
    uint8_t* const data_;
};

// Threads that have a share of the rows, and how many of them are still at it.
class Workers {
  public:
    // work(0), ..., work(count - 1), which throw nothing, each on a thread of its own, but for those before `first`.
    // What the system gives no thread for is left.
    template <class Work>
    size_t start(size_t first, size_t count, const Work& work) {
        threads_.reserve(count);
        working_ = count - first;
        size_t t = first;
        try {
            for (; t < count; ++t) {
                threads_.emplace_back([this, &work, t] {
                    work(t);
                    end(1);
                });
            }
        } catch (const std::system_error&) {
            end(count - t);
        }
        return t;
    }
    // Returns whether all have ended, at once or after such a time.
    bool wait(std::chrono::microseconds most) {
        std::unique_lock<std::mutex> lock(mutex_);
        return ended_.wait_for(lock, most, [this] { return working_ == 0; });
    }
    ~Workers() {
        for (std::thread& thread : threads_) thread.join();
    }

  private:
    void end(size_t count) {
        const std::lock_guard<std::mutex> lock(mutex_);
        working_ -= count;
        if (working_ == 0) ended_.notify_all();
    }

    std::mutex mutex_;
    std::condition_variable ended_;
    size_t working_ = 0;
    std::vector<std::thread> threads_;
};

// work(0), ..., work(count - 1), which throw nothing, each on a thread of its own, the first one on the caller's unless
// that has something else to do.
template <class Work>
void on_threads(size_t count, const CpuPartitioner::Beside& beside, const Work& work) {
    Workers workers;  // joins them whatever is thrown
    const size_t first = beside ? 0 : 1;
    const size_t started = workers.start(first, count, work);
    if (!beside) work(size_t{0});
    for (size_t t = started; t < count; ++t) work(t);
    if (!beside) return;
    while (beside() && !workers.wait(kBesideWait)) continue;
}

template <int kKeyWords>
uint64_t partition_of(typename MixedKey<kKeyWords>::Key mixed, uint32_t radix_bits) {
    return radix_bits == 0 ? 0 : mixed >> (kKeyWords * 32 - radix_bits);
}

uint64_t buffer_bytes_of(const RowLayout& layout) {
    const uint64_t least = std::lcm<uint64_t>(layout.row_bytes(), kCacheLineBytes);
    return least * ((kCombineBytesMin + least - 1) / least);
}

// The compiler knows the size in each case, so that a value is one load and one store.
void copy_value(uint8_t* to, const void* column, uint32_t width, uint64_t row) {
    const uint8_t* const from = static_cast<const uint8_t*>(column) + row * width;
    switch (width) {
        case 1:
            *to = *from;
            break;
        case 2:
            std::memcpy(to, from, 2);
            break;
        case 4:
            std::memcpy(to, from, 4);
            break;
        case 8:
            std::memcpy(to, from, 8);
            break;
        default:
            std::memcpy(to, from, 16);
    }
}

// A key and one column as wide as it.
template <class Key>
struct PairRows {
    const uint8_t* column;

    static constexpr uint64_t row_bytes() { return 2 * sizeof(Key); }
    void pack(uint64_t row, Key mixed, uint8_t* to) const {
        std::memcpy(to, &mixed, sizeof mixed);
        std::memcpy(to + sizeof mixed, column + row * sizeof mixed, sizeof mixed);
    }
};

template <class Key>
class AnyRows {
  public:
    AnyRows(const RowLayout& layout, const Chunk& chunk)
        : layout_(layout),
          chunk_(chunk),
          padded_(std::accumulate(layout.widths.begin(), layout.widths.end(), uint32_t{sizeof(Key)}) <
                  layout.row_bytes()) {}

    uint64_t row_bytes() const { return layout_.row_bytes(); }
    void pack(uint64_t row, Key mixed, uint8_t* to) const {
        if (padded_) std::memset(to + layout_.row_bytes() - 4, 0, 4);
        std::memcpy(to, &mixed, sizeof mixed);
        for (size_t c = 0; c < layout_.widths.size(); ++c) {
            copy_value(to + layout_.offsets[c], chunk_.columns[c], layout_.widths[c], row);
        }
    }

  private:
    const RowLayout& layout_;
    const Chunk& chunk_;
    const bool padded_;  // rows end with bytes of no field
};

}  // namespace

CpuPartitioner::CpuPartitioner(const RowLayout& layout, int radix_bits, uint32_t threads, const Chunk& chunk,
                               const std::atomic<bool>& cancelled)
    : layout_(layout),
      radix_bits_(static_cast<uint32_t>(radix_bits)),
      chunk_(chunk),
      cancelled_(cancelled),
      buffer_bytes_(buffer_bytes_of(layout)) {
    const uint64_t most = threads == 0 ? std::max(1U, std::thread::hardware_concurrency()) : threads;
    const uint64_t count = std::max<uint64_t>(1, std::min(most, chunk.rows / kRowsPerThreadMin));
    shares_.resize(count);
    for (uint64_t t = 0; t < count; ++t) {
        shares_[t].begin = chunk.rows / count * t + std::min(t, chunk.rows % count);
        shares_[t].end = shares_[t].begin + chunk.rows / count + (t < chunk.rows % count ? 1 : 0);
        // Here, as threads must not throw.
        shares_[t].next.resize(1ULL << radix_bits_);
        shares_[t].start.resize(1ULL << radix_bits_);
    }
    first_.resize((1ULL << radix_bits_) + 1);
}

// body(row) for rows with a key, until the join is cancelled.
template <class Body>
void CpuPartitioner::for_rows(const Share& share, const Body& body) const {
    const uint32_t* const valid = chunk_.key_valid;
    for (uint64_t begin = share.begin; begin < share.end; begin += kRowsPerLook) {
        if (cancelled_.load(std::memory_order_relaxed)) return;
        const uint64_t end = std::min(share.end, begin + kRowsPerLook);
        for (uint64_t row = begin; row < end; ++row) {
            if (valid == nullptr || (valid[row / 32] >> (row % 32) & 1) != 0) body(row);
        }
    }
}

template <int kKeyWords>
void CpuPartitioner::count_share(Share& share) const {
    using Key = typename MixedKey<kKeyWords>::Key;
    const Key* const keys = static_cast<const Key*>(chunk_.key);
    uint64_t* const counts = share.next.data();
    for_rows(share, [&](uint64_t row) {
        ++counts[partition_of<kKeyWords>(MixedKey<kKeyWords>::mix(keys[row]), radix_bits_)];
    });
}

void CpuPartitioner::count(const Beside& beside) {
    on_threads(shares_.size(), beside,
               [&](size_t t) { layout_.key_words == 1 ? count_share<1>(shares_[t]) : count_share<2>(shares_[t]); });
    uint64_t rows = 0;
    for (uint64_t p = 0; p + 1 < first_.size(); ++p) {
        first_[p] = rows;
        for (Share& share : shares_) {
            const uint64_t counted = share.next[p];
            share.next[p] = share.start[p] = rows;
            rows += counted;
        }
    }
    first_.back() = rows;
}

template <class Key, class Rows>
void CpuPartitioner::move_share(const Rows& rows, Share& share, uint8_t* buffers, uint8_t* to) const {
    constexpr int kKeyWords = sizeof(Key) / 4;
    const Key* const keys = static_cast<const Key*>(chunk_.key);
    const uint64_t row_bytes = rows.row_bytes();
    const uint64_t buffer_bytes = buffer_bytes_;
    const uint64_t in_buffer = buffer_bytes / row_bytes - 1;  // a power of two of rows, less one
    const uint64_t* const start = share.start.data();
    uint64_t* const next = share.next.data();
    // Rows [place of the buffer's first row, last) leave; those before the share's first are another thread's.
    const auto write = [&](uint64_t partition, uint64_t last) {
        const uint64_t block = (last - 1) & ~in_buffer;
        const uint8_t* const buffer = buffers + partition * buffer_bytes;
        const uint64_t begin = std::max(block, start[partition]);
        if (begin == block && last == block + in_buffer + 1) {
            stream_lines(to + block * row_bytes, buffer, buffer_bytes);
        } else {
            std::memcpy(to + begin * row_bytes, buffer + (begin - block) * row_bytes, (last - begin) * row_bytes);
        }
    };
    for_rows(share, [&](uint64_t row) {
        const Key mixed = MixedKey<kKeyWords>::mix(keys[row]);
        const uint64_t partition = partition_of<kKeyWords>(mixed, radix_bits_);
        const uint64_t place = next[partition]++;
        rows.pack(row, mixed, buffers + partition * buffer_bytes + (place & in_buffer) * row_bytes);
        if ((place & in_buffer) == in_buffer) write(partition, place + 1);
    });
    for (uint64_t partition = 0; partition < share.start.size(); ++partition) {
        const uint64_t last = next[partition];
        if (last > start[partition] && (last & in_buffer) != 0) write(partition, last);
    }
    end_streaming();
}

// Kinds of rows, so that the common ones are packed by two stores.
template <class Key>
void CpuPartitioner::move_rows(Share& share, uint8_t* buffers, uint8_t* to) const {
    if (layout_.widths.size() == 1 && layout_.widths[0] == sizeof(Key)) {
        move_share<Key>(PairRows<Key>{static_cast<const uint8_t*>(chunk_.columns[0])}, share, buffers, to);
    } else {
        move_share<Key>(AnyRows<Key>(layout_, chunk_), share, buffers, to);
    }
}

void CpuPartitioner::move(uint8_t* to, const Beside& beside) {
    const uint64_t share_bytes = buffer_bytes_ << radix_bits_;
    const LineBuffers buffers(share_bytes * shares_.size());
    on_threads(shares_.size(), beside, [&](size_t t) {
        uint8_t* const own = buffers.data() + t * share_bytes;
        layout_.key_words == 1 ? move_rows<uint32_t>(shares_[t], own, to) : move_rows<uint64_t>(shares_[t], own, to);
    });
}

}}  // namespace spillway::cuda::baseline_join
