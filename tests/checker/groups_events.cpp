// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Completion channels, and progress when the application makes no call.
#include <thread>

#include "buffer.h"
#include "failure.h"
#include "session.h"

namespace checker {

namespace {

using std::chrono::milliseconds;
constexpr milliseconds kQuiet{60};  // long enough to notice an event that must not come

void arm(Endpoint& ep, ibv_cq* cq, bool solicited_only) {
    const int rc = ibv_req_notify_cq(cq, solicited_only ? 1 : 0);
    expect(rc == 0, "ibv_req_notify_cq on QP {:#x}: {}", ep.qp()->qp_num, rc);
}

void await_event(const Session& s, Endpoint& ep, ibv_cq* cq, std::string_view what) {
    expect(ep.wait_cq_event(cq, s.options.patience), "{}: no completion event in {} s", what,
           s.options.patience.count());
}

// The receiver sleeps for each message, as the manual shows it: arm, poll once more, sleep.
void sleepy_receiver(Session& s, Endpoint& ep, std::uint64_t rounds) {
    std::uint64_t got = 0;
    for (;;) {
        arm(ep, ep.recv_cq(), false);
        ibv_wc wc{};
        while (ibv_poll_cq(ep.recv_cq(), 1, &wc) == 1) {
            expect(wc.status == IBV_WC_SUCCESS && wc.wr_id == got, "receive {}: wr_id {}, {}", got, wc.wr_id,
                   status_text(wc));
            ++got;
            s.count(wc.byte_len);
        }
        if (got == rounds) return;
        await_event(s, ep, ep.recv_cq(), "armed for any completion");
    }
}

void sleepy_sender(Session& s, Endpoint& ep, std::uint64_t rounds) {
    Rng rng = s.own_rng("events");
    Sg source(ep.pd(), std::size_t{100}, 0, rng);
    for (std::uint64_t i = 0; i < rounds; ++i) {
        arm(ep, ep.send_cq(), false);
        ep.send(i, source.list());
        await_event(s, ep, ep.send_cq(), "armed send CQ");
        ep.wait_send(i, IBV_WC_SEND, "after the event");
        if (rng.one_in(8)) std::this_thread::sleep_for(milliseconds(1));
    }
}

void solicited_receiver(Session& s, Endpoint& ep) {
    arm(ep, ep.recv_cq(), true);
    s.control.barrier("armed for solicited");
    // An unsolicited Send completes without an event,
    ep.wait_recv(0, 0, "unsolicited Send");
    expect(!ep.wait_cq_event(ep.recv_cq(), kQuiet), "an unsolicited Send raised an event on a CQ armed for solicited");
    s.control.barrier("no event");
    // a solicited one with,
    await_event(s, ep, ep.recv_cq(), "solicited Send");
    ep.wait_recv(1, 0, "solicited Send");
    s.control.barrier("event");
    // and arming is good for one event only.
    ep.wait_recv(2, 0, "second solicited Send");
    expect(!ep.wait_cq_event(ep.recv_cq(), kQuiet), "a CQ that was not armed again raised an event");
    // Armed anew for anything, an unsolicited one counts.
    arm(ep, ep.recv_cq(), false);
    s.control.barrier("armed for all");
    await_event(s, ep, ep.recv_cq(), "unsolicited Send, armed for all");
    ep.wait_recv(3, 0, "unsolicited Send, armed for all");
    s.count(0);
}

void solicited_sender(Session& s, Endpoint& ep) {
    const auto one = [&](std::uint64_t id, unsigned flags) {
        ep.send(id, {}, IBV_SEND_SIGNALED | flags);
        ep.wait_send(id, IBV_WC_SEND, "Send to a sleeping receiver");
    };
    s.control.barrier("armed for solicited");
    one(0, 0);
    s.control.barrier("no event");
    one(1, IBV_SEND_SOLICITED);
    s.control.barrier("event");
    one(2, IBV_SEND_SOLICITED);
    s.control.barrier("armed for all");
    one(3, 0);
}

// A CQ armed for solicited completions only is told of an error too.
void error_event(Session& s) {
    const auto ep = s.connect({.channel = true});
    ep->recv(7, {});
    arm(*ep, ep->recv_cq(), true);
    s.control.barrier("armed");
    if (s.active) ep->disconnect();
    await_event(s, *ep, ep->recv_cq(), "flushed receive on a CQ armed for solicited");
    const ibv_wc wc = ep->wait(ep->recv_cq(), "flushed receive");
    expect(wc.status == IBV_WC_WR_FLUSH_ERR && wc.wr_id == 7, "flushed receive: wr_id {}, {}", wc.wr_id,
           status_text(wc));
    ep->wait_disconnected();
    s.count(0);
}

}  // namespace

void run_events(Session& s) {
    const std::uint64_t rounds = s.options.small ? 100 : 1000;
    const auto ep = s.connect({.recv_wr = static_cast<std::uint32_t>(rounds), .channel = true});
    for (const bool active_sends : {true, false}) {
        const bool i_send = s.active == active_sends;
        Rng rng = s.own_rng("events");
        Sg sink(ep->pd(), std::size_t{100}, kLocal, rng);
        for (std::uint64_t i = 0; !i_send && i < rounds; ++i)
            ep->recv(i, sink.list());
        s.control.barrier("receives posted");
        i_send ? sleepy_sender(s, *ep, rounds) : sleepy_receiver(s, *ep, rounds);
        s.control.barrier("slept");
        // The last arming of the receiver may stand: one event more may come with the next receive, so start anew.
        const auto fresh = s.connect({.channel = true});
        for (std::uint64_t i = 0; !i_send && i < 4; ++i)
            fresh->recv(i, {});
        i_send ? solicited_sender(s, *fresh) : solicited_receiver(s, *fresh);
        s.control.barrier("solicited done");
    }
    error_event(s);
}

// Two posts back to back and then no verbs call: both must reach the peer all the same.
void run_silent(Session& s) {
    const auto ep = s.connect();
    const std::uint32_t rounds = s.options.small ? 10 : 50;
    for (const bool active_sends : {true, false}) {
        Rng rng = s.own_rng("silent");
        for (std::uint32_t round = 0; round < rounds; ++round) {
            const std::string what = fmt::format("two Sends and silence, round {}", round);
            const std::uint64_t seed = seed_of(s.options.seed, what);
            if (s.active == active_sends) {
                Sg first(ep->pd(), std::size_t{64}, 0, rng);
                Sg second(ep->pd(), std::size_t{100000}, 0, rng);
                first.fill(seed);
                second.fill(seed + 1);
                s.control.barrier("ready");
                ep->send(1, first.list());
                ep->send(2, second.list());
                s.control.barrier("arrived");  // sleeps outside verbs
                ep->wait_send(1, IBV_WC_SEND, what);
                ep->wait_send(2, IBV_WC_SEND, what);
            } else {
                Sg first(ep->pd(), std::size_t{64}, kLocal, rng);
                Sg second(ep->pd(), std::size_t{100000}, kLocal, rng);
                ep->recv(1, first.list());
                ep->recv(2, second.list());
                s.control.barrier("ready");
                ep->wait_recv(1, 64, what);
                ep->wait_recv(2, 100000, what);
                first.expect_message(seed, 64, what);
                second.expect_message(seed + 1, 100000, what);
                s.control.barrier("arrived");
            }
            s.count(100064);
        }
    }
}

void run_either_first(Session& s) {
    for (std::uint32_t round = 0; round < 5; ++round) {
        const auto ep = s.connect({.greet = false});
        Rng rng = s.own_rng("either_first");
        Sg memory(ep->pd(), std::size_t{3000}, kLocal, rng);
        const std::uint64_t seed = s.options.seed + round;
        if (s.active) {
            ep->recv(1, memory.list());
            s.control.barrier("receive posted");
            ep->wait_recv(1, 3000, "the passive side sends first");
            memory.expect_message(seed, 3000, "the passive side sends first");
        } else {
            memory.fill(seed);
            s.control.barrier("receive posted");
            ep->send(1, memory.list());
            ep->wait_send(1, IBV_WC_SEND, "the passive side sends first");
        }
        s.control.barrier("done");
        s.count(3000);
    }
}

// The Send is there first; its receive is posted a while later (DESIGN: the stream waits, RNR timeout 1 s by default).
void run_rnr(Session& s) {
    const auto ep = s.connect();
    for (const bool active_sends : {true, false}) {
        Rng rng = s.own_rng("rnr");
        for (const std::size_t size : {std::size_t{0}, std::size_t{64}, std::size_t{300000}}) {
            const std::string what = fmt::format("Send of {} octets ahead of its receive", size);
            const std::uint64_t seed = seed_of(s.options.seed, what);
            Sg memory(ep->pd(), size, kLocal, rng);
            if (s.active == active_sends) {
                memory.fill(seed);
                ep->send(1, memory.list());
                s.control.barrier("sent");
                ep->wait_send(1, IBV_WC_SEND, what);
            } else {
                s.control.barrier("sent");
                std::this_thread::sleep_for(milliseconds(150));
                ep->recv(1, memory.list());
                ep->wait_recv(1, size, what);
                memory.expect_message(seed, size, what);
            }
            s.control.barrier("done");
            s.count(size);
        }
    }
}

}  // namespace checker
