// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "device/launch.hpp"
#include "primitive/bulk_copy.cuh"
#include "primitive/mix.cuh"
#include "primitive/warp.cuh"
#include "radix_partition/pack_pass.hpp"
#include "radix_partition/pack_policy.hpp"
#include "radix_partition/radix_policy.hpp"

// The first pass over wide rows. A tile's rows get their places once, from their keys; then the columns of one pack
// after another come to shared memory as they are, and leave it as rows, in the order of their digits. Rows of a pack
// are whole sectors, or nearly, so that none has to wait for others of its digit as in scatter.cuh.
// Bytes per row: the key and the columns read once; the key, its place and the packs written once.
namespace spillway::cuda { inline namespace radix_partitioning {

namespace {

constexpr uint32_t kPackDigitsMax = (1U << kPackPassBitsMax) + 1;  // one for rows without a key
static_assert(kPackDigitsMax <= kPackThreads, "a thread keeps a digit");
static_assert(kPackTileRows % kPackThreads == 0 && kPackTileRows % kTileRowsStep == 0);
static_assert(kPackTileRows <= 1U << 16, "rows of a tile have numbers of 16 bits");
// Words from one column of the stage to the next: with 4 more than a tile has rows the words of a row lie in different
// banks, and bulk copies still begin at multiples of 16 bytes.
constexpr uint32_t kPackStride = kPackTileRows + 4;
constexpr uint32_t kPackItems = kPackTileRows / kPackThreads;
constexpr uint32_t kNoDigit = ~0U;

template <int kKeyWords>
struct PackShared {
    BulkLoad load;
    uint64_t offset[kPackDigitsMax];  // a row's place less its slot in the tile
    uint32_t count[kPackDigitsMax];
    uint32_t start[kPackDigitsMax];
    uint32_t warp_sums[kPackThreads / kWarpThreads];
    uint32_t all;  // rows of the tile that have a place
    // They say for each word of the pack where it begins in the stage, and how far it is from one row to the next.
    uint32_t word_start[kPackWordsMax];
    uint32_t word_stride[kPackWordsMax];
    // Each slot has the row's number in the tile, and above it the digit.
    uint32_t order[kPackTileRows];
    typename MixedKey<kKeyWords>::Key keys[kPackTileRows];
};

template <int kKeyWords, int kPlaceWords>
class PackScatter {
    using Key = typename MixedKey<kKeyWords>::Key;
    using Shared = PackShared<kKeyWords>;

  public:
    __device__ PackScatter(const PackPass& pass, uint32_t* stage, Shared& shared)
        : pass_(pass), stage_(stage), shared_(shared), digits_(1U << pass.bits) {}

    __device__ void run() {
        if (threadIdx.x == 0) shared_.load.init();
        const uint64_t tiles = (pass_.rows + kPackTileRows - 1) / kPackTileRows;
        if (blockIdx.x < tiles) load_keys(blockIdx.x);
        fence_shared_for_bulk();
        __syncthreads();
        if (blockIdx.x < tiles) fetch(0, blockIdx.x);
        for (uint64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
            place_rows();
            const uint64_t next = tile + gridDim.x;
            if (next < tiles) load_keys(next);
            write_keys();
            for (uint32_t pack = 0; pack < pass_.pack_count; ++pack) {
                finish(pack, tile);
                write_pack(pass_.packs[pack]);
                fence_shared_for_bulk();
                __syncthreads();
                const bool is_last = pack + 1 == pass_.pack_count;
                if (!is_last) fetch(pack + 1, tile);
                if (is_last && next < tiles) fetch(0, next);
            }
        }
    }

  private:
    __device__ uint32_t rows_of(uint64_t tile) const {
        return static_cast<uint32_t>(min(pass_.rows - tile * kPackTileRows, static_cast<uint64_t>(kPackTileRows)));
    }

