// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Every byte of SEND, SEND_WITH_INV, WRITE and READ, one direction at a time.
#include <arpa/inet.h>

#include <algorithm>
#include <optional>

#include "buffer.h"
#include "failure.h"
#include "session.h"

namespace checker {

namespace {

constexpr std::size_t kBatch = 8;
constexpr std::size_t kSlack = 29;  // a receive may be longer than its message

struct Message {
    std::uint64_t id;
    std::size_t size;
    std::uint64_t seed;
    std::string name;
};

std::vector<std::vector<Message>> batches(const Session& s, std::string_view group, bool active_sends) {
    std::vector<std::vector<Message>> result;
    std::uint64_t id = 1;
    for (const std::size_t size : message_sizes(s.options)) {
        if (result.empty() || result.back().size() == kBatch) result.emplace_back();
        const std::string name =
            fmt::format("{} of {} octets to the {} side", group, size, active_sends ? "passive" : "active");
        result.back().push_back({id, size, seed_of(s.options.seed + id, name), name});
        ++id;
    }
    return result;
}

enum class Extra { kNothing, kInvalidate, kImmediate };

std::uint32_t immediate_of(const Message& m) {
    return static_cast<std::uint32_t>(m.seed);
}

// The list of a request: empty for no octets every other time, since num_sge 0 and one empty element are both legal.
std::span<ibv_sge> list_of(Sg& sg, const Message& m) {
    return m.size == 0 && m.id % 2 == 0 ? std::span<ibv_sge>() : std::span<ibv_sge>(sg.list());
}

void send_batch(Session& s, Endpoint& ep, const std::vector<Message>& batch, Rng& rng, Extra extra) {
    std::vector<std::uint32_t> keys;
    for (std::size_t i = 0; extra == Extra::kInvalidate && i < batch.size(); ++i)
        keys.push_back(s.control.recv<std::uint32_t>());
    std::vector<Sg> memory;
    for (const Message& m : batch)
        memory.emplace_back(ep.pd(), m.size, 0, rng).fill(m.seed);
    s.control.barrier("receives posted");
    for (std::size_t i = 0; i < batch.size(); ++i) {
        const unsigned flags = IBV_SEND_SIGNALED | flag_if(rng.one_in(3), IBV_SEND_SOLICITED);
        const auto list = list_of(memory[i], batch[i]);
        switch (extra) {
            case Extra::kInvalidate:
                ep.send_inv(batch[i].id, list, keys[i], flags);
                break;
            case Extra::kImmediate:
                ep.send_imm(batch[i].id, list, immediate_of(batch[i]), flags);
                break;
            case Extra::kNothing:
                ep.send(batch[i].id, list, flags);
                break;
        }
    }
    for (std::size_t i = 0; i < batch.size(); ++i) {
        ep.wait_send(batch[i].id, IBV_WC_SEND, batch[i].name);
        memory[i].expect_message(batch[i].seed, batch[i].size, batch[i].name + ", the source");
        s.count(batch[i].size);
    }
    s.control.barrier("batch verified");
}

void recv_batch(Session& s, Endpoint& ep, const std::vector<Message>& batch, Rng& rng, Extra extra) {
    std::vector<Sg> memory;
    std::vector<Sg> victims;
    for (const Message& m : batch) {
        Sg& sg = memory.emplace_back(ep.pd(), m.size == 0 ? 0 : m.size + rng.below(2) * kSlack, kLocal, rng);
        ep.recv(m.id, list_of(sg, m));
        if (extra != Extra::kInvalidate) continue;
        victims.emplace_back(ep.pd(), std::size_t{512}, kRemote, rng);
        s.control.send(victims.back().rkey());
    }
    s.control.barrier("receives posted");
    for (std::size_t i = 0; i < batch.size(); ++i) {
        const Message& m = batch[i];
        const ibv_wc wc = ep.wait_recv(m.id, m.size, m.name);
        const unsigned flags = flag_if(extra == Extra::kInvalidate, IBV_WC_WITH_INV) |
                               flag_if(extra == Extra::kImmediate, IBV_WC_WITH_IMM);
        expect(wc.wc_flags == flags, "{}: wc_flags {:#x}", m.name, static_cast<unsigned>(wc.wc_flags));
        if (extra == Extra::kInvalidate)
            expect(wc.invalidated_rkey == victims[i].rkey(), "{}: invalidated_rkey {:#x}, expected {:#x}", m.name,
                   wc.invalidated_rkey, victims[i].rkey());
        if (extra == Extra::kImmediate)
            expect(ntohl(wc.imm_data) == immediate_of(m), "{}: imm_data {:#x}", m.name, ntohl(wc.imm_data));
        memory[i].expect_message(m.seed, m.size, m.name);
        s.count(m.size);
    }
    s.control.barrier("batch verified");
}

void sends_one_way(Session& s, Endpoint& ep, std::string_view group, bool active_sends, Extra extra) {
    Rng rng = s.own_rng(group);
    for (const auto& batch : batches(s, group, active_sends)) {
        if (s.active == active_sends) {
            send_batch(s, ep, batch, rng, extra);
        } else {
            recv_batch(s, ep, batch, rng, extra);
        }
    }
}

// What a batch of Writes takes: its sources, and where the other side wants them.
struct Writes {
    Writes(Session& s, const Endpoint& ep, const std::vector<Message>& batch, Rng& rng) {
        for (const Message& m : batch) {
            memory.emplace_back(ep.pd(), m.size, 0, rng).fill(m.seed);
            targets.push_back(s.control.recv<Remote>());
        }
        s.control.barrier("targets ready");
    }
    std::vector<Sg> memory;
    std::vector<Remote> targets;
};

// A Send of no octets behind the Writes: its completion at the target says that they are all placed.
void write_batch(Session& s, Endpoint& ep, const std::vector<Message>& batch, Rng& rng) {
    auto [memory, targets] = Writes(s, ep, batch, rng);
    for (std::size_t i = 0; i < batch.size(); ++i) {
        ep.write(batch[i].id, list_of(memory[i], batch[i]), targets[i].address, targets[i].rkey);
    }
    ep.send(0, {});
    for (std::size_t i = 0; i < batch.size(); ++i) {
        ep.wait_send(batch[i].id, IBV_WC_RDMA_WRITE, batch[i].name);
        memory[i].expect_message(batch[i].seed, batch[i].size, batch[i].name + ", the source");
        s.count(batch[i].size);
    }
    ep.wait_send(0, IBV_WC_SEND, "the Send behind the Writes");
    s.control.barrier("batch verified");
}

void target_batch(Session& s, Endpoint& ep, const std::vector<Message>& batch, Rng& rng) {
    std::vector<Sg> memory;
    for (const Message& m : batch) {
        Sg& sg = memory.emplace_back(ep.pd(), m.size, kRemote, rng);
        s.control.send(Remote{sg.address(), sg.rkey()});
    }
    ep.recv(0, {});
    s.control.barrier("targets ready");
    ep.wait_recv(0, 0, "the Send behind the Writes");
    for (std::size_t i = 0; i < batch.size(); ++i) {
        memory[i].expect_message(batch[i].seed, batch[i].size, batch[i].name);
        s.count(batch[i].size);
    }
    s.control.barrier("batch verified");
}

void write_imm_batch(Session& s, Endpoint& ep, const std::vector<Message>& batch, Rng& rng) {
    auto [memory, targets] = Writes(s, ep, batch, rng);
    for (std::size_t i = 0; i < batch.size(); ++i) {
        ep.write_imm(batch[i].id, list_of(memory[i], batch[i]), targets[i].address, targets[i].rkey,
                     immediate_of(batch[i]));
    }
    for (std::size_t i = 0; i < batch.size(); ++i) {
        ep.wait_send(batch[i].id, IBV_WC_RDMA_WRITE, batch[i].name);
        s.count(batch[i].size);
    }
    s.control.barrier("batch verified");
}

// Each receive, which has no elements, says that its Write is placed.
void told_batch(Session& s, Endpoint& ep, const std::vector<Message>& batch, Rng& rng) {
    std::vector<Sg> memory;
    for (const Message& m : batch) {
        Sg& sg = memory.emplace_back(ep.pd(), m.size, kRemote, rng);
        ep.recv(m.id, {});
        s.control.send(Remote{sg.address(), sg.rkey()});
    }
    s.control.barrier("targets ready");
    for (std::size_t i = 0; i < batch.size(); ++i) {
        const Message& m = batch[i];
        const ibv_wc wc = ep.wait_recv(m.id, m.size, m.name, IBV_WC_RECV_RDMA_WITH_IMM);
        expect(wc.wc_flags == IBV_WC_WITH_IMM && ntohl(wc.imm_data) == immediate_of(m),
               "{}: wc_flags {:#x}, imm_data {:#x}", m.name, static_cast<unsigned>(wc.wc_flags), ntohl(wc.imm_data));
        memory[i].expect_message(m.seed, m.size, m.name);
        s.count(m.size);
    }
    s.control.barrier("batch verified");
}

void read_batch(Session& s, Endpoint& ep, const std::vector<Message>& batch, Rng& rng) {
    std::vector<Sg> memory;
    std::vector<Remote> sources;
    for (const Message& m : batch) {
        memory.emplace_back(ep.pd(), m.size, kSink, rng);
        sources.push_back(s.control.recv<Remote>());
    }
    for (std::size_t i = 0; i < batch.size(); ++i) {
        ep.read(batch[i].id, list_of(memory[i], batch[i]), sources[i].address, sources[i].rkey);
    }
    for (std::size_t i = 0; i < batch.size(); ++i) {
        const Message& m = batch[i];
        const ibv_wc wc = ep.wait_send(m.id, IBV_WC_RDMA_READ, m.name);
        expect(wc.byte_len == m.size, "{}: byte_len {}", m.name, wc.byte_len);
        memory[i].expect_message(m.seed, m.size, m.name);
        s.count(m.size);
    }
    s.control.barrier("batch verified");
}

// The source of Reads makes no verbs call while they run: it sleeps on the control connection.
void source_batch(Session& s, Endpoint& ep, const std::vector<Message>& batch, Rng& rng) {
    std::vector<Sg> memory;
    for (const Message& m : batch) {
        Sg& sg = memory.emplace_back(ep.pd(), m.size, kRemote, rng);
        sg.fill(m.seed);
        s.control.send(Remote{sg.address(), sg.rkey()});
    }
    s.control.barrier("batch verified");
    for (std::size_t i = 0; i < batch.size(); ++i) {
        memory[i].expect_message(batch[i].seed, batch[i].size, batch[i].name + ", the source");
        s.count(batch[i].size);
    }
}

using BatchFn = void (*)(Session&, Endpoint&, const std::vector<Message>&, Rng&);

void tagged_both_ways(Session& s, std::string_view group, BatchFn initiator, BatchFn target) {
    const auto ep = s.connect();
    for (const bool active_sends : {true, false}) {
        Rng rng = s.own_rng(group);
        const BatchFn step = s.active == active_sends ? initiator : target;
        for (const auto& batch : batches(s, group, active_sends))
            step(s, *ep, batch, rng);
    }
}

}  // namespace

void run_send(Session& s) {
    const auto ep = s.connect();
    for (const bool active_sends : {true, false})
        sends_one_way(s, *ep, "Send", active_sends, Extra::kNothing);
}

void run_send_inv(Session& s) {
    const auto ep = s.connect();
    for (const bool active_sends : {true, false})
        sends_one_way(s, *ep, "Send with invalidate", active_sends, Extra::kInvalidate);
}

void run_send_imm(Session& s) {
    const auto ep = s.connect();
    for (const bool active_sends : {true, false})
        sends_one_way(s, *ep, "Send with immediate", active_sends, Extra::kImmediate);
}

void run_write(Session& s) {
    tagged_both_ways(s, "Write", write_batch, target_batch);
}

void run_write_imm(Session& s) {
    tagged_both_ways(s, "Write with immediate", write_imm_batch, told_batch);
}

void run_read(Session& s) {
    tagged_both_ways(s, "Read", read_batch, source_batch);
}

}  // namespace checker
