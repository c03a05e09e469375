// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <memory>
#include <string>
#include <vector>

#include "device/error.hpp"

namespace spillway::cuda { inline namespace device {

enum class EventTiming { kOff, kOn };

// A point in a stream. Events without timing are cheaper to record and to wait for. Made on the current device.
class Event {
  public:
    explicit Event(EventTiming timing = EventTiming::kOff);
    ~Event();
    Event(Event&& other) noexcept;
    Event& operator=(Event&& other) noexcept;
    Event(const Event&) = delete;
    Event& operator=(const Event&) = delete;

    cudaEvent_t get() const { return event_; }
    void record(cudaStream_t stream);  // replaces what was recorded before
    void synchronize() const;          // returns at once when nothing was recorded
    bool done() const;
    double milliseconds_since(const Event& start) const;  // both with timing, recorded and done

  private:
    cudaEvent_t event_ = nullptr;
};

// kUrgent: the highest that there is. A kernel of few blocks would else wait until the last block of a large one that
// was launched before it has begun.
enum class StreamPriority { kUsual, kUrgent };

// Its work does not wait for the legacy default stream. Made on the current device.
class Stream {
  public:
    explicit Stream(StreamPriority priority = StreamPriority::kUsual);
    ~Stream();  // does not wait: the work on it goes on
    Stream(Stream&& other) noexcept;
    Stream& operator=(Stream&& other) noexcept;
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;

    cudaStream_t get() const { return stream_; }
    void synchronize() const;
    void wait(const Event& event);       // later work here starts after what the event was recorded behind
    void wait_for(cudaStream_t stream);  // later work here starts after all that is enqueued on `stream` now

  private:
    cudaStream_t stream_ = nullptr;
    Event joint_;
};

// Makes later work on `later` start after all that is enqueued on `earlier` now; `joint` is any event of the device.
void join_streams(cudaStream_t earlier, cudaStream_t later, Event& joint);

// Times phases of the work on one stream by events: begin() and end() cost some microseconds and wait for nothing. A
// phase that comes again adds to its time. Not thread-safe.
class PhaseTimer {
  public:
    struct Phase {
        std::string name;
        double milliseconds;
    };

    explicit PhaseTimer(cudaStream_t stream) : stream_(stream) {}

    void begin(const char* phase);  // ends the phase before
    void end();
    void reset();  // forgets all phases, keeps the events

    // Both end the running phase and wait for the last event; phases in the order of their first begin().
    double milliseconds(const char* phase);  // 0 for one that never began
    std::vector<Phase> milliseconds();

  private:
    struct Span {
        size_t phase;  // index of names_
        size_t begin;  // of events_
        size_t end;
    };
    size_t record();
    std::vector<Phase> collect();

    cudaStream_t stream_;
    std::vector<Event> events_;  // grows only, reused after reset()
    size_t events_used_ = 0;
    std::vector<std::string> names_;
    std::vector<Span> spans_;
    bool running_ = false;
};

}}  // namespace spillway::cuda::device