    // Keys of the tile after this one, to be used by place_rows().
    __device__ void load_keys(uint64_t tile) {
        const uint64_t base = tile * kPackTileRows;
#pragma unroll
        for (uint32_t i = 0; i < kPackItems; ++i) {
            const uint64_t row = base + threadIdx.x + i * kPackThreads;
            key_[i] = 0;
            digit_[i] = kNoDigit;
            if (row >= pass_.rows) continue;
            const bool has_key = pass_.key_valid == nullptr || (pass_.key_valid[row / 32] >> (row % 32) & 1) != 0;
            if (has_key) {
                key_[i] = MixedKey<kKeyWords>::mix(__ldcs(static_cast<const Key*>(pass_.key) + row));
                digit_[i] =
                    radix_digit(static_cast<uint32_t>(key_[i] >> (32 * (kKeyWords - 1))), pass_.shift, digits_ - 1);
            } else if (pass_.keeps_keyless) {
                digit_[i] = digits_;
            }
        }
    }

    // The order of the tile's rows by digit, and their places. Ends with a barrier.
    __device__ void place_rows() {
        const bool mine = threadIdx.x <= digits_;
        if (mine) shared_.count[threadIdx.x] = 0;
        __syncthreads();
        uint32_t rank[kPackItems];
#pragma unroll
        for (uint32_t i = 0; i < kPackItems; ++i) {
            shared_.keys[threadIdx.x + i * kPackThreads] = key_[i];
            rank[i] = digit_[i] == kNoDigit ? 0 : atomicAdd(&shared_.count[digit_[i]], 1U);
        }
        __syncthreads();
        const uint32_t count = mine ? shared_.count[threadIdx.x] : 0;
        const uint32_t end = block_inclusive_sum<kPackThreads>(count, shared_.warp_sums);
        if (mine) {
            shared_.start[threadIdx.x] = end - count;
            if (count > 0) {
                auto* const front = reinterpret_cast<unsigned long long*>(&pass_.front[threadIdx.x]);
                shared_.offset[threadIdx.x] = atomicAdd(front, static_cast<unsigned long long>(count)) - (end - count);
            }
        }
        if (threadIdx.x == kPackThreads - 1) shared_.all = end;
        __syncthreads();
#pragma unroll
        for (uint32_t i = 0; i < kPackItems; ++i) {
            if (digit_[i] == kNoDigit) continue;
            shared_.order[shared_.start[digit_[i]] + rank[i]] = (threadIdx.x + i * kPackThreads) | digit_[i] << 16;
        }
        __syncthreads();
    }

    __device__ static uint32_t row_at(uint32_t order) {
        return order & 0xffffU;
    }
    __device__ uint64_t place_of(uint32_t slot, uint32_t order) const {
        return shared_.offset[order >> 16] + slot;
    }

    __device__ void write_keys() const {
        constexpr int kWords = kKeyWords + kPlaceWords;
        for (uint32_t slot = threadIdx.x; slot < shared_.all; slot += kPackThreads) {
            const uint32_t order = shared_.order[slot];
            if (order >> 16 == digits_) break;  // rows without a key are behind all others
            const Key key = shared_.keys[row_at(order)];
            const uint64_t place = place_of(slot, order);
            uint32_t* const to = pass_.keys_out + place * kWords;
            const auto low = static_cast<uint32_t>(key);
            const auto place_low = static_cast<uint32_t>(place);
            if constexpr (kWords == 2) {
                *reinterpret_cast<uint2*>(to) = make_uint2(low, place_low);
            } else {
                to[0] = low;
                if constexpr (kKeyWords == 2) to[1] = static_cast<uint32_t>(static_cast<uint64_t>(key) >> 32);
                to[kKeyWords] = place_low;
                if constexpr (kPlaceWords == 2) to[kKeyWords + 1] = static_cast<uint32_t>(place >> 32);
            }
        }
    }

    // The last rows of a column may end where no bulk copy can.
    __device__ bool comes_in_bulk(uint64_t tile) const {
        return kBulkCopies && rows_of(tile) == kPackTileRows;
    }

