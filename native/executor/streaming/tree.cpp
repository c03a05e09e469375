// SPDX-License-Identifier: Apache-2.0
#include "executor/streaming/tree.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/error.hpp"
#include "cuda/memory_model/stream_memory.hpp"
#include "executor/streaming/chunk_feeder.hpp"
#include "executor/streaming/group_result.hpp"
#include "executor/streaming/held_columns.hpp"
#include "executor/streaming/join_result.hpp"
#include "executor/streaming/phase.hpp"
#include "executor/streaming/result_blocks.hpp"
#include "executor/streaming/result_gather.hpp"
#include "executor/streaming/spill_disk.hpp"

namespace spillway {

namespace {

class TreeRun {
  public:
    TreeRun(const std::vector<ChunkInput>& inputs, const OutOfCoreTree& tree, KeptPinned& pinned,
            const DevicePause& pause, BatchSink* sink, JobControl& control, std::shared_ptr<SpillSpace> space)
        : inputs_(inputs),
          tree_(tree),
          pause_(pause),
          budget_(pinned.budget()),
          device_(pinned.device()),
          control_(control),
          sink_(sink),
          way_(std::move(space), control),
          texts_(budget_),
          columns_(columns_of_flows()),
          held_(hold(sink != nullptr)),
          spill_(pinned.reserve(spill_bytes(), "rows that the GPU spills")),
          ring_(pinned, ring_slots(), chunk_bytes(), header_bytes()),
          disks_(tree.operators.size()),
          running_(tree.operators.size()) {
        report_.operators.resize(tree.operators.size());
        if (const auto* const groups = std::get_if<TreeGroupResult>(&tree.result)) {
            const KeyFlags flags{groups->null_byte, false};
            groups_.emplace(std::get<cuda::StagedGroupBySpec>(root()), groups->columns, flags, texts_, budget_);
        }
        if (sink != nullptr) blocks_.emplace(pinned, form(), *sink, control, pause);
    }

    OutOfCoreTreeReport run() {
        for (size_t flow = 0; flow < tree_.flows.size(); ++flow) run_flow(flow);
        cuda::StreamReport& of_root = report_.operators[static_cast<size_t>(tree_.root().op)];
        if (groups_ && !has_keys() && of_root.result_rows == 0) {
            of_root.result_rows = 1;
            if (sink_ != nullptr) groups_->give_empty_group(*sink_);
        }
        if (blocks_) blocks_->count_saved(of_root);
        report_.rows = of_root.result_rows;
        return report_;
    }

    bool gave_rows() const { return blocks_ && blocks_->gave_rows(); }
    Error told(const Error& error) const { return way_.told(error); }

  private:
    const OutOfCoreOperator& operator_of(const TreeStep& step) const {
        return tree_.operators[static_cast<size_t>(step.op)];
    }
    const OutOfCoreOperator& root() const { return operator_of(tree_.root()); }
    const ChunkInput& input_of(const TreeFlow& flow) const { return inputs_[static_cast<size_t>(flow.source)]; }
    Source& source_of(const TreeFlow& flow) const { return *input_of(flow).source; }
    const cuda::StreamSizes& sizes(const TreeFlow& flow) const { return sizes_of(operator_of(flow.steps[0])); }

    // Has the root's last input a key?
    bool has_keys() const {
        const TreeFlow& last = tree_.flows.back();
        return last.steps.size() == 1 ? !last.side.keys.empty() : !tree_.root().pipe.keys.empty();
    }

