// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "device/device.hpp"
#include "relation/device_table.hpp"

// Keys of one or several columns of any kind, as the one column of 4 or 8 bytes that joins and group-bys work with.
namespace spillway::cuda {

// How a key column is normalized so that equal keys have equal bytes; as KeyKind of native/model/row_layout.hpp.
enum class KeyPartKind : uint8_t {
    kSigned,    // widened to `width` with its sign
    kUnsigned,  // widened to `width` with zeros
    kFloat,     // of 2, 4 or 8 bytes, widened to `width`; every NaN equal, -0 equal to +0
    kFixed,     // `width` bytes as they are: decimals, fixed-size binary, intervals
    kBytes      // of any length
};

struct KeyPart {
    uint32_t column = 0;  // of the table
    KeyPartKind kind = KeyPartKind::kSigned;
    uint32_t width = 4;  // normalized; kBytes: 0
};

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
JoinKeys join_keys(Device& device, const DeviceTable& build, const std::vector<KeyPart>& build_parts,
                   const DeviceTable& probe, const std::vector<KeyPart>& probe_parts, bool nulls_equal,
                   const KeyOptions& options = {});

// Keys of a group-by, NULL equal to NULL. No row is without a key.
KeyColumn group_keys(Device& device, const DeviceTable& table, const std::vector<KeyPart>& parts,
                     const KeyOptions& options = {});

}  // namespace spillway::cuda
