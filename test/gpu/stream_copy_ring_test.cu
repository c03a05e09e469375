// SPDX-License-Identifier: Apache-2.0
// Pieces of host memory that are copied together into a slot of the ring: each comes where it belongs, and nothing else
// changes, whether copy engines or a kernel move them.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "gpu_test.hpp"
#include "stream/copy_ring.hpp"
#include "stream/stream_policy.hpp"
#include "support/generators.hpp"

namespace spillway::gpu_test {

namespace {

using cuda::CopyPieces;
using cuda::CopyRing;

constexpr uint8_t kGuardByte = 0xa5;

struct Piece {
    uint64_t from;
    uint64_t to;  // in the slot
    uint64_t bytes;
};

// In the slot each begins `gap` bytes behind the one before, in host memory anywhere.
std::vector<Piece> make_pieces(size_t count, uint64_t gap, uint64_t align, uint64_t host_bytes,
                               const std::function<uint64_t(size_t)>& bytes_of) {
    std::mt19937_64 random(test_seed() + count);
    std::vector<Piece> pieces;
    uint64_t to = 0;
    for (size_t i = 0; i < count; ++i) {
        const uint64_t bytes = bytes_of(i);
        const uint64_t from = random() % (host_bytes - bytes) / align * align;
        pieces.push_back({from, to, bytes});
        to += bytes + gap;
    }
    return pieces;
}

class RingUnderTest {
  public:
    explicit RingUnderTest(uint64_t host_bytes)
        : device_(test_device()), host_(device_.staging().allocate(host_bytes, "a test's bytes")) {
        std::mt19937_64 random(test_seed());
        for (uint64_t i = 0; i < host_bytes; ++i) host_.as<uint8_t>()[i] = static_cast<uint8_t>(random());
    }

    void check(const std::vector<Piece>& pieces, const std::string& what) {
        try {
            check_pieces(pieces);
        } catch (const Failure& failure) {
            throw Failure(what + ": " + failure.what());
        }
    }

  private:
    void check_pieces(const std::vector<Piece>& pieces) {
        const uint64_t slot_bytes = pieces.back().to + pieces.back().bytes + 64;
        CopyRing ring(device_, 2, slot_bytes);
        std::vector<uint8_t> expected(slot_bytes, kGuardByte);
        uint64_t copied_bytes = 0;
        const uint32_t slot = ring.take();
        CHECK_CUDA(cudaMemsetAsync(ring.data(slot), kGuardByte, slot_bytes, ring.stream()));
        for (const Piece& piece : pieces) {
            ring.copy_together(slot, piece.to, host_.as<uint8_t>() + piece.from, piece.bytes, true);
            std::memcpy(expected.data() + piece.to, host_.as<uint8_t>() + piece.from, piece.bytes);
            copied_bytes += piece.bytes;
        }
        ring.filled(slot);
        ring.wait_copied(slot);
        std::vector<uint8_t> found(slot_bytes);
        CHECK_CUDA(cudaMemcpy(found.data(), ring.data(slot), slot_bytes, cudaMemcpyDeviceToHost));
        const auto differs = std::mismatch(found.begin(), found.end(), expected.begin()).first;
        CHECK_EQ(differs - found.begin(), found.end() - found.begin());
        CHECK_EQ(ring.copied_bytes(), copied_bytes);
        ring.wait_on_device(slot);
        ring.emptied(slot);
    }

    cuda::Device& device_;
    const cuda::PinnedBlock host_;
};

// Copies that can_gather() is asked about; what `change` makes of two pieces of 128 bytes side by side.
bool gathers(const std::function<void(CopyPieces&)>& change) {
    alignas(16) static uint8_t bytes[1024];
    CopyPieces pieces;
    pieces.add(bytes, bytes + 512, 128, true);
    pieces.add(bytes + 128, bytes + 768, 128, true);
    change(pieces);
    return cuda::can_gather(pieces);
}

}  // namespace

GPU_TEST("stream copies: as many pieces of any size as there are come where they belong") {
    const uint64_t host_bytes = small_or_full(1 << 20, 16 << 20);
    RingUnderTest ring(host_bytes);
    std::mt19937_64 random(test_seed());
    const auto any_words = [&](size_t) { return (1 + random() % 256) * 16; };
    const auto growing = [](size_t i) { return 16 + i * 16; };
    const auto any_bytes = [&](size_t) { return 1 + random() % 4000; };
    // One that is large among small ones, first, in the middle, last.
    const auto mixed = [](size_t i) { return uint64_t{i % 120 == 7 ? 90'000U : 144U}; };
    for (const size_t count : {1, 2, 3, 31, 127, 128, 129, 255, 256, 257, 700}) {
        const std::string many = std::to_string(count) + " pieces";
        ring.check(make_pieces(count, 0, 128, host_bytes, [](size_t) { return uint64_t{128}; }), many + " of 128");
        ring.check(make_pieces(count, 0, 16, host_bytes, any_words), many + " of any words");
        ring.check(make_pieces(count, 0, 16, host_bytes, growing), many + " that grow");
        ring.check(make_pieces(count, 16, 16, host_bytes, any_words), many + " apart");
        ring.check(make_pieces(count, 0, 1, host_bytes, any_bytes), many + " of any bytes");
        ring.check(make_pieces(count, 0, 16, host_bytes, mixed), many + ", some of them large");
    }
}

GPU_TEST("stream copies: pieces around the size from which copy engines move them") {
    const uint64_t host_bytes = 4 * cuda::kSmallPieceBytes;
    RingUnderTest ring(host_bytes);
    for (const uint64_t bytes : {cuda::kSmallPieceBytes - 16, cuda::kSmallPieceBytes, cuda::kSmallPieceBytes + 16}) {
        for (const size_t count : {1, 2, 130, 258}) {
            ring.check(make_pieces(count, 0, 16, host_bytes, [&](size_t) { return bytes; }),
                       std::to_string(count) + " pieces of " + std::to_string(bytes));
        }
    }
}

GPU_TEST("stream copies: a kernel gathers words of pinned memory that lie side by side where they go") {
    CHECK(gathers([](CopyPieces&) {}));
    CHECK(!gathers([](CopyPieces& pieces) { pieces.to[1] = static_cast<uint8_t*>(pieces.to[1]) + 16; }));
    CHECK(!gathers([](CopyPieces& pieces) { pieces.from[1] = static_cast<const uint8_t*>(pieces.from[1]) + 4; }));
    CHECK(!gathers([](CopyPieces& pieces) { pieces.bytes[1] = 120; }));
    CHECK(!gathers(
        [](CopyPieces& pieces) { pieces.add(static_cast<uint8_t*>(pieces.to[0]) + 256, pieces.from[0], 16, false); }));
    CHECK(!gathers([](CopyPieces& pieces) {
        for (size_t i = 2; i <= cuda::kSmallPiecesTogether; ++i) {
            pieces.add(static_cast<uint8_t*>(pieces.to[0]) + 128 * i, pieces.from[0], 128, true);
        }
    }));
    CHECK(!cuda::can_gather({}));
    CopyPieces large;
    alignas(16) static uint8_t bytes[16];
    large.add(bytes, bytes, cuda::kSmallPieceBytes, true);
    CHECK(!large.are_small());
    CHECK_THROWS(cuda::gather_pieces(large, test_device().stream()), cuda::ErrorCode::kInternal);
}

}  // namespace spillway::gpu_test
