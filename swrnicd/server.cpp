// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "server.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <new>
#include <utility>

#include "engine/core/foreign_memory.h"
#include "log.h"

namespace swrnic::daemon {

namespace {

constexpr std::uint32_t kPd = 1;         // which domain an STag belongs to is the module's to know
constexpr std::uint32_t kFetched = 64;   // requests of one FETCH
constexpr std::uint32_t kReported = 64;  // completions of one COMPLETE

engine::WrOpcode to_opcode(std::uint16_t opcode) {
    switch (opcode) {
        case SWRNIC_WQE_SEND_INV:
            return engine::WrOpcode::kSendInv;
        case SWRNIC_WQE_WRITE:
            return engine::WrOpcode::kWrite;
        case SWRNIC_WQE_READ:
            return engine::WrOpcode::kRead;
        case SWRNIC_WQE_LOCAL:
            return engine::WrOpcode::kLocalInv;
        default:
            return engine::WrOpcode::kSend;
    }
}

swrnic_done to_done(const engine::WorkCompletion& from) {
    swrnic_done to{};
    to.sequence = from.wr_id;
    to.queue = from.opcode == engine::WcOpcode::kRecv ? SWRNIC_QUEUE_RECV : SWRNIC_QUEUE_SEND;
    to.status = static_cast<std::uint32_t>(from.status);
    to.length = from.byte_len;
    if ((from.wc_flags & engine::wc_flag::kWithInv) != 0) {
        to.invalidated = from.invalidated_stag;
        to.flags |= SWRNIC_DONE_INVALIDATED;
    }
    if ((from.wc_flags & engine::wc_flag::kSolicited) != 0) to.flags |= SWRNIC_DONE_SOLICITED;
    to.vendor_err = from.vendor_err;
    return to;
}

}  // namespace

Server::Server(const std::string& device, int event_fd, std::unique_ptr<Calls> calls, int gone_fd)
    : device_(device), gone_fd_(gone_fd), events_(event_fd), calls_(std::move(calls)), memory_(*calls_) {}

std::unique_ptr<Server> Server::create(const Settings& settings, const std::string& device, int event_fd,
                                       std::unique_ptr<Calls> calls, int gone_fd) {
    const Config& config = settings.config;
    std::unique_ptr<Server> server(new Server(device, event_fd, std::move(calls), gone_fd));
    server->statistics_ = host::Statistics::create(device.c_str());
    if (!server->statistics_) return nullptr;
    if (!config.trace.empty()) {
        server->trace_ = engine::Trace::open(config.trace.c_str());
        if (!server->trace_) log(LogLevel::kError, "no trace: cannot write {}: {}", config.trace, std::strerror(errno));
    }
    const engine::EngineOptions options{.user_timeout = config.timeout,
                                        .rnr_timeout = config.rnr_timeout,
                                        .busy_poll = settings.busy_poll,
                                        .leaves_poster = false,  // that is the thread itself
                                        .counters = &server->statistics_->engine(),
                                        .trace = server->trace_.get(),
                                        .memory = &server->memory_};
    server->engine_ = engine::Engine::create(options, *server, event_fd);
    if (!server->engine_) return nullptr;
    return server;
}

void Server::start() {
    engine_->start();
}

Server::~Server() {
    if (engine_) engine_->stop();
    engine_.reset();  // ends its QPs; their CQs are ours
    for (const auto& [qpn, qp] : qps_)
        delete qp.cq;
    if (statistics_ && !gone()) report();
}

// ---- records ----

bool Server::control_readable() {
    destroy_ended();
    if (events_.drain([this](const swrnic_down& record) { obey(record); })) return true;
    gone_.store(true, std::memory_order_release);
    ::eventfd_write(gone_fd_, 1);
    return false;
}

void Server::obey(const swrnic_down& record) {
    if (record.type == SWRNIC_DOWN_QP_CONNECTED) {
        connected(record.qpn, record.u.connected);
        return;
    }
    const auto found = qps_.find(record.qpn);
    switch (record.type) {
        case SWRNIC_DOWN_QP_WORK:
            // Before there is a stream the requests stay where they are.
            if (found == qps_.end()) return;
            fetch(record.qpn, found->second, SWRNIC_QUEUE_BOTH);
            if (found->second.shared) engine_->look_for_receive(*found->second.qp);
            return;
        case SWRNIC_DOWN_QP_DISCONNECT:
            engine_->disconnect(record.qpn);
            return;
        case SWRNIC_DOWN_QP_ERROR:
            engine_->abort(record.qpn);
            return;
        default:
            log(LogLevel::kWarn, "{}: record of unknown type {} for QP {:#x}", device_, record.type, record.qpn);
    }
}

void Server::connected(std::uint32_t qpn, const swrnic_connected& stream) {
    destroy_ended();  // its number may have come again
    if (!make_qp(qpn)) {
        log(LogLevel::kError, "{}: QP {:#x}: cannot take its connection", device_, qpn);
        ::close(stream.fd);
        events_.tell(SWRNIC_UP_QP_CLOSED, qpn, SWRNIC_CLOSE_ERROR);
        return;
    }
    KernelQp& qp = qps_[qpn];
    statistics_->connected(qpn, stream);
    log(LogLevel::kInfo, "{}: {}: connected as {}, MPA revision {}, flags {:#x}, IRD {}, ORD {}", device_,
        statistics_->name_of(qpn), stream.role == SWRNIC_ROLE_INITIATOR ? "initiator" : "responder", stream.mpa_rev,
        stream.flags, stream.ird, stream.ord);
    if (!qp.shared) fetch(qpn, qp, SWRNIC_QUEUE_RECV);  // first, so that what the peer sends at once finds them
    engine_->connect(qpn, host::to_connection(stream));
    fetch(qpn, qp, SWRNIC_QUEUE_SEND);
}

bool Server::make_qp(std::uint32_t qpn) try {
    if (qps_.contains(qpn)) return false;
    swrnic_qp_info info{};
    info.qpn = qpn;
    if (const int failed = calls_->call(SWRNIC_IOC_QP_INFO, &info); failed != 0) {
        log(LogLevel::kWarn, "{}: QP {:#x}: QP_INFO: {}", device_, qpn, std::strerror(failed));
        return false;
    }
    const bool shared = info.max_recv_wr == 0;
    const std::uint32_t max_send = std::max(info.max_send_wr, 1u);
    const std::uint32_t max_recv = shared ? SWRNIC_SHARED_RECEIVES : info.max_recv_wr;
    ended_.reserve(qps_.size() + 1);  // its end must not want memory
    engine::Counters* counters = statistics_->add_qp(qpn);
    KernelQp& made = qps_[qpn];
    made.shared = shared;
    made.cq = engine_->create_cq(max_send + max_recv, qpn);
    if (made.cq == nullptr) {
        forget(qpn);
        return false;
    }
    made.qp = engine_->create_qp({.qpn = qpn,
                                  .pd = kPd,
                                  .send_cq = made.cq,
                                  .recv_cq = made.cq,
                                  .max_send_wr = max_send,
                                  .max_recv_wr = max_recv,
                                  .max_send_sge = 1,
                                  .max_recv_sge = 1,
                                  .max_inline = 0,
                                  .sq_sig_all = true,
                                  .counters = counters});
    if (made.qp == nullptr) {
        engine_->destroy_cq(made.cq);
        forget(qpn);
        return false;
    }
    engine_->set_access(*made.qp, info.access);
    engine_->modify_state(*made.qp, engine::QpState::kInit);
    engine_->req_notify(*made.cq, false);
    return true;
} catch (const std::bad_alloc&) {
    forget(qpn);
    return false;
}

void Server::forget(std::uint32_t qpn) {
    qps_.erase(qpn);
    statistics_->remove_qp(qpn);
}

void Server::destroy_ended() {
    for (const std::uint32_t qpn : ended_) {
        const auto found = qps_.find(qpn);
        if (found == qps_.end()) continue;
        engine_->destroy_qp(found->second.qp);
        engine_->destroy_cq(found->second.cq);
        forget(qpn);
    }
    ended_.clear();
}

// ---- requests ----

void Server::fetch(std::uint32_t qpn, KernelQp& qp, std::uint32_t queue) {
    std::array<swrnic_wqe, kFetched> wqes;
    for (;;) {
        if (qp.ended || qp.failed) return;
        swrnic_fetch fetch{.qpn = qpn,
                           .queue = queue,
                           .wqes = reinterpret_cast<std::uintptr_t>(wqes.data()),
                           .max = kFetched,
                           .count = 0};
        if (const int failed = calls_->call(SWRNIC_IOC_FETCH, &fetch); failed != 0) {
            log(failed == EINVAL ? LogLevel::kDebug : LogLevel::kWarn, "{}: QP {:#x}: FETCH: {}", device_, qpn,
                std::strerror(failed));
            return;
        }
        const std::uint32_t count = std::min(fetch.count, kFetched);
        bool sends = false;
        for (std::uint32_t i = 0; i < count; ++i) {
            sends = sends || wqes[i].opcode != SWRNIC_WQE_RECV;
            if (post(qp, wqes[i])) continue;
            log(LogLevel::kError, "{}: {}: request {} of opcode {} cannot be posted: the connection is ended", device_,
                statistics_->name_of(qpn), wqes[i].sequence, wqes[i].opcode);
            engine_->abort(qpn);
            return;
        }
        if (sends) engine_->ring_doorbell(*qp.qp);
        if (count < kFetched) return;
    }
}

bool Server::post(KernelQp& qp, const swrnic_wqe& wqe) {
    const engine::Sge sge{engine::kForeignAddress, wqe.length, 0};
    const std::span<const engine::Sge> sges(&sge, wqe.length != 0 && wqe.opcode != SWRNIC_WQE_LOCAL ? 1 : 0);
    if (wqe.opcode > SWRNIC_WQE_LOCAL) return false;
    if (wqe.opcode == SWRNIC_WQE_RECV)
        return engine_->post_recv(*qp.qp, {wqe.sequence, sges}) == engine::PostResult::kOk;
    std::uint32_t flags = engine::send_flag::kSignaled;
    if ((wqe.flags & SWRNIC_WQE_FENCE) != 0) flags |= engine::send_flag::kFence;
    if ((wqe.flags & SWRNIC_WQE_SOLICITED) != 0) flags |= engine::send_flag::kSolicited;
    return engine_->post_send(*qp.qp, {.wr_id = wqe.sequence,
                                       .opcode = to_opcode(wqe.opcode),
                                       .flags = flags,
                                       .sges = sges,
                                       .remote_addr = wqe.remote_to,
                                       .rkey = wqe.remote_stag,
                                       .invalidate_stag = wqe.remote_stag}) == engine::PostResult::kOk;
}

// ---- what the engine tells ----

void Server::comp_posted(std::uint32_t qpn) {
    const auto at = qps_.find(qpn);
    if (at == qps_.end()) return;
    std::array<engine::WorkCompletion, kReported> found;
    for (;;) {
        const int count = engine::Engine::take_completions(*at->second.cq, found);
        if (count == 0) return;
        complete(qpn, at->second, {found.data(), static_cast<std::size_t>(count)});
        if (at->second.shared) engine_->look_for_receive(*at->second.qp);  // there may have been too many incomplete
    }
}

// In order, up to the first error. What the engine flushes the module flushes itself.
void Server::complete(std::uint32_t qpn, KernelQp& qp, std::span<const engine::WorkCompletion> found) {
    std::array<swrnic_done, kReported> done;
    std::uint32_t count = 0;
    for (const engine::WorkCompletion& completion : found) {
        if (qp.failed) break;
        qp.failed = completion.status != engine::WcStatus::kSuccess;
        if (completion.status == engine::WcStatus::kWrFlushErr) break;
        done[count++] = to_done(completion);
    }
    if (count == 0) return;
    swrnic_complete complete{.qpn = qpn, .count = count, .done = reinterpret_cast<std::uintptr_t>(done.data())};
    const int failed = calls_->call(SWRNIC_IOC_COMPLETE, &complete);
    if (failed == 0 && complete.count == count) return;
    qp.failed = true;  // the QP is at its end on the other side: nothing more of it is wanted
    log(LogLevel::kDebug, "{}: QP {:#x}: COMPLETE: {} of {} taken ({})", device_, qpn, complete.count, count,
        std::strerror(failed));
}

void Server::async_event(engine::AsyncEvent event, std::uint32_t id) {
    log(LogLevel::kDebug, "{}: event {} of QP {:#x}", device_, static_cast<std::uint32_t>(event), id);
}

void Server::qp_ready(std::uint32_t qpn) {
    events_.tell(SWRNIC_UP_QP_READY, qpn, 0);
}

void Server::qp_closed(std::uint32_t qpn, engine::CloseReason reason) {
    constexpr const char* kReasons[] = {"gracefully", "by a lost connection", "by an error"};
    log(LogLevel::kInfo, "{}: {}: ended {}", device_, statistics_->name_of(qpn),
        kReasons[static_cast<std::size_t>(reason)]);
    if (const auto found = qps_.find(qpn); found != qps_.end()) {
        found->second.ended = true;
        ended_.push_back(qpn);
    }
    events_.tell(SWRNIC_UP_QP_CLOSED, qpn, static_cast<std::uint32_t>(reason));
}

void Server::terminated(std::uint32_t qpn, std::string_view code, bool sent) {
    log(LogLevel::kWarn, "{}: {}: Terminate {}: {}", device_, statistics_->name_of(qpn), sent ? "sent" : "received",
        code);
}

bool Server::report() {
    return events_.report(*statistics_);
}

}  // namespace swrnic::daemon
