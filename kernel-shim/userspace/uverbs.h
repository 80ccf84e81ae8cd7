// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// /dev/infiniband/uverbs0: one verbs context per open. Objects are just deep enough to check handles, count events and
// join queue pairs to connections; what they do is the provider's engine.
//
// Everything here is under the lock. Handles come from one counter of the process, so a handle of another type or
// context is unknown, and netlink shows it as the object's number.
#pragma once

#include <rdma/ib_user_verbs.h>

#include <cstring>
#include <memory>
#include <set>
#include <span>
#include <unordered_map>

#include "net.h"
#include "queue_file.h"
#include "quota.h"
#include "swrnic_policy.h"
#include "user_memory.h"

namespace swrnic::shim {

class EventFile;
class UverbsFile;
class Wired;

struct Pd {
    Share share;
    std::uint32_t handle;
    std::uint32_t users = 0;
};

struct Mr {
    Share share;
    Pd* pd;
    std::uint64_t length;
};

struct Mw {
    Share share;
    Pd* pd;
};

struct Ah {
    Share share;
    Pd* pd;
};

struct Cq;

struct CompEvent {
    Cq* cq;
};

// A completion channel: read() yields the user_handle of a CQ, eight octets.
class CompChannel : public Queue<CompEvent> {
  public:
    explicit CompChannel(const UverbsFile* owner) : owner_(owner) {}
    bool belongs_to(const UverbsFile* owner) const { return owner_ == owner; }
    ssize_t read(int fd, void* buffer, std::size_t size) override;

  private:
    const UverbsFile* const owner_;  // identity only
};

struct Cq {
    Share share;
    std::uint32_t handle;
    std::uint64_t user_handle;
    std::uint32_t cqe;
    std::weak_ptr<CompChannel> channel;
    bool has_channel;
    std::uint32_t users = 0;
    std::uint32_t comp_events_reported = 0;
    std::uint32_t async_events_reported = 0;
    bool error_raised = false;
};

struct Srq {
    Share share;
    std::uint32_t handle;
    std::uint64_t user_handle;
    Pd* pd;
    std::uint32_t max_wr, max_sge;
    std::uint32_t limit = 0;  // armed; the event may be raised once
    std::uint32_t users = 0;
    std::uint32_t async_events_reported = 0;
};

struct AsyncEvent {
    std::uint64_t element;
    std::uint32_t type;
    std::uint32_t* reported;  // the object's count; also tells whose event it is
};

class AsyncFile : public Queue<AsyncEvent> {
  public:
    ssize_t read(int fd, void* buffer, std::size_t size) override;
};

// enum ib_qp_type: those that are offered.
inline constexpr std::uint8_t kQptRc = 2, kQptUc = 3, kQptUd = 4;

struct Qp {
    Share share;
    std::uint32_t handle;
    std::uint32_t qpn;
    std::uint8_t type;  // kQptRc, kQptUc or kQptUd
    std::uint64_t user_handle;
    UverbsFile* context;
    Pd* pd;
    Cq* send_cq;
    Cq* recv_cq;
    Srq* srq;  // or null
    std::uint32_t max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, max_inline;
    bool sq_sig_all;
    swrnic_create_qp_req startup;  // what MPA startup asks for

    std::uint8_t state = 0;  // enum ib_qp_state
    std::uint32_t access = 0;
    std::uint8_t ird = 0, ord = 0;
    std::uint32_t rq_psn = 0, sq_psn = 0;
    swrnic_stream stream = SWRNIC_STREAM_NONE;  // whatever does not follow its order is refused
    std::uint32_t cm_id = 0;                    // the id that this QP connects through, while has_cm_id
    bool has_cm_id = false;
    std::shared_ptr<Wired> wired;    // null: it is not wired by hand
    std::set<Gid> groups;            // of datagrams, that it is attached to
    std::uint32_t async_raised = 0;  // bit per event type
    std::uint32_t async_events_reported = 0;
};

// One command, its lengths checked against what was written.
struct UverbsRequest {
    std::uint32_t command = 0;
    bool extended = false;
    std::span<const std::uint8_t> core;    // plain commands: the driver's data follow in here
    std::span<const std::uint8_t> driver;  // extended commands only
    std::uint64_t response = 0;
    std::size_t response_size = 0;

    static int parse(const void* buffer, std::size_t size, UverbsRequest& request);

