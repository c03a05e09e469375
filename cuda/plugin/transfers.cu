// SPDX-License-Identifier: Apache-2.0
#include <mutex>

#include "plugin/handles.hpp"

namespace spillway::cuda {

spillway_cuda_transfer* start_upload(spillway_cuda_gpu* gpu, uint8_t* to, const void* from, uint64_t bytes) {
    std::lock_guard<std::mutex> lock(gpu->mutex);
    gpu->device.make_current();
    return start_transfer(gpu, gpu->uploader, [&] {
        if (is_pinned(from, bytes)) {
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
        if (is_pinned(to, bytes)) {
            gpu->downloader.download_pinned(to, from, bytes);
        } else {
            gpu->downloader.download(to, from, bytes);
        }
    });
}

}  // namespace spillway::cuda
