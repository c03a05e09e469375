// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "device/device.hpp"
#include "device/stream.hpp"

// What the phases of one operation take and how many bytes its kernels move, for whoever asks. Operations open a
// PhaseScope around what they enqueue; while nobody listens that costs a comparison and nothing on the device.
namespace spillway::cuda { inline namespace device {

// As in the comparisons of joins and group-bys on GPUs. Where one kernel does the work of two phases, its time is that
// of the earlier one: a join of packed rows writes its result as it matches, so that little is left to materialize.
enum class Phase : uint8_t {
    kTransform,   // keys made of columns, rows partitioned or sorted, groups estimated
    kMatch,       // partners found, groups aggregated
    kMaterialize  // columns of the result gathered, closed up, made of accumulators
};
constexpr int kPhases = 3;

// Listens to the device from its construction on to its end. One at a time, on the thread that runs the operation.
class PhaseTimes {
  public:
    explicit PhaseTimes(Device& device);
    ~PhaseTimes();
    PhaseTimes(const PhaseTimes&) = delete;
    PhaseTimes& operator=(const PhaseTimes&) = delete;

    // Time inside of the phase on the stream, less that of scopes opened inside; waits for the last of them. All 0 when
    // an event could not be recorded.
    double milliseconds(Phase phase);
    // Bytes read plus written, by the arithmetic of the passes: in all, and by what was enqueued inside of a phase.
    uint64_t moved_bytes() const { return moved_bytes_; }
    uint64_t moved_bytes(Phase phase) const { return moved_in_[static_cast<int>(phase)]; }
    // The number of the algorithm that ran, -1 where nobody said so: that which was asked for.
    int algorithm() const { return algorithm_; }

    // For PhaseScope and the functions below.
    void enter(Phase phase);
    void leave() noexcept;
    void add_moved(uint64_t bytes) {
        moved_bytes_ += bytes;
        if (!open_.empty()) moved_in_[static_cast<int>(open_.back())] += bytes;
    }
    void set_algorithm(int number) { algorithm_ = number; }

  private:
    Device& device_;
    PhaseTimer timer_;
    std::vector<Phase> open_;  // innermost last
    bool is_whole_ = true;
    uint64_t moved_bytes_ = 0;
    uint64_t moved_in_[kPhases] = {};
    int algorithm_ = -1;
};

// What is enqueued on the device's stream during its life belongs to the phase, but for scopes inside of it.
class PhaseScope {
  public:
    PhaseScope(Device& device, Phase phase) : times_(device.phase_times()) {
        if (times_ != nullptr) times_->enter(phase);
    }
    ~PhaseScope() {
        if (times_ != nullptr) times_->leave();
    }
    PhaseScope(const PhaseScope&) = delete;
    PhaseScope& operator=(const PhaseScope&) = delete;

  private:
    PhaseTimes* const times_;
};

// A pass reads and writes so many bytes in all: what it must, as if caches held nothing longer than the pass needs it.
// In order that is each value once; at random see sector_bytes.hpp. Where data decide (walks in hash tables, tuples
// that are read again for uneven partitions) it is what every input takes, so that rates are never better than the
// truth. What is some bytes per thousand rows (offsets of partitions, holes of results, units of work) is left out.
// Rows without a key count like others where the host does not know how many they are.
inline void count_moved(Device& device, uint64_t bytes) {
    if (device.phase_times() != nullptr) device.phase_times()->add_moved(bytes);
}
// An operation ends with another algorithm than it was asked for, or with that one after all.
inline void note_algorithm(Device& device, int number) {
    if (device.phase_times() != nullptr) device.phase_times()->set_algorithm(number);
}

}}  // namespace spillway::cuda::device
