// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The inside of Engine: objects (engine.cpp), driving (drive.cpp), the background thread and the rules of progress
// (progress.cpp).
//
// Progress: one way of driving a QP, three kinds of callers: who posts, who polls, and the background thread, for
// whatever nobody else drives. The rules: docs/PROGRESS.md.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <unordered_map>
#include <vector>

#include "engine/cycle_counter.h"
#include "engine/datagram_qp.h"
#include "engine/driven_qp.h"
#include "engine/engine.h"
#include "engine/placement.h"
#include "engine/ready_queue.h"
#include "engine/sched/thread_gate.h"
#include "engine/sched/times.h"
#include "engine/sys.h"
#include "engine/tcp_transport.h"
#include "engine/tuning.h"

namespace swrnic::engine {

class SystemRandom final : public RandomSource {
  public:
    std::uint32_t next32() override;

  private:
    std::mutex mutex_;
    std::array<std::uint32_t, 64> pool_{};
    std::size_t left_ = 0;
};

// What an epoll event is about: a QP by its number, or one of these.
inline constexpr std::uint64_t kControlEvent = std::uint64_t{1} << 32;
inline constexpr std::uint64_t kKickEvent = std::uint64_t{2} << 32;
inline constexpr std::uint64_t kDatagramEvent = std::uint64_t{4} << 32;  // and the QP's number
inline constexpr std::uint64_t kLingerEvent = std::uint64_t{1} << 63;

class Engine::Impl {
  public:
    Impl(const EngineOptions& options, Host& host, int control_fd,
         const CycleCounter& counter = CycleCounter::measured());
    ~Impl();
    bool usable() const { return epoll_.get() >= 0 && kick_.get() >= 0; }

    // ---- objects
    DrivenQp* add_qp(const QpInit& init);
    void destroy_qp(DrivenQp& qp);
    void connect(std::uint32_t qpn, const Connection& connection);
    void disconnect(std::uint32_t qpn);
    void abort(std::uint32_t qpn);
    bool modify_state(DrivenQp& qp, QpState to);
    void abandon(DrivenQp& qp);
    bool drain(DrivenQp& qp);
    bool send_again(DrivenQp& qp);
    void before_fork();
    void after_fork_in_parent();
    void abandon_after_fork();
    std::array<int, 2> descriptors() const { return {epoll_.get(), kick_.get()}; }

    // ---- datagrams (datagrams.cpp)
    DatagramQp* add_datagram_qp(const QpInit& init);
    void destroy_qp(DatagramQp& qp);
    void take_socket(std::uint32_t qpn, sys::Fd socket, const wire::IpAddress* group);
    bool leave_group(DatagramQp& qp, const wire::IpAddress& group);
    bool modify_state(DatagramQp& qp, QpState to);
    PostResult post_send(DatagramQp& qp, const DatagramWr& wr);
    PostResult post_recv(DatagramQp& qp, const RecvWr& wr);

    // ---- driving (drive.cpp). `qp` is protected by the pass.
    void drive(DrivenQp& qp, Pass& pass);
    static bool may_transmit(const DrivenQp& qp);
    bool drive_rx(DrivenQp& qp, Pass& pass);  // true: what came gives the sender something to do
    void note_backoff(DrivenQp& qp, const RxGuard& guard, std::size_t octets, std::uint64_t fpdus);
    void note_stall(DrivenQp& qp, const RxGuard& guard, bool stalled);
    void drive_tx(DrivenQp& qp, Pass& pass, Tx::Tail tail);
    void rx_ended(DrivenQp& qp, Pass& pass, Rx::Status how);
    enum class Ending : std::uint8_t {
        kDrain,  // read until the peer's FIN, within a deadline
        kClose,  // the peer is gone
        kReset,  // nothing under way matters any more
    };
    void finish(DrivenQp& qp, Pass& pass, CloseReason reason, Ending ending);
    void put_away(DrivenQp& qp, std::unique_ptr<Transport> transport, Ending ending);  // its stream is over
    void start_disconnect(DrivenQp& qp, Pass& pass);
    void flush(DrivenQp& qp, Pass& pass);
    void check_deadlines(DrivenQp& qp, Pass& pass, Time now);
    std::optional<std::int64_t> rnr_patience(const DrivenQp& qp) const;
    void set_rnr_retry(DrivenQp& qp, std::uint8_t retries);
    void deliver(Pass& pass);  // host calls owed; last thing in a pass

