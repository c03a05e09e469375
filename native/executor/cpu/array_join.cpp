// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <memory>
#include <vector>

#include "base/mix_kernels.hpp"
#include "base/parallel.hpp"
#include "cpu/hash_join/key_bitmap.hpp"
#include "cpu/materialize/result_writer.hpp"
#include "cpu/row/key_words.hpp"
#include "cpu/row/placed_rows.hpp"
#include "cpu/row/row_encoder.hpp"
#include "executor/cpu/joins.hpp"
#include "executor/cpu/morsel_reader.hpp"
#include "executor/cpu/partition.hpp"

namespace spillway {

namespace {

// Bytes that move per key: 8 read into the worker's buffer, and a cache line of the bitmap, which is in a cache while
// it is smaller than that: 10 M dense keys take 1.2 MiB, where a hash table takes 200 MiB and both sides partitioned
// another 160.
class ArrayJoin {
  public:
    ArrayJoin(Source& build, const PartitionSpec& build_spec, Source& probe, const PartitionSpec& probe_spec,
              const ArrayJoinSpec& spec, BatchSink& sink, MemoryBudget& budget, JobControl& control)
        : build_(build),
          build_spec_(build_spec),
          probe_(probe),
          probe_spec_(probe_spec),
          spec_(spec),
          sink_(sink),
          budget_(budget),
          control_(control),
          keys_{spec.first_key, spec.key_values, build_spec.keys.at(0).width} {
        for (const int32_t field : spec.outputs) outputs_.push_back({OutputSide::kProbe, -1, field});
    }

    uint64_t run() {
        fill();
        merge();
        probe_columns_ = columns_read(probe_spec_);
        probe_.load_dictionaries(probe_columns_, budget_, control_);
        layout_ = RowLayout::make(probe_.columns(), probe_spec_.keys, probe_spec_.carry, probe_spec_.null_keys,
                                  probe_spec_.carry_bytes);
        MorselQueue queue(probe_, probe_spec_.morsel_rows);
        std::atomic<uint64_t> rows{0};
        const int workers = workers_for(spec_.workers, probe_, probe_spec_.morsel_rows);
        const auto body = [&](int worker) {
            rows += sink_.wants_columns() ? write(worker, queue) : count(worker, queue);
        };
        parallel_run(workers, body, stop());
        return rows;
    }

  private:
    std::function<void()> stop() {
        return [this] { control_.cancelled.store(true, std::memory_order_relaxed); };
    }

    // A bitmap per worker: the lines of a shared one would go from core to core for every few keys.
    void fill() {
        const std::vector<int32_t> columns = {build_spec_.keys[0].column};
        const RowLayout layout = RowLayout::make(build_.columns(), build_spec_.keys, {}, NullKeys::kDrop);
        MorselQueue queue(build_, build_spec_.morsel_rows);
        const int workers = workers_for(spec_.build_workers, build_, build_spec_.morsel_rows);
        bitmaps_.resize(static_cast<size_t>(workers));
        const auto body = [&](int worker) {
            auto& bitmap = bitmaps_[static_cast<size_t>(worker)];
            MorselReader reader(build_, columns, queue, budget_, control_);
            KeyWords keys(layout.keys[0], 0);
            while (reader.next()) {
                if (!bitmap) bitmap = std::make_unique<KeyBitmap>(keys_, budget_);
                for (int64_t begin = 0; begin < reader.rows(); begin += KeyWords::kRowsMax) {
                    const int64_t rows = std::min(KeyWords::kRowsMax, reader.rows() - begin);
                    const uint8_t* words = keys.read(reader.views(), begin, rows);
                    bitmap->insert(words, keys.count());
                }
                check_dense(*bitmap);
            }
        };
        parallel_run(workers, body, stop());
        std::erase(bitmaps_, nullptr);  // of workers that came too late for a morsel
        if (bitmaps_.empty()) bitmaps_.push_back(std::make_unique<KeyBitmap>(keys_, budget_));
    }

    // All bitmaps into the first, each worker a part of the words.
    void merge() {
        std::vector<KeyBitmap*> others;
        for (size_t i = 1; i < bitmaps_.size(); ++i) others.push_back(bitmaps_[i].get());
        if (others.empty()) return;
        KeyBitmap& all = *bitmaps_[0];
        const uint64_t words = all.words();
        std::atomic<bool> equal{false};
        const auto workers = static_cast<uint64_t>(spec_.workers);
        parallel_run(
            spec_.workers,
            [&](int worker) {
                const auto index = static_cast<uint64_t>(worker);
                if (all.merge(others, words * index / workers, words * (index + 1) / workers)) equal = true;
            },
            stop());
        if (equal && needs_unique_keys()) throw not_dense("equal keys");
        bitmaps_.resize(1);
    }

    bool needs_unique_keys() const { return spec_.emit == JoinEmit::kPairs; }

    void check_dense(const KeyBitmap& bitmap) const {
        if (bitmap.has_outside()) throw not_dense("keys outside of the range that a sample showed");
        if (bitmap.has_equal() && needs_unique_keys()) throw not_dense("equal keys");
    }

