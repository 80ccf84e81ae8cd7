// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What queues promise: which requests complete, in which order, and what a fence holds back.
#include <algorithm>

#include "buffer.h"
#include "failure.h"
#include "session.h"

namespace checker {

namespace {

std::uint32_t signal_total(const Session& s) {
    return s.options.small ? 640 : 3200;
}

// Keeps account of a send queue in which only some requests are signalled.
class SendWindow {
  public:
    SendWindow(Endpoint& ep, std::uint64_t depth, std::uint64_t total, std::uint32_t every, bool sig_all)
        : ep_(ep), total_(total), every_(every), sig_all_(sig_all), free_(depth) {}
    bool signalled(std::uint64_t id) const { return sig_all_ || id % every_ == every_ - 1 || id == total_ - 1; }
    unsigned flags(std::uint64_t id) const { return flag_if(!sig_all_ && signalled(id), IBV_SEND_SIGNALED); }
    void take_slot(std::string_view what) {
        while (free_ == 0)
            reap(what);
        --free_;
    }
    void drain(std::string_view what) {
        while (done_ < total_)
            reap(what);
    }

  private:
    void reap(std::string_view what) {
        std::uint64_t id = done_;
        while (!signalled(id))
            ++id;
        const ibv_wc wc = ep_.wait(ep_.send_cq(), what);
        expect(wc.status == IBV_WC_SUCCESS, "{}: wr_id {}: {}", what, wc.wr_id, status_text(wc));
        expect(wc.wr_id == id, "{}: completion of wr_id {}, expected {}", what, wc.wr_id, id);
        free_ += id - done_ + 1;
        done_ = id + 1;
    }