    // ---- progress (progress.cpp)
    void unwatch(DrivenQp& qp, const TcpTransport& socket);
    void cool(DrivenQp& qp);  // polls do not know of it; without a stream it gets hot no more
    void doorbell(DrivenQp& qp);
    void doorbell_without_stream(DrivenQp& qp);
    void await_peer(DrivenQp& qp, Pass& pass);
    void give_up_peer(DrivenQp& qp, Pass& pass);
    void receive_posted(DrivenQp& qp);
    void wake_waiters(Srq& srq);
    void drive_from_poll();
    void notify_requested();
    void run_what_polls_left();
    void ask_for_room(DrivenQp& qp);
    void schedule(DrivenQp& qp, Reason reason);  // some driver must look at it, soon
    void arm_timer(DrivenQp& qp, std::int64_t when);
    void disarm_timer(DrivenQp& qp);  // nobody else knows of it any more
    std::size_t armed_timers();
    void linger(std::unique_ptr<TcpTransport> transport);
    std::uint64_t note_tcp(DrivenQp& qp);  // what the kernel says of its stream, into its counters
    void start_thread();
    void stop_thread();

    EngineOptions options;
    Host& host;
    EngineCounters own_counters;
    EngineCounters& counters;
    PassPool passes;
    SystemRandom random;
    MemoryTable memory{passes, random, options.memory};

  private:
    struct Lingering {
        std::unique_ptr<TcpTransport> transport;
        std::int64_t until;  // Clock ticks
    };
    using Events = std::array<epoll_event, 64>;

    DrivenQp* find(std::uint32_t qpn);
    DatagramQp* find_datagram_qp(std::uint32_t qpn);
    std::vector<DatagramQp*> datagram_qps();
    bool receive_datagrams(std::uint32_t qpn, Pass& pass);
    void abort_all();
    void lose_descriptors();
    void ask_epoll(DrivenQp& qp, int operation, std::uint32_t events);
    void watch(DrivenQp& qp, int fd);
    void leave_epoll(int fd);
    void kick();
    void run();
    void poll(std::uint64_t polls);
    static bool has_polled_enough(const DrivenQp& qp);
    void end_yield();
    ThreadGate::Callers callers() const;
    bool wait(Events& events, int& count);
    bool yield_to_poller();
    bool busy_poll(Cycles began, Events& events, int& count);
    void sleep(Events& events, int& count);
    bool take_events(const Events& events, int count, const DrivenQp* known, Pass& pass);
    void drain_lingering(std::uint64_t id, Pass& pass);
    void run_ready(Pass& pass, Tx::Tail tail);
    void run_timers(Pass& pass);
    std::int64_t next_deadline();
    void report();
    void want_report(Cycles now);
    void note_tcp_of_some();

    const CycleCounter counter_;
    const Times times_{counter_.rate(), options.busy_poll.value_or(tuning::kBusyPoll)};

    int control_fd_;  // -1: none, or the host has given it up; the background thread's
    sys::Fd epoll_, kick_;

    PopulatedPool pool_;  // before the QPs, which go back to it
    std::mutex table_;    // QPs by number; taken inside passes, for a look-up
    std::unordered_map<std::uint32_t, DrivenQpPtr> qps_;
    std::unordered_map<std::uint32_t, std::unique_ptr<DatagramQp>> datagram_qps_;
    std::atomic<DrivenQp*> hot_{nullptr};    // the connected QP that received last
    std::atomic<std::size_t> connected_{0};  // and those of datagrams: who may have something to receive

    ReadyQueue ready_;
    std::mutex timer_lock_;
    std::set<std::pair<std::int64_t, std::uint32_t>> timers_;  // Clock ticks, QPN
    std::mutex linger_lock_;
    std::map<std::uint64_t, Lingering> lingering_;
    std::uint64_t next_linger_ = 0;

    // Written by callers.
    alignas(kCacheLine) std::atomic<std::uint64_t> empty_polls_{0};
    std::atomic<std::uint64_t> polls_done_{0};  // of these; the rest is under way
    NewsGate news_;
    std::atomic<std::uint64_t> arm_epoch_{0};  // req_notify calls, and polls that need no other: nobody may poll now
    std::atomic<Cycles> deferred_at_{};        // the last post that was left for somebody else to flush
    std::atomic<int> posted_on_{-1};           // the processor of the last post that was flushed at once
    // By the thread.
    alignas(kCacheLine) bool polled_meanwhile_ = false;  // the thread yielded, and a poller did all there was to do
    ThreadGate gate_;
    Placement placement_;

    // Clock ticks. The thread comes back behind report_at_ while reports have news.
    std::int64_t report_at_ = 0;
    bool report_due_ = false;
    std::size_t next_bucket_ = 0;  // of qps_, to ask the kernel about

    // Read by every doorbell, and hardly ever written.
    alignas(kCacheLine) std::atomic<Cycles> report_wanted_{};  // later ones wake the thread
    std::mutex start_;
    std::thread thread_;
    std::atomic<bool> stop_{false};
    std::atomic<bool> lost_{false};                        // lose_descriptors(): the thread has ended
    alignas(kCacheLine) std::atomic<bool> asleep_{false};  // blocked without a near deadline: must be kicked
    std::atomic<bool> yields_{false};                      // waits a moment while a poller drives
};

}  // namespace swrnic::engine
