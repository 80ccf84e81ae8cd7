// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The event file (swrnic-abi.h): what the engine tells the shim, and what the shim asks of the engine.
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "context.h"
#include "log.h"

namespace swrnic::verbs {

static_assert(static_cast<int>(engine::AsyncEvent::kCqErr) == IBV_EVENT_CQ_ERR);
static_assert(static_cast<int>(engine::AsyncEvent::kQpFatal) == IBV_EVENT_QP_FATAL);
static_assert(static_cast<int>(engine::AsyncEvent::kQpReqErr) == IBV_EVENT_QP_REQ_ERR);
static_assert(static_cast<int>(engine::AsyncEvent::kQpAccessErr) == IBV_EVENT_QP_ACCESS_ERR);
static_assert(static_cast<int>(engine::AsyncEvent::kCommEst) == IBV_EVENT_COMM_EST);
static_assert(static_cast<int>(engine::AsyncEvent::kSqDrained) == IBV_EVENT_SQ_DRAINED);
static_assert(static_cast<int>(engine::AsyncEvent::kSrqLimitReached) == IBV_EVENT_SRQ_LIMIT_REACHED);
static_assert(static_cast<int>(engine::AsyncEvent::kQpLastWqeReached) == IBV_EVENT_QP_LAST_WQE_REACHED);

std::unique_ptr<ContextState> ContextState::create(const Config& config, const swrnic_alloc_ucontext_resp& device_end,
                                                   const char* device) {
    std::unique_ptr<ContextState> state(new (std::nothrow) ContextState(config, device_end));
    if (!state) {
        ::close(device_end.event_fd);
        return nullptr;
    }
    state->statistics_ = host::Statistics::create(device);
    if (!state->statistics_) return nullptr;
    if (!config.trace.empty()) {
        state->trace_ = engine::Trace::open(config.trace.c_str());
        if (!state->trace_) log(LogLevel::kError, "no trace: cannot write {}: {}", config.trace, std::strerror(errno));
    }
    const engine::EngineOptions options{.user_timeout = config.timeout,
                                        .rnr_timeout = config.rnr_timeout,
                                        .counters = &state->statistics_->engine(),
                                        .trace = state->trace_.get()};
    state->engine_ = engine::Engine::create(options, *state, device_end.event_fd);
    if (!state->engine_) return nullptr;
    state->events_.keep(state->descriptors());
    return state;
}

ContextState::~ContextState() {
    if (engine_) {
        engine_->stop();  // while it is there: its thread may be obeying an order of the device's
        events_.let_go(descriptors());
    }
    engine_.reset();
    if (events_.fd() < 0) return;
    if (statistics_) report();
    if (trace_ && trace_->failed()) log(LogLevel::kError, "the trace {} is not whole: writing failed", config_.trace);
}

void ContextState::abandon_after_fork() {
    engine_->abandon_after_fork();
    events_.abandon_after_fork();
    // The engine's threads did not come along, so its destructor must never run here.
    static_cast<void>(engine_.release());
    statistics_->abandon_after_fork();
}

void ContextState::comp_posted(std::uint32_t cq_handle) {
    events_.tell(SWRNIC_UP_COMP_POSTED, cq_handle, 0);
}
void ContextState::async_event(engine::AsyncEvent event, std::uint32_t id) {
    events_.tell(SWRNIC_UP_ASYNC_EVENT, id, static_cast<std::uint32_t>(event));
}
void ContextState::qp_ready(std::uint32_t qpn) {
    events_.tell(SWRNIC_UP_QP_READY, qpn, 0);
}
void ContextState::qp_closed(std::uint32_t qpn, engine::CloseReason reason) {
    constexpr const char* kReasons[] = {"gracefully", "by a lost connection", "by an error"};
    log(LogLevel::kInfo, "{}: ended {}", statistics_->name_of(qpn), kReasons[static_cast<std::size_t>(reason)]);
    events_.tell(SWRNIC_UP_QP_CLOSED, qpn, static_cast<std::uint32_t>(reason));
}

void ContextState::terminated(std::uint32_t qpn, std::string_view code, bool sent) {
    log(LogLevel::kWarn, "{}: Terminate {}: {}", statistics_->name_of(qpn), sent ? "sent" : "received", code);
}

bool ContextState::control_readable() {
    const std::lock_guard hold(control_);
    if (events_.drain([this](const swrnic_down& record) { obey(record); })) return true;
    if (!std::exchange(gone_, true)) log(LogLevel::kError, "event file: the device has gone");
    return false;
}

std::array<int, 5> ContextState::descriptors() const {
    const std::array<int, 2> engines = engine_->descriptors();
    return {events_.fd(), engines[0], engines[1], statistics_->fd(), trace_ ? trace_->fd() : -1};
}

void ContextState::descriptors_lost() {
    log(LogLevel::kError, "the program has closed the device's descriptors: connections are lost");
    events_.lose();
    statistics_->lose_descriptor();
    if (trace_) trace_->lose();
}

bool ContextState::report() {
    return events_.report(*statistics_);
}

void ContextState::obey(const swrnic_down& record) {
    switch (record.type) {
        case SWRNIC_DOWN_QP_CONNECTED: {
            const swrnic_connected& stream = record.u.connected;
            statistics_->connected(record.qpn, stream);
            log(LogLevel::kInfo, "{}: connected as {}, MPA revision {}, flags {:#x}, IRD {}, ORD {}",
                statistics_->name_of(record.qpn), stream.role == SWRNIC_ROLE_INITIATOR ? "initiator" : "responder",
                stream.mpa_rev, stream.flags, stream.ird, stream.ord);
            engine_->connect(record.qpn, host::to_connection(stream));
            return;
        }
        case SWRNIC_DOWN_QP_DATAGRAMS: {
            const swrnic_datagrams& sockets = record.u.datagrams;
            const wire::IpAddress group = std::to_array(sockets.group);
            engine_->take_datagrams(record.qpn, sockets.fd, sockets.is_group != 0 ? &group : nullptr);
            return;
        }
        case SWRNIC_DOWN_QP_DISCONNECT:
            engine_->disconnect(record.qpn);
            return;
        case SWRNIC_DOWN_QP_ERROR:
            engine_->abort(record.qpn);
            return;
        default:
            log(LogLevel::kWarn, "event file: record of unknown type {} for QP {:#x}", record.type, record.qpn);
    }
}

}  // namespace swrnic::verbs
