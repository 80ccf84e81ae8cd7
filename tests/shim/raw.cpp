// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "raw.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace swrnic::test {

Fd& Fd::operator=(Fd&& other) noexcept {
    if (this != &other) {
        reset();
        fd_ = other.release();
    }
    return *this;
}

int Fd::release() {
    return std::exchange(fd_, -1);
}

void Fd::reset() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
}

std::string contents(int fd) {
    char buffer[256];
    const ssize_t size = read(fd, buffer, sizeof(buffer));
    return size < 0 ? std::string("unreadable") : std::string(buffer, static_cast<std::size_t>(size));
}

std::string contents(const std::string& path) {
    return contents(Fd(open(path.c_str(), O_RDONLY | O_CLOEXEC)).get());
}

int send_bytes(int fd, const Bytes& bytes) {
    const ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written < 0) return errno;
    EXPECT_EQ(written, static_cast<ssize_t>(bytes.size()));
    return 0;
}

// ---- verbs ----

Context::Context() : cmd(open("/dev/infiniband/uverbs0", O_RDWR | O_CLOEXEC)) {
    struct {
        std::uint32_t async_fd, num_comp_vectors;  // struct ib_uverbs_get_context_resp, which ends in an open array
        swrnic_alloc_ucontext_resp driver;
    } made{};
    ib_uverbs_get_context core{};
    core.response = address_of(made);
    swrnic_alloc_ucontext_req asked{};
    asked.abi_version = SWRNIC_ABI_NEWEST;
    const int error = command(IB_USER_VERBS_CMD_GET_CONTEXT, core, sizeof(made), bytes_of(asked));
    EXPECT_EQ(error, 0);
    if (error != 0) return;
    async = Fd(static_cast<int>(made.async_fd));
    events = Fd(made.driver.event_fd);
    comp_vectors = made.num_comp_vectors;
    EXPECT_EQ(made.driver.abi_version, unsigned{SWRNIC_ABI_NEWEST});
}

int Context::alloc_pd(std::uint32_t& handle) const {
    ib_uverbs_alloc_pd_resp made{};
    ib_uverbs_alloc_pd core{};
    core.response = address_of(made);
    const int error = command(IB_USER_VERBS_CMD_ALLOC_PD, core, sizeof(made));
    handle = made.pd_handle;
    return error;
}

int Context::create_channel(Fd& channel) const {
    ib_uverbs_create_comp_channel_resp made{};
    ib_uverbs_create_comp_channel core{};
    core.response = address_of(made);
    const int error = command(IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL, core, sizeof(made));
    if (error == 0) channel = Fd(static_cast<int>(made.fd));
    return error;
}

int Context::create_cq(std::uint32_t& handle, int channel, std::uint64_t user_handle, std::uint32_t cqe) const {
    ib_uverbs_create_cq_resp made{};
    ib_uverbs_create_cq core{};
    core.response = address_of(made);
    core.user_handle = user_handle;
    core.cqe = cqe;
    core.comp_channel = channel;
    const int error = command(IB_USER_VERBS_CMD_CREATE_CQ, core, sizeof(made));
    handle = made.cq_handle;
    return error;
}

int Context::destroy_cq(std::uint32_t handle, ib_uverbs_destroy_cq_resp& counts) const {
    ib_uverbs_destroy_cq core{};
    core.response = address_of(counts);
    core.cq_handle = handle;
    return command(IB_USER_VERBS_CMD_DESTROY_CQ, core, sizeof(counts));
}

int Context::reg_mr(std::uint32_t pd, std::uint32_t stag, std::uint32_t access, ib_uverbs_reg_mr_resp& made) const {
    ib_uverbs_reg_mr core{};
    core.response = address_of(made);
    core.start = core.hca_va = 0x10000;
    core.length = 4096;
    core.pd_handle = pd;
    core.access_flags = access;
    swrnic_reg_mr_req driver{};
    driver.stag = stag;
    return command(IB_USER_VERBS_CMD_REG_MR, core, sizeof(made), bytes_of(driver));
}

swrnic_create_qp_req default_startup() {
    swrnic_create_qp_req startup{};
    startup.mpa_rev = 2;
    startup.timeout_ms = 5000;
    return startup;
}

int Context::create_qp(std::uint32_t pd, std::uint32_t cq, Qp& qp, const swrnic_create_qp_req& startup,
                       std::uint64_t user_handle, std::uint8_t type) const {
    ib_uverbs_create_qp_resp made{};
    ib_uverbs_create_qp core{};
    core.response = address_of(made);
    core.user_handle = user_handle;
    core.pd_handle = pd;
    core.send_cq_handle = core.recv_cq_handle = cq;
    core.max_send_wr = core.max_recv_wr = core.max_send_sge = core.max_recv_sge = 1;
    core.qp_type = type;
    const int error = command(IB_USER_VERBS_CMD_CREATE_QP, core, sizeof(made), bytes_of(startup));
    qp = {made.qp_handle, made.qpn};
    return error;
}

