// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// For tests that kill one side: steady traffic in both directions, and a report of what the survivor saw and when.
#include <algorithm>
#include <cstdio>
#include <thread>

#include "buffer.h"
#include "failure.h"
#include "session.h"

namespace checker {

namespace {

std::int64_t now_us() {
    return std::chrono::duration_cast<std::chrono::microseconds>(Clock::now().time_since_epoch()).count();
}

void say(const std::string& line) {
    fmt::print("LOAD {} at {} us\n", line, now_us());
    std::fflush(stdout);
}

}  // namespace

// Keeps Writes and Reads under way. Prints "LOAD running" when traffic flows, "LOAD error" at the first completion that
// is none, "LOAD disconnected" at the event; times are CLOCK_MONOTONIC. Well is: every request completed, none lost.
void run_load(Session& s) {
    constexpr std::uint64_t kWindow = 16;
    constexpr std::size_t kSize = 65536;
    const auto ep = s.connect({.recv_wr = 8});
    Rng rng = s.own_rng("load");
    Sg memory(ep->pd(), kSize, kRemote, rng);
    Sg sink(ep->pd(), kSize, kSink, rng);
    const Remote remote = s.control.exchange(Remote{memory.address(), memory.rkey()});
    for (std::uint64_t id = 0; id < 8; ++id)
        ep->recv(id, {});
    s.control.barrier("ready");
    std::uint64_t posted = 0;
    std::uint64_t done = 0;
    bool broken = false;
    Deadline silence(s.options.patience);
    while (!broken || done < posted) {
        while (!broken && posted - done < kWindow) {
            if (posted % 4 == 3) {
                ep->read(posted, sink.list(), remote.address, remote.rkey);
            } else {
                ep->write(posted, memory.list(), remote.address, remote.rkey);
            }
            ++posted;
        }
        ibv_wc wc{};
        if (ibv_poll_cq(ep->send_cq(), 1, &wc) == 0) {
            expect(!silence.over(), "load: request {} of {} never completed", done, posted);
            std::this_thread::yield();
            continue;
        }
        silence = Deadline(s.options.patience);
        expect(wc.wr_id == done, "load: completion of {}, expected {}", wc.wr_id, done);
        if (wc.status != IBV_WC_SUCCESS && !broken) {
            say(fmt::format("error, {}", ibv_wc_status_str(wc.status)));
            broken = true;
        }
        expect(!broken || wc.status != IBV_WC_SUCCESS, "load: a success behind an error");
        if (++done == 1000) say("running");
        s.count(kSize);
    }
    for (std::uint64_t id = 0; id < 8; ++id) {
        const ibv_wc wc = ep->wait(ep->recv_cq(), "load, flushed receives");
        expect(wc.wr_id == id && wc.status == IBV_WC_WR_FLUSH_ERR, "load, receive {}: {}", wc.wr_id, status_text(wc));
    }
    say("flushed");
    ep->wait_disconnected();
    say("disconnected");
}

}  // namespace checker
