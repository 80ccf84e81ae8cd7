// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Connections of the lifecycle programs. Both sides send numbered messages as fast as they complete, and check the
// numbers of what comes.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace lifecycle {

using Clock = std::chrono::steady_clock;

// All descriptors have been closed on purpose: calls fail as they must, and their threads wait for the end.
inline std::atomic<bool> all_closed{false};

[[noreturn]] inline void fail(const char* what) {
    while (all_closed)
        ::pause();
    std::perror(what);
    std::_Exit(1);
}
inline void require(bool holds, const char* what) {
    if (!holds) fail(what);
}
inline std::int64_t now_us() {
    return std::chrono::duration_cast<std::chrono::microseconds>(Clock::now().time_since_epoch()).count();
}
struct Message {
    std::uint64_t number;
    std::uint64_t last;  // nothing follows
};

// One connection and its traffic. Driven by one thread at a time.
class Link {
  public:
    static constexpr std::size_t kSize = 4096, kSends = 16, kReceives = 64;

    explicit Link(rdma_cm_id* id) : id_(id) {
        pd_ = ibv_alloc_pd(id->verbs);
        channel_ = ibv_create_comp_channel(id->verbs);
        require(pd_ != nullptr && channel_ != nullptr, "ibv_create_comp_channel");
        cq_ = ibv_create_cq(id->verbs, 256, nullptr, channel_, 0);
        memory_.resize(kSize * (kSends + kReceives));
        region_ = ibv_reg_mr(pd_, memory_.data(), memory_.size(), IBV_ACCESS_LOCAL_WRITE);
        require(cq_ != nullptr && region_ != nullptr, "ibv_reg_mr");
        ibv_qp_init_attr attr{};
        attr.send_cq = attr.recv_cq = cq_;
        attr.qp_type = IBV_QPT_RC;
        attr.sq_sig_all = 1;
        attr.cap = {.max_send_wr = kSends,
                    .max_recv_wr = kReceives,
                    .max_send_sge = 1,
                    .max_recv_sge = 1,
                    .max_inline_data = 0};
        require(rdma_create_qp(id, pd_, &attr) == 0, "rdma_create_qp");
        for (std::size_t i = 0; i < kReceives; ++i)
            receive(i);
    }
    ~Link() {
        rdma_destroy_qp(id_);
        ibv_destroy_cq(cq_);
        ibv_destroy_comp_channel(channel_);
        ibv_dereg_mr(region_);
        ibv_dealloc_pd(pd_);
        rdma_destroy_id(id_);
    }
    Link(const Link&) = delete;
    Link& operator=(const Link&) = delete;

    int descriptor() const { return channel_->fd; }

    // Takes what has completed and sends on; then the next completion raises an event.
    void turn() {
        take();
        fill();
        require(ibv_req_notify_cq(cq_, 0) == 0, "ibv_req_notify_cq");
        take();
        fill();
    }
    // Waits for an event; false: a signal came first.
    bool event() {
        ibv_cq* cq = nullptr;
        void* context = nullptr;
        if (ibv_get_cq_event(channel_, &cq, &context) != 0) {
            require(errno == EINTR, "ibv_get_cq_event");
            return false;
        }
        ibv_ack_cq_events(cq, 1);
        return true;
    }
    void say_last() { ending_ = true; }
    void be_quiet(bool quiet) { quiet_ = quiet; }
    bool broken() const { return error_us_ != 0; }
    bool all_completed() const { return sending_ == 0 && receiving_ == 0; }
    bool finished() const { return last_received_ && last_sent_ && sending_ == 0; }
    bool last_received() const { return last_received_; }
    std::uint64_t sent() const { return sent_; }
    std::uint64_t received() const { return received_; }
    std::int64_t error_us() const { return error_us_; }
    std::size_t outstanding() const { return sending_ + receiving_; }

