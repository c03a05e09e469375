// SPDX-License-Identifier: Apache-2.0
#include <mutex>

#include "plugin/handles.hpp"

namespace spillway::cuda { inline namespace plugin {

namespace {

// Pinned by whomever, or a block of the device's own pool, which is plain memory where the device reads that: copying
// it into another block of the pool would gain nothing.
bool is_copied_as_it_is(spillway_cuda_gpu* gpu, const void* data, uint64_t bytes) {
    return is_pinned(data, bytes) || gpu->device.staging().holds(data, bytes);
}

}  // namespace

spillway_cuda_transfer* start_upload(spillway_cuda_gpu* gpu, uint8_t* to, const void* from, uint64_t bytes) {
    std::lock_guard<std::mutex> lock(gpu->mutex);
    gpu->device.make_current();
    return start_transfer(gpu, gpu->uploader, [&] {
        if (is_copied_as_it_is(gpu, from, bytes)) {
            gpu->uploader.upload_pinned(to, from, bytes);
        } else {
            gpu->uploader.upload(to, from, bytes);
        }
    });
}

spillway_cuda_transfer* start_download(spillway_cuda_gpu* gpu, void* to, const uint8_t* from, uint64_t bytes) {
    std::lock_guard<std::mutex> lock(gpu->mutex);
    gpu->device.make_current();
    return start_transfer(gpu, gpu->downloader, [&] {
        if (is_copied_as_it_is(gpu, to, bytes)) {
            gpu->downloader.download_pinned(to, from, bytes);
        } else {
            gpu->downloader.download(to, from, bytes);
        }
    });
}

}}  // namespace spillway::cuda::plugin
