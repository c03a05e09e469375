// SPDX-License-Identifier: Apache-2.0
#include "coherent_join/urgent_stream.hpp"
#include "device/error.hpp"

namespace spillway::cuda {

UrgentStream::UrgentStream() {
    int least = 0;
    int greatest = 0;
    SPILLWAY_CUDA_CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    SPILLWAY_CUDA_CHECK(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, greatest));
}

UrgentStream::~UrgentStream() {
    discard(cudaStreamDestroy(stream_));
}

}  // namespace spillway::cuda