    static Error not_dense(const std::string& what) {
        return Error(ErrorCode::kInternal, "the build side of an array join has " + what, {{"reason", "notDense"}});
    }

    // Is a probe row that is there (or not) part of the result?
    bool is_result(bool found) const {
        return spec_.emit == JoinEmit::kPairs ? found || spec_.keep_unmatched_probe : found != spec_.anti;
    }

    uint64_t count(int worker, MorselQueue& queue) {
        const std::vector<int32_t> columns = {probe_spec_.keys[0].column};
        const RowLayout layout = RowLayout::make(probe_.columns(), probe_spec_.keys, {}, NullKeys::kDrop);
        MorselReader reader(probe_, columns, queue, budget_, control_);
        KeyWords keys(layout.keys[0], 0);
        uint64_t results = 0;
        while (reader.next()) {
            uint64_t found = 0;
            for (int64_t begin = 0; begin < reader.rows(); begin += KeyWords::kRowsMax) {
                const int64_t block = std::min(KeyWords::kRowsMax, reader.rows() - begin);
                const uint8_t* words = keys.read(reader.views(), begin, block);
                found += bitmaps_[0]->count(words, keys.count());
            }
            const uint64_t lone = static_cast<uint64_t>(reader.rows()) - found;
            const uint64_t rows = (is_result(true) ? found : 0) + (is_result(false) ? lone : 0);
            sink_.add_rows(worker, rows);
            results += rows;
        }
        return results;
    }

    // Probe rows that are results, block by block.
    class Writer {
      public:
        Writer(ArrayJoin& join, int worker)
            : join_(join),
              out_(join.outputs_, join.layout_, join.layout_, join.budget_, join.sink_, worker,
                   join.probe_.rows() / join.spec_.workers + 1),
              encoder_(join.layout_, join.probe_columns_, join.budget_),
              words_(RowEncoder::kRowsMax),
              found_(RowEncoder::kRowsMax) {
            results_.reserve(RowEncoder::kRowsMax);
        }

        void block(const std::vector<ColumnView>& views, int64_t begin, int64_t rows, uint64_t row_number) {
            const EncodedRows& encoded = encoder_.encode(views, begin, rows, row_number);
            const auto count = static_cast<uint32_t>(encoded.rows);
            for (uint32_t i = 0; i < count; ++i) words_[i] = encoded.hash(i);
            unmix_words(words_.data(), count, words_.data());
            join_.bitmaps_[0]->find(reinterpret_cast<const uint8_t*>(words_.data()), count, found_.data());
            for (int64_t done = 0; done < encoded.rows;) {
                const int64_t end = placed_.place(encoded, done, join_.budget_);
                results_.clear();
                for (int64_t i = done; i < end; ++i) {
                    const bool null = encoded.null_key != nullptr && encoded.null_key[i] != 0;
                    if (join_.is_result(!null && found_[i] != 0)) results_.push_back(placed_.row(i - done));
                }
                out_.probe_only(results_.data(), static_cast<int64_t>(results_.size()));
                done = end;
            }
        }
        int64_t rows_max() const { return encoder_.rows_max(); }
        uint64_t finish() { return out_.finish(); }

      private:
        ArrayJoin& join_;
        ResultWriter out_;
        RowEncoder encoder_;
        PlacedRows placed_;
        std::vector<uint64_t> words_;
        std::vector<uint8_t> found_;
        std::vector<const uint8_t*> results_;
    };

    uint64_t write(int worker, MorselQueue& queue) {
        MorselReader reader(probe_, probe_columns_, queue, budget_, control_);
        Writer writer(*this, worker);
        while (reader.next()) {
            for (int64_t begin = 0; begin < reader.rows(); begin += writer.rows_max()) {
                const int64_t rows = std::min(writer.rows_max(), reader.rows() - begin);
                writer.block(reader.views(), begin, rows, reader.first_row() + static_cast<uint64_t>(begin));
            }
        }
        return writer.finish();
    }

    Source& build_;
    const PartitionSpec& build_spec_;
    Source& probe_;
    const PartitionSpec& probe_spec_;
    const ArrayJoinSpec& spec_;
    BatchSink& sink_;
    MemoryBudget& budget_;
    JobControl& control_;
    const DenseKeys keys_;
    std::vector<JoinOutput> outputs_;
    std::vector<std::unique_ptr<KeyBitmap>> bitmaps_;  // one per worker that fills them; then one
    std::vector<int32_t> probe_columns_;
    RowLayout layout_;
};

}  // namespace

uint64_t join_array(Source& build, const PartitionSpec& build_spec, Source& probe, const PartitionSpec& probe_spec,
                    const ArrayJoinSpec& spec, BatchSink& sink, MemoryBudget& budget, JobControl& control) {
    return ArrayJoin(build, build_spec, probe, probe_spec, spec, sink, budget, control).run();
}

}  // namespace spillway
