// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace spillway::cuda { inline namespace primitive {

// Bits [begin, end) of keys, outside of which all keys of a set agree. Order by these bits is order by the whole key,
// and each 8 bits that need not be looked at save a pass of a radix sort.
struct KeyBits {
    int begin = 0;
    int end = 1;  // above begin
};

}}  // namespace spillway::cuda::primitive
