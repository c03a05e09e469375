// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "base/job_control.hpp"
#include "base/parallel.hpp"
#include "cpu/hash_join/co_partition_probe.hpp"
#include "cpu/hash_join/join_table.hpp"
#include "cpu/radix_partition/partitioned_rows.hpp"
#include "cpu/radix_partition/second_pass.hpp"
#include "executor/cpu/join_memory.hpp"
#include "executor/cpu/joins.hpp"
#include "model/stage_spec.hpp"

namespace spillway {

namespace {

// A hash table with what it refers to. Moves with the unique_ptr that holds it.
struct BuiltTable {
    std::vector<Buffer> memory;     // pages read back
    std::optional<BuildRows> rows;  // none when the table keeps the words alone
    std::unique_ptr<JoinTable> table;
    Buffer matched;  // flags by row number, if the join marks build rows

    ProbeTarget target(const JoinSpec& spec, uint8_t* probe_matched = nullptr) {
        return {&spec, rows ? &*rows : nullptr, table.get(), matched.data(), probe_matched};
    }
};

// Makes the tables of a partitioned join. JoinMemory says what they take.
class JoinTables {
  public:
    JoinTables(PartitionedRows& build, const RowLayout& probe_layout, const JoinSpec& spec, TableUse use,
               JobControl& control)
        : build_(build), probe_layout_(probe_layout), spec_(spec), use_(use), control_(control) {}

    // Over partition p. nullptr: there are equal keys, but no room for them.
    std::unique_ptr<BuiltTable> of_partition(int32_t p, TableRoom room) const;
    // Over pages [begin, end) of it.
    std::unique_ptr<BuiltTable> of_pages(int32_t p, size_t begin, size_t end) const;
    // Over rows that stay while the table lives.
    std::unique_ptr<BuiltTable> of_rows(const RowSpan& rows) const;

  private:
    std::unique_ptr<BuiltTable> finish(std::unique_ptr<BuiltTable> built, TableRoom room) const;
    std::unique_ptr<JoinTable> make_counter(int32_t p, TableRoom room) const;

    PartitionedRows& build_;
    const RowLayout& probe_layout_;
    const JoinSpec& spec_;
    const TableUse use_;
    JobControl& control_;
};

std::unique_ptr<BuiltTable> JoinTables::of_partition(int32_t p, TableRoom room) const {
    auto built = std::make_unique<BuiltTable>();
    if (JoinTable::counts_streamed(spec_.scheme, use_, build_.layout())) {
        built->table = make_counter(p, room);
        return built->table == nullptr ? nullptr : std::move(built);
    }
    built->rows.emplace(build_.load(p, built->memory), build_.layout());
    return finish(std::move(built), room);
}

std::unique_ptr<BuiltTable> JoinTables::of_pages(int32_t p, size_t begin, size_t end) const {
    auto built = std::make_unique<BuiltTable>();
    built->rows.emplace(build_.load_pages(p, begin, end, built->memory), build_.layout());
    return finish(std::move(built), {});
}

std::unique_ptr<BuiltTable> JoinTables::of_rows(const RowSpan& rows) const {
    auto built = std::make_unique<BuiltTable>();
    built->rows.emplace(std::vector<RowSpan>{rows}, build_.layout());
    return finish(std::move(built), {});
}

std::unique_ptr<BuiltTable> JoinTables::finish(std::unique_ptr<BuiltTable> built, TableRoom room) const {
    built->table = JoinTable::build(spec_.scheme, use_, *built->rows, probe_layout_, spec_.perfect_range_max,
                                    spec_.hash_mask, build_.budget(), room);
    if (built->table == nullptr) return nullptr;
    if (marks_build_rows(spec_)) {
        const auto numbers = std::max<uint64_t>(built->rows->numbers(), 1);
        built->matched = Buffer::allocate(build_.budget(), numbers, "match flags", true);
    }
    return built;
}

std::unique_ptr<JoinTable> JoinTables::make_counter(int32_t p, TableRoom room) const {
    const auto each = [&](const std::function<bool(const RowSpan&)>& body) {
        PageCursor cursor(build_, p, 0, build_.page_count(p));
        for (RowSpan span; cursor.next(span) && body(span);) control_.check();
    };
    return JoinTable::build_counter(build_.partition(p).rows, build_.layout().row_bytes, each, spec_.hash_mask,
                                    build_.budget(), room);
}

// Rows that a worker's builders have room for from the start: its share and a quarter, since no share is exact and
// growing means copying all of it into memory that nobody has touched yet.
int64_t expected_rows(uint64_t share) {
    return static_cast<int64_t>(share + share / 4) + 1;
}

// One worker's state over the whole stage.
struct JoinWorker {
    JoinWorker(const JoinSpec& spec, PartitionedRows& build, PartitionedRows& probe, BatchSink& sink, int index)
        : out(spec.outputs, build.layout(), probe.layout(), build.budget(), sink, index,
              expected_rows(probe.total_rows() / static_cast<uint64_t>(spec.workers))),
          probe_rows(out) {
        addresses.resize(kProbeBlockRows);
    }
    ResultWriter out;
    CoPartitionProbe probe_rows;
    std::vector<const uint8_t*> addresses;
};

class PartitionedJoin {
  public:
    PartitionedJoin(PartitionedRows& build, PartitionedRows& probe, const JoinSpec& spec, BatchSink& sink,
                    JobControl& control)
        : build_(build),
          probe_(probe),
          spec_(spec),
          sink_(sink),
          control_(control),
          use_(table_use(spec, !sink.wants_columns())),
          memory_(build, probe, spec, use_),
          tables_(build, probe.layout(), spec, use_, control),
          gate_(spec.table_bytes, control),
          tight_(memory_.is_tight()),
          // Other tables than those of linear probing do not tell whether they had to do with equal keys.
          equal_keys_(spec.scheme != HashingScheme::kLinearProbing) {}

