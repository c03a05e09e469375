// SPDX-License-Identifier: Apache-2.0
#include "base/machine.hpp"

#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <thread>

#include "base/control_group.hpp"
#include "base/system_file.hpp"

namespace spillway {

namespace {

// For machines whose /sys tells nothing (some containers): sizes that are small enough everywhere, so that a plan made
// from them is slow at worst.
constexpr uint64_t kL1BytesDefault = 32 << 10;
constexpr uint64_t kL2BytesDefault = 512 << 10;
constexpr uint64_t kL3BytesDefault = 4 << 20;
#if defined(__powerpc64__)
constexpr uint64_t kCacheLineBytesDefault = 128;
#else
constexpr uint64_t kCacheLineBytesDefault = 64;
#endif

std::vector<int> allowed_cpus(const std::string& root) {
    const auto status = read_text(root + "/proc/self/status").value_or("");
    auto cpus = parse_cpu_list(value_of(status, "Cpus_allowed_list").value_or(""));
    // The mask may name processors that do not exist (a container with "0-255" on a small machine).
    const auto online = parse_cpu_list(read_text(root + "/sys/devices/system/cpu/online").value_or(""));
    if (!online.empty()) {
        std::erase_if(cpus, [&](int cpu) { return !std::binary_search(online.begin(), online.end(), cpu); });
    }
    if (cpus.empty()) {
        const int count = std::max(1u, std::thread::hardware_concurrency());
        for (int cpu = 0; cpu < count; ++cpu) cpus.push_back(cpu);
    }
    return cpus;
}

int count_physical_cores(const std::string& root, const std::vector<int>& cpus) {
    std::set<std::string> cores;
    for (const int cpu : cpus) {
        const std::string topology = root + "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/";
        auto siblings = read_text(topology + "thread_siblings_list");
        cores.insert(siblings ? *siblings : std::to_string(cpu));
    }
    return static_cast<int>(cores.size());
}

std::string cpu_model(const std::string& root) {
    const auto cpuinfo = read_text(root + "/proc/cpuinfo").value_or("");
    for (const char* name : {"model name", "cpu", "Model"}) {  // x86, POWER, some Arm boards
        if (const auto model = value_of(cpuinfo, name)) return *model;
    }
    const auto part = value_of(cpuinfo, "CPU part");  // Arm servers: numbers only
    if (part) return "Arm implementer " + value_of(cpuinfo, "CPU implementer").value_or("?") + " part " + *part;
    return "unknown";
}

// The extensions that the engine has code for and this processor has. Who uses those beyond the architecture's base
// asks the processor in the same way: mix_kernels.cpp (AVX-512), vector_probing_table.cpp (AVX2).
std::vector<std::string> simd_extensions() {
    std::vector<std::string> names;
#if defined(__x86_64__)
    names.emplace_back("sse2");  // non-temporal stores; part of every x86-64 processor
    if (__builtin_cpu_supports("avx2") != 0) names.emplace_back("avx2");
    if (__builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512dq") != 0) {
        names.insert(names.end(), {"avx512f", "avx512dq"});
    }
#elif defined(__aarch64__)
    names.emplace_back("neon");
#elif defined(__powerpc64__) && defined(__VSX__)
    names.emplace_back("vsx");
#endif
    return names;
}

uint64_t parse_size(const std::string& text) {  // "48K", "2048K", "32M"
    const uint64_t number = parse_number(text).value_or(0);
    if (text.empty()) return 0;
    if (text.back() == 'K') return number << 10;
    if (text.back() == 'M') return number << 20;
    return number;
}

void read_caches(const std::string& root, int cpu, Machine& machine) {
    const std::string folder = root + "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/cache/";
    for (const auto& name : folder_names(folder)) {
        if (name.rfind("index", 0) != 0) continue;
        const std::string index = folder + name + "/";
        if (read_text(index + "type").value_or("") == "Instruction") continue;
        const uint64_t bytes = parse_size(read_text(index + "size").value_or(""));
        const uint64_t level = read_number(index + "level").value_or(0);
        if (level == 1) machine.l1_bytes = bytes;
        if (level == 2) machine.l2_bytes = bytes;
        if (level == 3) machine.l3_bytes = bytes;
        if (level == 1) machine.cache_line_bytes = read_number(index + "coherency_line_size").value_or(0);
    }
    const bool nothing_known = machine.l1_bytes == 0 && machine.l2_bytes == 0 && machine.l3_bytes == 0;
    if (machine.l1_bytes == 0) machine.l1_bytes = kL1BytesDefault;
    if (machine.l2_bytes == 0) machine.l2_bytes = kL2BytesDefault;
    if (nothing_known) machine.l3_bytes = kL3BytesDefault;  // else: a machine without one (0)
    if (machine.cache_line_bytes == 0) machine.cache_line_bytes = kCacheLineBytesDefault;
}

void limit_memory(uint64_t limit, uint64_t available, Machine& machine) {
    if (limit < machine.memory_limit_bytes.value_or(machine.memory_bytes)) machine.memory_limit_bytes = limit;
    machine.available_bytes = std::min(machine.available_bytes, available);
}

void read_memory(const std::string& root, Machine& machine) {
    const auto meminfo = read_text(root + "/proc/meminfo").value_or("");
    const auto kibibytes = [&](const char* name) { return parse_number(value_of(meminfo, name).value_or("")); };
    machine.page_bytes = static_cast<uint64_t>(std::max(4096L, ::sysconf(_SC_PAGESIZE)));
    machine.memory_bytes = kibibytes("MemTotal").value_or(0) << 10;
    if (machine.memory_bytes == 0) {
        machine.memory_bytes = static_cast<uint64_t>(std::max(0L, ::sysconf(_SC_PHYS_PAGES))) * machine.page_bytes;
    }
    machine.available_bytes = kibibytes("MemAvailable").value_or(machine.memory_bytes / 1024 / 2) << 10;
    machine.huge_page_bytes = kibibytes("Hugepagesize").value_or(0) << 10;
    // "always [madvise] never": the word in brackets is in force.
    const auto modes = read_text(root + "/sys/kernel/mm/transparent_hugepage/enabled").value_or("");
    const size_t begin = modes.find('[');
    const size_t end = modes.find(']');
    const bool found = begin != std::string::npos && end != std::string::npos && begin < end;
    machine.transparent_huge_pages = found ? modes.substr(begin + 1, end - begin - 1) : "never";
}

std::vector<NumaNode> read_numa_nodes(const std::string& root) {
    const std::string folder = root + "/sys/devices/system/node/";
    std::vector<NumaNode> nodes;
    for (const auto& name : folder_names(folder)) {
        if (name.rfind("node", 0) != 0) continue;
        const auto number = parse_number(name.substr(4));
        if (!number) continue;
        NumaNode node;
        node.node = static_cast<int>(*number);
        node.cpus = read_text(folder + name + "/cpulist").value_or("");
        const auto meminfo = read_text(folder + name + "/meminfo").value_or("");
        const auto kibibytes = [&](const char* what) {
            return parse_number(value_of(meminfo, "Node " + std::to_string(node.node) + " " + what).value_or(""));
        };
        node.memory_bytes = kibibytes("MemTotal").value_or(0) << 10;
        const uint64_t files = kibibytes("Active(file)").value_or(0) + kibibytes("Inactive(file)").value_or(0);
        const auto free = kibibytes("MemFree");
        node.available_bytes = free ? (*free + files) << 10 : node.memory_bytes;
        nodes.push_back(std::move(node));
    }
    std::sort(nodes.begin(), nodes.end(), [](const NumaNode& a, const NumaNode& b) { return a.node < b.node; });
    return nodes;
}

// NVIDIA's driver gives the memory of coherent GPUs to the system as NUMA nodes (Grace Hopper: 8 for each GPU, of which
// one has memory unless it is partitioned; POWER9: 255 and below).
bool has_gpus_of_nvidia(const std::string& root) {
    return !folder_names(root + "/proc/driver/nvidia/gpus").empty() ||
           read_text(root + "/proc/iomem").value_or("").find("System RAM (NVIDIA)") != std::string::npos;
}

// Nodes of memory that a device of the bus brings and the system was told to use: CXL, persistent memory.
std::set<int> dax_nodes(const std::string& root) {
    const std::string folder = root + "/sys/bus/dax/devices/";
    std::set<int> nodes;
    for (const auto& name : folder_names(folder)) {
        if (const auto node = read_number(folder + name + "/target_node")) nodes.insert(static_cast<int>(*node));
    }
    return nodes;
}

// The memory of a GPU is no host memory, though /proc/meminfo counts it: pages there would be read over the link and
// would be missing on the GPU. Its nodes have no CPUs, as those of CXL memory have none, which is host memory. Nothing
// that every kernel tells tells them apart for certain: beside GPUs a node without CPUs is taken for a GPU's, unless
// the system knows it as that of another device. Too little is then counted of a machine with such GPUs and a node of
// CXL memory that the firmware has set up, and `memory.host` can be set by hand.
void leave_out_gpu_memory(const std::string& root, Machine& machine) {
    if (!has_gpus_of_nvidia(root)) return;
    const std::set<int> of_devices = dax_nodes(root);
    std::erase_if(machine.numa_nodes, [&](const NumaNode& node) {
        if (!node.cpus.empty() || of_devices.contains(node.node)) return false;
        machine.memory_bytes -= std::min(machine.memory_bytes, node.memory_bytes);
        machine.available_bytes -= std::min(machine.available_bytes, node.available_bytes);
        return true;
    });
}

// A cpuset (containers, Slurm) may keep the process to the memory of some nodes; /proc/meminfo tells of all. What is
// free elsewhere does not help: the process is killed when its nodes are full.
void obey_memory_nodes(const std::string& root, Machine& machine) {
    const auto status = read_text(root + "/proc/self/status").value_or("");
    const auto allowed = parse_cpu_list(value_of(status, "Mems_allowed_list").value_or(""));
    uint64_t memory = 0;
    uint64_t available = 0;
    bool all = true;
    for (const NumaNode& node : machine.numa_nodes) {
        const bool usable = std::find(allowed.begin(), allowed.end(), node.node) != allowed.end();
        if (usable) memory += node.memory_bytes;
        if (usable) available += node.available_bytes;
        if (!usable && node.memory_bytes > 0) all = false;
    }
    if (!all && memory > 0) limit_memory(memory, available, machine);
}

}  // namespace

Machine read_machine(const std::string& root) {
    Machine machine;
    const auto limits = read_control_group(root);
    const auto cpus = allowed_cpus(root);
    machine.cores = static_cast<int>(cpus.size());
    // A quota of 1.5 processors is worth two threads that are paused now and then.
    if (limits.cpus) machine.cores = std::clamp(static_cast<int>(std::ceil(*limits.cpus)), 1, machine.cores);
    machine.physical_cores = std::min(count_physical_cores(root, cpus), machine.cores);
    machine.cpu_model = cpu_model(root);
    utsname system{};
    machine.architecture = ::uname(&system) == 0 ? system.machine : "unknown";
    machine.simd = simd_extensions();
    read_caches(root, cpus.front(), machine);
    read_memory(root, machine);
    machine.numa_nodes = read_numa_nodes(root);
    leave_out_gpu_memory(root, machine);
    if (limits.memory_bytes) limit_memory(*limits.memory_bytes, limits.memory_free_bytes.value_or(0), machine);
    obey_memory_nodes(root, machine);
    return machine;
}

}  // namespace spillway