int Context::modify_qp(std::uint32_t handle, std::uint8_t state) const {
    ib_uverbs_modify_qp core{};
    core.qp_handle = handle;
    core.attr_mask = 1;
    core.qp_state = state;
    return command(IB_USER_VERBS_CMD_MODIFY_QP, core, 0);
}

int Context::query_qp(std::uint32_t handle, ib_uverbs_query_qp_resp& attributes) const {
    ib_uverbs_query_qp core{};
    core.response = address_of(attributes);
    core.qp_handle = handle;
    return command(IB_USER_VERBS_CMD_QUERY_QP, core, sizeof(attributes));
}

int Context::destroy_qp(std::uint32_t handle, std::uint32_t* events_reported) const {
    ib_uverbs_destroy_qp_resp counts{};
    ib_uverbs_destroy_qp core{};
    core.response = address_of(counts);
    core.qp_handle = handle;
    const int error = command(IB_USER_VERBS_CMD_DESTROY_QP, core, sizeof(counts));
    if (events_reported != nullptr) *events_reported = counts.events_reported;
    return error;
}

std::optional<Context::Qp> Context::ready_qp(const swrnic_create_qp_req& startup) const {
    std::uint32_t pd = 0, cq = 0;
    Qp qp;
    if (alloc_pd(pd) != 0 || create_cq(cq) != 0 || create_qp(pd, cq, qp, startup) != 0) return std::nullopt;
    if (modify_qp(qp.handle, 1) != 0) return std::nullopt;
    return qp;
}

int Context::report(std::uint32_t type, std::uint32_t id, std::uint32_t aux) const {
    swrnic_up record{};
    record.type = type;
    record.id = id;
    record.aux = aux;
    return write(events.get(), &record, sizeof(record)) == sizeof(record) ? 0 : errno;
}

std::optional<swrnic_down> Context::next_order(int timeout_ms) const {
    swrnic_down record{};
    if (!readable(events.get(), timeout_ms)) return std::nullopt;
    if (read(events.get(), &record, sizeof(record)) != sizeof(record)) return std::nullopt;
    return record;
}

// ---- rdma_cm ----

Cm::Cm() : fd(open("/dev/infiniband/rdma_cm", O_RDWR | O_CLOEXEC)) {}

std::uint32_t Cm::create_id(std::uint64_t uid, std::uint16_t port_space) const {
    rdma_ucm_create_id_resp made{};
    rdma_ucm_create_id create{};
    create.uid = uid;
    create.response = address_of(made);
    create.ps = port_space;
    create.qp_type = 2;
    EXPECT_EQ(command(RDMA_USER_CM_CMD_CREATE_ID, create, sizeof(made)), 0);
    return made.id;
}

int Cm::destroy_id(std::uint32_t id, std::uint32_t* events_reported) const {
    rdma_ucm_destroy_id_resp counts{};
    rdma_ucm_destroy_id destroy{};
    destroy.response = address_of(counts);
    destroy.id = id;
    const int error = command(RDMA_USER_CM_CMD_DESTROY_ID, destroy, sizeof(counts));
    if (events_reported != nullptr) *events_reported = counts.events_reported;
    return error;
}

int Cm::bind(std::uint32_t id, const sockaddr* address, std::size_t size) const {
    rdma_ucm_bind to{};
    to.id = id;
    to.addr_size = static_cast<std::uint16_t>(size);
    std::memcpy(&to.addr, address, size);
    return command(RDMA_USER_CM_CMD_BIND, to);
}

int Cm::listen(std::uint32_t id, std::uint32_t backlog) const {
    const rdma_ucm_listen start{id, backlog};
    return command(RDMA_USER_CM_CMD_LISTEN, start);
}

int Cm::resolve(std::uint32_t id, const sockaddr* to, std::size_t size) const {
    rdma_ucm_resolve_addr what{};
    what.id = id;
    what.timeout_ms = 1000;
    what.dst_size = static_cast<std::uint16_t>(size);
    std::memcpy(&what.dst_addr, to, size);
    return command(RDMA_USER_CM_CMD_RESOLVE_ADDR, what);
}

int Cm::resolve_route(std::uint32_t id) const {
    const rdma_ucm_resolve_route what{id, 1000};
    return command(RDMA_USER_CM_CMD_RESOLVE_ROUTE, what);
}

namespace {

rdma_ucm_conn_param conn_param(std::uint32_t qpn, std::string_view private_data, std::uint8_t ird, std::uint8_t ord) {
    rdma_ucm_conn_param conn{};
    conn.qp_num = qpn;
    conn.responder_resources = ird;
    conn.initiator_depth = ord;
    conn.private_data_len = static_cast<std::uint8_t>(private_data.size());
    std::copy(private_data.begin(), private_data.end(), conn.private_data);
    conn.valid = 1;
    return conn;
}

}  // namespace

