// SPDX-License-Identifier: Apache-2.0

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/machine.hpp"
#include "base/system_file.hpp"
#include "support/test.hpp"

namespace spillway {
namespace {

// A made-up /proc and /sys.
class FakeSystem {
  public:
    FakeSystem() {
        char name[] = "/tmp/spillway-machine-XXXXXX";
        root_ = ::mkdtemp(name);
    }
    ~FakeSystem() { std::filesystem::remove_all(root_); }
    void write(const std::string& path, const std::string& text) const {
        const std::filesystem::path file = root_ + path;
        std::filesystem::create_directories(file.parent_path());
        std::ofstream(file) << text;
    }
    void cache(int index, int level, const std::string& type, const std::string& size) const {
        const std::string folder = "/sys/devices/system/cpu/cpu2/cache/index" + std::to_string(index) + "/";
        write(folder + "level", std::to_string(level) + "\n");
        write(folder + "type", type + "\n");
        write(folder + "size", size + "\n");
        write(folder + "coherency_line_size", "128\n");
    }
    void node(int number, const std::string& cpus, uint64_t total_gib, uint64_t free_gib) const {
        const std::string folder = "/sys/devices/system/node/node" + std::to_string(number) + "/";
        const std::string line = "Node " + std::to_string(number) + " ";
        const auto kibibytes = [](uint64_t gib) { return std::to_string(gib << 20) + " kB\n"; };
        write(folder + "cpulist", cpus + "\n");
        write(folder + "meminfo", line + "MemTotal:  " + kibibytes(total_gib) + line + "MemUsed: 0 kB\n" + line +
                                      "MemFree:  " + kibibytes(free_gib));
    }
    void memory(uint64_t total_gib, uint64_t available_gib) const {
        write("/proc/meminfo", "MemTotal:  " + std::to_string(total_gib << 20) +
                                   " kB\nMemAvailable:  " + std::to_string(available_gib << 20) + " kB\n");
    }
    void gpu(const std::string& address) const {
        write("/proc/driver/nvidia/gpus/" + address + "/information", "Model: Made Up GPU\n");
    }
    const std::string& root() const { return root_; }

