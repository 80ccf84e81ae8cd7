// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The engine's public face: what verbs/ sees. One Engine per verbs context.
//
// Threads: every function may be called from any thread at any time, except that an object must not be destroyed while
// another call uses it. The engine starts one background thread with the first QP; it calls Host from there and from
// callers' threads. Fork: an Engine lives in the process that made it; in a child none of its functions may be called
// but abandon_after_fork(). Errors: values, never exceptions (std::bad_alloc from creation is caught inside and comes
// back as nullptr).
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "engine/core/datagram.h"
#include "engine/core/types.h"

namespace swrnic::engine {

class Cq;
class DatagramQp;
class ForeignMemory;
class Qp;
struct EngineCounters;
class Trace;

// What the engine asks of its surroundings. Calls come without any engine lock held that a verbs call could want, may
// come from any thread, and must not call back into the engine.
class Host {
  public:
    virtual void comp_posted(std::uint32_t cq_handle) = 0;  // an armed CQ got its completion; once per arming
    virtual void async_event(AsyncEvent event, std::uint32_t id) = 0;   // id: QPN; CQ or SRQ handle
    virtual void qp_ready(std::uint32_t qpn) = 0;                       // SWRNIC_UP_QP_READY
    virtual void qp_closed(std::uint32_t qpn, CloseReason reason) = 0;  // SWRNIC_UP_QP_CLOSED, once per connect()
    // Before qp_closed(), for a log line: the stream ended with a Terminate that we sent or the peer did.
    virtual void terminated(std::uint32_t qpn, std::string_view code, bool sent) = 0;
    // Background thread only: control_fd is readable; may call the engine; must drain it. False: the device has gone,
    // and all streams end; never asked again. The host may do the same of itself, in any thread that is in no call of
    // the engine.
    virtual bool control_readable() = 0;
    // The thread's descriptors were closed by others. The numbers of all that the engine and its host hold may be
    // anybody's now, and are not used again. All streams are lost.
    virtual void descriptors_lost() {}
    // Background thread only, a few times a second while there may be news: time to tell what was counted. True: it has
    // changed since the last time.
    virtual bool report() = 0;