int Cm::connect(std::uint32_t id, std::uint32_t qpn, std::string_view private_data, std::uint8_t ird,
                std::uint8_t ord) const {
    rdma_ucm_connect to{};
    to.id = id;
    to.conn_param = conn_param(qpn, private_data, ird, ord);
    return command(RDMA_USER_CM_CMD_CONNECT, to);
}

int Cm::accept(std::uint32_t id, std::uint64_t uid, std::uint32_t qpn, std::string_view private_data, std::uint8_t ird,
               std::uint8_t ord) const {
    rdma_ucm_accept take{};
    take.uid = uid;
    take.id = id;
    take.conn_param = conn_param(qpn, private_data, ird, ord);
    return command(RDMA_USER_CM_CMD_ACCEPT, take);
}

int Cm::reject(std::uint32_t id, std::string_view private_data) const {
    rdma_ucm_reject refuse{};
    refuse.id = id;
    refuse.private_data_len = static_cast<std::uint8_t>(private_data.size());
    std::copy(private_data.begin(), private_data.end(), refuse.private_data);
    return command(RDMA_USER_CM_CMD_REJECT, refuse);
}

int Cm::disconnect(std::uint32_t id) const {
    const rdma_ucm_disconnect end{id};
    return command(RDMA_USER_CM_CMD_DISCONNECT, end);
}

int Cm::query_addr(std::uint32_t id, rdma_ucm_query_addr_resp& out) const {
    rdma_ucm_query ask{};
    ask.response = address_of(out);
    ask.id = id;
    ask.option = RDMA_USER_CM_QUERY_ADDR;
    return command(RDMA_USER_CM_CMD_QUERY, ask, sizeof(out));
}

int Cm::get_event(rdma_ucm_event_resp& event) const {
    rdma_ucm_get_event get{};
    get.response = address_of(event);
    return command(RDMA_USER_CM_CMD_GET_EVENT, get, sizeof(event));
}

std::optional<rdma_ucm_event_resp> Cm::event(int timeout_ms) const {
    rdma_ucm_event_resp event{};
    if (!readable(fd.get(), timeout_ms) || get_event(event) != 0) return std::nullopt;
    return event;
}

std::uint16_t Cm::listen_on_loopback(std::uint32_t id, std::uint32_t backlog) const {
    const sockaddr_in any_port = loopback();
    EXPECT_EQ(bind(id, reinterpret_cast<const sockaddr*>(&any_port), sizeof(any_port)), 0);
    EXPECT_EQ(listen(id, backlog), 0);
    rdma_ucm_query_addr_resp where{};
    EXPECT_EQ(query_addr(id, where), 0);
    sockaddr_in bound{};
    std::memcpy(&bound, &where.src_addr, sizeof(bound));
    return ntohs(bound.sin_port);
}

bool Cm::resolve_to_loopback(std::uint32_t id, std::uint16_t port) const {
    const sockaddr_in to = loopback(port);
    if (resolve(id, reinterpret_cast<const sockaddr*>(&to), sizeof(to)) != 0) return false;
    const auto address = event();
    if (!address || address->event != kAddrResolved || resolve_route(id) != 0) return false;
    const auto route = event();
    return route && route->event == kRouteResolved;
}

// ---- sockets ----

sockaddr_in loopback(std::uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

Fd raw_client(std::uint16_t port) {
    Fd client(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_in to = loopback(port);
    EXPECT_EQ(connect(client.get(), reinterpret_cast<const sockaddr*>(&to), sizeof(to)), 0);
    return client;
}

Fd raw_listener(std::uint16_t& port) {
    Fd listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in at = loopback();
    socklen_t size = sizeof(at);
    EXPECT_EQ(bind(listener.get(), reinterpret_cast<const sockaddr*>(&at), size), 0);
    EXPECT_EQ(listen(listener.get(), 8), 0);
    EXPECT_EQ(getsockname(listener.get(), reinterpret_cast<sockaddr*>(&at), &size), 0);
    port = ntohs(at.sin_port);
    return listener;
}

bool readable(int fd, int timeout_ms) {
    pollfd what{fd, POLLIN, 0};
    return poll(&what, 1, timeout_ms) == 1 && (what.revents & POLLIN) != 0;
}

std::string private_text(const rdma_ucm_event_resp& event) {
    const auto& conn = event.param.conn;
    return {reinterpret_cast<const char*>(conn.private_data), conn.private_data_len};
}

std::string mpa_request(std::uint8_t flags, std::uint8_t revision, std::uint16_t length, const std::string& body) {
    std::string frame = "MPA ID Req Frame";
    frame.push_back(static_cast<char>(flags));
    frame.push_back(static_cast<char>(revision));
    frame.push_back(static_cast<char>(length >> 8));
    frame.push_back(static_cast<char>(length));
    return frame + body;
}

}  // namespace swrnic::test