    Endpoint& ep_;
    std::uint64_t total_;
    std::uint32_t every_;
    bool sig_all_;
    std::uint64_t free_;
    std::uint64_t done_ = 0;
};

void signal_sender(Session& s, Endpoint& ep, std::uint32_t every, bool sig_all, const std::string& what) {
    const std::uint64_t total = signal_total(s);
    const auto remote = s.control.recv<Remote>();
    Rng rng = s.own_rng("signal");
    Sg source(ep.pd(), std::size_t{200}, 0, rng);
    Sg sink(ep.pd(), std::size_t{200}, kSink, rng);
    SendWindow window(ep, 16, total, every, sig_all);
    for (std::uint64_t i = 0; i < total; ++i) {
        window.take_slot(what);
        if (i % 4 == 0) {
            ep.send(i, {}, window.flags(i));
        } else if (i % 4 == 2) {
            ep.read(i, sink.list(), remote.address + 200, remote.rkey, window.flags(i));
        } else {
            ep.write(i, source.list(), remote.address, remote.rkey, window.flags(i));
        }
        s.count(200);
    }
    window.drain(what);
    // A Write is complete before it is placed; a Read behind it is not. Only then may the target go away.
    ep.read(total, sink.list(), remote.address + 200, remote.rkey);
    ep.wait_send(total, IBV_WC_RDMA_READ, what);
    s.control.barrier("done");
    ep.expect_nothing(ep.send_cq(), std::chrono::milliseconds(5), what);
}

void signal_receiver(Session& s, Endpoint& ep, const std::string& what) {
    const std::uint64_t sends = signal_total(s) / 4;
    Rng rng = s.own_rng("signal");
    Sg target(ep.pd(), std::size_t{400}, kRemote, rng);  // first half written, second half read
    for (std::uint64_t i = 0; i < sends; ++i)
        ep.recv(i, {});
    s.control.send(Remote{target.address(), target.rkey()});
    for (std::uint64_t i = 0; i < sends; ++i)
        ep.wait_recv(i, 0, what);
    s.control.barrier("done");
    s.count(0);
}

}  // namespace

void run_signal(Session& s) {
    for (const bool sig_all : {false, true}) {
        const auto ep = s.connect({.send_wr = 16, .recv_wr = signal_total(s) / 4 + 1, .sig_all = sig_all});
        for (const bool active_sends : {true, false}) {
            const std::vector<std::uint32_t> every =
                sig_all ? std::vector<std::uint32_t>{1} : std::vector<std::uint32_t>{1, 3, 8, 16};
            for (const std::uint32_t n : every) {
                const std::string what = fmt::format("one in {} signalled{}", n, sig_all ? ", sq_sig_all" : "");
                if (s.active == active_sends) {
                    signal_sender(s, *ep, n, sig_all, what);
                } else {
                    signal_receiver(s, *ep, what);
                }
            }
        }
    }
}

// Long Reads in front of short Sends and Writes: the short ones must not complete first.
void run_order(Session& s) {
    constexpr std::uint32_t kPerRound = 12;
    const std::uint32_t rounds = s.options.small ? 10 : 100;
    const auto ep = s.connect({.recv_wr = kPerRound});
    for (const bool active_sends : {true, false}) {
        const bool i_send = s.active == active_sends;
        Rng rng = s.own_rng("order");
        Rng plan = s.shared_rng(active_sends ? "order a" : "order b");
        Sg source(ep->pd(), std::size_t{300000}, kRemote, rng);
        Sg target(ep->pd(), std::size_t{300}, kRemote, rng);
        Sg sink(ep->pd(), std::size_t{300000}, kSink, rng);
        const Remote read_from = s.control.exchange(Remote{source.address(), source.rkey()});
        const Remote write_to = s.control.exchange(Remote{target.address(), target.rkey()});
        for (std::uint32_t round = 0; round < rounds; ++round) {
            std::vector<std::pair<unsigned, std::uint32_t>> kinds;  // 0 Send, 1 Write, 2 Read; and how long
            for (std::uint32_t i = 0; i < kPerRound; ++i) {
                const unsigned kind = i + 1 < kPerRound ? plan.below(3) : 2;  // when the Read is done, all is placed
                kinds.emplace_back(kind, plan.below(kind == 2 ? 300000 : 300));
            }
            std::uint64_t sends = 0;
            for (const auto& [kind, size] : kinds)
                sends += kind == 0 ? 1 : 0;
            for (std::uint64_t i = 0; !i_send && i < sends; ++i)
                ep->recv(i, sink.list());
            s.control.barrier("round");
            if (!i_send) {
                std::uint64_t id = 0;
                for (const auto& [kind, size] : kinds) {
                    if (kind == 0) ep->wait_recv(id++, size, "receives in order");
                }
            }
            for (std::uint64_t i = 0; i_send && i < kPerRound; ++i) {
                ibv_sge element = (kinds[i].first == 2 ? sink : source).list()[0];
                element.length = kinds[i].second;
                const std::span<ibv_sge> list(&element, 1);
                if (kinds[i].first == 0) ep->send(i, list);
                if (kinds[i].first == 1) ep->write(i, list, write_to.address, write_to.rkey);
                if (kinds[i].first == 2) ep->read(i, list, read_from.address, read_from.rkey);
            }
            for (std::uint64_t i = 0; i_send && i < kPerRound; ++i) {
                constexpr ibv_wc_opcode kOpcodes[] = {IBV_WC_SEND, IBV_WC_RDMA_WRITE, IBV_WC_RDMA_READ};
                ep->wait_send(i, kOpcodes[kinds[i].first], "completions in posting order");
                s.count(kinds[i].second);
            }
            s.control.barrier("round done");
        }
    }
}

// Reads data from the peer and sends it straight back, as a Send or a Write, behind a fence and without waiting.
void run_fence(Session& s) {
    const std::vector<std::size_t> sizes = s.options.small
                                               ? std::vector<std::size_t>{1, 64, 65536}
                                               : std::vector<std::size_t>{1, 64, 1449, 65536, 1000001, 4194304};
    const std::uint32_t repeats = s.options.small ? 3 : 20;
    const auto ep = s.connect();
    for (const bool active_reads : {true, false}) {
        Rng rng = s.own_rng("fence");
        for (const std::size_t size : sizes) {
            for (std::uint32_t round = 0; round < repeats; ++round) {
                const std::string what =
                    fmt::format("{} octets read and sent back behind a fence, round {}", size, round);
                const std::uint64_t seed = seed_of(s.options.seed, what);
                if (s.active == active_reads) {
                    Sg relay(ep->pd(), size, kSink, rng);
                    const auto source = s.control.recv<Remote>();
                    const auto target = s.control.recv<Remote>();
                    ep->read(1, relay.list(), source.address, source.rkey, 0);
                    ep->write(2, relay.list(), target.address, target.rkey, IBV_SEND_FENCE | IBV_SEND_SIGNALED);
                    ep->send(3, relay.list(), IBV_SEND_FENCE | IBV_SEND_SIGNALED);
                    ep->wait_send(2, IBV_WC_RDMA_WRITE, what);
                    ep->wait_send(3, IBV_WC_SEND, what);
                    relay.expect_message(seed, size, what + ", the relay");
                    s.control.barrier("done");
                } else {
                    Sg source(ep->pd(), size, kRemote, rng);
                    Sg target(ep->pd(), size, kRemote, rng);
                    Sg sink(ep->pd(), size, kLocal, rng);
                    source.fill(seed);
                    ep->recv(1, sink.list());
                    s.control.send(Remote{source.address(), source.rkey()});
                    s.control.send(Remote{target.address(), target.rkey()});
                    ep->wait_recv(1, size, what);
                    target.expect_message(seed, size, what + ", the Write");
                    sink.expect_message(seed, size, what + ", the Send");
                    s.control.barrier("done");
                }
                s.count(size);
            }
        }
    }
}

}  // namespace checker
