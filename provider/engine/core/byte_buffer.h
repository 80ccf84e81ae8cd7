// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Octets that wait in a QP between passes. Holds memory only while it holds octets, so that an idle QP stays small.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <span>

namespace swrnic::engine {

class ByteBuffer {
  public:
    bool empty() const { return size_ == 0; }
    std::size_t size() const { return size_; }
    std::span<std::byte> octets() { return {data_.get(), size_}; }
    std::span<const std::byte> octets() const { return {data_.get(), size_}; }

    void reserve(std::size_t capacity) {
        if (capacity <= capacity_) return;
        auto bigger = std::make_unique_for_overwrite<std::byte[]>(capacity);
        if (size_ != 0) std::memcpy(bigger.get(), data_.get(), size_);
        data_ = std::move(bigger);
        capacity_ = capacity;
    }
    void append(std::span<const std::byte> octets) {
        if (octets.empty()) return;
        reserve(size_ + octets.size());
        std::memcpy(data_.get() + size_, octets.data(), octets.size());
        size_ += octets.size();
    }
    // Room behind the octets, to be read into; then added() says how much of it is used now.
    std::byte* room(std::size_t length) {
        reserve(size_ + length);
        return data_.get() + size_;
    }
    void added(std::size_t length) { size_ += length; }
    void clear() {
        data_.reset();
        size_ = capacity_ = 0;
    }

  private:
    std::unique_ptr<std::byte[]> data_;
    std::size_t size_ = 0, capacity_ = 0;
};

}  // namespace swrnic::engine
