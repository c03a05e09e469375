// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <mutex>
#include <vector>

#include "base/parallel.hpp"
#include "cpu/hash_join/co_partition_probe.hpp"
#include "cpu/row/placed_rows.hpp"
#include "cpu/row/row_encoder.hpp"
#include "executor/cpu/joins.hpp"
#include "executor/cpu/morsel_reader.hpp"
#include "executor/cpu/partition.hpp"
#include "executor/cpu/resident_tables.hpp"

namespace spillway {

namespace {

class StreamingJoin {
  public:
    StreamingJoin(PartitionedRows& build, Source& probe, SourceStream* stream, const PartitionSpec& probe_spec,
                  const JoinSpec& spec, BatchSink& sink, JobControl& control)
        : build_(build),
          probe_(probe),
          stream_(stream),
          probe_spec_(probe_spec),
          spec_(spec),
          sink_(sink),
          control_(control),
          tables_(build, spec, layout_, table_use(spec, !sink.wants_columns()), control) {}

    uint64_t run() {
        columns_ = columns_read(probe_spec_);
        probe_.load_dictionaries(columns_, build_.budget(), control_);
        layout_ = RowLayout::make(probe_.columns(), probe_spec_.keys, probe_spec_.carry, probe_spec_.null_keys,
                                  probe_spec_.carry_bytes);
        tables_.make();
        const uint64_t rows = stream_ == nullptr ? join_source(probe_) : join_stream();
        return rows + emit_build_side();
    }

  private:
    std::function<void()> stop() {
        return [this] { control_.cancelled.store(true, std::memory_order_relaxed); };
    }

    uint64_t join_source(Source& source) {
        MorselQueue queue(source, probe_spec_.morsel_rows);
        std::atomic<uint64_t> rows{0};
        parallel_run(
            workers_for(spec_.workers, source, probe_spec_.morsel_rows),
            [&](int worker) { rows += stream(worker, source, queue); }, stop());
        return rows;
    }

    // Sources come one after the other, each of which all workers read.
    uint64_t join_stream() {
        uint64_t rows = 0;
        std::unique_lock<std::mutex> lock(stream_->mutex());
        stream_->begin_reading();
        for (;;) {
            control_.check();
            Source* const source = stream_->take();
            if (source == nullptr) {
                if (stream_->ended()) return rows;
                stream_->changed().wait_for(lock, kAbortPoll);
                continue;
            }
            lock.unlock();
            try {
                rows += join_source(*source);
            } catch (...) {
                lock.lock();
                stream_->give_back(false);
                throw;
            }
            lock.lock();
            stream_->give_back(true);
        }
    }

    // The probe side of one worker: encode a block of rows, look it up, write matches while the block is in cache.
    class Stream {
      public:
        Stream(StreamingJoin& join, int worker, int64_t rows)
            : join_(join),
              out_(join.spec_.outputs, join.build_.layout(), join.layout_, join.build_.budget(), join.sink_, worker,
                   rows / join.spec_.workers + 1),
              probe_(out_),
              encoder_(join.layout_, join.columns_, join.build_.budget()),
              by_partition_(join.tables_.count()) {}

        void block(const std::vector<ColumnView>& views, int64_t begin, int64_t count) {
            const EncodedRows& encoded = encoder_.encode(views, begin, count, 0);
            for (int64_t done = 0; done < encoded.rows;) {
                done = collect(encoded, done);
                look_up();
            }
        }
        int64_t rows_max() const { return encoder_.rows_max(); }
        uint64_t finish() { return out_.finish(); }

      private:
        void look_up() {
            for (size_t p = 0; p < by_partition_.size(); ++p) {
                auto& rows = by_partition_[p];
                if (rows.empty()) continue;
                probe_.probe(join_.tables_.target(p), rows.data(), static_cast<int64_t>(rows.size()), 0);
                rows.clear();
            }
            if (emits_lone_probe(join_.spec_) && !lone_.empty()) {
                out_.probe_only(lone_.data(), static_cast<int64_t>(lone_.size()));
            }
            lone_.clear();
        }

        int64_t collect(const EncodedRows& encoded, int64_t begin) {
            const int64_t end = placed_.place(encoded, begin, join_.build_.budget());
            for (int64_t i = begin; i < end; ++i) {
                const uint8_t* row = placed_.row(i - begin);
                if (encoded.null_key != nullptr && encoded.null_key[i] != 0) {
                    lone_.push_back(row);
                } else {
                    by_partition_[join_.tables_.partition_of(first_word(row))].push_back(row);
                }
            }
            return end;
        }

        StreamingJoin& join_;
        ResultWriter out_;
        CoPartitionProbe probe_;
        RowEncoder encoder_;
        PlacedRows placed_;
        std::vector<std::vector<const uint8_t*>> by_partition_;
        std::vector<const uint8_t*> lone_;
    };

    uint64_t stream(int worker, Source& source, MorselQueue& queue) {
        MorselReader reader(source, columns_, queue, build_.budget(), control_);
        Stream stream(*this, worker, source.rows());
        while (reader.next()) {
            for (int64_t begin = 0; begin < reader.rows(); begin += stream.rows_max()) {
                stream.block(reader.views(), begin, std::min(stream.rows_max(), reader.rows() - begin));
            }
        }
        return stream.finish();
    }

    uint64_t emit_build_side() {
        if (!marks_build_rows(spec_)) return 0;
        ResultWriter out(spec_.outputs, build_.layout(), layout_, build_.budget(), sink_, 0,
                         static_cast<int64_t>(build_.total_rows()));
        CoPartitionProbe emit(out);
        for (size_t p = 0; p < tables_.count(); ++p) {
            control_.check();
            emit.emit_build_rows(tables_.target(p));
        }
        if (emits_lone_build(spec_)) {
            const int32_t p = build_.null_partition();
            PageCursor cursor(build_, p, 0, build_.page_count(p));
            for (RowSpan span; cursor.next(span);) emit.emit_lone_build_rows(span, build_.layout().row_bytes);
        }
        return out.finish();
    }

    PartitionedRows& build_;
    Source& probe_;
    SourceStream* const stream_;
    const PartitionSpec& probe_spec_;
    const JoinSpec& spec_;
    BatchSink& sink_;
    JobControl& control_;
    RowLayout layout_;
    std::vector<int32_t> columns_;
    ResidentTables tables_;
};

}  // namespace

uint64_t join_streaming(PartitionedRows& build, Source& probe, SourceStream* stream, const PartitionSpec& probe_spec,
                        const JoinSpec& spec, BatchSink& sink, JobControl& control) {
    return StreamingJoin(build, probe, stream, probe_spec, spec, sink, control).run();
}

}  // namespace spillway
