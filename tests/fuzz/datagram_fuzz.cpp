// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Fuzzer of datagrams (UD): what is taken for one is one, says what it said again, and gets a GRH. Any violated
// invariant traps, in every kind of build.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "wire/datagram.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

using namespace swrnic::wire;

namespace {

void require(bool holds) {
    if (!holds) __builtin_trap();
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::span octets(reinterpret_cast<const std::byte*>(data), size);
    const auto header = DatagramHeader::parse(octets);
    if (!header) return 0;
    require(size == kDatagramHeaderLen + header->length && header->length <= kMaxDatagram);
    require(header->dest_qpn <= kMulticastQpn && header->source_qpn < kMulticastQpn);
    std::array<std::byte, kDatagramHeaderLen> again;
    header->emit(again.data());
    // The immediate's place means nothing without the flag.
    const std::size_t same = header->has_imm ? kDatagramHeaderLen : kDatagramHeaderLen - sizeof header->imm_data;
    require(std::equal(again.begin(), again.begin() + static_cast<std::ptrdiff_t>(same), octets.begin()));
    IpAddress source{}, dest{};
    std::copy_n(data, source.size(), source.begin());
    std::copy_n(data + 8, dest.size(), dest.begin());
    std::array<std::byte, kGrhLen> grh;
    put_grh(grh.data(), source, dest, header->length);
    const bool both_v4 = is_v4(source) && is_v4(dest);
    require(std::to_integer<unsigned>(grh[both_v4 ? 20 : 0]) >> 4 == (both_v4 ? 4 : 6));
    return 0;
}