    uint64_t run() {
        for (int i = 0; i < spec_.workers; ++i) {
            workers_.push_back(std::make_unique<JoinWorker>(spec_, build_, probe_, sink_, i));
        }
        std::vector<int32_t> single;
        std::vector<int32_t> shared;
        for (int32_t p : spec_.schedule) (memory_.needs_all_workers(p) ? shared : single).push_back(p);
        run_single(single, shared);
        for (int32_t p : shared) run_shared(p);
        run_null_partitions();
        std::atomic<uint64_t> rows{0};
        const auto finish = [&](int worker) { rows += workers_[worker]->out.finish(); };
        if (sink_.wants_columns()) {
            parallel_run(spec_.workers, finish, stop());
        } else {  // nothing to write
            for (int i = 0; i < spec_.workers; ++i) finish(i);
        }
        return rows;
    }

  private:
    std::function<void()> stop() {
        return [this] { control_.cancelled.store(true, std::memory_order_relaxed); };
    }

    // Nothing to do for this co-partition but to free it?
    bool empty(int32_t p) const {
        const bool no_build = build_.partition(p).rows == 0;
        const bool no_probe = probe_.partition(p).rows == 0;
        if (no_build && no_probe) return true;
        if (no_build) return !emits_lone_probe(spec_);
        if (no_probe) return !emits_lone_build(spec_);
        return false;
    }

    void release(int32_t p) {
        build_.free_partition(p);
        probe_.free_partition(p);
        control_.partitions_done.fetch_add(1, std::memory_order_relaxed);
    }

    // Each worker owns the co-partition it works on and the one after, which is read ahead meanwhile. (Prefetching one
    // that somebody else may already have freed would be a race.) What turns out too large for one joins `shared`.
    void run_single(const std::vector<int32_t>& partitions, std::vector<int32_t>& shared) {
        std::atomic<size_t> next{0};
        std::mutex shared_mutex;
        const auto body = [&](int worker) {
            for (size_t mine = next++; mine < partitions.size();) {
                control_.check();
                const size_t following = next++;
                if (following < partitions.size()) {
                    build_.prefetch(partitions[following]);
                    probe_.prefetch(partitions[following]);
                }
                if (empty(partitions[mine]) || join_single(*workers_[worker], partitions[mine])) {
                    release(partitions[mine]);
                } else {
                    std::lock_guard<std::mutex> lock(shared_mutex);
                    shared.push_back(partitions[mine]);
                }
                mine = following;
            }
        };
        const auto workers = std::min<size_t>(partitions.size(), static_cast<size_t>(spec_.workers));
        parallel_run(static_cast<int>(workers), body, stop());
    }

