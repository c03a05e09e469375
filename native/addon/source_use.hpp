// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <napi.h>

#include <memory>
#include <vector>

#include "addon/handle_types.hpp"
#include "model/output_batch.hpp"

namespace spillway::addon {

// The source behind a handle, with its JS memory checked: how every stage that reads one begins.
std::shared_ptr<SourceHandle> use_source(const Napi::Value& handle);

// Path of a dictionary node: a column, then child indices. Checks that it exists and is a dictionary.
std::vector<int32_t> decode_dictionary_path(const Napi::Value& value, const std::vector<TypePtr>& columns);

// Loads the dictionary of a node and copies its values to a batch of one column. Any thread.
OutputBatch dictionary_of(const SourceHandle& source, const std::vector<int32_t>& path, Job& job);

}  // namespace spillway::addon
