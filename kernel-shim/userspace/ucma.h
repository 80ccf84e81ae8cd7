// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// /dev/infiniband/rdma_cm: connection ids and their events, in both dialects of librdmacm (AF_IB and legacy commands).
//
// Everything here is under the lock. Ids are process-wide, as in the kernel; a command reaches only the ids of its own
// file.
#pragma once

#include <rdma/rdma_user_cm.h>

#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "net.h"
#include "queue_file.h"
#include "startup.h"
#include "ucma_control.h"
#include "uverbs.h"

namespace swrnic::shim {

class SidrAsker;
class SidrListener;
struct SidrAsked;
class UcmaFile;

// enum rdma_cm_event_type, which only librdmacm's header has; and that one cannot be included beside the uAPI's.
enum class CmEventType : std::uint32_t {
    kAddrResolved = 0,
    kAddrError = 1,
    kRouteResolved = 2,
    kConnectRequest = 4,
    kConnectResponse = 5,
    kConnectError = 6,
    kUnreachable = 7,
    kRejected = 8,
    kEstablished = 9,
    kDisconnected = 10,
    kMulticastJoin = 12,
    kTimewaitExit = 15,
};

enum class CmState : std::uint8_t {
    kIdle,
    kBound,         // has an address, maybe any
    kAddrResolved,  // knows its peer
    kRouteResolved,
    kListening,
    kConnecting,  // active: until the engine has the stream (QP_READY)
    kResponded,   // active, without a stream: CONNECT_RESPONSE raised, the application wires its QP
    kRequested,   // passive: CONNECT_REQUEST raised, the application decides
    kAccepting,   // passive: Reply under way, until QP_READY
    kEstablished,
    kDisconnecting,  // by us; DISCONNECTED follows
    kOver,           // failed, rejected or closed: nothing more will happen
};

class CmId : public StartupOwner, public StartupListener {
  public:
    std::uint32_t handle = 0;
    std::uint64_t uid = 0;  // of a child: 0 until ACCEPT names one
    UcmaFile* file = nullptr;
    CmState state = CmState::kIdle;
    std::uint16_t port_space = 0;
    Address local, peer;
    bool on_device = false;  // bound to, or resolved from, an address of ours
    bool af_only = false;
    bool reuse_address = false;
    bool disconnects = false;                // as soon as what is accepted has a stream
    bool is_control = false;                 // connects without a stream
    std::optional<ControlHello> peer_hello;  // the same, once the peer has said it
    std::uint8_t tos = 0;
    bool has_tos = false;
    int socket = -1;            // bound, not yet listening or connecting; then it is Startup's
    std::uint64_t startup = 0;  // key in Startup; 0: none
    int backlog = 0;            // a listener's: CONNECT_REQUESTs that may still be queued
    std::uint32_t qpn = 0;      // 0: none
    std::uint32_t events_reported = 0;
    rdma_ucm_conn_param asked{};    // by CONNECT or ACCEPT
    unsigned refusals = 0;          // of a connect, by a host where nobody listens
    rdma_ucm_conn_param outcome{};  // what ESTABLISHED will show
    // In the UDP port space, which of them by the state (ucma_datagrams.h).
    std::shared_ptr<SidrAsker> asker;
    std::shared_ptr<SidrListener> sidr_listener;
    std::shared_ptr<SidrAsked> sidr_asked;

    void connected_from(const Address& from) override { local = from; }
    int new_socket(Locked& locked, const Address& from) override;
    void full_operation(Locked& locked, const swrnic_connected& agreed, PrivateData said, bool terminated) override;
    void failed(Locked& locked, int error, PrivateData said) override;
    std::shared_ptr<StartupOwner> request(Locked& locked, const Request& request) override;
    bool has_own_port_space() const override { return true; }
    void agreed(Locked& locked, PrivateData said) override;
    void peer_is_ready(Locked& locked) override;
    void peer_has_ended(Locked& locked) override;

    void try_again(Locked& locked) override;

    bool is_for_connections() const { return port_space == RDMA_PS_TCP || port_space == RDMA_PS_IB; }
    bool is_for_datagrams() const { return port_space == RDMA_PS_UDP; }
    void close_socket();

  private:
    bool calls_again(Locked& locked);
};

struct CmEvent {
    std::shared_ptr<CmId> id;     // whose count it raises; of CONNECT_REQUEST the listener
    std::shared_ptr<CmId> child;  // CONNECT_REQUEST only
    std::uint64_t uid;
    std::uint32_t handle;
    CmEventType type;
    int status;
    rdma_ucm_conn_param conn;
    std::optional<rdma_ucm_ud_param> ud = std::nullopt;  // instead of conn
    std::shared_ptr<CmGroup> group = nullptr;            // MULTICAST_JOIN only: its count is raised as well
};

struct UcmaRequest {
    std::span<const std::uint8_t> in;
    std::uint64_t response = 0;
    std::size_t out = 0;

