// SPDX-License-Identifier: Apache-2.0
#include "support/failing_new.hpp"

#include <cstdlib>
#include <new>

namespace {

thread_local int64_t allocations_left = -1;  // -1: none fails
thread_local bool has_failed = false;

}  // namespace

// Those of the whole program, all but the aligned ones, which have their own pair: under a sanitizer none of them may
// stay its own, or memory of the one would be freed by the other.
void* operator new(size_t bytes) {
    if (allocations_left >= 0 && allocations_left-- == 0) {
        has_failed = true;
        throw std::bad_alloc();
    }
    void* const memory = std::malloc(bytes == 0 ? 1 : bytes);
    if (memory == nullptr) throw std::bad_alloc();
    return memory;
}

void* operator new[](size_t bytes) {
    return operator new(bytes);
}

void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
    return std::malloc(bytes == 0 ? 1 : bytes);
}

void* operator new[](size_t bytes, const std::nothrow_t&) noexcept {
    return std::malloc(bytes == 0 ? 1 : bytes);
}

void operator delete(void* memory) noexcept {
    std::free(memory);
}

void operator delete[](void* memory) noexcept {
    std::free(memory);
}

void operator delete(void* memory, size_t) noexcept {
    std::free(memory);
}

void operator delete[](void* memory, size_t) noexcept {
    std::free(memory);
}

namespace spillway::test {

FailingNew::FailingNew(int64_t allocation) {
    has_failed = false;
    allocations_left = allocation;
}

FailingNew::~FailingNew() {
    allocations_left = -1;
}

bool FailingNew::failed() const {
    return has_failed;
}

}  // namespace spillway::test