    // Sends for the columns of a pack that come by bulk copies, when nobody reads the stage any more.
    __device__ void fetch(uint32_t pack, uint64_t tile) {
        if (threadIdx.x != 0) return;
        const PackSource& source = pass_.packs[pack];
        for (uint32_t w = 0; w < source.words; ++w) {
            const PackWord& word = source.word[w];
            shared_.word_start[w] = word.before * kPackStride + word.within;
            shared_.word_stride[w] = word.stride;
        }
        if (!comes_in_bulk(tile)) return;
        uint32_t bytes = 0;
        for (uint32_t a = 0; a < source.arrays; ++a) bytes += source.array[a].words * 4 * kPackTileRows;
        shared_.load.expect(bytes);
        for (uint32_t a = 0; a < source.arrays; ++a) {
            const PackArray& array = source.array[a];
            const uint32_t size = array.words * 4 * kPackTileRows;
            shared_.load.bring(stage_ + array.before * kPackStride,
                               static_cast<const unsigned char*>(array.data) + tile * size, size);
        }
    }

    // The pack's columns are in the stage. Ends with a barrier, or with what serves as one.
    __device__ void finish(uint32_t pack, uint64_t tile) {
        const PackSource& source = pass_.packs[pack];
        if (source.parts > 0) put_parts(source, tile);
        if (comes_in_bulk(tile)) {
            shared_.load.wait(phase_);
            if (source.parts > 0) __syncthreads();
            return;
        }
        for (uint32_t a = 0; a < source.arrays; ++a) {
            const PackArray& array = source.array[a];
            const auto* const from = static_cast<const uint32_t*>(array.data) + tile * kPackTileRows * array.words;
            const uint32_t words = rows_of(tile) * array.words;
            uint32_t* const to = stage_ + array.before * kPackStride;
            for (uint32_t w = threadIdx.x; w < words; w += kPackThreads) to[w] = from[w];
        }
        __syncthreads();
    }

    // Words that narrow columns share, and row numbers. Each thread has rows of its own.
    __device__ void put_parts(const PackSource& source, uint64_t tile) {
        const uint32_t rows = rows_of(tile);
        const uint64_t base = tile * kPackTileRows;
        for (uint32_t p = 0; p < source.parts; ++p) {
            const PackPart& part = source.part[p];
            uint32_t* const to = stage_ + part.word * kPackStride;
            for (uint32_t row = threadIdx.x; row < rows; row += kPackThreads) {
                uint32_t value;
                if (part.data == nullptr) {
                    value = static_cast<uint32_t>((base + row) >> part.number_shift);
                } else if (part.width == 1) {
                    value = static_cast<const uint8_t*>(part.data)[base + row];
                } else {
                    value = static_cast<const uint16_t*>(part.data)[base + row];
                }
                to[row] = part.bit == 0 ? value : to[row] | value << part.bit;
            }
        }
    }

    __device__ void write_pack(const PackSource& source) {
        switch (source.words) {
            case 1:
                return write_rows<1>(source);
            case 2:
                return write_rows<2>(source);
            case 4:
                return write_rows<4>(source);
            default:
                return write_rows<8>(source);
        }
    }

    // Neighbouring threads write neighbouring parts of a row, of up to 16 bytes.
    template <int kWords>
    __device__ void write_rows(const PackSource& source) {
        constexpr uint32_t kAtOnce = kWords < 4 ? kWords : 4;
        constexpr uint32_t kParts = kWords / kAtOnce;  // of a row
        static_assert(kPackThreads % kParts == 0, "a thread writes the same part of each of its rows");
        const uint32_t first = threadIdx.x % kParts * kAtOnce;
        uint32_t start[kAtOnce];
        uint32_t stride[kAtOnce];
#pragma unroll
        for (uint32_t k = 0; k < kAtOnce; ++k) {
            start[k] = shared_.word_start[first + k];
            stride[k] = shared_.word_stride[first + k];
        }
        uint32_t* const rows = source.rows + first;
        for (uint32_t slot = threadIdx.x / kParts; slot < shared_.all; slot += kPackThreads / kParts) {
            const uint32_t order = shared_.order[slot];
            const uint32_t row = row_at(order);
            uint32_t value[kAtOnce];
#pragma unroll
            for (uint32_t k = 0; k < kAtOnce; ++k) value[k] = stage_[start[k] + row * stride[k]];
            store(rows + place_of(slot, order) * kWords, value);
        }
    }