  private:
    std::string root_;
};

FakeSystem make_server() {
    FakeSystem system;
    system.write("/proc/self/status", "Name:\tnode\nCpus_allowed:\tff\nCpus_allowed_list:\t2-5,7\n");
    system.write("/sys/devices/system/cpu/online", "0-5\n");
    system.write("/proc/cpuinfo", "processor\t: 0\nmodel name\t: Made Up 9000\nmodel name\t: other\n");
    system.write("/proc/meminfo",
                 "MemTotal:       1048576 kB\nMemAvailable:    524288 kB\nHugepagesize:     2048 kB\n");
    system.write("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
    for (int cpu = 2; cpu <= 5; ++cpu) {
        const std::string pair = cpu < 4 ? "2-3" : "4-5";
        system.write("/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list", pair);
    }
    system.cache(0, 1, "Data", "48K");
    system.cache(1, 1, "Instruction", "32K");
    system.cache(2, 2, "Unified", "2M");
    system.cache(3, 3, "Unified", "36864K");
    system.write("/sys/devices/system/node/node1/cpulist", "4-5\n");
    system.write("/sys/devices/system/node/node1/meminfo", "Node 1 MemTotal:       2048 kB\n");
    system.write("/sys/devices/system/node/node0/cpulist", "0-3\n");
    system.write("/sys/devices/system/node/node0/meminfo", "Node 0 MemTotal:       1024 kB\nNode 0 MemFree: 1 kB\n");
    system.write("/sys/devices/system/node/possible", "0-1\n");
    return system;
}

}  // namespace

TEST(base_cpu_lists) {
    const auto sum = [](const std::string& text) {
        int total = 0;
        for (const int cpu : parse_cpu_list(text)) total += cpu;
        return total;
    };
    EXPECT_EQ(parse_cpu_list("0-3,8").size(), size_t{5});
    EXPECT_EQ(sum("0-3,8"), 14);
    EXPECT_EQ(sum("7"), 7);
    EXPECT_EQ(parse_cpu_list("").size(), size_t{0});
    EXPECT_EQ(parse_cpu_list("x").size(), size_t{0});
    EXPECT_EQ(parse_cpu_list("0-99999999999").size(), size_t{0});
    EXPECT_EQ(parse_cpu_list("1,").size(), size_t{1});
}

TEST(base_machine_reads_a_server) {
    const FakeSystem system = make_server();
    const Machine machine = read_machine(system.root());
    EXPECT_EQ(machine.cores, 4);  // 7 is not online
    EXPECT_EQ(machine.physical_cores, 2);
    EXPECT_EQ(machine.cpu_model, std::string("Made Up 9000"));
    EXPECT_EQ(machine.l1_bytes, uint64_t{48} << 10);
    EXPECT_EQ(machine.l2_bytes, uint64_t{2} << 20);
    EXPECT_EQ(machine.l3_bytes, uint64_t{36} << 20);
    EXPECT_EQ(machine.cache_line_bytes, uint64_t{128});
    EXPECT_EQ(machine.memory_bytes, uint64_t{1} << 30);
    EXPECT_EQ(machine.available_bytes, uint64_t{1} << 29);
    EXPECT(!machine.memory_limit_bytes.has_value());
    EXPECT_EQ(machine.huge_page_bytes, uint64_t{2} << 20);
    EXPECT_EQ(machine.transparent_huge_pages, std::string("madvise"));
    EXPECT_EQ(machine.numa_nodes.size(), size_t{2});
    EXPECT_EQ(machine.numa_nodes[1].node, 1);
    EXPECT_EQ(machine.numa_nodes[1].cpus, std::string("4-5"));
    EXPECT_EQ(machine.numa_nodes[1].memory_bytes, uint64_t{2} << 20);
}

TEST(base_machine_obeys_control_group_2) {
    const FakeSystem system = make_server();
    system.write("/proc/self/cgroup", "0::/service/app\n");
    system.write("/sys/fs/cgroup/service/cpu.max", "250000 100000\n");
    system.write("/sys/fs/cgroup/service/app/cpu.max", "max 100000\n");
    system.write("/sys/fs/cgroup/service/memory.max", "max\n");
    system.write("/sys/fs/cgroup/service/app/memory.max", "268435456\n");
    system.write("/sys/fs/cgroup/service/app/memory.current", "134217728\n");
    system.write("/sys/fs/cgroup/service/app/memory.stat", "anon 5\ninactive_file 67108864\n");
    const Machine machine = read_machine(system.root());
    EXPECT_EQ(machine.cores, 3);  // 2.5 processors
    EXPECT_EQ(*machine.memory_limit_bytes, uint64_t{256} << 20);
    EXPECT_EQ(machine.available_bytes, uint64_t{192} << 20);
}

TEST(base_machine_counts_what_slows_a_group_down) {
    const FakeSystem system = make_server();
    system.write("/proc/self/cgroup", "0::/job\n");
    system.write("/sys/fs/cgroup/job/memory.max", "max\n");
    system.write("/sys/fs/cgroup/job/memory.high", "134217728\n");
    system.write("/sys/fs/cgroup/job/memory.current", "33554432\n");
    const Machine machine = read_machine(system.root());
    EXPECT_EQ(*machine.memory_limit_bytes, uint64_t{128} << 20);
    EXPECT_EQ(machine.available_bytes, uint64_t{96} << 20);
}

TEST(base_machine_counts_what_other_groups_use) {
    const FakeSystem system = make_server();
    system.write("/proc/self/cgroup", "0::/pod/app\n");
    system.write("/sys/fs/cgroup/pod/memory.max", "536870912\n");
    system.write("/sys/fs/cgroup/pod/memory.current", "503316480\n");  // 32 MiB left
    system.write("/sys/fs/cgroup/pod/app/memory.max", "268435456\n");
    system.write("/sys/fs/cgroup/pod/app/memory.current", "33554432\n");
    const Machine machine = read_machine(system.root());
    EXPECT_EQ(*machine.memory_limit_bytes, uint64_t{256} << 20);
    EXPECT_EQ(machine.available_bytes, uint64_t{32} << 20);
}

TEST(base_machine_obeys_memory_nodes) {
    const FakeSystem system = make_server();
    const std::string cpus = "Name:\tnode\nCpus_allowed_list:\t2-5\n";
    system.write("/proc/self/status", cpus + "Mems_allowed_list:\t0\n");
    system.write("/sys/devices/system/node/node0/meminfo",
                 "Node 0 MemTotal: 1024 kB\nNode 0 MemFree: 64 kB\nNode 0 Inactive(file): 32 kB\n");
    const Machine machine = read_machine(system.root());
    EXPECT_EQ(*machine.memory_limit_bytes, uint64_t{1} << 20);
    EXPECT_EQ(machine.available_bytes, uint64_t{96} << 10);
    // All nodes, and some that do not exist: no limit.
    system.write("/proc/self/status", cpus + "Mems_allowed_list:\t0-7\n");
    EXPECT(!read_machine(system.root()).memory_limit_bytes.has_value());
}

namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30;

std::vector<int> nodes_of(const Machine& machine) {
    std::vector<int> numbers;
    for (const NumaNode& node : machine.numa_nodes) numbers.push_back(node.node);
    return numbers;
}

// One CPU and one GPU, whose driver makes 8 nodes, one of them with memory.
FakeSystem make_grace_hopper() {
    FakeSystem system;
    system.memory(576, 560);
    system.node(0, "0-71", 480, 470);
    system.node(1, "", 96, 95);
    for (int node = 2; node <= 8; ++node) system.node(node, "", 0, 0);
    return system;
}

}  // namespace

TEST(base_machine_leaves_out_the_memory_of_a_grace_hopper_gpu) {
    const FakeSystem system = make_grace_hopper();
    system.gpu("0009:01:00.0");
    const Machine machine = read_machine(system.root());
    EXPECT_EQ(machine.memory_bytes, 480 * kGiB);
    EXPECT_EQ(machine.available_bytes, 465 * kGiB);
    EXPECT(!machine.memory_limit_bytes.has_value());
    EXPECT(nodes_of(machine) == std::vector<int>{0});
    // Where /proc/driver is hidden, the driver's name for what it gave to the system tells.
    const FakeSystem hidden = make_grace_hopper();
    hidden.write("/proc/iomem", "00000000-00000000 : System RAM\n00000000-00000000 : System RAM (NVIDIA)\n");
    EXPECT_EQ(read_machine(hidden.root()).available_bytes, 465 * kGiB);
    // A GPU whose memory is in use has nothing that could have counted as available.
    system.node(1, "", 96, 0);
    EXPECT_EQ(read_machine(system.root()).available_bytes, 560 * kGiB);
}

TEST(base_machine_without_gpu_memory_obeys_limits_as_before) {
    const FakeSystem system = make_grace_hopper();
    system.gpu("0009:01:00.0");
    system.write("/proc/self/cgroup", "0::/job\n");
    system.write("/sys/fs/cgroup/job/memory.max", std::to_string(64 * kGiB));
    system.write("/sys/fs/cgroup/job/memory.current", std::to_string(14 * kGiB));
    const Machine limited = read_machine(system.root());
    EXPECT_EQ(*limited.memory_limit_bytes, 64 * kGiB);
    EXPECT_EQ(limited.available_bytes, 50 * kGiB);
    // A group that may use more than the host has is no limit, though it is less than host and GPU together.
    system.write("/sys/fs/cgroup/job/memory.max", std::to_string(500 * kGiB));
    const Machine ample = read_machine(system.root());
    EXPECT(!ample.memory_limit_bytes.has_value());
    EXPECT_EQ(ample.available_bytes, 465 * kGiB);
}

TEST(base_machine_counts_no_gpu_memory_among_allowed_nodes) {
    FakeSystem system;
    system.memory(2 * 480 + 2 * 96, 1100);
    system.node(0, "0-71", 480, 400);
    system.node(1, "72-143", 480, 300);
    system.node(2, "", 96, 90);
    system.node(10, "", 96, 90);
    system.gpu("0009:01:00.0");
    system.gpu("0019:01:00.0");
    system.write("/proc/self/status", "Mems_allowed_list:\t0,2\n");
    const Machine machine = read_machine(system.root());
    EXPECT_EQ(machine.memory_bytes, 960 * kGiB);
    EXPECT_EQ(*machine.memory_limit_bytes, 480 * kGiB);
    EXPECT_EQ(machine.available_bytes, 400 * kGiB);
}

TEST(base_machine_leaves_out_the_memory_of_power9_gpus) {
    FakeSystem system;
    system.memory(2 * 256 + 4 * 16, 500);
    system.node(0, "0-79", 256, 200);
    system.node(8, "80-159", 256, 220);
    for (int node = 252; node <= 255; ++node) system.node(node, "", 16, 15);
    for (int node = 250; node <= 251; ++node) system.node(node, "", 0, 0);
    for (const char* address : {"0004:04:00.0", "0004:05:00.0", "0035:03:00.0", "0035:04:00.0"}) system.gpu(address);
    const Machine machine = read_machine(system.root());
    EXPECT_EQ(machine.memory_bytes, 512 * kGiB);
    EXPECT_EQ(machine.available_bytes, 440 * kGiB);
    EXPECT((nodes_of(machine) == std::vector<int>{0, 8}));
}

TEST(base_machine_counts_cxl_memory) {
    FakeSystem system;
    system.memory(512 + 256, 700);
    system.node(0, "0-63", 512, 450);
    system.node(1, "", 256, 250);
    // No GPU: a node without CPUs is host memory, whoever set it up.
    EXPECT_EQ(read_machine(system.root()).memory_bytes, 768 * kGiB);
    EXPECT_EQ(read_machine(system.root()).available_bytes, 700 * kGiB);
    EXPECT((nodes_of(read_machine(system.root())) == std::vector<int>{0, 1}));
    // Beside a GPU it is, if the system knows the device that it belongs to.
    system.gpu("0000:41:00.0");
    EXPECT_EQ(read_machine(system.root()).memory_bytes, 512 * kGiB);
    EXPECT_EQ(read_machine(system.root()).available_bytes, 450 * kGiB);
    system.write("/sys/bus/dax/devices/dax0.0/target_node", "1\n");
    EXPECT_EQ(read_machine(system.root()).memory_bytes, 768 * kGiB);
    EXPECT_EQ(read_machine(system.root()).available_bytes, 700 * kGiB);
}

TEST(base_machine_beside_a_gpu_of_a_pci_card_counts_all_memory) {
    FakeSystem system;
    system.memory(64, 50);
    system.node(0, "0-15", 64, 45);
    system.gpu("0000:01:00.0");
    const Machine machine = read_machine(system.root());
    EXPECT_EQ(machine.memory_bytes, 64 * kGiB);
    EXPECT_EQ(machine.available_bytes, 50 * kGiB);
    // The same holds where /sys has no nodes.
    FakeSystem bare;
    bare.memory(64, 50);
    bare.gpu("0000:01:00.0");
    EXPECT_EQ(read_machine(bare.root()).memory_bytes, 64 * kGiB);
    EXPECT_EQ(read_machine(bare.root()).available_bytes, 50 * kGiB);
}

TEST(base_machine_obeys_control_group_1) {
    const FakeSystem system = make_server();
    system.write("/proc/self/cgroup", "5:memory:/box\n4:cpu,cpuacct:/box\n0::/\n");
    // In a container the mount often lacks the folder that the path names.
    system.write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "536870912\n");
    system.write("/sys/fs/cgroup/memory/memory.usage_in_bytes", "536870912\n");
    system.write("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "100000\n");
    system.write("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
    const Machine machine = read_machine(system.root());
    EXPECT_EQ(machine.cores, 1);
    EXPECT_EQ(machine.physical_cores, 1);
    EXPECT_EQ(*machine.memory_limit_bytes, uint64_t{512} << 20);
    EXPECT_EQ(machine.available_bytes, uint64_t{0});
}

TEST(base_machine_ignores_limits_that_limit_nothing) {
    const FakeSystem system = make_server();
    system.write("/proc/self/cgroup", "5:memory:/box\n4:cpu:/box\n");
    system.write("/sys/fs/cgroup/memory/box/memory.limit_in_bytes", "9223372036854771712\n");
    system.write("/sys/fs/cgroup/cpu/box/cpu.cfs_quota_us", "-1\n");
    system.write("/sys/fs/cgroup/cpu/box/cpu.cfs_period_us", "100000\n");
    const Machine machine = read_machine(system.root());
    EXPECT_EQ(machine.cores, 4);
    EXPECT(!machine.memory_limit_bytes.has_value());
}

TEST(base_machine_has_defaults_for_everything) {
    const Machine machine = read_machine("/nonexistent");
    EXPECT(machine.cores >= 1);
    EXPECT(machine.physical_cores >= 1);
    EXPECT(machine.l1_bytes > 0 && machine.l2_bytes > 0 && machine.l3_bytes > 0);
    EXPECT(machine.cache_line_bytes >= 16);
    EXPECT(machine.memory_bytes > 0 && machine.available_bytes > 0);
    EXPECT_EQ(machine.transparent_huge_pages, std::string("never"));
    EXPECT(machine.numa_nodes.empty());
}

TEST(base_machine_reads_this_one) {
    const Machine machine = read_machine();
    EXPECT(machine.cores >= 1 && machine.cores <= 4096);
    EXPECT(machine.physical_cores <= machine.cores);
    EXPECT(machine.memory_bytes > (uint64_t{64} << 20));
    EXPECT(machine.available_bytes <= machine.memory_bytes);
    EXPECT(!machine.architecture.empty());
}

}  // namespace spillway
