// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>
#include <stdexcept>
#include <string>

#include "api/stream_spec.hpp"
#include "command_line.hpp"
#include "options.hpp"

namespace spillway::gpu_bench {

// Sizes of an operator beyond GPU memory as options that must be given. The planner of the package chooses them, so
// that the benchmark measures what queries run with.
class SizeOptions {
  public:
    // Adds the sizes that every operator has. `known` and `sizes` must outlive this object.
    SizeOptions(KnownOptions& known, cuda::StreamSizes& sizes) : known_(known) {
        add("--radix-bits", sizes.radix_bits, 0, kRadixBitsMax);
        add("--chunk-rows", sizes.chunk_rows, 1);
        add("--chunk-slots", sizes.chunk_slots, 1, UINT32_MAX);
        add("--page-rows", sizes.page_rows, 0);
        add("--pages", sizes.pages, 0);
        add("--result-rows", sizes.result_rows, 1);
        add("--result-slots", sizes.result_slots, 1, kResultSlotsMax);
        add("--spill-block-bytes", sizes.spill_block_bytes, 1);
        add("--spill-bytes", sizes.spill_bytes, 0);
    }

    template <class Number>
    void add(const std::string& option, Number& size, uint64_t least, uint64_t most = UINT64_MAX) {
        missing_.insert(option);
        known_[option] = [this, &size, least, most](const std::string& name, const std::string& text) {
            const uint64_t value = gpu_test::parse_number(name, text);
            if (value < least || value > most) {
                const std::string range = most == UINT64_MAX ? " or more" : " to " + std::to_string(most);
                throw std::invalid_argument("Expected " + std::to_string(least) + range + " for " + name +
                                            " but received '" + text + "'.");
            }
            size = static_cast<Number>(value);
            missing_.erase(name);
        };
    }

    // Throws std::invalid_argument unless all are given.
    void check() const {
        if (missing_.empty()) return;
        std::string names;
        for (const std::string& name : missing_) names += (names.empty() ? "" : ", ") + name;
        throw std::invalid_argument("Expected " + names + ": `npm run bench:gpu` passes the sizes that a plan has.");
    }

  private:
    static constexpr uint64_t kRadixBitsMax = 16;
    static constexpr uint64_t kResultSlotsMax = 64;

    KnownOptions& known_;
    std::set<std::string> missing_;
};

}  // namespace spillway::gpu_bench
