// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Fuzzer of the datagrams by which rdma_cm's UDP port space asks for QPs: what is taken for one is one, and says what
// it said again. Any violated invariant traps, in every kind of build.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "sidr.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

using namespace swrnic::shim;

namespace {

void require(bool holds) {
    if (!holds) __builtin_trap();
}

// All that the sender has set, and zeros where nothing is said.
template <typename Message>
void check(const Message& message, std::span<const std::uint8_t> octets, std::size_t fields_end) {
    const auto again = message.emit();
    require(octets.size() == again.size());
    require(std::equal(again.begin(), again.begin() + static_cast<std::ptrdiff_t>(fields_end), octets.begin()));
    const std::span said = message.private_data;
    require(said.size() <= octets.size() - kSidrHeaderLen && said.data() == octets.data() + kSidrHeaderLen);
    require(std::equal(said.begin(), said.end(), again.begin() + kSidrHeaderLen));
    const auto parsed = Message::parse(again);
    require(parsed && parsed->number == message.number && parsed->private_data.size() == said.size());
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::span octets(data, size);
    const auto request = SidrRequest::parse(octets);
    const auto answer = SidrAnswer::parse(octets);
    require(!(request && answer));
    if (request) check(*request, octets, 16);  // what an answer says stands behind
    if (answer) {
        require(answer->qpn <= 0xffffff);
        check(*answer, octets, kSidrHeaderLen);
    }
    return 0;
}
