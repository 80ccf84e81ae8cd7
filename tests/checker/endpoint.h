// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// One connected RC QP with its PD and CQs, made through rdma_cm, and the waiting for what it reports.
#pragma once

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "failure.h"
#include "options.h"

namespace checker {

struct Shape {
    std::uint32_t send_wr = 64;
    std::uint32_t recv_wr = 64;
    std::uint32_t send_sge = 1;
    std::uint32_t recv_sge = 1;
    std::uint32_t inline_size = 0;
    bool sig_all = false;
    bool channel = false;    // CQs get a completion channel each
    std::uint8_t reads = 8;  // IRD and ORD asked for
    bool greet = true;       // one small Send each way after startup: with MPA revision 1 the active side must be first
    std::vector<std::uint8_t> private_data = {};
};

struct CmDeleter {
    void operator()(rdma_event_channel* channel) const { rdma_destroy_event_channel(channel); }
    void operator()(rdma_cm_id* id) const { rdma_destroy_id(id); }
    void operator()(ibv_pd* pd) const { ibv_dealloc_pd(pd); }
    void operator()(ibv_comp_channel* channel) const { ibv_destroy_comp_channel(channel); }
    void operator()(ibv_cq* cq) const { ibv_destroy_cq(cq); }
};
template <typename T>
using Owned = std::unique_ptr<T, CmDeleter>;

// What a CM event said; the event itself is already acknowledged.
struct CmEvent {
    rdma_cm_event_type type;
    int status;
    rdma_cm_id* id;
    std::uint8_t responder_resources;
    std::uint8_t initiator_depth;
    std::vector<std::uint8_t> private_data;
};

Owned<rdma_event_channel> new_event_channel();
// Waits for the next event of the channel; Failure when none comes in time.
CmEvent next_cm_event(rdma_event_channel* channel, std::chrono::milliseconds patience, std::string_view awaited);
void expect_cm_event(const CmEvent& event, rdma_cm_event_type type);

// A listening id. The port is chosen by the kernel when 0.
class Listener {
  public:
    Listener(const Options& options, std::uint16_t port = 0, int backlog = 64);
    std::uint16_t port() const;
    // Waits for the next connection request.
    CmEvent request(std::chrono::milliseconds patience) const;
    rdma_event_channel* channel() const { return channel_.get(); }

  private:
    Owned<rdma_event_channel> channel_;
    Owned<rdma_cm_id> id_;
};

class Endpoint {
  public:
    // Both throw Failure when the connection does not come up.
    static std::unique_ptr<Endpoint> connect(const Options& options, std::uint16_t port, const Shape& shape);
    static std::unique_ptr<Endpoint> accept(const Options& options, const Listener& listener, const Shape& shape);
    ~Endpoint();
    Endpoint(const Endpoint&) = delete;
    Endpoint& operator=(const Endpoint&) = delete;

    ibv_context* context() const { return id_->verbs; }
    ibv_pd* pd() const { return pd_.get(); }
    rdma_cm_id* id() const { return id_.get(); }
    ibv_qp* qp() const { return id_->qp; }
    ibv_cq* send_cq() const { return send_cq_.get(); }
    ibv_cq* recv_cq() const { return recv_cq_.get(); }
    const ibv_qp_cap& cap() const { return cap_; }
    const CmEvent& established() const { return established_; }
    const CmEvent& request() const { return request_; }

    // Post one request, or fail. `flags` are IBV_SEND_*.
    void send(std::uint64_t wr_id, std::span<ibv_sge> list, unsigned flags = IBV_SEND_SIGNALED);
    void send_inv(std::uint64_t wr_id, std::span<ibv_sge> list, std::uint32_t rkey, unsigned flags = IBV_SEND_SIGNALED);
    void send_imm(std::uint64_t wr_id, std::span<ibv_sge> list, std::uint32_t imm, unsigned flags = IBV_SEND_SIGNALED);
    void write(std::uint64_t wr_id, std::span<ibv_sge> list, std::uint64_t addr, std::uint32_t rkey,
               unsigned flags = IBV_SEND_SIGNALED);
    void write_imm(std::uint64_t wr_id, std::span<ibv_sge> list, std::uint64_t addr, std::uint32_t rkey,
                   std::uint32_t imm, unsigned flags = IBV_SEND_SIGNALED);
    // Of the word at addr; what was there comes into the list.
    void fetch_add(std::uint64_t wr_id, std::span<ibv_sge> list, std::uint64_t addr, std::uint32_t rkey,
                   std::uint64_t add);
    void compare_swap(std::uint64_t wr_id, std::span<ibv_sge> list, std::uint64_t addr, std::uint32_t rkey,
                      std::uint64_t compare, std::uint64_t swap);
    void read(std::uint64_t wr_id, std::span<ibv_sge> list, std::uint64_t addr, std::uint32_t rkey,
              unsigned flags = IBV_SEND_SIGNALED);
    void recv(std::uint64_t wr_id, std::span<ibv_sge> list);

    // Poll until a completion comes; Failure after the patience. Any status is returned.
    ibv_wc wait(ibv_cq* cq, std::string_view what);
    // The same, and it must be this one and a success.
    ibv_wc wait_send(std::uint64_t wr_id, ibv_wc_opcode opcode, std::string_view what);
    ibv_wc wait_recv(std::uint64_t wr_id, std::size_t length, std::string_view what,
                     ibv_wc_opcode opcode = IBV_WC_RECV);
    // No completion may be there, or come within the time.
    void expect_nothing(ibv_cq* cq, std::chrono::milliseconds time, std::string_view what);
    // Sleep on the completion channel of the CQ until an event comes; false after the time.
    bool wait_cq_event(ibv_cq* cq, std::chrono::milliseconds time);

    void disconnect();
    // Waits for DISCONNECTED, unless it was seen before.
    void wait_disconnected();
    bool wait_async(std::initializer_list<ibv_event_type> types);
    bool async_seen(std::initializer_list<ibv_event_type> types);
    ibv_qp_state state() const;
    // The CM events of this connection get a channel of their own (children share their listener's).
    void own_channel();

  private:
    Endpoint(const Options& options, const Shape& shape) : options_(options), shape_(shape) {}
    void make_objects();
    void greet_prepare();
    void greet_active();
    void greet_passive();
    int post(ibv_send_wr& wr);

    const Options options_;
    const Shape shape_;
    Owned<rdma_event_channel> own_channel_;
    rdma_event_channel* channel_ = nullptr;
    Owned<rdma_cm_id> id_;
    Owned<ibv_pd> pd_;
    Owned<ibv_comp_channel> send_channel_;
    Owned<ibv_comp_channel> recv_channel_;
    Owned<ibv_cq> send_cq_;
    Owned<ibv_cq> recv_cq_;
    ibv_qp_cap cap_{};
    CmEvent established_{};
    CmEvent request_{};
    bool disconnected_ = false;
    unsigned send_events_ = 0;
    unsigned recv_events_ = 0;
};

std::string status_text(const ibv_wc& wc);

// A send flag that is set or not.
constexpr unsigned flag_if(bool on, unsigned flag) {
    return on ? flag : 0U;
}

}  // namespace checker
