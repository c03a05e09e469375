// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cuda_runtime.h>

#include <string>
#include <utility>

#include "device/error.hpp"
#include "device/host_placement.hpp"
#include "tier/stripe_driver.hpp"
#include "tier/tier_policy.hpp"

namespace spillway::cuda { inline namespace tier {

namespace {

// What the driver alone can do, asked for at run time: the plugin links no driver library, so that it loads on machines
// without one.
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

constexpr unsigned kOldestVersion = 12000;

template <class Function>
void find(const char* name, Function*& function) {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
#if CUDART_VERSION >= 12050
    SPILLWAY_CUDA_CHECK(cudaGetDriverEntryPointByVersion(name, &found, kOldestVersion, cudaEnableDefault, &result));
#else
    SPILLWAY_CUDA_CHECK(cudaGetDriverEntryPoint(name, &found, cudaEnableDefault, &result));
#endif
    if (result != cudaDriverEntryPointSuccess || found == nullptr) {
        throw Error(ErrorCode::kCuda, std::string("the driver has no ") + name);
    }
    function = reinterpret_cast<Function*>(found);
}

DriverFunctions load() {
    DriverFunctions all{};
    find("cuDeviceGetAttribute", all.device_attribute);
    find("cuMemGetAllocationGranularity", all.granularity);
    find("cuMemCreate", all.create);
    find("cuMemRelease", all.release);
    find("cuMemAddressReserve", all.reserve_addresses);
    find("cuMemAddressFree", all.free_addresses);
    find("cuMemMap", all.map);
    find("cuMemUnmap", all.unmap);
    find("cuMemSetAccess", all.set_access);
    return all;
}

// Throws when the driver lacks one of them: all are in the oldest driver that the plugin's runtime works with.
const DriverFunctions& driver_functions() {
    static const DriverFunctions all = load();  // tried again by the next call when it throws
    return all;
}

// Throws Error for anything but success, as check() does for the runtime, whose numbers are the same.
void check_driver(CUresult result, const char* call) {
    if (result != CUDA_SUCCESS) check(static_cast<cudaError_t>(result), call);
}

constexpr char kPurpose[] = "stripe of an interleaved range";

// Numbers of names that came with CUDA 12.2; see the attribute in device/list_devices.cu.
constexpr auto kHostNumaMapping = static_cast<CUdevice_attribute>(141);
constexpr auto kHostNumaLocation = static_cast<CUmemLocationType>(3);

CUmemLocation device_location(int ordinal) {
    CUmemLocation location{};
    location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    location.id = ordinal;
    return location;
}

// With the number of the node: the driver creates none for "any" and none for "the current one".
CUmemLocation host_location(int node) {
    CUmemLocation location{};
    location.type = kHostNumaLocation;
    location.id = node;
    return location;
}

CUmemAllocationProp properties_at(const CUmemLocation& location) {
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_NONE;
    properties.location = location;
    return properties;
}

CUmemAccessDesc access_from(const CUmemLocation& location) {
    CUmemAccessDesc access{};
    access.location = location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    return access;
}

bool can_access(int from, int to) {
    int yes = 0;
    const cudaError_t status = cudaDeviceCanAccessPeer(&yes, from, to);
    discard(status);
    return status == cudaSuccess && yes != 0;
}

}  // namespace

StripeDriver::StripeDriver(Device& device, Device* peer)
    : device_(device), peer_(peer), host_node_((device.make_current(), host_numa_node(device.ordinal()))) {}

BlockPool& StripeDriver::pool_of(PageTier tier) {
    if (tier == PageTier::kHost) return device_.staging();
    return tier == PageTier::kPeer ? peer_->memory() : device_.memory();
}

void StripeDriver::require(PageTier tier) const {
    if (tier == PageTier::kDisk) throw Error(ErrorCode::kInvalid, "a disk has no stripes");
    if (tier == PageTier::kPeer && peer_ == nullptr) throw Error(ErrorCode::kInvalid, "there is no peer GPU");
}

uint64_t StripeDriver::create(PageTier tier, uint64_t bytes) {
    require(tier);
    BlockPool& pool = pool_of(tier);
    Handle handle{pool.reserve(bytes, kPurpose), bytes};
    const int ordinal = tier == PageTier::kPeer ? peer_->ordinal() : device_.ordinal();
    const CUmemAllocationProp properties =
        properties_at(tier == PageTier::kHost ? host_location(host_node_) : device_location(ordinal));
    device_.make_current();
    const DriverFunctions& driver = driver_functions();
    CUmemGenericAllocationHandle made = 0;
    CUresult result = driver.create(&made, bytes, &properties, 0);
    if (result == CUDA_ERROR_OUT_OF_MEMORY) {
        pool.trim();  // what it has cached may be all that is in the way
        device_.make_current();
        result = driver.create(&made, bytes, &properties, 0);
    }
    if (result == CUDA_ERROR_OUT_OF_MEMORY) {
        Error error(ErrorCode::kOutOfMemory, std::string(kPurpose) + ": the driver gave no more memory");
        error.tier = tier == PageTier::kHost ? Tier::kHost : Tier::kDevice;
        error.wanted_bytes = bytes;
        error.free_bytes = pool.free_bytes();
        error.limit_bytes = pool.limit_bytes();
        throw error;
    }
    check_driver(result, "cuMemCreate");
    try {
        handles_.emplace(made, std::move(handle));
    } catch (...) {
        driver.release(made);
        throw;
    }
    return made;
}

void StripeDriver::release(PageTier, uint64_t handle) noexcept {
    // The memory of a lost device goes with the process, and stays counted.
    if (!try_set_device(device_.ordinal())) return;
    if (driver_functions().release(handle) == CUDA_SUCCESS) handles_.erase(handle);
}

uint64_t StripeDriver::reserve_addresses(uint64_t bytes, uint64_t alignment_bytes) {
    device_.make_current();
    CUdeviceptr address = 0;
    check_driver(driver_functions().reserve_addresses(&address, bytes, alignment_bytes, 0, 0), "cuMemAddressReserve");
    return address;
}

void StripeDriver::free_addresses(uint64_t address, uint64_t bytes) noexcept {
    if (try_set_device(device_.ordinal())) driver_functions().free_addresses(address, bytes);
}

void StripeDriver::map(uint64_t address, uint64_t bytes, uint64_t handle) {
    check_driver(driver_functions().map(address, bytes, 0, handle, 0), "cuMemMap");
}

void StripeDriver::unmap(uint64_t address, uint64_t bytes) noexcept {
    if (try_set_device(device_.ordinal())) driver_functions().unmap(address, bytes);
}

void StripeDriver::allow_devices(uint64_t address, uint64_t bytes) {
    std::array<CUmemAccessDesc, 2> devices{access_from(device_location(device_.ordinal()))};
    size_t count = 1;
    // A GPU that is its own peer is named once.
    if (peer_ != nullptr && peer_->ordinal() != device_.ordinal() && can_access(peer_->ordinal(), device_.ordinal())) {
        devices[count++] = access_from(device_location(peer_->ordinal()));
    }
    check_driver(driver_functions().set_access(address, bytes, devices.data(), count), "cuMemSetAccess");
}

void StripeDriver::allow_host(uint64_t address, uint64_t bytes) {
    const CUmemAccessDesc host = access_from(host_location(host_node_));
    check_driver(driver_functions().set_access(address, bytes, &host, 1), "cuMemSetAccess for the host");
}

void StripeDriver::settle() noexcept {
    if (peer_ != nullptr && try_set_device(peer_->ordinal())) discard(cudaDeviceSynchronize());
    if (try_set_device(device_.ordinal())) discard(cudaDeviceSynchronize());
}

std::string StripeDriver::obstacle(PageTier tier, uint64_t stripe_bytes) {
    if (tier == PageTier::kDisk) return "a disk has no stripes";
    if (tier == PageTier::kPeer && peer_ == nullptr) return "there is no peer GPU";
    if (tier == PageTier::kPeer && peer_->ordinal() != device_.ordinal() &&
        !can_access(device_.ordinal(), peer_->ordinal())) {
        return "the GPUs cannot reach each other's memory";
    }
    device_.make_current();
    if (tier == PageTier::kHost) {
        if (!host_obstacle_) host_obstacle_ = try_host();
        if (!host_obstacle_->empty()) return *host_obstacle_;
    }
    const CUmemAllocationProp properties = properties_at(
        tier == PageTier::kHost ? host_location(host_node_)
                                : device_location((tier == PageTier::kPeer ? *peer_ : device_).ordinal()));
    size_t granularity_bytes = 0;
    check_driver(driver_functions().granularity(&granularity_bytes, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
                 "cuMemGetAllocationGranularity");
    if (granularity_bytes == 0 || stripe_bytes % granularity_bytes == 0) return "";
    return "stripes must be multiples of " + std::to_string(granularity_bytes) + " bytes";
}

std::string StripeDriver::try_host() const {
    const DriverFunctions& driver = driver_functions();
    int mapping = 0;
    if (driver.device_attribute(&mapping, kHostNumaMapping, device_.ordinal()) != CUDA_SUCCESS || mapping == 0) {
        return "the driver cannot map host memory beside that of the GPU";
    }
    const CUmemAllocationProp properties = properties_at(host_location(host_node_));
    CUmemGenericAllocationHandle handle = 0;
    const CUresult result = driver.create(&handle, kStripeBytesMin, &properties, 0);
    if (result == CUDA_SUCCESS) {
        driver.release(handle);
        return "";
    }
    return "the driver gives no host memory to map (error " + std::to_string(static_cast<int>(result)) + ")";
}

}}  // namespace spillway::cuda::tier
