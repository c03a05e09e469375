// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

#include <string>

namespace spillway::cuda { inline namespace tier {

// What the driver alone can do, asked for at run time: the plugin links no driver library, so that it loads on machines
// without one. For .cu files, as <cuda.h> is large.
struct DriverFunctions {
    decltype(::cuDeviceGetAttribute)* device_attribute;
    decltype(::cuMemGetAllocationGranularity)* granularity;
    decltype(::cuMemCreate)* create;
    decltype(::cuMemRelease)* release;
    decltype(::cuMemAddressReserve)* reserve_addresses;
    decltype(::cuMemAddressFree)* free_addresses;
    decltype(::cuMemMap)* map;
    decltype(::cuMemUnmap)* unmap;
    decltype(::cuMemSetAccess)* set_access;
};

// Throws when the driver lacks one of them: all are in the oldest driver that the plugin's runtime works with.
const DriverFunctions& driver_functions();

// Throws Error for anything but success, as check() does for the runtime, whose numbers are the same.
void check_driver(CUresult result, const char* call);

}}  // namespace spillway::cuda::tier