  protected:
    ~Host() = default;
};

struct EngineOptions {
    std::chrono::milliseconds user_timeout{10'000};  // TCP_USER_TIMEOUT and keepalive, for a peer that vanished
    std::chrono::milliseconds rnr_timeout{1'000};  // how long an empty receive queue may hold the stream; 0: not at all
    // How long the thread looks for the next message before it sleeps, yielding its processor between two looks, where
    // messages follow closely; 0: not at all. None: tuning::kBusyPoll.
    std::optional<std::chrono::nanoseconds> busy_poll = std::nullopt;
    bool leaves_poster = true;           // the thread leaves the processor that posts come from
    EngineCounters* counters = nullptr;  // borrowed; null: the engine's own
    Trace* trace = nullptr;              // borrowed; null: none
    ForeignMemory* memory = nullptr;     // borrowed; not null: requests and STags name what it holds
};

// One connected stream, as SWRNIC_DOWN_QP_CONNECTED tells it.
struct Connection : StreamParameters {
    int fd = -1;               // connected TCP socket; the engine owns it from the call on
    std::uint8_t mpa_rev = 2;  // for the trace
    bool same_host = false;    // no network lies between the ends
    bool nodelay = false;      // the socket has TCP_NODELAY
    // How often the peer's Send may find no receive, each time for the QP's RNR timer; 7: for ever. None:
    // EngineOptions::rnr_timeout.
    std::optional<std::uint8_t> rnr_retry;
};

struct QpAttributes {
    QpState state;
    std::uint32_t access;  // remote access that the QP grants: access:: bits
    bool wired;            // by hand
    bool negotiated;       // ird and ord are those of a stream, which may have ended since
    std::uint16_t ird, ord;
    bool draining = false;  // SQD: there are requests that are not complete
};

class Engine {
  public:
    // control_fd: polled for input by the background thread, borrowed (-1: none). host outlives the engine.
    static std::unique_ptr<Engine> create(const EngineOptions& options, Host& host, int control_fd);
    ~Engine();  // stops the thread; QPs still there are aborted, other objects still there are freed
    Engine(const Engine&) = delete;
    Engine& operator=(const Engine&) = delete;

    // What it holds besides the sockets.
    std::array<int, 2> descriptors() const;

    // The background thread, for control_fd, before there is a QP.
    void start();
    // When it returns that thread has ended, for good. For a host whose functions call the engine: its pointer to the
    // engine must not go before.
    void stop();

    // Memory. Returns the STag (lkey and rkey alike), 0 when the table is full. The range is not touched. `to` is the
    // Tagged Offset of the first octet: the virtual address, iova, or 0 with access::kZeroBased.
    std::uint32_t register_region(std::uint32_t pd, std::uint64_t addr, std::uint64_t length, std::uint64_t to,
                                  std::uint32_t access_flags);
    // When it returns, nothing touches the range through this STag any more. Waits for running passes only, never for a
    // peer. False: windows are bound to it.
    bool deregister_region(std::uint32_t stag);
    // Other rights under the same STag; as deregister_region() for what the old ones allowed. 0, EBUSY: windows are
    // bound to it, or ENOMEM.
    int change_access(std::uint32_t stag, std::uint32_t access_flags);

    // Memory windows. The STag's index stays; requests bind the window and choose the key. 0 when the table is full.
    std::uint32_t create_window(std::uint32_t pd, WindowType type);
    void destroy_window(std::uint32_t stag);  // by its index; as deregister_region()

    // Completion queues. `handle` is what Host::comp_posted gets; clock stamps completions (null: no stamps).
    Cq* create_cq(std::uint32_t min_entries, std::uint32_t handle, CompletionClock clock = nullptr);
    std::uint32_t cq_entries(const Cq& cq) const;
    // Any thread, while it is in use. False: more completions stand in it, or there is no memory.
    bool resize_cq(Cq& cq, std::uint32_t min_entries);
    void destroy_cq(Cq* cq);  // no QP uses it any more
    // Calls sink(const WorkCompletion&) for up to max completions; if there are none, drives the context's QPs once and
    // looks again.
    template <typename Sink>
    int poll_cq(Cq& cq, int max, Sink&& sink);
    // Host::comp_posted once, for the next completion (solicited_only: the next solicited receive or error) after this
    // call.
    void req_notify(Cq& cq, bool solicited_only);
    // For Host::comp_posted and nothing else: arms the queue again, then takes what stands in it, as far as there is
    // room. Drives nothing.
    static int take_completions(Cq& cq, std::span<WorkCompletion> out);

    // Shared receive queues. `handle` is what Host::async_event gets with kSrqLimitReached. False: more than max_wr, or
    // fewer than are outstanding.
    Srq* create_srq(std::uint32_t pd, std::uint32_t max_wr, std::uint32_t max_sge, std::uint32_t handle);
    PostResult post_srq_recv(Srq& srq, const RecvWr& wr);
    bool arm_srq_limit(Srq& srq, std::uint32_t limit);
    bool resize_srq(Srq& srq, std::uint32_t max_wr);
    SrqAttributes query_srq(const Srq& srq);
    void destroy_srq(Srq* srq);  // no QP uses it any more

    // Queue pairs. Created in RESET; nullptr without memory.
    Qp* create_qp(const QpInit& init);
    void destroy_qp(Qp* qp);  // closes the stream, removes its completions from the CQs
    // RESET, INIT, RTR: attributes only. RTS: refused unless it is there already (connect() does it). SQD: graceful
    // disconnect. SQE: Terminate. ERR: abort and flush. False: no such transition (VERBS-20). Of a wired QP RESET ends
    // the stream, RTS follows RTR or SQD, and in SQD what was posted before drains, and what is posted waits for RTS.
    bool modify_state(Qp& qp, QpState to);
    void set_access(Qp& qp, std::uint32_t access_flags);
    // INIT, before RTR: the QP is wired by hand (Qp::wire()). confirms: its Sends and Writes are complete when the peer
    // has placed them, instead of when they are sent.
    void wire(Qp& qp, bool confirms);
    // Of a wired QP, before RTS. patience: how long a request waits for a peer that is not there, before it ends with
    // RETRY_EXC_ERR; 0: for ever. reads: whether any may be posted.
    void set_retries(Qp& qp, std::chrono::nanoseconds patience, bool reads);
    // Of a wired QP, as ibv_modify_qp(3) has them; 7 retries: for ever. A Send that finds no receive for as long as the
    // peer's timer, so many times, ends with RNR_RETRY_EXC_ERR.
    void set_rnr_retry(Qp& qp, std::uint8_t retries);
    void set_rnr_timer(Qp& qp, std::chrono::nanoseconds timer);
    // Whether Host::async_event(kSqDrained) comes when a graceful end has sent all of the send queue; of a wired QP
    // when in SQD all that was posted before is complete. Before SQD.
    void set_drain_notice(Qp& qp, bool wanted);
    QpAttributes query(Qp& qp);

    // Posts one request; call ring_doorbell() after the last of a list.
    PostResult post_send(Qp& qp, const SendWr& wr);
    // Posts all of them or none.
    PostResult post_sends(Qp& qp, std::span<const SendWr> wrs);
    void ring_doorbell(Qp& qp);
    PostResult post_recv(Qp& qp, const RecvWr& wr);
    // ForeignMemory::take_receive may have one where it had none.
    void look_for_receive(Qp& qp);

    // Queue pairs of datagrams (IBV_QPT_UD). Created in RESET; nullptr without memory, or with a number that is there.
    DatagramQp* create_datagram_qp(const QpInit& init);
    void destroy_qp(DatagramQp* qp);
    // A UDP socket that tells where datagrams came to (IP_PKTINFO); the engine owns it from the call on, and closes it
    // if the qpn is unknown. group: it has joined that, else it is bound to the port that the number names.
    void take_datagrams(std::uint32_t qpn, int socket, const wire::IpAddress* group);
    // The group's socket is closed. False: there is none.
    bool leave_group(DatagramQp& qp, const wire::IpAddress& group);
    bool modify_state(DatagramQp& qp, QpState to);
    void set_q_key(DatagramQp& qp, std::uint32_t q_key);
    QpState state_of(const DatagramQp& qp) const;
    // Sends at once, and completes.
    PostResult post_send(DatagramQp& qp, const DatagramWr& wr);
    PostResult post_recv(DatagramQp& qp, const RecvWr& wr);

    // Connection management; an unknown qpn is ignored (connect() then closes the fd).
    void connect(std::uint32_t qpn, const Connection& connection);
    void disconnect(std::uint32_t qpn);  // graceful
    void abort(std::uint32_t qpn);

    // Around fork(): meanwhile no QP and no socket comes or goes, so that the child finds them.
    void before_fork();
    void after_fork_in_parent();
    // In a forked child: closes the child's copies of the engine's descriptors, never shuts a stream down, starts
    // nothing.
    void abandon_after_fork();

    class Impl;
    explicit Engine(std::unique_ptr<Impl> impl);

  private:
    void drive_from_poll();
    std::unique_ptr<Impl> impl_;
};

}  // namespace swrnic::engine

#include "engine/engine-inl.h"
