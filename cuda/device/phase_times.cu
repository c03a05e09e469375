// SPDX-License-Identifier: Apache-2.0
#include "device/phase_times.hpp"

namespace spillway::cuda { inline namespace device {

namespace {

const char* name_of(Phase phase) {
    constexpr const char* kNames[kPhases] = {"transform", "match", "materialize"};
    return kNames[static_cast<int>(phase)];
}

}  // namespace

PhaseTimes::PhaseTimes(Device& device) : device_(device), timer_(device.stream()) {
    if (device.phase_times() != nullptr) throw Error(ErrorCode::kInternal, "two listen to the phases of one operation");
    device.set_phase_times(this);
}

PhaseTimes::~PhaseTimes() {
    device_.set_phase_times(nullptr);
}

void PhaseTimes::enter(Phase phase) {
    open_.push_back(phase);
    try {
        timer_.begin(name_of(phase));
    } catch (...) {
        // The scope does not come to be, so nobody will leave it.
        open_.pop_back();
        is_whole_ = false;
        throw;
    }
}

// Called while errors unwind as well: the work itself reports what is wrong with the device.
void PhaseTimes::leave() noexcept {
    open_.pop_back();
    if (!is_whole_) return;
    try {
        if (open_.empty()) {
            timer_.end();
        } else {
            timer_.begin(name_of(open_.back()));
        }
    } catch (...) {
        is_whole_ = false;
    }
}

double PhaseTimes::milliseconds(Phase phase) {
    return is_whole_ ? timer_.milliseconds(name_of(phase)) : 0.0;
}

}}  // namespace spillway::cuda::device
