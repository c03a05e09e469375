// SPDX-License-Identifier: Apache-2.0
#pragma once

// Where the benchmark of the tiers looks for it.
#include "device/plain_host_memory.hpp"