    // False: nothing was joined, for a table of p is larger than those of one worker may be.
    bool join_single(JoinWorker& worker, int32_t p) {
        if (memory_.takes_second_pass(p)) {
            const TableGate::Pass pass(gate_, memory_.second_pass(p));
            return join_sub_partitions(worker, p);
        }
        // The first partition with equal keys tells all that follow that there are some.
        if (!equal_keys_.load(std::memory_order_relaxed)) {
            if (join_whole(worker, p, {false, tight_})) return true;
            equal_keys_.store(true, std::memory_order_relaxed);
        }
        SPILLWAY_CHECK(join_whole(worker, p, {true, tight_}));
        return true;
    }

    // False: there are build rows of equal keys, but no room for them.
    bool join_whole(JoinWorker& worker, int32_t p, TableRoom room) {
        const TableGate::Pass pass(gate_, memory_.table(p, room));
        const auto built = tables_.of_partition(p, room);
        if (built == nullptr) return false;
        const ProbeTarget target = built->target(spec_);
        probe_pages(worker, target, p, 0, probe_.page_count(p), 0);
        if (marks_build_rows(spec_)) worker.probe_rows.emit_build_rows(target);
        return true;
    }

    bool join_sub_partitions(JoinWorker& worker, int32_t p) {
        const auto pass = [&](PartitionedRows& side) {
            std::vector<Buffer> memory;  // pages read back live only until they are copied
            return SecondPass(side.load(p, memory), side.layout().row_bytes, side.spec().radix_bits,
                              spec_.second_radix_bits, spec_.hash_mask, side.budget());
        };
        const SecondPass build = pass(build_);
        const int32_t subs = 1 << spec_.second_radix_bits;
        for (int32_t sub = 0; sub < subs; ++sub) {
            if (!memory_.fits_second_pass(p, build.sub_partition(sub).count)) return false;
        }
        const SecondPass probe = pass(probe_);
        for (int32_t sub = 0; sub < subs; ++sub) {
            control_.check();
            const auto built = tables_.of_rows(build.sub_partition(sub));
            const ProbeTarget target = built->target(spec_);
            probe_span(worker, target, probe.sub_partition(sub), 0);
            if (marks_build_rows(spec_)) worker.probe_rows.emit_build_rows(target);
        }
        return true;
    }

    void probe_pages(JoinWorker& worker, const ProbeTarget& target, int32_t p, size_t begin, size_t end,
                     uint64_t ordinal) {
        PageCursor cursor(probe_, p, begin, end);
        for (RowSpan span; cursor.next(span);) {
            control_.check();
            probe_span(worker, target, span, ordinal);
            ordinal += span.count;
        }
    }

    void probe_span(JoinWorker& worker, const ProbeTarget& target, const RowSpan& span, uint64_t ordinal) {
        const uint32_t row_bytes = probe_.layout().row_bytes;
        for (uint32_t done = 0; done < span.count;) {
            const auto count = std::min<uint32_t>(span.count - done, kProbeBlockRows);
            const uint8_t* row = span.rows + static_cast<uint64_t>(done) * row_bytes;
            for (uint32_t i = 0; i < count; ++i) worker.addresses[i] = row + static_cast<uint64_t>(i) * row_bytes;
            worker.probe_rows.probe(target, worker.addresses.data(), count, ordinal + done);
            done += count;
        }
    }

    // Pages [begin, end) of the probe side of partition p.
    struct ProbePages {
        int32_t p;
        size_t begin;
        size_t end;
    };

    // Calls body(worker, begin page, end page, ordinal of the first row) for parts of the probe pages.
    template <class Body>
    void share_probe_pages(const ProbePages& probe, Body&& body) {
        const size_t pages = probe.end - probe.begin;
        std::vector<uint64_t> first_rows(pages + 1, 0);
        for (size_t i = 0; i < pages; ++i) {
            first_rows[i + 1] = first_rows[i] + probe_.page_rows(probe.p, probe.begin + i);
        }
        std::atomic<size_t> next{0};
        const int workers = static_cast<int>(std::min<size_t>(std::max<size_t>(pages, 1), spec_.workers));
        parallel_run(
            workers,
            [&](int worker) {
                for (size_t i = next++; i < pages; i = next++) {
                    body(*workers_[worker], probe.begin + i, probe.begin + i + 1, first_rows[i]);
                }
            },
            stop());
    }

