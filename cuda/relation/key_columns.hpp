// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "device/device.hpp"
#include "relation/device_table.hpp"

// Keys of one or several columns of any kind, as the one column of 4 or 8 bytes that joins and group-bys work with.
namespace spillway::cuda { inline namespace relation {

struct KeyColumn {
    Allocation owned;       // empty when the key is a column of the table as it is
    DeviceColumn data;      // 4 or 8 bytes
    Allocation validity;    // rows that have a key (and, of a probe side, may have a partner); empty: all have
    bool is_value = false;  // the key column holds the values of the only part, unchanged (width and bits)
};

// For tests of what large tables and unlucky hashes do.
struct KeyOptions {
    uint64_t hash_mask = ~0ULL;  // bits of the hash that count
    bool wide_numbers = false;   // numbers of 8 bytes whatever the rows
};

struct JoinKeys {
    KeyColumn build;
    KeyColumn probe;
};

// Keys of both sides of a join: equal keys on either side are equal values, different keys different ones. Parts that
// fit 8 bytes together are packed; wider ones and byte strings become numbers by a hash table over the build side's
// keys, with every candidate compared byte for byte, so that no collision joins what differs.
// nulls_equal: NULL equals NULL; else a row with a NULL part has no key.
JoinKeys join_keys(Device& device, const DeviceTable& build, const ListView<KeyPart>& build_parts,
                   const DeviceTable& probe, const ListView<KeyPart>& probe_parts, bool nulls_equal,
                   const KeyOptions& options = {});

// Keys of a group-by, NULL equal to NULL. No row is without a key.
KeyColumn group_keys(Device& device, const DeviceTable& table, const ListView<KeyPart>& parts,
                     const KeyOptions& options = {});

}}  // namespace spillway::cuda::relation