    std::vector<ChunkColumns> columns_of_flows() {
        std::vector<ChunkColumns> made;
        for (const TreeFlow& flow : tree_.flows) {
            const ChunkKeys keys{key_bytes_of(operator_of(flow.steps[0]))};
            // Rows without a partner may come out, so that each text needs a number.
            made.emplace_back(source_of(flow), flow.side, keys, sizes(flow).host_chunk_rows, ChunkTexts{&texts_});
            source_of(flow).load_dictionaries(made.back().read(), budget_, control_);
        }
        return made;
    }
    // Sources, by flow, of which the result has columns that are read by row number.
    std::vector<std::unique_ptr<HeldColumns>> hold(bool wants_rows) {
        std::vector<std::unique_ptr<HeldColumns>> made(tree_.flows.size());
        const auto* const joined = std::get_if<TreeJoinResult>(&tree_.result);
        if (joined == nullptr || !wants_rows) return made;
        for (size_t i = 0; i < made.size(); ++i) {
            const std::vector<int32_t> columns = gathered_columns(joined->columns, static_cast<int32_t>(i));
            if (columns.empty()) continue;
            // The rows of a stream are gone when they are wanted.
            SPILLWAY_CHECK(input_of(tree_.flows[i]).stream == nullptr && joined->row_numbers.at(i) >= 0);
            Source& source = source_of(tree_.flows[i]);
            source.load_dictionaries(columns, budget_, control_);
            made[i] = std::make_unique<HeldColumns>(source, columns, budget_, control_);
        }
        return made;
    }
    bool holds_columns() const {
        return std::any_of(held_.begin(), held_.end(), [](const auto& held) { return held != nullptr; });
    }
    void load_held() {
        for (const auto& held : held_) {
            if (held != nullptr) held->load();
        }
    }
    void wake_held() {
        for (const auto& held : held_) {
            if (held != nullptr) held->wake();
        }
    }
    uint64_t spill_bytes() const {
        uint64_t bytes = 0;
        for (const OutOfCoreOperator& op : tree_.operators) bytes += pinned_spill_bytes(sizes_of(op));
        return bytes;
    }
    // One ring for all flows, one after the other.
    uint64_t ring_slots() const {
        uint64_t slots = 0;
        for (const TreeFlow& flow : tree_.flows) {
            slots = std::max(slots, useful_slots(input_of(flow), sizes(flow)));
        }
        return slots;
    }
    uint64_t chunk_bytes() const {
        uint64_t bytes = 0;
        for (const ChunkColumns& columns : columns_) bytes = std::max(bytes, columns.chunk_bytes());
        return bytes;
    }

    uint64_t header_bytes() const {
        uint64_t bytes = 0;
        for (size_t flow = 0; flow < columns_.size(); ++flow) {
            bytes = std::max(bytes, chunk_header_bytes(columns_[flow], sizes(tree_.flows[flow]).host_chunk_rows));
        }
        return bytes;
    }

    ResultForm form() const {
        if (groups_) return groups_->form();
        const auto& joined = std::get<TreeJoinResult>(tree_.result);
        const JoinedRows rows{*tree_.root_join(), joined.presence, &texts_, joined.packed};
        ResultForm made = join_result_form(rows, joined.columns, budget_);
        if (!holds_columns()) return made;
        made.column = nullptr;
        made.packed.clear();
        made.deliverer = [this, rows, &joined](BatchSink& sink, int worker) -> DeliverRows {
            GatheredRows gathered{rows, joined.columns, joined.row_numbers, {}, nullptr};
            for (const auto& held : held_) gathered.held.push_back(held.get());
            auto rows_of = std::make_shared<ResultGather>(std::move(gathered), sink, budget_, worker);
            return [rows_of](const GpuOutputs& outputs, uint64_t count, const std::function<void()>& read) {
                return rows_of->deliver(outputs, count, read);
            };
        };
        return made;
    }

    // An operator takes GPU memory when its first rows come: those that are done by then have given theirs back.
    void begin(const TreeStep& step) {
        const auto at = static_cast<size_t>(step.op);
        if (step.input > 0) return;
        const OutOfCoreOperator& op = operator_of(step);
        disks_[at] = way_.open(sizes_of(op).disk_blocks);
        if (const auto* const coherent = std::get_if<cuda::CoherentJoinSpec>(&op)) {
            const uint64_t rows[2] = {rows_of(step.op, 0), rows_of(step.op, 1)};
            running_[at] = GpuStream::begin(device_, coherent_spec(coherent->join, coherent->options, rows));
        } else if (const auto* const join = std::get_if<cuda::StagedJoinSpec>(&op)) {
            running_[at] = GpuStream::begin(device_, *join, disks_[at].get());
        } else {
            running_[at] = GpuStream::begin(device_, std::get<cuda::StagedGroupBySpec>(op), disks_[at].get());
        }
    }
    // Rows of an input that begins a flow, which are known where no stream feeds them.
    uint64_t rows_of(int32_t op, int32_t input) const {
        const auto flow = std::find_if(tree_.flows.begin(), tree_.flows.end(), [&](const TreeFlow& one) {
            return one.steps[0].op == op && one.steps[0].input == input;
        });
        SPILLWAY_CHECK(flow != tree_.flows.end() && input_of(*flow).stream == nullptr);
        return static_cast<uint64_t>(source_of(*flow).rows());
    }
    void end(const TreeStep& step) {
        const auto at = static_cast<size_t>(step.op);
        if (step.input + 1 < inputs_of(operator_of(step))) return;
        running_[at].reset();
        disks_[at].reset();
    }

