// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "device/launch.hpp"
#include "tier_bench.hpp"

namespace spillway::gpu_bench {

namespace {

constexpr unsigned kStreamThreads = 512;

// Which elements a thread takes: begin, begin + step, ... below end.
struct StreamPart {
    uint64_t begin;
    uint64_t end;
    uint64_t step;
};

__device__ StreamPart stream_part(uint64_t count, bool apart) {
    if (!apart) {
        return {blockIdx.x * uint64_t{blockDim.x} + threadIdx.x, count, uint64_t{gridDim.x} * blockDim.x};
    }
    const uint64_t block_count = (count + gridDim.x - 1) / gridDim.x;
    const uint64_t first = blockIdx.x * block_count;
    return {first + threadIdx.x, min(first + block_count, count), uint64_t{blockDim.x}};
}

// Element i is (2i, 2i + 1), so that the sum of all words is known. Moves 16 bytes per element, written.
__global__ void __launch_bounds__(kStreamThreads) tier_write_kernel(ulonglong2* data, uint64_t count, bool apart) {
    const StreamPart part = stream_part(count, apart);
#pragma unroll 4
    for (uint64_t i = part.begin; i < part.end; i += part.step) data[i] = make_ulonglong2(2 * i, 2 * i + 1);
}

// Adds the sum of all words to *sum. Moves 16 bytes per element, read.
__global__ void __launch_bounds__(kStreamThreads)
    tier_read_kernel(const ulonglong2* data, uint64_t count, bool apart, unsigned long long* sum) {
    const StreamPart part = stream_part(count, apart);
    unsigned long long own = 0;
#pragma unroll 4
    for (uint64_t i = part.begin; i < part.end; i += part.step) {
        const ulonglong2 element = data[i];
        own += element.x + element.y;
    }
    for (int distance = 16; distance > 0; distance /= 2) own += __shfl_down_sync(0xFFFFFFFFu, own, distance);
    if (threadIdx.x % 32 == 0) atomicAdd(sum, own);
}

// Adds one to the first word of each element. Moves 32 bytes per element, half of them in each direction.
__global__ void __launch_bounds__(kStreamThreads) tier_update_kernel(ulonglong2* data, uint64_t count, bool apart) {
    const StreamPart part = stream_part(count, apart);
#pragma unroll 4
    for (uint64_t i = part.begin; i < part.end; i += part.step) {
        ulonglong2 element = data[i];
        element.x += 1;
        data[i] = element;
    }
}

class TierStream {
  public:
    TierStream(cuda::Device& device, void* data, uint64_t bytes, StreamOrder order)
        : device_(device),
          data_(static_cast<ulonglong2*>(data)),
          count_(bytes / sizeof(ulonglong2)),
          apart_(order == StreamOrder::kApart),
          blocks_(static_cast<unsigned>(device.properties().multiprocessors * 4)),
          sum_(device.memory().allocate(sizeof(uint64_t), "sum of a stream")) {}

    void run(StreamDirection direction) {
        const cudaStream_t stream = device_.stream();
        switch (direction) {
            case StreamDirection::kWrite:
                cuda::launch(tier_write_kernel, blocks_, dim3(kStreamThreads), 0, stream, data_, count_, apart_);
                break;
            case StreamDirection::kRead:
                cuda::launch(tier_read_kernel, blocks_, dim3(kStreamThreads), 0, stream,
                             static_cast<const ulonglong2*>(data_), count_, apart_, sum_.as<unsigned long long>());
                break;
            case StreamDirection::kBoth:
                cuda::launch(tier_update_kernel, blocks_, dim3(kStreamThreads), 0, stream, data_, count_, apart_);
                break;
        }
    }

    // The sum of all words as they are now.
    uint64_t sum() {
        SPILLWAY_CUDA_CHECK(cudaMemsetAsync(sum_.as<void>(), 0, sizeof(uint64_t), device_.stream()));
        run(StreamDirection::kRead);
        uint64_t value = 0;
        SPILLWAY_CUDA_CHECK(
            cudaMemcpyAsync(&value, sum_.as<void>(), sizeof value, cudaMemcpyDeviceToHost, device_.stream()));
        device_.synchronize();
        return value;
    }

    // After one write and so many updates.
    uint64_t sum_expected(uint64_t updates) const {
        const uint64_t words = 2 * count_;
        const uint64_t pairs = words % 2 == 0 ? words / 2 * (words - 1) : (words - 1) / 2 * words;
        return pairs + updates * count_;
    }

  private:
    cuda::Device& device_;
    ulonglong2* const data_;
    const uint64_t count_;
    const bool apart_;
    const dim3 blocks_;
    const cuda::Allocation sum_;
};

}  // namespace

StreamTimes time_stream(cuda::Device& device, void* data, uint64_t bytes, StreamDirection direction, StreamOrder order,
                        uint64_t samples) {
    TierStream stream(device, data, bytes, order);
    stream.run(StreamDirection::kWrite);
    stream.run(direction);  // the first run is no sample
    StreamTimes times;
    for (uint64_t i = 0; i < samples; ++i) {
        cuda::Event begin(cuda::EventTiming::kOn);
        cuda::Event end(cuda::EventTiming::kOn);
        begin.record(device.stream());
        stream.run(direction);
        end.record(device.stream());
        device.synchronize();
        times.samples_ms.push_back(end.milliseconds_since(begin));
    }
    const uint64_t updates = direction == StreamDirection::kBoth ? samples + 1 : 0;
    times.is_right = stream.sum() == stream.sum_expected(updates);
    return times;
}

}  // namespace spillway::gpu_bench
