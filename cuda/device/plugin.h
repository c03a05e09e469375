/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one door between native/ (no CUDA) and cuda/ (libspillway_cuda.so): plain C, so that host and plugin may come
 * from different compilers. The host opens the plugin at run time, compares the version, then calls.
 * Rules: every struct and function keeps its meaning while SPILLWAY_CUDA_ABI_VERSION stays; the plugin throws nothing
 * and prints nothing; text is UTF-8, cut to fit and always terminated.
 */
#ifndef SPILLWAY_CUDA_DEVICE_PLUGIN_H
#define SPILLWAY_CUDA_DEVICE_PLUGIN_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SPILLWAY_CUDA_ABI_VERSION 1
#define SPILLWAY_CUDA_TEXT_BYTES 256
#define SPILLWAY_CUDA_DEVICES_MAX 64

typedef struct spillway_cuda_device {
    int32_t ordinal;
    int32_t multiprocessors;
    int32_t compute_major;
    int32_t compute_minor;
    int32_t copy_engines;
    int32_t pageable_access;   /* kernels reach pageable host memory */
    int32_t host_page_tables;  /* ... through the host's page tables */
    int32_t host_numa_mapping; /* virtual memory management accepts host NUMA nodes; 0 also when it cannot be asked */
    int32_t numa_node;         /* host NUMA node next to the device, -1 = unknown */
    uint64_t memory_bytes;
    uint64_t l2_bytes;
    char name[SPILLWAY_CUDA_TEXT_BYTES];
    char pci_bus_id[SPILLWAY_CUDA_TEXT_BYTES];
    char reason[SPILLWAY_CUDA_TEXT_BYTES]; /* why this plugin has no code for the device; empty = it has */
} spillway_cuda_device;

typedef struct spillway_cuda_devices {
    int32_t count;
    char reason[SPILLWAY_CUDA_TEXT_BYTES]; /* count == 0: why */
    spillway_cuda_device device[SPILLWAY_CUDA_DEVICES_MAX];
} spillway_cuda_devices;

/* Names for dlsym. */
#define SPILLWAY_CUDA_ABI_VERSION_SYMBOL "spillway_cuda_abi_version"
#define SPILLWAY_CUDA_LIST_DEVICES_SYMBOL "spillway_cuda_list_devices"

typedef uint32_t (*spillway_cuda_abi_version_fn)(void);
/* Fills *devices. Creates no context on any device. */
typedef void (*spillway_cuda_list_devices_fn)(spillway_cuda_devices* devices);

uint32_t spillway_cuda_abi_version(void);
void spillway_cuda_list_devices(spillway_cuda_devices* devices);

#ifdef __cplusplus
}
#endif

#endif