    // By the thread that runs operators, while others fill chunks and deliver.
    void run_steps(const TreeFlow& flow, GpuChunkSource& chunks, ResultBlocks* blocks) {
        std::vector<GpuStep> path;
        for (const TreeStep& step : flow.steps) {
            begin(step);
            const cuda::PipeSpec* const pipe = path.empty() ? nullptr : &step.pipe;
            path.push_back({&running_[static_cast<size_t>(step.op)], step.input, pipe});
        }
        const std::vector<cuda::StreamReport> reports = GpuStream::run_path(path, chunks, blocks);
        for (size_t i = 0; i < path.size(); ++i) {
            report_.operators[static_cast<size_t>(flow.steps[i].op)] = reports[i];
            end(flow.steps[i]);
        }
    }

    void run_flow(size_t number) {
        const TreeFlow& flow = tree_.flows[number];
        const bool last = number + 1 == tree_.flows.size();
        ResultBlocks* const blocks = last && blocks_ ? &*blocks_ : nullptr;
        ChunkFeeder feeder(input_of(flow), columns_[number], ring_, sizes(flow).host_chunk_rows, budget_, control_,
                           pause_);
        const PhaseHooks hooks{[&] { load_held(); }, [&] { wake_held(); }};
        run_phase(feeder, blocks, tree_.workers, control_, hooks, [&] {
            run_steps(flow, feeder, blocks);
            // The last rows may wait for a reader who needs this memory before he reads on.
            if (last) spill_.release();
        });
    }

    const std::vector<ChunkInput>& inputs_;
    const OutOfCoreTree& tree_;
    const DevicePause pause_;
    MemoryBudget& budget_;
    GpuDevice& device_;
    JobControl& control_;
    BatchSink* const sink_;
    SpillWay way_;
    TextCodes texts_;                                       // of all sources: equal ones are equal keys
    const std::vector<ChunkColumns> columns_;               // by flow
    const std::vector<std::unique_ptr<HeldColumns>> held_;  // by flow; nullptr: nothing is gathered from its source
    OutOfCoreTreeReport report_;
    std::optional<GroupResult> groups_;
    PinnedReservation spill_;
    ChunkRing ring_;
    std::optional<ResultBlocks> blocks_;
    // By operator, each with a disk of its own, which keeps its exception. The operators last, so that copies have
    // ended before their memory goes, and threads of the plugin before the disks.
    std::vector<std::unique_ptr<SpillDisk>> disks_;
    std::vector<GpuStream> running_;
};

}  // namespace

OutOfCoreTreeReport tree_out_of_core(const std::vector<ChunkInput>& inputs, const OutOfCoreTree& tree,
                                     KeptPinned& pinned, const DevicePause& pause, BatchSink* sink, JobControl& control,
                                     const std::shared_ptr<SpillSpace>& space) {
    const bool wants_rows = sink != nullptr && sink->wants_columns();
    SPILLWAY_CHECK(tree.root_join() == nullptr ||
                   wants_rows == (tree.root_join()->result == cuda::JoinResultKind::kRows));
    std::optional<TreeRun> run;
    OutOfCoreTreeReport report;
    try {
        run.emplace(inputs, tree, pinned, pause, wants_rows ? sink : nullptr, control, space);
        report = run->run();
    } catch (const Error& error) {
        rethrow_undelivered(run ? run->told(error) : error, run && run->gave_rows());
    }
    if (sink == nullptr) control.rows_out.fetch_add(report.rows, std::memory_order_relaxed);
    if (sink != nullptr && !wants_rows) sink->add_rows(0, report.rows);
    return report;
}

}  // namespace spillway