    // The front of the command; what is missing beyond minimum reads as zero.
    template <typename Command>
    bool take(Command& command, std::size_t minimum = sizeof(Command)) {
        if (in.size() < minimum) return false;
        command = {};
        std::memcpy(&command, in.data(), in.size() < sizeof(Command) ? in.size() : sizeof(Command));
        if constexpr (requires { command.response; }) response = command.response;
        return true;
    }
    // Room for at least minimum: 0 or -errno. Asked before anything is done; reply() then copies what fits of whole.
    int room(std::size_t minimum, std::size_t whole) const {
        if (out < minimum) return -ENOSPC;
        return writable(reinterpret_cast<const void*>(response), out < whole ? out : whole) ? 0 : -EFAULT;
    }
    int room(std::size_t whole) const { return room(whole, whole); }
    template <typename Response>
    void reply(const Response& data) const {
        std::memcpy(reinterpret_cast<void*>(response), &data, out < sizeof(data) ? out : sizeof(data));
    }
};

class UcmaFile : public Queue<CmEvent> {
  public:
    ssize_t write(int fd, const void* buffer, std::size_t size) override;
    bool fake_stat(struct stat& out) const override;
    void closed(Locked& locked) override;

    void post(Locked& locked, CmEvent event) { push(locked, std::move(event)); }

  private:
    int dispatch(Locked& locked, std::uint32_t command, UcmaRequest& request);
    int get_event(int fd, UcmaRequest& request);  // may block; takes the lock by itself
    // The id if it is this file's, else nullptr and error.
    std::shared_ptr<CmId> find(Locked& locked, std::uint32_t handle, int& error);

    // ucma.cpp
    int create_id(Locked& locked, UcmaRequest& request);
    int destroy_id(Locked& locked, UcmaRequest& request);
    int set_option(Locked& locked, UcmaRequest& request);
    static int set_af_only(Locked& locked, CmId& id, bool af_only);
    int notify(Locked& locked, UcmaRequest& request);
    int migrate_id(Locked& locked, UcmaRequest& request);
    void destroy(Locked& locked, const std::shared_ptr<CmId>& id);
    // ucma_addr.cpp
    int bind_ip(Locked& locked, UcmaRequest& request);
    int bind(Locked& locked, UcmaRequest& request);
    int bind_to(Locked& locked, std::uint32_t handle, const void* address, std::size_t size);
    int resolve_ip(Locked& locked, UcmaRequest& request);
    int resolve_addr(Locked& locked, UcmaRequest& request);
    int resolve_to(Locked& locked, std::uint32_t handle, const Address& source, Address target);
    int resolve_route(Locked& locked, UcmaRequest& request);
    int query_route(Locked& locked, UcmaRequest& request);
    int query(Locked& locked, UcmaRequest& request);
    int init_qp_attr(Locked& locked, UcmaRequest& request);
    // ucma_conn.cpp
    int connect(Locked& locked, UcmaRequest& request);
    int listen(Locked& locked, UcmaRequest& request);
    int accept(Locked& locked, UcmaRequest& request);
    int reject(Locked& locked, UcmaRequest& request);
    int disconnect(Locked& locked, UcmaRequest& request);
    // ucma_datagrams.cpp
    int join_ip_mcast(Locked& locked, UcmaRequest& request);
    int join_mcast(Locked& locked, UcmaRequest& request);
    int join(Locked& locked, UcmaRequest& request, std::uint32_t handle, std::uint64_t uid, const Gid& group);
    int leave_mcast(Locked& locked, UcmaRequest& request);
    // ucma_control.cpp
    static int connect_control(Locked& locked, const std::shared_ptr<CmId>& id, const rdma_ucm_conn_param& conn);
    static int accept_control(Locked& locked, CmId& id, const rdma_ucm_conn_param& conn);
    static int establish(Locked& locked, CmId& id);
    static int disconnect_control(Locked& locked, CmId& id);
    static int reject_control(Locked& locked, CmId& id);
};

inline constexpr std::uint32_t kUdpQKey = 0x01234567;  // RDMA_UDP_QKEY, which only librdmacm's header has

// ---- between connection management, startup and the queue pairs ----

std::shared_ptr<CmId> make_cm_id(Locked& locked, UcmaFile& file);
void cm_post(Locked& locked, CmId& id, CmEventType type, int status = 0, const rdma_ucm_conn_param* conn = nullptr);
void cm_post(Locked& locked, CmId& id, CmEventType type, int status, const rdma_ucm_ud_param& ud);
// And in the persona roce what follows it.
void cm_post_disconnected(Locked& locked, CmId& id);
// What an event of such a type shows of the peer's private data: in the persona roce as much as InfiniBand's message
// holds, the rest of it zero.
rdma_ucm_conn_param cm_param_of(PrivateData said, CmEventType type);

// What else is bound to the port. Connections that have ended without us may linger on it.
enum class PortMay : std::uint8_t {
    kLinger,  // have such connections, or others of a server that has ended
    kNot,     // have nothing
};
// A new socket for id, of TCP or in the UDP port space of UDP, with its options, bound to local (port 0: any; not bound
// at all when local is empty). Nobody else binds to its port, unless both ids say RDMA_OPTION_ID_REUSEADDR.
int cm_make_socket(Locked& locked, const CmId& id, const Address& local, PortMay may);
void cm_share_port(const CmId& id, int fd);
void cm_set_tos(const CmId& id, int fd);

// Ends what id does, without an event: startup, listening, stream. The id is kOver then.
void cm_stop(Locked& locked, CmId& id);

void cm_stream_ready(Locked& locked, Qp& qp);                   // QP_READY
void cm_stream_closed(Locked& locked, Qp& qp, bool was_ready);  // QP_CLOSED
void cm_abort_startup(Locked& locked, Qp& qp, int error);       // the QP was moved to ERR or RESET
void cm_order_disconnect(Locked& locked, CmId& id);             // QP_DISCONNECT
void cm_qp_gone(Locked& locked, Qp& qp);                        // the QP, or whoever drives it, is gone

}  // namespace swrnic::shim
