// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "sidr.h"

#include <algorithm>

namespace swrnic::shim {
namespace {

constexpr std::array<std::uint8_t, 5> kMagicAndVersion{'S', 'W', 'S', 'R', 1};
constexpr std::uint8_t kRequest = 1, kAnswer = 2;
constexpr std::size_t kKindAt = 5, kLengthAt = 6, kNumberAt = 8, kStatusAt = 16, kQpnAt = 20, kQKeyAt = 24;
constexpr std::uint32_t kMaxQpn = 0xffffff;

void put(std::uint8_t* to, std::uint64_t value, std::size_t octets) {
    for (std::size_t i = octets; i-- > 0; value >>= 8)
        to[i] = static_cast<std::uint8_t>(value);
}

std::uint64_t get(const std::uint8_t* from, std::size_t octets) {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < octets; ++i)
        value = value << 8 | from[i];
    return value;
}

// The front that both have, and the private data; what is behind those is 0.
template <std::size_t Size>
std::array<std::uint8_t, Size> begin(std::uint8_t kind, std::uint64_t number, std::span<const std::uint8_t> said) {
    std::array<std::uint8_t, Size> to{};
    const std::size_t length = std::min(said.size(), Size - kSidrHeaderLen);
    std::ranges::copy(kMagicAndVersion, to.begin());
    to[kKindAt] = kind;
    put(to.data() + kLengthAt, length, 2);
    put(to.data() + kNumberAt, number, 8);
    std::copy_n(said.begin(), length, to.begin() + kSidrHeaderLen);
    return to;
}

// The private data of a message of this kind and size; nothing: it is none.
std::optional<std::span<const std::uint8_t>> said_in(std::span<const std::uint8_t> datagram, std::uint8_t kind,
                                                     std::size_t size) {
    if (datagram.size() != size || datagram[kKindAt] != kind) return std::nullopt;
    if (!std::equal(kMagicAndVersion.begin(), kMagicAndVersion.end(), datagram.begin())) return std::nullopt;
    const std::size_t length = get(datagram.data() + kLengthAt, 2);
    if (length > size - kSidrHeaderLen) return std::nullopt;
    return datagram.subspan(kSidrHeaderLen, length);
}

}  // namespace

std::array<std::uint8_t, kSidrRequestLen> SidrRequest::emit() const {
    return begin<kSidrRequestLen>(kRequest, number, private_data);
}

std::optional<SidrRequest> SidrRequest::parse(std::span<const std::uint8_t> datagram) {
    const auto said = said_in(datagram, kRequest, kSidrRequestLen);
    if (!said) return std::nullopt;
    return SidrRequest{get(datagram.data() + kNumberAt, 8), *said};
}

std::array<std::uint8_t, kSidrAnswerLen> SidrAnswer::emit() const {
    auto to = begin<kSidrAnswerLen>(kAnswer, number, private_data);
    put(to.data() + kStatusAt, static_cast<std::uint32_t>(status), 4);
    put(to.data() + kQpnAt, qpn, 4);
    put(to.data() + kQKeyAt, q_key, 4);
    return to;
}

std::optional<SidrAnswer> SidrAnswer::parse(std::span<const std::uint8_t> datagram) {
    const auto said = said_in(datagram, kAnswer, kSidrAnswerLen);
    if (!said) return std::nullopt;
    SidrAnswer answer{};
    answer.number = get(datagram.data() + kNumberAt, 8);
    answer.status = static_cast<SidrStatus>(get(datagram.data() + kStatusAt, 4));
    answer.qpn = static_cast<std::uint32_t>(get(datagram.data() + kQpnAt, 4));
    answer.q_key = static_cast<std::uint32_t>(get(datagram.data() + kQKeyAt, 4));
    answer.private_data = *said;
    if (answer.qpn > kMaxQpn) return std::nullopt;
    return answer;
}

}  // namespace swrnic::shim
