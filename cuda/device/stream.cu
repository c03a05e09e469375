// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "device/stream.hpp"

namespace spillway::cuda { inline namespace device {

Event::Event(EventTiming timing) {
    const unsigned flags = timing == EventTiming::kOn ? cudaEventDefault : cudaEventDisableTiming;
    SPILLWAY_CUDA_CHECK(cudaEventCreateWithFlags(&event_, flags));
}

Event::~Event() {
    if (event_ != nullptr) discard(cudaEventDestroy(event_));
}

Event::Event(Event&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}

Event& Event::operator=(Event&& other) noexcept {
    std::swap(event_, other.event_);
    return *this;
}

void Event::record(cudaStream_t stream) {
    SPILLWAY_CUDA_CHECK(cudaEventRecord(event_, stream));
}

void Event::synchronize() const {
    SPILLWAY_CUDA_CHECK(cudaEventSynchronize(event_));
}

bool Event::done() const {
    const cudaError_t status = cudaEventQuery(event_);
    if (status == cudaErrorNotReady) {
        discard(status);  // an answer, but the runtime may keep it as the last error
        return false;
    }
    check(status, "cudaEventQuery");
    return true;
}

double Event::milliseconds_since(const Event& start) const {
    float milliseconds = 0;
    SPILLWAY_CUDA_CHECK(cudaEventElapsedTime(&milliseconds, start.event_, event_));
    return static_cast<double>(milliseconds);
}

Stream::Stream(StreamPriority priority) {
    int least = 0;
    int greatest = 0;
    SPILLWAY_CUDA_CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    const int wanted = priority == StreamPriority::kUrgent ? greatest : least;
    SPILLWAY_CUDA_CHECK(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, wanted));
}

Stream::~Stream() {
    if (stream_ != nullptr) discard(cudaStreamDestroy(stream_));
}

Stream::Stream(Stream&& other) noexcept
    : stream_(std::exchange(other.stream_, nullptr)), joint_(std::move(other.joint_)) {}

Stream& Stream::operator=(Stream&& other) noexcept {
    std::swap(stream_, other.stream_);
    std::swap(joint_, other.joint_);
    return *this;
}

void Stream::synchronize() const {
    SPILLWAY_CUDA_CHECK(cudaStreamSynchronize(stream_));
}

void Stream::wait(const Event& event) {
    SPILLWAY_CUDA_CHECK(cudaStreamWaitEvent(stream_, event.get(), 0));
}

void Stream::wait_for(cudaStream_t stream) {
    join_streams(stream, stream_, joint_);
}

void join_streams(cudaStream_t earlier, cudaStream_t later, Event& joint) {
    // A wait takes the state of the event when it is enqueued, so the event may be recorded again at once.
    joint.record(earlier);
    SPILLWAY_CUDA_CHECK(cudaStreamWaitEvent(later, joint.get(), 0));
}

size_t PhaseTimer::record() {
    if (events_used_ == events_.size()) events_.emplace_back(EventTiming::kOn);
    events_[events_used_].record(stream_);
    return events_used_++;
}

void PhaseTimer::begin(const char* phase) {
    const size_t event = record();
    if (running_) spans_.back().end = event;
    running_ = false;  // also when the next lines find no memory
    const auto known = std::find(names_.begin(), names_.end(), phase);
    const auto at = static_cast<size_t>(known - names_.begin());
    if (known == names_.end()) names_.emplace_back(phase);
    spans_.push_back({at, event, event});
    running_ = true;
}

void PhaseTimer::end() {
    if (!running_) return;
    spans_.back().end = record();
    running_ = false;
}

void PhaseTimer::reset() {
    events_used_ = 0;
    names_.clear();
    spans_.clear();
    running_ = false;
}

std::vector<PhaseTimer::Phase> PhaseTimer::collect() {
    end();
    std::vector<Phase> phases;
    for (const std::string& name : names_) phases.push_back({name, 0.0});
    if (spans_.empty()) return phases;
    events_[events_used_ - 1].synchronize();
    for (const Span& span : spans_) {
        phases[span.phase].milliseconds += events_[span.end].milliseconds_since(events_[span.begin]);
    }
    return phases;
}

double PhaseTimer::milliseconds(const char* phase) {
    for (const Phase& known : collect()) {
        if (known.name == phase) return known.milliseconds;
    }
    return 0.0;
}

std::vector<PhaseTimer::Phase> PhaseTimer::milliseconds() {
    return collect();
}

}}  // namespace spillway::cuda::device
