// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Service ID resolution, as InfiniBand calls it: two datagrams by which an id of rdma_cm's UDP port space learns the QP
// number and the Q_Key that a listener has for it (docs/PROTOCOL.md, "UD by rdma_cm").
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace swrnic::shim {

// What InfiniBand's leave of its fixed sizes for the program; of a request rdma_cm takes 36 octets for itself.
inline constexpr std::size_t kSidrRequestPrivate = 216 - 36;
inline constexpr std::size_t kSidrAnswerPrivate = 136;
inline constexpr std::size_t kSidrHeaderLen = 28;
// A message has the whole size of its kind. An answer is the smaller one, so nobody is sent more than he has sent.
inline constexpr std::size_t kSidrRequestLen = kSidrHeaderLen + kSidrRequestPrivate;
inline constexpr std::size_t kSidrAnswerLen = kSidrHeaderLen + kSidrAnswerPrivate;

// InfiniBand's, which the kernel's rdma_cm shows in an UNREACHABLE.
enum class SidrStatus : std::uint32_t { kAccepted = 0, kNoService = 1, kRejected = 2 };

struct SidrRequest {
    std::uint64_t number;  // chosen at random: an answer repeats it, and so does a request that is sent again
    std::span<const std::uint8_t> private_data;

    std::array<std::uint8_t, kSidrRequestLen> emit() const;
    // A whole datagram as it has come; nothing: it is none, or another version's.
    static std::optional<SidrRequest> parse(std::span<const std::uint8_t> datagram);
};

struct SidrAnswer {
    std::uint64_t number;
    SidrStatus status;         // of a later version maybe one that has no name here
    std::uint32_t qpn, q_key;  // 24 bits, 32 bits; of an acceptance
    std::span<const std::uint8_t> private_data;

    std::array<std::uint8_t, kSidrAnswerLen> emit() const;
    static std::optional<SidrAnswer> parse(std::span<const std::uint8_t> datagram);
};

}  // namespace swrnic::shim
