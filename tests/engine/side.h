// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// One end of a stream: an engine of its own, with its thread, one QP and a region.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "engine/engine_impl.h"
#include "sockets.h"

namespace swrnic::engine::test {

using namespace std::chrono_literals;

inline constexpr std::uint32_t kPd = 1, kAll = access::kLocalWrite | access::kRemoteWrite | access::kRemoteRead;
inline constexpr std::size_t kLength = 300'000;
inline constexpr std::uint16_t kReads = 8;  // at a time

struct QuietHost final : Host {
    void comp_posted(std::uint32_t) override {}
    void async_event(AsyncEvent, std::uint32_t) override { ++events; }
    void qp_ready(std::uint32_t) override {
        if (on_ready) on_ready();
    }
    void qp_closed(std::uint32_t, CloseReason) override {
        if (on_closed) on_closed();
    }
    void terminated(std::uint32_t, std::string_view, bool sent) override {
        ++(sent ? terminates_sent : terminates_received);
    }
    bool control_readable() override { return false; }
    bool report() override {
        const auto now = std::chrono::steady_clock::now();
        since_report = now - std::exchange(last_report_, now);
        ++reports;
        return has_news;
    }
    std::function<void()> on_ready, on_closed;
    std::atomic<int> events{0}, terminates_sent{0}, terminates_received{0}, reports{0};
    std::atomic<bool> has_news{false};
    std::atomic<std::chrono::nanoseconds> since_report{};  // of the last two, the time between

  private:
    std::chrono::steady_clock::time_point last_report_;
};

inline QpInit qp_init(std::uint32_t number, Cq* cq, bool confirms = false) {
    return {.qpn = number,
            .pd = kPd,
            .send_cq = cq,
            .recv_cq = cq,
            .max_send_wr = 64,
            .max_recv_wr = 64,
            .max_send_sge = 1,
            .max_recv_sge = 1,
            .max_inline = 64,
            .sq_sig_all = true,
            .confirms = confirms};
}

struct Side {
    explicit Side(std::uint32_t number, const EngineOptions& options = {},
                  const CycleCounter& counter = CycleCounter::measured(), bool confirms = false)
        : qpn(number), engine(std::make_unique<Engine>(std::make_unique<Engine::Impl>(options, host, -1, counter))) {
        cq = engine->create_cq(256, number);
        qp = engine->create_qp(qp_init(number, cq, confirms));
        engine->modify_state(*qp, QpState::kInit);
        engine->set_access(*qp, access::kRemoteWrite | access::kRemoteRead);
        stag = engine->register_region(kPd, reinterpret_cast<std::uintptr_t>(memory.data()), memory.size(),
                                       reinterpret_cast<std::uintptr_t>(memory.data()), kAll);
    }
    ~Side() {
        engine->destroy_qp(qp);
        engine->destroy_cq(cq);
    }
    // Successful completions, or -1.
    int poll() {
        bool failed = false;
        const int found = engine->poll_cq(
            *cq, 16, [&](const WorkCompletion& done) { failed = failed || done.status != WcStatus::kSuccess; });
        return failed ? -1 : found;
    }
    Sge sge() { return {reinterpret_cast<std::uintptr_t>(memory.data()), kLength, stag}; }

    const std::uint32_t qpn;
    QuietHost host;
    std::unique_ptr<Engine> engine;
    Cq* cq;
    Qp* qp;
    std::vector<std::byte> memory = std::vector<std::byte>(kLength, std::byte(0x5a));
    std::uint32_t stag;
};

template <typename Condition>
testing::AssertionResult soon(Condition condition) {
    const auto deadline = std::chrono::steady_clock::now() + 5s;
    while (!condition()) {
        if (std::chrono::steady_clock::now() > deadline) return testing::AssertionFailure() << "not within 5 s";
        std::this_thread::sleep_for(100us);
    }
    return testing::AssertionSuccess();
}

inline void join(Side& side, int fd, bool initiator) {
    Connection connection{};
    connection.fd = fd;
    connection.initiator = initiator;
    connection.large_fpdu = true;
    connection.ird = connection.ord = kReads;
    side.engine->connect(side.qpn, connection);
}

inline PostResult post_write(Side& from, Side& to, std::uint32_t octets = 64) {
    const Sge one{reinterpret_cast<std::uintptr_t>(from.memory.data()), octets, from.stag};
    const PostResult result = from.engine->post_send(
        *from.qp, {0, WrOpcode::kWrite, 0, {&one, 1}, reinterpret_cast<std::uintptr_t>(to.memory.data()), to.stag, 0});
    from.engine->ring_doorbell(*from.qp);
    return result;
}

// By a socket.
inline void join(Side& active, Side& passive) {
    const auto [one, other] = connected_sockets();
    join(active, one, true);
    join(passive, other, false);
}

class JoinedTest : public testing::Test {
  protected:
    void SetUp() override { join(a_, b_); }

    Side a_{100}, b_{200};
};

}  // namespace swrnic::engine::test
