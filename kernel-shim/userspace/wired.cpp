// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "wired.h"

#include <errno.h>
#include <netinet/tcp.h>

#include <algorithm>
#include <cstring>

#include "device.h"
#include "event_file.h"
#include "log.h"
#include "state.h"

namespace swrnic::shim {
namespace {

swrnic_wired_end end_of(const std::uint8_t* gid, std::uint32_t qpn) {
    swrnic_wired_end end{};
    std::copy_n(gid, sizeof(end.gid), end.gid);
    end.qpn = qpn;
    return end;
}

bool same_end(const swrnic_wired_end& a, const swrnic_wired_end& b) {
    return swrnic_wired_order(&a, &b) == 0;
}

// Refuses whatever no QP waits for. The caller comes again, so nothing is kept of a Request that comes too early, and
// strangers can fill nothing.
class WiredListener final : public StartupListener {
  public:
    std::shared_ptr<StartupOwner> request(Locked& locked, const Request& request) override {
        swrnic_wired_end caller{}, called{};
        const auto size = static_cast<std::uint32_t>(request.said.size());
        if (swrnic_wired_read(request.said.data(), size, &caller, &called) == 0) return nullptr;
        const auto qp = locked->qps.find(called.qpn);
        if (qp == locked->qps.end() || qp->second->wired == nullptr) return nullptr;
        return qp->second->wired->awaits(caller, called, request) ? qp->second->wired : nullptr;
    }
};

}  // namespace

// ---- wiring ----

int Wired::wire(Locked& locked, Qp& qp, const ib_uverbs_qp_dest& to, std::uint32_t dest_qpn) {
    Gid peer_gid;
    std::copy_n(to.dgid, peer_gid.size(), peer_gid.begin());
    const std::optional<Path> path = to.is_global != 0 ? find_path(to.sgid_index, peer_gid) : std::nullopt;
    if (!path) return -EINVAL;  // there are no LIDs
    const std::shared_ptr<Wired> wired(new Wired);
    wired->here_ = end_of(path->source_gid.data(), qp.qpn);
    wired->there_ = end_of(to.dgid, dest_qpn);
    wired->local_ = path->source;
    wired->peer_ = path->peer;
    wired->peer_is_any_here_ = path->peer_is_any_here;
    wired->peer_.set_port(swrnic_qpn_port(dest_qpn));
    qp.wired = wired;
    const int error = wired->begin(locked, qp);
    if (error != 0) qp.wired.reset();
    return error;
}

int Wired::begin(Locked& locked, Qp& qp) {
    if (here_.qpn == there_.qpn && on_same_host(local_, peer_)) return talk_to_itself(locked, qp);
    if (!calls()) return locked->qp_numbers.listen(locked, here_.qpn, std::make_shared<WiredListener>());
    if (Startup::get(locked) == nullptr) return -ENOMEM;
    call(locked);
    return 0;
}

void Wired::stop(Locked& locked) {
    if (key_ != 0 && locked->startup != nullptr) locked->startup->cancel(locked, key_);
    key_ = 0;
}

Startup::Terms Wired::terms(const Qp& qp, PrivateData said) const {
    return {swrnic_wired_terms(&qp.startup, on_same_host(local_, peer_) ? 1 : 0), said};
}

// ---- the end that connects ----

int Wired::new_socket(Locked& locked, const Address& local) {
    const int fd = open_socket(peer_.family(), SOCK_STREAM | SOCK_NONBLOCK, IPPROTO_TCP);
    if (fd < 0) return fd;
    locked->fds.keep(locked, fd);
    sys::set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    if (const int error = sys::bind(fd, local.get(), local.size()); error != 0) {
        sys::close(fd);
        return error;
    }
    return fd;
}

void Wired::call(Locked& locked) {
    const auto qp = locked->qps.find(here_.qpn);
    const int fd = new_socket(locked, local_);
    if (fd < 0) return call_later(locked);
    std::uint8_t said[SWR_WIRED_LEN];
    swrnic_wired_write(said, &here_, &there_);
    const Address local = Address::local_of(fd);
    const int error = locked->startup->connect(locked, shared_from_this(), fd, {local, peer_}, qp->second,
                                               terms(*qp->second, said), key_);
    if (error == 0) return;
    sys::close(fd);
    call_later(locked);
}

void Wired::call_later(Locked& locked) {
    pause_ms_ = swrnic_wired_pause_ms(pause_ms_);
    key_ = locked->startup->call_later(locked, weak_from_this(), pause_ms_);
}

void Wired::try_again(Locked& locked) {
    key_ = 0;
    call(locked);
}

// ---- the end that is called ----

bool Wired::awaits(const swrnic_wired_end& caller, const swrnic_wired_end& called,
                   const StartupListener::Request& request) const {
    if (key_ != 0 || has_stream_ || calls() || !same_end(caller, there_) || !same_end(called, here_)) return false;
    return peer_is_any_here_ ? on_same_host(request.local, request.peer) : request.peer.same_host_part(peer_);
}

void Wired::decide(Locked& locked, std::uint64_t key) {
    const auto qp = locked->qps.find(here_.qpn);
    if (qp == locked->qps.end()) return;
    key_ = key;
    const int error = locked->startup->accept(locked, key, qp->second, terms(*qp->second, {}));
    if (error == 0) return;
    locked->startup->cancel(locked, key);
    key_ = 0;
}

// ---- a QP that is wired to itself ----

// A TCP socket that is connected to itself gives back what is written to it: the QP receives what it sends, and no
// startup is needed for terms that it need not agree on with anybody.
int Wired::talk_to_itself(Locked& locked, Qp& qp) {
    EventFile* file = qp.context->event_file(locked);
    if (file == nullptr) return -EIO;
    const int fd = new_socket(locked, local_);
    if (fd < 0) return fd;
    const Address own = Address::local_of(fd);
    const int error = sys::connect(fd, own.get(), own.size());
    if (error != 0 && error != -EINPROGRESS) {
        sys::close(fd);
        return error;
    }
    swrnic_connected connected = swrnic_wired_to_itself(&qp.startup);
    connected.fd = fd;
    connected.local = connected.peer = own.for_abi();
    has_stream_ = true;
    file->hand_over(locked, qp, connected);
    return 0;
}

// ---- what startup and the engine tell ----

void Wired::full_operation(Locked&, const swrnic_connected&, PrivateData, bool) {
    has_stream_ = true;
}

void Wired::failed(Locked& locked, int, PrivateData) {
    key_ = 0;
    if (calls() && !has_stream_) call_later(locked);
}

void Wired::ready(Locked& locked) {
    stop(locked);  // startup waited for this
}

// One that ended before the caller's first FPDU has carried nothing: the caller may come again.
void Wired::closed(Locked& locked, bool was_ready) {
    stop(locked);
    if (!was_ready && !calls()) has_stream_ = false;
}

}  // namespace swrnic::shim
