// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <mutex>

#include "base/job_control.hpp"
#include "transfer/source.hpp"

namespace spillway {

// A relation that comes as sources one after the other, whose number nobody knows before the last one. One is read at a
// time, so that whoever brings them has to wait for those who read them. All of them have the same columns.
class SourceStream {
  public:
    SourceStream() = default;
    SourceStream(const SourceStream&) = delete;

    // These are for whoever brings the sources, on any thread.

    // Waits until somebody reads. False: nobody will.
    bool wait_for_reader(const JobControl& control);
    // Returns when all rows have been read and nobody refers to the source any more. False: they will not be read.
    bool push(Source& source, const JobControl& control);
    void end();
    // Nobody reads any more: the calls above return false.
    void close();

    // These are for those who read them. What readers wait for changes with their own state, too, so that they use this
    // lock for both.

    std::mutex& mutex() { return mutex_; }
    std::condition_variable& changed() { return changed_; }
    // The lock is held when these are called.
    void begin_reading();
    // Returns the source that comes next, which give_back() returns to whoever has brought it; nullptr: none is there.
    Source* take();
    void give_back(bool all_read);
    bool ended() const { return ended_ && offered_ == nullptr; }

  private:
    std::mutex mutex_;
    std::condition_variable changed_;
    Source* offered_ = nullptr;
    bool taken_ = false;
    bool all_read_ = false;
    bool has_reader_ = false;
    bool ended_ = false;
    bool closed_ = false;
};

}  // namespace spillway
