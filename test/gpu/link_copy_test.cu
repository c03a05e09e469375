// SPDX-License-Identifier: Apache-2.0
// Copies over the link by kernels, as they are and packed, against the format written down bit by bit.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "device/device.hpp"
#include "gpu_test.hpp"
#include "link/link_copy.hpp"
#include "link/link_policy.hpp"
#include "support/device_array.hpp"
#include "support/generators.hpp"
#include "support/packed_reference.hpp"

namespace spillway::gpu_test {

namespace {

using cuda::kPackedValues;
using cuda::LinkCopy;
using cuda::PackedBlock;
using Bytes = std::vector<uint8_t>;

constexpr uint8_t kGuard = 0xA5;
constexpr uint64_t kGuardBytes = 256;

// Memory of the device, and pinned memory, with guards on both sides.
struct Memory {
    explicit Memory(uint64_t bytes)
        : bytes_(bytes),
          device(test_device().memory().allocate(bytes + 2 * kGuardBytes, "a copy of a test")),
          pinned(test_device().staging().allocate(bytes + 2 * kGuardBytes, "a copy of a test")) {
        // Not done when it returns, and the streams of copies do not wait for it.
        CHECK_CUDA(cudaMemset(device.as(), kGuard, bytes + 2 * kGuardBytes));
        CHECK_CUDA(cudaDeviceSynchronize());
        std::memset(pinned.as(), kGuard, bytes + 2 * kGuardBytes);
    }
    uint8_t* on_device() const { return device.as<uint8_t>() + kGuardBytes; }
    uint8_t* on_host() const { return pinned.as<uint8_t>() + kGuardBytes; }
    void write(const Bytes& values) const { copy_to_device(on_device(), values.data(), values.size()); }
    Bytes read() const {
        Bytes all(bytes_ + 2 * kGuardBytes);
        CHECK_CUDA(cudaMemcpy(all.data(), device.as(), all.size(), cudaMemcpyDeviceToHost));
        check_guards(all.data());
        return {all.begin() + kGuardBytes, all.end() - kGuardBytes};
    }
    void check_guards(const uint8_t* all) const {
        CHECK(std::all_of(all, all + kGuardBytes, [](uint8_t byte) { return byte == kGuard; }));
        const uint8_t* const behind = all + kGuardBytes + bytes_;
        CHECK(std::all_of(behind, behind + kGuardBytes, [](uint8_t byte) { return byte == kGuard; }));
    }

    const uint64_t bytes_;
    cuda::Allocation device;
    cuda::PinnedBlock pinned;
};

// Values of which each block's range takes so many bits, or fewer where there is but one value.
Bytes values_of(uint32_t width, uint64_t count, uint32_t bits, uint64_t seed) {
    const uint32_t plane_bytes = std::min(width, 8U);
    const uint64_t mask = bits == 0 ? 0 : ~uint64_t{0} >> (64 - bits);
    Bytes values(count * width);
    for (uint64_t at = 0; at < values.size(); at += plane_bytes) {
        const uint64_t block = at / (uint64_t{kPackedValues} * width);
        const uint64_t value = (random64(seed, at) & mask) + random64(seed + 1, block);
        std::memcpy(values.data() + at, &value, plane_bytes);
    }
    return values;
}

void check_packed(uint32_t width, uint64_t count, uint32_t bits) {
    const Bytes values = values_of(width, count, bits, test_seed() + bits);
    const uint64_t blocks = packed_blocks(width, count);
    const uint64_t room = (count + kPackedValues - 1) / kPackedValues * kPackedValues * width;
    const Memory words(room);
    const Memory headers(blocks * sizeof(PackedBlock));
    auto* const told = reinterpret_cast<PackedBlock*>(headers.on_host());
    const cudaStream_t stream = test_device().stream();

    const Memory from(values.size());
    from.write(values);
    cuda::fetch_to_host({{from.on_device(), words.on_host(), told, values.size(), width}}, stream);
    test_device().synchronize();
    words.check_guards(words.pinned.as<uint8_t>());
    headers.check_guards(headers.pinned.as<uint8_t>());
    Bytes expected_words(room);
    std::vector<PackedBlock> expected(blocks);
    pack_reference(values.data(), width, count, expected_words.data(), expected.data());
    for (uint64_t b = 0; b < blocks; ++b) {
        CHECK_EQ(told[b].base, expected[b].base);
        CHECK_EQ(told[b].line, expected[b].line);
        CHECK_EQ(told[b].bits, expected[b].bits);
        const uint64_t at = uint64_t{told[b].line} * 64;
        const uint64_t bytes = cuda::packed_bytes(told[b].bits);
        CHECK(std::memcmp(words.on_host() + at, expected_words.data() + at, bytes) == 0);
    }

    const Memory to(values.size());
    cuda::send_to_device({{to.on_device(), words.on_host(), told, values.size(), width}}, stream);
    test_device().synchronize();
    CHECK(to.read() == values);
}

}  // namespace

GPU_TEST("link: values of every width and number of bits are packed and unpacked") {
    for (const uint32_t width : {1U, 2U, 4U, 8U, 16U}) {
        const uint32_t most = 8 * std::min(width, 8U);
        for (uint32_t bits = 0; bits <= most; bits += watched_suite() ? 7 : 1) {
            check_packed(width, 2 * kPackedValues + 77, bits);
        }
    }
}

GPU_TEST("link: columns of every number of values around a block's") {
    for (const uint32_t width : {1U, 2U, 4U, 8U, 16U}) {
        for (const uint64_t count : {uint64_t{1}, uint64_t{2}, uint64_t{31}, uint64_t{1023}, uint64_t{1024},
                                     uint64_t{1025}, small_or_full(5000, 1'000'003)}) {
            check_packed(width, count, 5 * width);
        }
    }
}

GPU_TEST("link: plain copies of any place and length, many at once") {
    std::vector<LinkCopy> copies;
    std::vector<uint64_t> begins;
    uint64_t at = 0;
    const uint64_t tile = uint64_t{cuda::kLinkThreads} * cuda::kLinkLoads * 16;
    for (uint64_t i = 0; i < 3 * static_cast<uint64_t>(cuda::kLinkCopiesMax); ++i) {
        const uint64_t length = i % 5 == 0 ? tile - 8 + i : i % 41;
        begins.push_back(at);
        copies.push_back({nullptr, nullptr, nullptr, length, 1});
        at += length + i % 3;
    }
    const Memory memory(at);
    Bytes values(at);
    for (uint64_t i = 0; i < at; ++i) values[i] = static_cast<uint8_t>(random64(test_seed(), i));
    Bytes expected(at, kGuard);
    for (size_t i = 0; i < copies.size(); ++i) {
        copies[i].device = memory.on_device() + begins[i];
        copies[i].host = memory.on_host() + begins[i];
        std::copy_n(values.begin() + static_cast<int64_t>(begins[i]), copies[i].bytes,
                    expected.begin() + static_cast<int64_t>(begins[i]));
    }
    std::memcpy(memory.on_host(), values.data(), at);
    cuda::send_to_device(copies, test_device().stream());
    test_device().synchronize();
    CHECK(memory.read() == expected);

    std::memset(memory.on_host(), kGuard, at);
    cuda::fetch_to_host(copies, test_device().stream());
    test_device().synchronize();
    memory.check_guards(memory.pinned.as<uint8_t>());
    CHECK(Bytes(memory.on_host(), memory.on_host() + at) == expected);
}

}  // namespace spillway::gpu_test
