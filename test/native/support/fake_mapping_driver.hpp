// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <stdexcept>

#include "cuda/tier/stripe_mapping.hpp"

namespace spillway::test {

// A driver that maps nothing and knows what may not be done. Any of its calls can be made to fail.
class FakeMappingDriver final : public cuda::MappingDriver {
  public:
    using PageTier = cuda::PageTier;

    struct Injected : std::runtime_error {
        Injected() : std::runtime_error("a fault was injected") {}
    };
    struct Exhausted : std::runtime_error {
        Exhausted() : std::runtime_error("the limit is reached") {}
    };

    uint64_t create(PageTier tier, uint64_t bytes) override {
        step();
        uint64_t& used = used_bytes[cuda::index_of(tier)];
        if (bytes > limit_bytes[cuda::index_of(tier)] - used) throw Exhausted();
        used += bytes;
        handles[next_handle_] = {tier, bytes, 0};
        ++created;
        return next_handle_++;
    }
    void release(PageTier tier, uint64_t handle) noexcept override {
        const auto found = handles.find(handle);
        if (found == handles.end() || found->second.tier != tier || found->second.mappings != 0) {
            ++mistakes;
            return;
        }
        used_bytes[cuda::index_of(tier)] -= found->second.bytes;
        handles.erase(found);
    }
    uint64_t reserve_addresses(uint64_t bytes, uint64_t alignment_bytes) override {
        step();
        next_address_ = (next_address_ + alignment_bytes - 1) / alignment_bytes * alignment_bytes;
        const uint64_t address = next_address_;
        next_address_ += bytes;
        ranges[address] = bytes;
        return address;
    }
    void free_addresses(uint64_t address, uint64_t bytes) noexcept override {
        const auto range = ranges.find(address);
        const auto mapped = mappings.lower_bound(address);
        const bool in_use = mapped != mappings.end() && mapped->first < address + bytes;
        if (range == ranges.end() || range->second != bytes || in_use) {
            ++mistakes;
            return;
        }
        ranges.erase(range);
    }
    void map(uint64_t address, uint64_t bytes, uint64_t handle) override {
        step();
        const auto range = ranges.upper_bound(address);
        const bool within =
            range != ranges.begin() && address + bytes <= std::prev(range)->first + std::prev(range)->second;
        if (!within || handles.count(handle) == 0 || handles[handle].bytes != bytes || mappings.count(address) > 0) {
            ++mistakes;
        }
        mappings[address] = {bytes, handle, false, false};
        ++handles[handle].mappings;
    }
    void unmap(uint64_t address, uint64_t bytes) noexcept override {
        const auto mapping = mappings.find(address);
        if (!settled_ || mapping == mappings.end() || mapping->second.bytes != bytes) {
            ++mistakes;
            return;
        }
        --handles[mapping->second.handle].mappings;
        mappings.erase(mapping);
    }
    void allow_devices(uint64_t address, uint64_t bytes) override {
        step();
        for_each(address, bytes, [](Mapping& mapping) { mapping.device = true; });
        settled_ = false;
    }
    void allow_host(uint64_t address, uint64_t bytes) override {
        step();
        for_each(address, bytes, [this](Mapping& mapping) {
            if (handles[mapping.handle].tier != PageTier::kHost) ++mistakes;
            mapping.host = true;
        });
    }
    void settle() noexcept override { settled_ = true; }

    void fail_at(int call) { fails_in_ = call; }  // the n-th from now; 0: none
    bool failure_is_due() const { return fails_in_ > 0; }

    struct Handle {
        PageTier tier;
        uint64_t bytes;
        int mappings;
    };
    struct Mapping {
        uint64_t bytes;
        uint64_t handle;
        bool device;
        bool host;
    };
    std::map<uint64_t, Handle> handles;
    std::map<uint64_t, uint64_t> ranges;
    std::map<uint64_t, Mapping> mappings;
    std::array<uint64_t, 3> limit_bytes{uint64_t{1} << 40, uint64_t{1} << 40, uint64_t{1} << 40};
    std::array<uint64_t, 3> used_bytes{};
    int created = 0;
    int mistakes = 0;

  private:
    void step() {
        if (fails_in_ > 0 && --fails_in_ == 0) throw Injected();
    }
    // Whole mappings without a gap, or it is a mistake.
    template <class Body>
    void for_each(uint64_t address, uint64_t bytes, Body body) {
        for (uint64_t at = address; at < address + bytes;) {
            const auto mapping = mappings.find(at);
            if (mapping == mappings.end()) {
                ++mistakes;
                return;
            }
            body(mapping->second);
            at += mapping->second.bytes;
            if (at > address + bytes) ++mistakes;
        }
    }

    uint64_t next_handle_ = 1;
    uint64_t next_address_ = 1 << 20;
    int fails_in_ = 0;
    bool settled_ = true;
};

}  // namespace spillway::test