    template <uint32_t kAtOnce>
    __device__ static void store(uint32_t* to, const uint32_t (&value)[kAtOnce]) {
        if constexpr (kAtOnce == 4) {
            *reinterpret_cast<uint4*>(to) = make_uint4(value[0], value[1], value[2], value[3]);
        } else if constexpr (kAtOnce == 2) {
            *reinterpret_cast<uint2*>(to) = make_uint2(value[0], value[1]);
        } else {
            *to = value[0];
        }
    }

    const PackPass& pass_;
    uint32_t* const stage_;  // [kPackWordsMax * kPackStride]
    Shared& shared_;
    const uint32_t digits_;
    uint32_t phase_ = 0;
    Key key_[kPackItems];
    uint32_t digit_[kPackItems];
};

template <int kKeyWords, int kPlaceWords>
__global__ void __launch_bounds__(kPackThreads, kPackBlocks)
    scatter_packs_kernel(const __grid_constant__ PackPass pass) {
    extern __shared__ __align__(128) uint32_t stage[];
    __shared__ PackShared<kKeyWords> shared;
    PackScatter<kKeyWords, kPlaceWords>(pass, stage, shared).run();
}

template <int kKeyWords, int kPlaceWords>
void launch_packs(Device& device, const PackPass& pass) {
    constexpr uint32_t kStageBytes = kPackWordsMax * kPackStride * 4;
    launch(scatter_packs_kernel<kKeyWords, kPlaceWords>, grid_over(device, pass.rows, kPackTileRows, kPackBlocks),
           dim3(kPackThreads), kStageBytes, device.stream(), pass);
}

__global__ void count_keyless_kernel(const uint64_t* counts, uint64_t partitions, uint64_t rows, uint64_t* keyless) {
    __shared__ unsigned long long keyed;
    if (threadIdx.x == 0) keyed = 0;
    __syncthreads();
    unsigned long long mine = 0;
    for (uint64_t p = threadIdx.x; p < partitions; p += blockDim.x) mine += counts[p];
    atomicAdd(&keyed, mine);
    __syncthreads();
    if (threadIdx.x == 0) *keyless = rows - keyed;
}

// Bytes: a bit per place written.
__global__ void keyed_places_kernel(const uint64_t* begin, const uint64_t* rows, uint64_t words, uint32_t* valid) {
    const uint64_t step = static_cast<uint64_t>(gridDim.x) * blockDim.x;
    const uint64_t first = *begin;
    const uint64_t end = first + *rows;
    for (uint64_t w = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x; w < words; w += step) {
        uint32_t bits = ~0U;
        if (w * 32 + 31 >= first && w * 32 < end) {
            for (uint32_t b = 0; b < 32; ++b) {
                if (w * 32 + b >= first && w * 32 + b < end) bits &= ~(1U << b);
            }
        }
        valid[w] = bits;
    }
}

constexpr unsigned kPlaceThreads = 256;

}  // namespace

void launch_pack_pass(Device& device, const PackPass& pass, uint32_t key_words, uint32_t place_words) {
    if (key_words == 1) {
        return place_words == 1 ? launch_packs<1, 1>(device, pass) : launch_packs<1, 2>(device, pass);
    }
    return place_words == 1 ? launch_packs<2, 1>(device, pass) : launch_packs<2, 2>(device, pass);
}

void count_keyless(Device& device, const uint64_t* counts, uint64_t partitions, uint64_t rows, uint64_t* keyless) {
    launch(count_keyless_kernel, dim3(1), dim3(kPlaceThreads), 0, device.stream(), counts, partitions, rows, keyless);
}

Allocation keyed_places(Device& device, const uint64_t* begin, const uint64_t* rows, uint64_t places) {
    const uint64_t words = (places + 31) / 32;
    Allocation valid = device.memory().allocate(words * sizeof(uint32_t), "places of rows with a key");
    launch(keyed_places_kernel, grid_over(device, words, kPlaceThreads, 8), dim3(kPlaceThreads), 0, device.stream(),
           begin, rows, words, valid.as<uint32_t>());
    return valid;
}

}}  // namespace spillway::cuda::radix_partitioning
