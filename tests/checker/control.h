// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The plain TCP connection on which the two sides keep step. The device under test has no part in it, so a message
// that the device loses shows as a failure with a name and not as a hang.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "options.h"

namespace checker {

class Control {
  public:
    // Takes the descriptor. Not for use by two threads at once.
    Control(int fd, std::chrono::seconds patience) : fd_(fd), patience_(patience) {}
    ~Control();
    Control(Control&& other) noexcept : fd_(other.fd_), patience_(other.patience_) { other.fd_ = -1; }
    Control& operator=(Control&&) = delete;

    // The server waits for one client; the client retries until the server is there.
    static Control accept_one(const Options& options);
    static Control connect_to(const Options& options);

    void send_bytes(std::span<const std::uint8_t> data) { send_frame(kData, data); }
    // Throws Failure when the peer has left the group, with the peer's own words.
    std::vector<std::uint8_t> recv_bytes();

    template <typename T>
    requires std::is_trivially_copyable_v<T>
    void send(const T& value) { send_bytes({reinterpret_cast<const std::uint8_t*>(&value), sizeof value}); }
    template <typename T>
    requires std::is_trivially_copyable_v<T> T recv() {
        const std::vector<std::uint8_t> data = recv_bytes();
        T value;
        check_size(data.size(), sizeof value);
        std::memcpy(&value, data.data(), sizeof value);
        return value;
    }
    template <typename T>
    T exchange(const T& mine) {
        send(mine);
        return recv<T>();
    }

    // Both sides are here. The name guards against two sides that took different ways.
    void barrier(std::string_view name);

    // Ends a group: tells how it went here ("" is well), returns how it went there. Drops what is left of the group.
    std::string end_group(const std::string& how);

  private:
    static constexpr std::uint8_t kData = 1;
    static constexpr std::uint8_t kEnd = 2;
    struct Frame {
        std::uint8_t type;
        std::vector<std::uint8_t> data;
    };
    void send_frame(std::uint8_t type, std::span<const std::uint8_t> data);
    Frame recv_frame();
    void read_all(std::span<std::uint8_t> to);
    static void check_size(std::size_t got, std::size_t want);

    int fd_;
    std::chrono::seconds patience_;
    bool peer_ended_ = false;
    std::string peer_end_;
};

}  // namespace checker
