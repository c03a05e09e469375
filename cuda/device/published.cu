// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "device/device_policy.hpp"
#include "device/launch.hpp"
#include "device/published.hpp"

namespace spillway::cuda { inline namespace device {

namespace {

// Writes each word once over the link.
__global__ void publish_words(const uint64_t* from, uint64_t* to, uint64_t words) {
    const uint64_t step = static_cast<uint64_t>(gridDim.x) * blockDim.x;
    for (uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < words; i += step) {
        to[i] = from[i];
    }
}

}  // namespace

Published::Published(Device& device, uint64_t words_max)
    : device_(device), words_max_(words_max), words_(device.staging().allocate(words_max * 8, "numbers of kernels")) {}

Published::~Published() {
    try {
        written_.synchronize();
    } catch (const Error&) {  // a lost device writes nothing any more
    }
}

void Published::publish(std::initializer_list<WordRange> ranges) {
    uint64_t at = 0;
    for (const WordRange& range : ranges) {
        if (at + range.words > words_max_) throw Error(ErrorCode::kInternal, "more numbers than there is room for");
        const uint64_t blocks = std::min<uint64_t>((range.words + kPublishThreads - 1) / kPublishThreads,
                                                   device_.properties().multiprocessors);
        launch(publish_words, dim3(static_cast<unsigned>(blocks)), dim3(kPublishThreads), 0, device_.stream(),
               static_cast<const uint64_t*>(range.data), words_.as<uint64_t>() + at, range.words);
        at += range.words;
    }
    written_.record(device_.stream());
}

const uint64_t* Published::wait() const {
    written_.synchronize();
    return words_.as<const uint64_t>();
}

}}  // namespace spillway::cuda::device
