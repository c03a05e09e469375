// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <cstdio>
#include <string>
#include <vector>

#include "options.hpp"

namespace spillway::gpu_test {

// A test is "running" in a file that a crash or a time limit left: whoever reads it knows which test did it.
struct Result {
    const char* name = "";
    const char* status = "not run";  // or "running", "passed", "failed", "left out"
    double ms = 0;
    std::string message = {};
    std::string left_out = {};  // why the test, or a part of one that passed, was: sentences, "; " between them
};

struct DeviceFacts {
    cudaDeviceProp properties{};
    int driver = 0;  // 13000: the newest CUDA that the driver knows
    int runtime = 0;
};

inline std::string json_text(const std::string& text) {
    std::string out = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') out += '\\';
        if (static_cast<unsigned char>(c) >= 0x20) {
            out += c;
        } else {
            char escaped[8];
            std::snprintf(escaped, sizeof escaped, "\\u%04x", c);
            out += escaped;
        }
    }
    return out + "\"";
}

inline std::string version_text(int version) {
    return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

inline std::string report_json(const DeviceFacts& facts, const std::vector<Result>& results) {
    const cudaDeviceProp& device = facts.properties;
    std::string out = "{\n";
    out += "  \"device\": {\"name\": " + json_text(device.name) + ", \"compute_capability\": \"" +
           std::to_string(device.major) + "." + std::to_string(device.minor) +
           "\", \"memory_bytes\": " + std::to_string(device.totalGlobalMem) + "},\n";
    out += "  \"cuda\": {\"driver\": \"" + version_text(facts.driver) + "\", \"runtime\": \"" +
           version_text(facts.runtime) + "\"},\n";
    // As text: JavaScript's numbers end at 53 bits.
    out += "  \"seed\": \"" + std::to_string(options().seed) + "\",\n";
    out += std::string("  \"suite\": \"") + suite_name(options()) + "\",\n  \"tests\": [";
    const char* separator = "\n";
    for (const Result& result : results) {
        char ms[32];
        std::snprintf(ms, sizeof ms, "%.3f", result.ms);
        out += separator + std::string("    {\"name\": ") + json_text(result.name) + ", \"status\": \"" +
               result.status + "\", \"ms\": " + ms;
        if (!result.message.empty()) out += ", \"message\": " + json_text(result.message);
        if (!result.left_out.empty()) out += ", \"left_out\": " + json_text(result.left_out);
        out += "}";
        separator = ",\n";
    }
    return out + "\n  ]\n}\n";
}

// Throws when the file cannot be written: results that nobody gets to see are no results.
inline void write_report(const DeviceFacts& facts, const std::vector<Result>& results) {
    if (options().json.empty()) return;
    const std::string text = report_json(facts, results);
    std::FILE* file = std::fopen(options().json.c_str(), "w");
    bool written = file != nullptr && std::fwrite(text.data(), 1, text.size(), file) == text.size();
    if (file != nullptr) written = std::fclose(file) == 0 && written;
    if (!written) throw std::runtime_error("Writing '" + options().json + "' failed.");
}

}  // namespace spillway::gpu_test
