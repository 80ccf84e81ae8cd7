// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// One open device: the engine, the event file that joins it to the shim, and what both need to know.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include "config.h"
#include "engine/engine.h"
#include "engine/trace.h"
#include "host/event_file.h"
#include "host/statistics.h"
#include "objects.h"

namespace swrnic::verbs {

// Limits that the provider adds to those of the device.
inline constexpr std::uint32_t kMaxSge = 32;      // elements of a request: post copies them on the stack
inline constexpr std::uint32_t kMinInline = 64;   // what every QP gets (rsockets want 64)
inline constexpr std::uint32_t kMaxInline = 512;  // what a QP may ask for

// The engine's surroundings. Owns the event file. Threads: everything may be called from any thread. Fork:
// abandon_after_fork() in the child and nothing else.
class ContextState final : public engine::Host {
  public:
    // Takes the event file. Null without memory.
    static std::unique_ptr<ContextState> create(const Config& config, const swrnic_alloc_ucontext_resp& device_end,
                                                const char* device);
    ~ContextState();
    ContextState(const ContextState&) = delete;
    ContextState& operator=(const ContextState&) = delete;

    engine::Engine& engine() { return *engine_; }
    host::Statistics& statistics() { return *statistics_; }
    const Config& config() const { return config_; }
    const ibv_device_attr& limits() const { return limits_; }
    void set_limits(const ibv_device_attr& limits) { limits_ = limits; }
    // What the device and we both speak (swrnic-abi.h).
    std::uint32_t abi_version() const { return abi_version_; }

    void abandon_after_fork();

    void comp_posted(std::uint32_t cq_handle) override;
    void async_event(engine::AsyncEvent event, std::uint32_t id) override;
    void qp_ready(std::uint32_t qpn) override;
    void qp_closed(std::uint32_t qpn, engine::CloseReason reason) override;
    void terminated(std::uint32_t qpn, std::string_view code, bool sent) override;
    bool control_readable() override;
    // Meanwhile nothing that the shim says is obeyed: a QP is wired, or let go of, without a stream that comes between.
    [[nodiscard]] std::unique_lock<std::mutex> hold_control() { return std::unique_lock(control_); }
    bool report() override;
    void descriptors_lost() override;

  private:
    ContextState(const Config& config, const swrnic_alloc_ucontext_resp& device_end)
        : config_(config), abi_version_(device_end.abi_version), events_(device_end.event_fd) {}
    std::array<int, 5> descriptors() const;  // -1: none
    void obey(const swrnic_down& record);

    const Config config_;
    const std::uint32_t abi_version_;
    ibv_device_attr limits_{};
    host::EventFile events_;
    std::mutex control_;  // one drains and obeys at a time
    bool gone_ = false;   // the device; under that

    std::unique_ptr<engine::Trace> trace_;  // SWRNIC_TRACE
    std::unique_ptr<host::Statistics> statistics_;
    std::unique_ptr<engine::Engine> engine_;  // last: its threads call us until it is gone
};

// What a send came to. A program may post as soon as rdma_accept() has returned, as perftest's servers do; our thread
// may not have been told of the stream yet. What the device has said by now is obeyed first.
template <typename Post>
int posted(Qp& qp, const Post& post) {
    engine::PostResult result = post();
    if (result == engine::PostResult::kBadState && to_state(qp.base.qp.context).control_readable()) result = post();
    return to_errno(result);
}

}  // namespace swrnic::verbs