  private:
    ibv_sge place(std::size_t index) {
        return {reinterpret_cast<std::uintptr_t>(&memory_[index * kSize]), kSize, region_->lkey};
    }
    void receive(std::size_t index) {
        ibv_sge into = place(kSends + index);
        ibv_recv_wr wr{}, *bad = nullptr;
        wr.wr_id = kSends + index;
        wr.sg_list = &into;
        wr.num_sge = 1;
        require(ibv_post_recv(id_->qp, &wr, &bad) == 0, "ibv_post_recv");
        ++receiving_;
    }
    void fill() {
        while (!quiet_ && !broken() && !last_sent_ && sending_ < kSends) {
            const std::size_t index = sent_ % kSends;
            const Message message{sent_, ending_ ? 1u : 0u};
            std::memcpy(&memory_[index * kSize], &message, sizeof(message));
            ibv_sge from = place(index);
            ibv_send_wr wr{}, *bad = nullptr;
            wr.wr_id = index;
            wr.sg_list = &from;
            wr.num_sge = 1;
            wr.opcode = IBV_WR_SEND;
            require(ibv_post_send(id_->qp, &wr, &bad) == 0, "ibv_post_send");
            ++sending_;
            ++sent_;
            last_sent_ = ending_;
        }
    }
    void take() {
        ibv_wc wc[16];
        int count = 0;
        while ((count = ibv_poll_cq(cq_, 16, wc)) > 0) {
            for (int i = 0; i < count; ++i)
                take(wc[i]);
        }
        require(count == 0, "ibv_poll_cq");
    }
    void take(const ibv_wc& wc) {
        --(wc.wr_id < kSends ? sending_ : receiving_);
        if (wc.status != IBV_WC_SUCCESS) {
            if (!broken()) error_us_ = now_us();
            return;
        }
        if (wc.wr_id < kSends) return;
        Message message{};
        std::memcpy(&message, &memory_[wc.wr_id * kSize], sizeof(message));
        errno = 0;
        require(message.number == received_ && wc.byte_len == kSize && !last_received_,
                "messages come whole and in order");
        ++received_;
        last_received_ = message.last != 0;
        receive(wc.wr_id - kSends);
    }

    rdma_cm_id* id_;
    ibv_pd* pd_ = nullptr;
    ibv_comp_channel* channel_ = nullptr;
    ibv_cq* cq_ = nullptr;
    ibv_mr* region_ = nullptr;
    std::vector<char> memory_;
    std::size_t sending_ = 0, receiving_ = 0;
    std::uint64_t sent_ = 0, received_ = 0;
    bool quiet_ = false, ending_ = false, last_sent_ = false, last_received_ = false;
    std::int64_t error_us_ = 0;
};

inline sockaddr_in parse(const char* address, const char* port) {
    sockaddr_in parsed{};
    parsed.sin_family = AF_INET;
    ::inet_pton(AF_INET, address, &parsed.sin_addr);
    parsed.sin_port = htons(static_cast<std::uint16_t>(std::stoi(port)));
    return parsed;
}

inline rdma_cm_id* next(rdma_event_channel* events, rdma_cm_event_type wanted) {
    rdma_cm_event* event = nullptr;
    while (rdma_get_cm_event(events, &event) != 0)
        require(errno == EINTR, "rdma_get_cm_event");
    rdma_cm_id* const id = event->id;
    if (event->event != wanted) std::fprintf(stderr, "%s, status %d\n", rdma_event_str(event->event), event->status);
    require(event->event == wanted, "the event that was waited for");
    rdma_ack_cm_event(event);
    return id;
}

