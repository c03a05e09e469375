// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "api/join_spec.hpp"

namespace spillway::gpu_bench {

// Two relations and what their keys have in common.
struct Workload {
    uint32_t key_bytes = 4;
    std::vector<uint32_t> build_payload = {4};  // bytes of each column; the first, if any, names the row: 4 or 8
    std::vector<uint32_t> probe_payload = {4};
    uint64_t build_rows = 0;
    uint64_t probe_rows = 0;
    double match_ratio = 1;  // the probe side's keys come from a domain 1 / match_ratio as large as the build side's
    double zipf = 0;         // exponent of the probe side's keys, 0 = uniform
    uint64_t distinct = 0;   // keys that the build side's are drawn from; 0 = each row has its own
    std::string type = "inner";  // see parse_join_type(); `kind` is the same
    cuda::JoinKind kind;

    uint32_t row_words_max = 0;  // EquiJoin's, for phj-tr, and so
    int radix_bits = -1;

    bool unique_build_keys() const { return distinct == 0; }
    uint64_t build_domain() const { return unique_build_keys() ? build_rows : distinct; }
    uint64_t probe_domain() const;
    // What a planner that knows the numbers of rows and distinct keys takes memory for. Primary and foreign keys: no
    // more than probe rows, for it does not know how many of them find a partner. Otherwise it is the mean and 1 %. All
    // rows of a side may come without a partner, or once.
    uint64_t result_rows_estimate() const;

  private:
    uint64_t pairs_estimate() const;
};

// The probe side is the left one: "inner", "left", "right", "full", "semi", "anti" (probe rows with and without a
// partner), "right-semi", "right-anti" (build rows). Throws std::invalid_argument.
cuda::JoinKind parse_join_type(const std::string& text);

struct BenchOptions {
    Workload workload;
    std::vector<std::string> algorithms;  // phj-tr if none is named
    uint64_t samples = 7;
    uint64_t warmup = 2;
    uint64_t memory_limit = 0;  // bytes; 0 = what is free
    uint64_t seed = 1;
    int device = 0;
};

// Throws std::invalid_argument.
BenchOptions parse_bench_options(int count, char** arguments);

}  // namespace spillway::gpu_bench
