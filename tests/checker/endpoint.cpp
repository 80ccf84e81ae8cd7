// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Setting up and taking down one connection. Posting and waiting are in endpoint_io.cpp.
#include "endpoint.h"

#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "async_hub.h"

namespace checker {

namespace {
sockaddr_storage address_of(const Options& options, std::uint16_t port) {
    sockaddr_storage storage{};
    addrinfo hints{};
    hints.ai_flags = AI_NUMERICHOST;
    addrinfo* found = nullptr;
    const int rc = getaddrinfo(options.address.c_str(), std::to_string(port).c_str(), &hints, &found);
    expect(rc == 0, "address {}: {}", options.address, gai_strerror(rc));
    std::memcpy(&storage, found->ai_addr, found->ai_addrlen);
    freeaddrinfo(found);
    return storage;
}

Owned<rdma_cm_id> new_id(rdma_event_channel* channel) {
    rdma_cm_id* id = nullptr;
    expect(rdma_create_id(channel, &id, nullptr, RDMA_PS_TCP) == 0, "rdma_create_id: {}", Errno{});
    return Owned<rdma_cm_id>(id);
}
}  // namespace

Owned<rdma_event_channel> new_event_channel() {
    Owned<rdma_event_channel> channel(rdma_create_event_channel());
    expect(channel != nullptr, "rdma_create_event_channel: {}", Errno{});
    return channel;
}

CmEvent next_cm_event(rdma_event_channel* channel, std::chrono::milliseconds patience, std::string_view awaited) {
    const Deadline deadline(patience);
    pollfd waiting{.fd = channel->fd, .events = POLLIN, .revents = 0};
    int ready = 0;
    do {
        ready = poll(&waiting, 1, deadline.left_ms());
    } while (ready < 0 && errno == EINTR);
    expect(ready == 1, "no CM event in {} ms while waiting for {}", patience.count(), awaited);
    rdma_cm_event* event = nullptr;
    expect(rdma_get_cm_event(channel, &event) == 0, "rdma_get_cm_event: {}", Errno{});
    const rdma_conn_param& conn = event->param.conn;
    CmEvent result{event->event, event->status, event->id, conn.responder_resources, conn.initiator_depth, {}};
    if (conn.private_data != nullptr) {
        const auto* bytes = static_cast<const std::uint8_t*>(conn.private_data);
        result.private_data.assign(bytes, bytes + conn.private_data_len);
    }
    rdma_ack_cm_event(event);
    return result;
}

void expect_cm_event(const CmEvent& event, rdma_cm_event_type type) {
    expect(event.type == type, "CM event {} with status {}, expected {}", rdma_event_str(event.type), event.status,
           rdma_event_str(type));
}

Listener::Listener(const Options& options, std::uint16_t port, int backlog)
    : channel_(new_event_channel()), id_(new_id(channel_.get())) {
    sockaddr_storage address = address_of(options, port);
    expect(rdma_bind_addr(id_.get(), reinterpret_cast<sockaddr*>(&address)) == 0, "rdma_bind_addr to {}: {}",
           options.address, Errno{});
    expect(rdma_listen(id_.get(), backlog) == 0, "rdma_listen: {}", Errno{});
    expect(this->port() != 0, "rdma_get_src_port is 0 after rdma_listen");
}

std::uint16_t Listener::port() const {
    return ntohs(rdma_get_src_port(id_.get()));
}

CmEvent Listener::request(std::chrono::milliseconds patience) const {
    CmEvent event = next_cm_event(channel_.get(), patience, "CONNECT_REQUEST");
    expect_cm_event(event, RDMA_CM_EVENT_CONNECT_REQUEST);
    return event;
}

void Endpoint::make_objects() {
    ibv_context* context = id_->verbs;
    expect(context != nullptr, "the id has no device");
    AsyncHub::instance().watch(context);
    pd_.reset(ibv_alloc_pd(context));
    expect(pd_ != nullptr, "ibv_alloc_pd: {}", Errno{});
    if (shape_.channel) {
        send_channel_.reset(ibv_create_comp_channel(context));
        recv_channel_.reset(ibv_create_comp_channel(context));
        expect(send_channel_ != nullptr && recv_channel_ != nullptr, "ibv_create_comp_channel: {}", Errno{});
    }
    const int send_depth = static_cast<int>(shape_.send_wr + 2);
    const int recv_depth = static_cast<int>(shape_.recv_wr + 2);
    send_cq_.reset(ibv_create_cq(context, send_depth, nullptr, send_channel_.get(), 0));
    recv_cq_.reset(ibv_create_cq(context, recv_depth, nullptr, recv_channel_.get(), 0));
    expect(send_cq_ != nullptr && recv_cq_ != nullptr, "ibv_create_cq: {}", Errno{});
    ibv_qp_init_attr attr{};
    attr.send_cq = send_cq_.get();
    attr.recv_cq = recv_cq_.get();
    attr.qp_type = IBV_QPT_RC;
    attr.sq_sig_all = shape_.sig_all ? 1 : 0;
    attr.cap = {shape_.send_wr, shape_.recv_wr, shape_.send_sge, shape_.recv_sge, shape_.inline_size};
    expect(rdma_create_qp(id_.get(), pd_.get(), &attr) == 0, "rdma_create_qp: {}", Errno{});
    cap_ = attr.cap;
    expect(cap_.max_send_wr >= shape_.send_wr && cap_.max_recv_wr >= shape_.recv_wr &&
               cap_.max_send_sge >= shape_.send_sge && cap_.max_recv_sge >= shape_.recv_sge &&
               cap_.max_inline_data >= shape_.inline_size,
           "rdma_create_qp granted less than was asked for");
    greet_prepare();
}

std::unique_ptr<Endpoint> Endpoint::connect(const Options& options, std::uint16_t port, const Shape& shape) {
    std::unique_ptr<Endpoint> self(new Endpoint(options, shape));
    self->own_channel_ = new_event_channel();
    self->channel_ = self->own_channel_.get();
    self->id_ = new_id(self->channel_);
    sockaddr_storage address = address_of(options, port);
    expect(rdma_resolve_addr(self->id_.get(), nullptr, reinterpret_cast<sockaddr*>(&address), 5000) == 0,
           "rdma_resolve_addr: {}", Errno{});
    expect_cm_event(next_cm_event(self->channel_, options.patience, "ADDR_RESOLVED"), RDMA_CM_EVENT_ADDR_RESOLVED);
    expect(rdma_resolve_route(self->id_.get(), 5000) == 0, "rdma_resolve_route: {}", Errno{});
    expect_cm_event(next_cm_event(self->channel_, options.patience, "ROUTE_RESOLVED"), RDMA_CM_EVENT_ROUTE_RESOLVED);
    self->make_objects();
    rdma_conn_param param{};
    param.private_data = shape.private_data.data();
    param.private_data_len = static_cast<std::uint8_t>(shape.private_data.size());
    param.responder_resources = shape.reads;
    param.initiator_depth = shape.reads;
    expect(rdma_connect(self->id_.get(), &param) == 0, "rdma_connect: {}", Errno{});
    self->established_ = next_cm_event(self->channel_, options.patience, "ESTABLISHED");
    expect_cm_event(self->established_, RDMA_CM_EVENT_ESTABLISHED);
    if (shape.greet) self->greet_active();
    return self;
}

std::unique_ptr<Endpoint> Endpoint::accept(const Options& options, const Listener& listener, const Shape& shape) {
    std::unique_ptr<Endpoint> self(new Endpoint(options, shape));
    self->request_ = listener.request(options.patience);
    self->id_.reset(self->request_.id);
    self->channel_ = listener.channel();
    self->make_objects();
    rdma_conn_param param{};
    param.private_data = shape.private_data.data();
    param.private_data_len = static_cast<std::uint8_t>(shape.private_data.size());
    param.responder_resources = shape.reads;
    param.initiator_depth = shape.reads;
    expect(rdma_accept(self->id_.get(), &param) == 0, "rdma_accept: {}", Errno{});
    self->established_ = next_cm_event(self->channel_, options.patience, "ESTABLISHED");
    expect_cm_event(self->established_, RDMA_CM_EVENT_ESTABLISHED);
    self->own_channel();
    if (shape.greet) self->greet_passive();
    return self;
}

void Endpoint::own_channel() {
    own_channel_ = new_event_channel();
    expect(rdma_migrate_id(id_.get(), own_channel_.get()) == 0, "rdma_migrate_id: {}", Errno{});
    channel_ = own_channel_.get();
}

Endpoint::~Endpoint() {
    if (id_ != nullptr && id_->qp != nullptr) {
        rdma_disconnect(id_.get());
        const ibv_qp* qp = id_->qp;
        rdma_destroy_qp(id_.get());
        AsyncHub::instance().forget(qp);
    }
    if (send_events_ != 0) ibv_ack_cq_events(send_cq_.get(), send_events_);
    if (recv_events_ != 0) ibv_ack_cq_events(recv_cq_.get(), recv_events_);
    send_cq_.reset();
    recv_cq_.reset();
    pd_.reset();
    id_.reset();
}

void Endpoint::disconnect() {
    expect(rdma_disconnect(id_.get()) == 0, "rdma_disconnect: {}", Errno{});
}

void Endpoint::wait_disconnected() {
    if (disconnected_) return;
    const CmEvent event = next_cm_event(channel_, options_.patience, "DISCONNECTED");
    expect_cm_event(event, RDMA_CM_EVENT_DISCONNECTED);
    disconnected_ = true;
}

bool Endpoint::wait_async(std::initializer_list<ibv_event_type> types) {
    return AsyncHub::instance().wait(qp(), types, Deadline(options_.patience));
}

bool Endpoint::async_seen(std::initializer_list<ibv_event_type> types) {
    return AsyncHub::instance().seen(qp(), types);
}

}  // namespace checker