// A connection to a peer, its traffic in a thread of its own.
class Session {
  public:
    explicit Session(const sockaddr_in& address) : events_(rdma_create_event_channel()) {
        require(events_ != nullptr, "rdma_create_event_channel");
        rdma_cm_id* id = nullptr;
        sockaddr_in to = address;
        require(rdma_create_id(events_, &id, nullptr, RDMA_PS_TCP) == 0, "rdma_create_id");
        require(rdma_resolve_addr(id, nullptr, reinterpret_cast<sockaddr*>(&to), 5000) == 0, "rdma_resolve_addr");
        next(events_, RDMA_CM_EVENT_ADDR_RESOLVED);
        require(rdma_resolve_route(id, 5000) == 0, "rdma_resolve_route");
        next(events_, RDMA_CM_EVENT_ROUTE_RESOLVED);
        link_ = std::make_unique<Link>(id);
        rdma_conn_param parameters{};
        require(rdma_connect(id, &parameters) == 0, "rdma_connect");
        next(events_, RDMA_CM_EVENT_ESTABLISHED);
        id_ = id;
    }
    // Traffic flows from now on; returns when it does.
    void start() {
        stopping_ = false;
        const auto run = [](void* session) -> void* {
            pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, nullptr);
            static_cast<Session*>(session)->traffic();
            static_cast<Session*>(session)->over_ = true;
            return nullptr;
        };
        require(pthread_create(&thread_, nullptr, run, this) == 0, "pthread_create");
        while (progress_ < 100 && !over_)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    std::uint64_t progress() const { return progress_; }
    bool over() const { return over_; }  // the traffic has ended, well or not
    pthread_t thread() const { return thread_; }
    // Says nothing before the peer has said so much, or for so long.
    void listen_first(std::uint64_t messages, std::chrono::milliseconds time) {
        link_->be_quiet(true);
        const auto end = std::chrono::steady_clock::now() + time;
        while (link_->received() < messages && std::chrono::steady_clock::now() < end) {
            link_->turn();
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        link_->be_quiet(false);
        heard_ = link_->received();
    }
    std::uint64_t heard() const { return heard_; }
    // May be started again then.
    void cancel() {
        void* result = nullptr;
        require(pthread_cancel(thread_) == 0, "pthread_cancel");
        require(pthread_join(thread_, &result) == 0 && result == PTHREAD_CANCELED, "the thread was cancelled");
    }
    // Ends the traffic in good order, and the connection.
    void finish() {
        stopping_ = true;
        require(pthread_join(thread_, nullptr) == 0, "pthread_join");
        require(link_->finished(), "nothing was lost");
        require(rdma_disconnect(id_) == 0, "rdma_disconnect");
        next(events_, RDMA_CM_EVENT_DISCONNECTED);
        const std::uint64_t sent = link_->sent(), received = link_->received();
        link_.reset();
        rdma_destroy_event_channel(events_);
        std::printf("{\"sent\": %lu, \"received\": %lu}\n", sent, received);
        std::fflush(stdout);
    }

    // The other way: the connection breaks under the traffic, and everything completes.
    void until_broken() {
        require(pthread_join(thread_, nullptr) == 0, "pthread_join");
        require(link_->broken(), "the connection broke");
        for (int i = 0; i < 500 && !link_->all_completed(); ++i) {
            link_->turn();
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        }
        const std::int64_t all_us = now_us();
        next(events_, RDMA_CM_EVENT_DISCONNECTED);
        std::printf("{\"never_completed\": %zu, \"error_us\": %ld, \"disconnected_us\": %ld, \"all_us\": %ld}\n",
                    link_->outstanding(), link_->error_us(), now_us(), all_us);
        link_.reset();
        rdma_destroy_event_channel(events_);
    }

  private:
    void traffic() {
        while (!link_->finished() && !link_->broken()) {
            if (stopping_) link_->say_last();
            link_->turn();
            progress_ = link_->received();
            if (link_->finished() || link_->broken()) break;
            pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, nullptr);
            link_->event();
            pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, nullptr);
        }
    }

    rdma_event_channel* events_;
    rdma_cm_id* id_ = nullptr;
    std::unique_ptr<Link> link_;
    pthread_t thread_{};
    std::uint64_t heard_ = 0;
    std::atomic<bool> stopping_{false}, over_{false};
    std::atomic<std::uint64_t> progress_{0};
};

}  // namespace lifecycle
