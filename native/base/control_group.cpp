// SPDX-License-Identifier: Apache-2.0
#include "base/control_group.hpp"

#include <algorithm>
#include <vector>

#include "base/system_file.hpp"

namespace spillway {

namespace {

// Version 1 writes "no limit" as the largest multiple of the page size below 2^63.
constexpr uint64_t kUnlimitedMin = uint64_t{1} << 60;

// Folders of the groups from `path` up to the top of the mount. A container often sees the mount without the path that
// /proc/self/cgroup names; those folders are simply not there.
std::vector<std::string> chain(const std::string& mount, std::string path) {
    std::vector<std::string> folders;
    while (!path.empty() && path != "/") {
        folders.push_back(mount + path);
        path.resize(path.find_last_of('/'));
    }
    folders.push_back(mount);
    return folders;
}

struct MemoryFiles {
    std::vector<const char*> limits;
    const char* used;
    const char* reclaimable;  // line of memory.stat
};
const MemoryFiles kVersion1{{"/memory.limit_in_bytes"}, "/memory.usage_in_bytes", "total_inactive_file "};
// memory.high: above it every allocation is slowed down until the group makes no progress, as bad as a hard limit.
const MemoryFiles kVersion2{{"/memory.max", "/memory.high"}, "/memory.current", "inactive_file "};

uint64_t reclaimable_bytes(const std::string& folder, const std::string& name) {
    for (const auto& line : split_lines(read_text(folder + "/memory.stat").value_or(""))) {
        if (line.rfind(name, 0) == 0) return parse_number(line.substr(name.size())).value_or(0);
    }
    return 0;
}

// A group with a large limit may have less left than one with a small limit inside it: its other members use memory as
// well. So limit and remainder are each the smallest on the way.
void take_memory(const std::string& folder, const MemoryFiles& files, ControlGroupLimits& limits) {
    uint64_t limit = kUnlimitedMin;
    for (const char* file : files.limits) limit = std::min(limit, read_number(folder + file).value_or(kUnlimitedMin));
    if (limit >= kUnlimitedMin) return;
    limits.memory_bytes = std::min(limit, limits.memory_bytes.value_or(limit));
    uint64_t used = read_number(folder + files.used).value_or(0);
    used -= std::min(used, reclaimable_bytes(folder, files.reclaimable));  // file pages that the group can drop
    const uint64_t left = limit - std::min(limit, used);
    limits.memory_free_bytes = std::min(left, limits.memory_free_bytes.value_or(left));
}

void take_cpus(std::optional<uint64_t> quota, std::optional<uint64_t> period, ControlGroupLimits& limits) {
    if (!quota || !period || *quota == 0 || *period == 0) return;
    const double cpus = static_cast<double>(*quota) / static_cast<double>(*period);
    limits.cpus = limits.cpus ? std::min(*limits.cpus, cpus) : cpus;
}

void read_version2(const std::string& mount, const std::string& path, ControlGroupLimits& limits) {
    for (const auto& folder : chain(mount, path)) {
        take_memory(folder, kVersion2, limits);
        const auto text = read_text(folder + "/cpu.max");  // "max 100000" or "150000 100000"
        const size_t space = text ? text->find(' ') : std::string::npos;
        if (space != std::string::npos) take_cpus(parse_number(*text), parse_number(text->substr(space)), limits);
    }
}

void read_version1(const std::string& mount, const std::string& controllers, const std::string& path,
                   ControlGroupLimits& limits) {
    const std::string list = "," + controllers + ",";
    // The folder is named after all controllers mounted together or after one of them (a link).
    if (list.find(",memory,") != std::string::npos) {
        for (const auto& folder : chain(mount + "/memory", path)) take_memory(folder, kVersion1, limits);
    }
    if (list.find(",cpu,") == std::string::npos) return;
    for (const auto& name : {std::string("cpu"), controllers}) {
        for (const auto& folder : chain(mount + "/" + name, path)) {
            // A quota of -1 means none; parse_number() refuses the sign.
            take_cpus(read_number(folder + "/cpu.cfs_quota_us"), read_number(folder + "/cpu.cfs_period_us"), limits);
        }
    }
}

}  // namespace

ControlGroupLimits read_control_group(const std::string& root) {
    ControlGroupLimits limits;
    const std::string mount = root + "/sys/fs/cgroup";
    // Lines are "number:controllers:path"; version 2 is the one with number 0 and no controllers. A hybrid system
    // mounts it in "unified".
    for (const auto& line : split_lines(read_text(root + "/proc/self/cgroup").value_or(""))) {
        const size_t first = line.find(':');
        const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
        if (second == std::string::npos) continue;
        const std::string controllers = line.substr(first + 1, second - first - 1);
        const std::string path = line.substr(second + 1);
        if (controllers.empty()) {
            read_version2(mount, path, limits);
            read_version2(mount + "/unified", path, limits);
        } else {
            read_version1(mount, controllers, path, limits);
        }
    }
    return limits;
}

}  // namespace spillway
