// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Atomics on a word of the other side's, whose values the initiator foretells: each Response carries what was there,
// and at the end the word is what all of them made of it.
#include <array>
#include <cstring>

#include "buffer.h"
#include "failure.h"
#include "session.h"

namespace checker {

namespace {

constexpr std::size_t kAtomics = 400;
constexpr std::size_t kInFlight = 8;

struct Word {
    alignas(8) std::uint64_t value;
};

struct RemoteWord {
    std::uint64_t address, value;
    std::uint32_t rkey;
};

std::span<std::uint8_t> octets_of(void* memory, std::size_t size) {
    return {static_cast<std::uint8_t*>(memory), size};
}

void initiate(Session& s, Endpoint& ep, Rng& rng) {
    const auto word = s.control.recv<RemoteWord>();
    std::array<std::uint64_t, kInFlight> results{};
    const Mr mr(ep.pd(), octets_of(results.data(), sizeof results), kLocal);
    std::array<std::uint64_t, kAtomics + 1> values{word.value};
    const auto post = [&](std::size_t i) {
        std::uint64_t& result = results[i % kInFlight];
        std::array<ibv_sge, 1> list{{{reinterpret_cast<std::uintptr_t>(&result), sizeof result, mr.lkey()}}};
        const std::uint64_t before = values[i], operand = rng.next();
        if (rng.one_in(2)) {
            ep.fetch_add(i, list, word.address, word.rkey, operand);
            values[i + 1] = before + operand;
            return IBV_WC_FETCH_ADD;
        }
        const bool meets = !rng.one_in(3);
        ep.compare_swap(i, list, word.address, word.rkey, meets ? before : ~before, operand);
        values[i + 1] = meets ? operand : before;
        return IBV_WC_COMP_SWAP;
    };
    std::array<ibv_wc_opcode, kInFlight> opcodes{};
    std::size_t posted = 0;
    for (std::size_t done = 0; done < kAtomics; ++done) {
        for (; posted < kAtomics && posted < done + kInFlight; ++posted)
            opcodes[posted % kInFlight] = post(posted);
        const std::string name = fmt::format("atomic {}", done);
        const ibv_wc wc = ep.wait_send(done, opcodes[done % kInFlight], name);
        expect(wc.byte_len == sizeof(std::uint64_t), "{}: byte_len {}", name, wc.byte_len);
        expect(results[done % kInFlight] == values[done], "{}: the word was {:#x}, expected {:#x}", name,
               results[done % kInFlight], values[done]);
        s.count(sizeof(std::uint64_t));
    }
    s.control.send(values[kAtomics]);
}

void serve(Session& s, Endpoint& ep, Rng& rng) {
    Word word{rng.next()};
    const Mr mr(ep.pd(), octets_of(&word.value, sizeof word.value), kAtomic);
    s.control.send(RemoteWord{reinterpret_cast<std::uintptr_t>(&word.value), word.value, mr.rkey()});
    const auto expected = s.control.recv<std::uint64_t>();
    std::uint64_t value = 0;
    std::memcpy(&value, &word.value, sizeof value);
    expect(value == expected, "the word is {:#x}, expected {:#x}", value, expected);
    s.count(sizeof value);
}

}  // namespace

void run_atomics(Session& s) {
    const auto ep = s.connect();
    for (const bool active_sends : {true, false}) {
        Rng rng = s.own_rng("atomics");
        if (s.active == active_sends) {
            initiate(s, *ep, rng);
        } else {
            serve(s, *ep, rng);
        }
        s.control.barrier("atomics verified");
    }
}

}  // namespace checker
