// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// rdma_cm's UDP port space: ids that ask for the QP of a service, ids that answer, and multicast groups. There are no
// connections here: what is told is where to send to, and the program makes an address handle of it.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <tuple>

#include "sidr.h"
#include "startup.h"
#include "ucma.h"

namespace swrnic::shim {

// A listener's. Requests that the program has yet to decide about keep it open.
class SidrSocket {
  public:
    explicit SidrSocket(int fd) : fd_(fd) {}
    SidrSocket(const SidrSocket&) = delete;
    SidrSocket& operator=(const SidrSocket&) = delete;
    ~SidrSocket() { sys::close(fd_); }
    int fd() const { return fd_; }

  private:
    const int fd_;
};

// Of an id in kConnecting: it asks until there is an answer, or its time is over.
class SidrAsker final : public StartupWaiter, public std::enable_shared_from_this<SidrAsker> {
  public:
    // The id's socket is bound. 0 or -errno.
    static int begin(Locked& locked, const std::shared_ptr<CmId>& id, PrivateData said, std::uint32_t time_ms);
    void stop(Locked& locked);

    void try_again(Locked& locked) override;
    void readable(Locked& locked) override;

  private:
    using Clock = std::chrono::steady_clock;

    void ask(Locked& locked, CmId& id);
    void take(Locked& locked, CmId& id, const SidrAnswer& answer);
    void end(Locked& locked, CmId& id, CmEventType type, int status, const rdma_ucm_ud_param& ud);

    std::weak_ptr<CmId> id_;
    std::uint64_t number_ = 0;
    std::array<std::uint8_t, kSidrRequestLen> request_{};
    Clock::time_point deadline_, refused_from_;     // before the latter a refusal is asked again
    std::uint32_t pause_ms_ = 0;                    // until the request goes out again
    std::uint64_t socket_key_ = 0, timer_key_ = 0;  // of startup
};

class SidrListener;

// A request that has come, and what was answered: repeated while there are its id and the listener, since datagrams get
// lost.
struct SidrAsked {
    using Caller = std::tuple<Gid, std::uint16_t, std::uint64_t>;  // address, port, number of the request

    Caller caller() const { return {peer.as_gid(), peer.port(), number}; }
    void answer(SidrAnswer with);
    void send_answer(int fd) const;

    std::uint64_t number;
    Address local, peer;
    std::shared_ptr<SidrSocket> socket;  // until it is answered
    std::weak_ptr<SidrListener> listener;
    std::optional<std::array<std::uint8_t, kSidrAnswerLen>> answered;
};

// Of an id in kListening.
class SidrListener final : public StartupWaiter, public std::enable_shared_from_this<SidrListener> {
  public:
    // Takes the id's socket.
    static int begin(Locked& locked, const std::shared_ptr<CmId>& id);
    void stop(Locked& locked);
    void forget(const SidrAsked& asked) { asked_.erase(asked.caller()); }

    void readable(Locked& locked) override;

  private:
    void request(Locked& locked, const std::shared_ptr<CmId>& id, const std::shared_ptr<SidrAsked>& asked,
                 PrivateData said);

    std::weak_ptr<CmId> id_;
    std::shared_ptr<SidrSocket> socket_;
    std::uint64_t key_ = 0;                                        // of startup
    std::map<SidrAsked::Caller, std::weak_ptr<SidrAsked>> asked_;  // by ids that are there
};

// A group that a program has joined through an id. The membership itself is of the QP that it attaches.
struct CmGroup {
    std::uint32_t id;  // handle
    std::uint64_t uid;
    std::uint32_t events_reported = 0;
};

// The commands of an id of the UDP port space; its state has been checked. 0 or -errno.
int cm_ask(Locked& locked, const std::shared_ptr<CmId>& id, const rdma_ucm_conn_param& conn);
int cm_answer(CmId& id, const rdma_ucm_conn_param& conn);
int cm_refuse(CmId& id, PrivateData said);
// Ends what it does, without an event.
void cm_stop_datagrams(Locked& locked, CmId& id);

}  // namespace swrnic::shim