    void run_shared(int32_t p) {
        control_.check();
        if (!empty(p)) join_shared(p);
        release(p);
    }

    void join_shared(int32_t p) {
        const ProbePages all{p, 0, probe_.page_count(p)};
        const bool chunked = memory_.chunk_end(p, 0) < build_.page_count(p);
        Buffer none;
        if (!chunked || !decides_probe_rows(spec_)) return join_chunks(all, spec_, none);
        if (memory_.flags_end(p, 0) == all.end) return join_flagged(all, spec_);
        // Flags of all probe rows would leave no memory to tables: first what needs none of them, then the rows without
        // a partner, some pages at a time.
        JoinSpec alone = spec_;
        if (spec_.emit == JoinEmit::kPairs) {
            JoinSpec pairs = spec_;
            pairs.keep_unmatched_probe = false;
            join_chunks(all, pairs, none);
            alone.emit = JoinEmit::kProbeOnce;
            alone.anti = true;
            alone.keep_unmatched_probe = alone.keep_unmatched_build = false;
        }
        for (size_t begin = 0; begin < all.end;) {
            const size_t end = memory_.flags_end(p, begin);
            join_flagged({p, begin, end}, alone);
            begin = end;
        }
    }

    // Probe rows are decided when they have met every chunk of the build side.
    void join_flagged(const ProbePages& probe, const JoinSpec& spec) {
        uint64_t rows = 0;
        for (size_t page = probe.begin; page < probe.end; ++page) rows += probe_.page_rows(probe.p, page);
        Buffer flags = Buffer::allocate(build_.budget(), std::max<uint64_t>(rows, 1), "match flags", true);
        join_chunks(probe, spec, flags);
        share_probe_pages(probe, [&](JoinWorker& worker, size_t first, size_t last, uint64_t ordinal) {
            PageCursor cursor(probe_, probe.p, first, last);
            for (RowSpan span; cursor.next(span);) {
                worker.probe_rows.emit_probe_rows(spec, span, probe_.layout().row_bytes, flags.data() + ordinal);
            }
        });
    }

    void join_chunks(const ProbePages& probe, const JoinSpec& spec, Buffer& flags) {
        const int32_t p = probe.p;
        size_t begin = 0;
        do {  // once even when the build side is empty: probe rows may be output without a partner
            control_.check();
            const size_t end = memory_.chunk_end(p, begin, flags.capacity());
            const auto built = tables_.of_pages(p, begin, end);
            const ProbeTarget target = built->target(spec, flags.data());
            share_probe_pages(probe, [&](JoinWorker& worker, size_t first, size_t last, uint64_t ordinal) {
                probe_pages(worker, target, p, first, last, ordinal);
            });
            if (marks_build_rows(spec)) workers_[0]->probe_rows.emit_build_rows(target);
            begin = end;
        } while (begin < build_.page_count(p));
    }

    void run_null_partitions() {
        const int32_t p = build_.null_partition();
        JoinWorker& worker = *workers_[0];
        if (emits_lone_build(spec_)) {
            PageCursor cursor(build_, p, 0, build_.page_count(p));
            for (RowSpan span; cursor.next(span);) {
                control_.check();
                worker.probe_rows.emit_lone_build_rows(span, build_.layout().row_bytes);
            }
        }
        if (emits_lone_probe(spec_)) {
            PageCursor cursor(probe_, p, 0, probe_.page_count(p));
            for (RowSpan span; cursor.next(span);) {
                control_.check();
                worker.probe_rows.emit_probe_rows(spec_, span, probe_.layout().row_bytes, nullptr);
            }
        }
        release(p);
    }

    PartitionedRows& build_;
    PartitionedRows& probe_;
    const JoinSpec& spec_;
    BatchSink& sink_;
    JobControl& control_;
    const TableUse use_;
    const JoinMemory memory_;
    const JoinTables tables_;
    TableGate gate_;
    const bool tight_;
    std::atomic<bool> equal_keys_;
    std::vector<std::unique_ptr<JoinWorker>> workers_;
};

}  // namespace

uint64_t join_partitions(PartitionedRows& build, PartitionedRows& probe, const JoinSpec& spec, BatchSink& sink,
                         JobControl& control) {
    SPILLWAY_CHECK(build.partition_count() == probe.partition_count());
    return PartitionedJoin(build, probe, spec, sink, control).run();
}

}  // namespace spillway
