// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <stdexcept>
#include <utility>

#include "api/host_device.hpp"

namespace spillway::cuda { inline namespace api {

// A list of at most N values without memory of its own, so that what holds it crosses the plugin's border as it is.
template <class T, uint32_t N>
class FixedList {
  public:
    FixedList() = default;
    FixedList(std::initializer_list<T> values) { assign(values.begin(), values.end()); }

    static constexpr size_t capacity() { return N; }
    SPILLWAY_HOST_DEVICE size_t size() const { return size_; }
    bool empty() const { return size_ == 0; }
    T* data() { return values_; }
    const T* data() const { return values_; }
    T* begin() { return values_; }
    T* end() { return values_ + size_; }
    SPILLWAY_HOST_DEVICE const T* begin() const { return values_; }
    SPILLWAY_HOST_DEVICE const T* end() const { return values_ + size_; }
    T& operator[](size_t i) { return values_[i]; }
    SPILLWAY_HOST_DEVICE const T& operator[](size_t i) const { return values_[i]; }
    T& back() { return values_[size_ - 1]; }

    // Throws std::out_of_range.
    const T& at(size_t i) const {
        if (i >= size_) throw std::out_of_range("a fixed list has fewer values");
        return values_[i];
    }
    // The three throw std::length_error beyond N values.
    void push_back(const T& value) {
        check_room(size_ + size_t{1});
        values_[size_++] = value;
    }
    void resize(size_t size, const T& value = T()) {
        check_room(size);
        for (size_t i = size_; i < size; ++i) values_[i] = value;
        size_ = static_cast<uint32_t>(size);
    }
    void assign(size_t count, const T& value) {
        clear();
        resize(count, value);
    }
    template <class Iterator, class = decltype(*std::declval<Iterator>())>
    void assign(Iterator from, Iterator to) {
        size_ = 0;
        for (; from != to; ++from) push_back(*from);
    }
    void clear() { size_ = 0; }

    // What came across the border may have any bytes.
    bool is_valid() const { return size_ <= N; }

    bool operator==(const FixedList& other) const {
        if (size_ != other.size_) return false;
        for (uint32_t i = 0; i < size_; ++i) {
            if (!(values_[i] == other.values_[i])) return false;
        }
        return true;
    }

  private:
    static void check_room(size_t size) {
        if (size > N) throw std::length_error("a fixed list has no room for so many values");
    }

    uint32_t size_ = 0;
    T values_[N] = {};
};

}}  // namespace spillway::cuda::api