    // Fills fixed from the front of core. Plain commands with a response: its address is their first field.
    template <typename Fixed>
    bool take(Fixed& fixed) {
        if (core.size() < sizeof(Fixed)) return false;
        std::memcpy(&fixed, core.data(), sizeof(Fixed));
        core = core.subspan(sizeof(Fixed));
        if (!extended) {
            driver = core;
            if constexpr (requires { fixed.response; }) response = fixed.response;
        }
        return true;
    }
    template <typename Data>
    bool take_driver(Data& data) const {
        if (driver.size() < sizeof(Data)) return false;
        std::memcpy(&data, driver.data(), sizeof(Data));
        return true;
    }
    // Whether a response of this size has somewhere to go: 0 or -errno. Asked before anything is done.
    int room(std::size_t size) const {
        if (response_size < size) return -ENOSPC;
        return writable(reinterpret_cast<const void*>(response), size) ? 0 : -EFAULT;
    }
    void put(const void* data, std::size_t size, std::size_t offset = 0) const {
        std::memcpy(reinterpret_cast<char*>(response) + offset, data, size);
    }
    template <typename Data>
    void reply(const Data& data) const {
        put(&data, sizeof(Data));
    }
};

class UverbsFile : public File {
  public:
    explicit UverbsFile(unsigned device) : device_(device) {}
    ssize_t write(int fd, const void* buffer, std::size_t size) override;
    bool fake_stat(struct stat& out) const override;
    void closed(Locked& locked) override;

    // For the event file.
    Cq* find_cq(std::uint32_t handle);
    Srq* find_srq(std::uint32_t handle);
    void raise_async(Locked& locked, std::uint64_t element, std::uint32_t type, std::uint32_t* reported);
    EventFile* event_file(Locked&) { return event_file_.lock().get(); }
    int unwire(Locked& locked, Qp& qp);

    // For netlink.
    unsigned device() const { return device_; }
    std::uint32_t number() const { return number_; }  // of the context; 0: there is none yet
    const auto& pds() const { return pds_; }
    const auto& mrs() const { return mrs_; }
    const auto& cqs() const { return cqs_; }
    const auto& srqs() const { return srqs_; }
    const auto& qps() const { return qps_; }

  private:
    int dispatch(Locked& locked, UverbsRequest& request);
    int dispatch_extended(Locked& locked, UverbsRequest& request);

    int get_context(Locked& locked, UverbsRequest& request);
    int query_device(UverbsRequest& request);
    int query_device_ex(UverbsRequest& request);
    int query_port(UverbsRequest& request);
    int alloc_pd(UverbsRequest& request);
    int dealloc_pd(UverbsRequest& request);
    int reg_mr(UverbsRequest& request);
    int dereg_mr(UverbsRequest& request);
    int alloc_mw(UverbsRequest& request);
    int dealloc_mw(UverbsRequest& request);
    int create_ah(UverbsRequest& request);
    int destroy_ah(UverbsRequest& request);
    int create_comp_channel(Locked& locked, UverbsRequest& request);
    int create_cq(Locked& locked, UverbsRequest& request);
    int create_cq_ex(Locked& locked, UverbsRequest& request);
    int make_cq(Locked& locked, const ib_uverbs_ex_create_cq& wish, ib_uverbs_create_cq_resp& made);
    int req_notify_cq(UverbsRequest& request);
    int destroy_cq(Locked& locked, UverbsRequest& request);
    int create_srq(UverbsRequest& request);
    int modify_srq(UverbsRequest& request);
    int query_srq(UverbsRequest& request);
    int destroy_srq(Locked& locked, UverbsRequest& request);
    int create_qp(Locked& locked, UverbsRequest& request);
    int create_qp_ex(Locked& locked, UverbsRequest& request);
    int make_qp(Locked& locked, const ib_uverbs_ex_create_qp& wish, const swrnic_create_qp_req& startup,
                ib_uverbs_create_qp_resp& made);
    int modify_qp(Locked& locked, UverbsRequest& request);
    int modify_qp_ex(Locked& locked, UverbsRequest& request);
    int change_qp(Locked& locked, const ib_uverbs_modify_qp& wish);
    int wire(Locked& locked, Qp& qp, const ib_uverbs_modify_qp& wish);
    int query_qp(UverbsRequest& request);
    int destroy_qp(Locked& locked, UverbsRequest& request);
    int attach_mcast(Locked& locked, UverbsRequest& request);
    int detach_mcast(UverbsRequest& request);
    void drop_qp(Locked& locked, Qp& qp);

    static std::uint32_t new_handle();

    const unsigned device_;
    std::uint32_t number_ = 0;
    std::weak_ptr<AsyncFile> async_file_;
    std::weak_ptr<EventFile> event_file_;
    std::vector<std::weak_ptr<CompChannel>> channels_;
    std::unordered_map<std::uint32_t, std::unique_ptr<Pd>> pds_;
    std::unordered_map<std::uint32_t, Mr> mrs_;
    std::unordered_map<std::uint32_t, Mw> mws_;
    std::unordered_map<std::uint32_t, Ah> ahs_;
    std::unordered_map<std::uint32_t, std::unique_ptr<Cq>> cqs_;
    std::unordered_map<std::uint32_t, std::unique_ptr<Srq>> srqs_;
    std::unordered_map<std::uint32_t, std::unique_ptr<Qp>> qps_;
};

// What queries say, and sysfs and netlink with them.
ib_uverbs_query_device_resp device_attributes(unsigned device);
ib_uverbs_query_port_resp port_attributes();

template <typename Map>
auto find_object(Map& map, std::uint32_t handle) -> decltype(map.begin()->second.get()) {
    const auto it = map.find(handle);
    return it == map.end() ? nullptr : it->second.get();
}

}  // namespace swrnic::shim
