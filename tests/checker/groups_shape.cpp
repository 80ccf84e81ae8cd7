// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The shapes a request can have: scatter lists, inline data, signalled or not, fenced.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <numeric>

#include "buffer.h"
#include "failure.h"
#include "session.h"

namespace checker {

namespace {

// `total` octets in `count` parts, about a quarter of them empty; the parts need not be even.
std::vector<std::size_t> split(std::size_t total, std::uint32_t count, Rng& rng) {
    std::vector<std::size_t> parts(count, 0);
    std::size_t left = total;
    for (std::uint32_t i = 0; i + 1 < count; ++i) {
        if (rng.one_in(4)) continue;
        parts[i] = rng.below(static_cast<std::uint32_t>(left) + 1) / (rng.one_in(2) ? 1 : count - i);
        left -= parts[i];
    }
    parts[count - 1] = left;
    std::rotate(parts.begin(), parts.begin() + rng.below(count), parts.end());
    return parts;
}

void sge_send(Session& s, Endpoint& ep, std::size_t size, std::uint32_t count, bool i_send, Rng& rng) {
    const std::string what = fmt::format("Send of {} octets in {} elements", size, count);
    const std::uint64_t seed = seed_of(s.options.seed, what);
    if (i_send) {
        Sg source(ep.pd(), split(size, count, rng), 0, rng);
        source.fill(seed);
        s.control.barrier(what);
        ep.send(1, source.list());
        ep.wait_send(1, IBV_WC_SEND, what);
        source.expect_message(seed, size, what + ", the source");
    } else {
        const auto recv_count = 1 + rng.below(ep.cap().max_recv_sge);
        Sg sink(ep.pd(), split(size + rng.below(2) * 13, recv_count, rng), kLocal, rng);
        ep.recv(1, sink.list());
        s.control.barrier(what);
        ep.wait_recv(1, size, what);
        sink.expect_message(seed, size, what);
    }
    s.control.barrier("done");
    s.count(size);
}

void sge_write(Session& s, Endpoint& ep, std::size_t size, std::uint32_t count, bool i_send, Rng& rng) {
    const std::string what = fmt::format("Write of {} octets in {} elements", size, count);
    const std::uint64_t seed = seed_of(s.options.seed, what);
    if (i_send) {
        const auto remote = s.control.recv<Remote>();
        Sg source(ep.pd(), split(size, count, rng), 0, rng);
        source.fill(seed);
        ep.write(1, source.list(), remote.address, remote.rkey);
        ep.send(2, {});
        ep.wait_send(1, IBV_WC_RDMA_WRITE, what);
        ep.wait_send(2, IBV_WC_SEND, what);
    } else {
        Sg sink(ep.pd(), size, kRemote, rng);
        ep.recv(1, {});
        s.control.send(Remote{sink.address(), sink.rkey()});
        ep.wait_recv(1, 0, what);
        sink.expect_message(seed, size, what);
    }
    s.control.barrier("done");
    s.count(size);
}

void sge_read(Session& s, Endpoint& ep, std::size_t size, std::uint32_t count, bool i_read, Rng& rng) {
    const std::string what = fmt::format("Read of {} octets into {} elements", size, count);
    const std::uint64_t seed = seed_of(s.options.seed, what);
    if (i_read) {
        const auto remote = s.control.recv<Remote>();
        Sg sink(ep.pd(), split(size, count, rng), kSink, rng);
        ep.read(1, sink.list(), remote.address, remote.rkey);
        ep.wait_send(1, IBV_WC_RDMA_READ, what);
        sink.expect_message(seed, size, what);
        s.control.barrier("done");
    } else {
        Sg source(ep.pd(), size, kRemote, rng);
        source.fill(seed);
        s.control.send(Remote{source.address(), source.rkey()});
        s.control.barrier("done");
        source.expect_message(seed, size, what + ", the source");
    }
    s.count(size);
}

}  // namespace

void run_sge(Session& s) {
    const std::uint32_t most = std::min(s.facts.max_sge, 32U);
    const auto ep = s.connect({.send_sge = most, .recv_sge = most});
    Rng rng = s.own_rng("sge");
    const std::vector<std::size_t> sizes = s.options.small
                                               ? std::vector<std::size_t>{0, 7, 5000, 200000}
                                               : std::vector<std::size_t>{0, 1, 7, 64, 1500, 5000, 65536, 1000003};
    for (const bool active_sends : {true, false}) {
        for (std::uint32_t count = 1; count <= most; count += 1 + count / 8) {
            for (const std::size_t size : sizes) {
                sge_send(s, *ep, size, count, s.active == active_sends, rng);
                sge_write(s, *ep, size, count, s.active == active_sends, rng);
                if (count <= s.facts.max_sge_rd) sge_read(s, *ep, size, count, s.active == active_sends, rng);
            }
        }
    }
}

void run_inline(Session& s) {
    constexpr std::uint32_t kAsk = 64;
    const auto ep = s.connect({.send_sge = 2, .inline_size = kAsk});
    const auto most = s.control.exchange(ep->cap().max_inline_data);  // of the other side
    for (const bool active_sends : {true, false}) {
        const std::uint32_t limit = std::min(s.active == active_sends ? ep->cap().max_inline_data : most, 1024U);
        Rng rng = s.own_rng("inline");
        if (s.active != active_sends) {
            Sg target(ep->pd(), std::size_t{1024}, kRemote, rng);
            s.control.send(Remote{target.address(), target.rkey()});
            for (std::uint32_t size = 0; size <= limit; ++size) {
                const std::string what = fmt::format("inline Send and Write of {} octets", size);
                const std::uint64_t seed = seed_of(s.options.seed, what);
                Sg sink(ep->pd(), std::size_t{1024}, kLocal, rng);
                target.poison();
                ep->recv(size, sink.list());
                s.control.barrier("ready");
                ep->wait_recv(size, size, what);
                sink.expect_message(seed, size, what);
                target.expect_message(seed, size, what);
                s.control.barrier("done");
                s.count(size);
            }
            continue;
        }
        const auto remote = s.control.recv<Remote>();
        for (std::uint32_t size = 0; size <= limit; ++size) {
            const std::string what = fmt::format("inline Send and Write of {} octets", size);
            Buffer plain(size, rng.below(9));  // never registered: inline asks for no key
            plain.fill(seed_of(s.options.seed, what));
            const std::uint32_t first = size / 3;
            const std::uint64_t at = reinterpret_cast<std::uintptr_t>(plain.data());
            ibv_sge parts[2] = {{at, first, 0xdeadbeef}, {at + first, size - first, 0}};
            s.control.barrier("ready");
            ep->write(1, parts, remote.address, remote.rkey, IBV_SEND_INLINE);
            ep->send(2, parts, IBV_SEND_INLINE | IBV_SEND_SIGNALED);
            plain.poison();  // the data was copied while posting
            ep->wait_send(2, IBV_WC_SEND, what);
            s.control.barrier("done");
            s.count(size);
        }
    }
}

}  // namespace checker
