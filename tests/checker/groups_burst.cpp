// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Many connections asked for at the same moment. Programs such as perftest pair the QPs of the two sides by the order
// in which requests come, so a device that promises it (--ordered) must keep it.
#include <netdb.h>
#include <netinet/in.h>

#include <cstring>

#include "failure.h"
#include "session.h"

namespace checker {

namespace {

struct CqSet {
    Owned<ibv_pd> pd;
    Owned<ibv_cq> cq;
};

CqSet make_set(ibv_context* context, unsigned qps) {
    CqSet set;
    set.pd.reset(ibv_alloc_pd(context));
    set.cq.reset(ibv_create_cq(context, static_cast<int>(4 * qps), nullptr, nullptr, 0));
    expect(set.pd != nullptr && set.cq != nullptr, "PD or CQ: {}", Errno{});
    return set;
}

void make_qp(rdma_cm_id* id, const CqSet& set) {
    ibv_qp_init_attr attr{};
    attr.send_cq = attr.recv_cq = set.cq.get();
    attr.qp_type = IBV_QPT_RC;
    attr.cap = {2, 2, 1, 1, 0};
    expect(rdma_create_qp(id, set.pd.get(), &attr) == 0, "rdma_create_qp: {}", Errno{});
}

// The ids own QPs that use the set; all of them go before it.
struct Ids {
    std::vector<Owned<rdma_cm_id>> list;
    ~Ids() {
        for (const auto& id : list) {
            rdma_disconnect(id.get());
            if (id->qp != nullptr) rdma_destroy_qp(id.get());
        }
    }
};

sockaddr_storage server_address(const Options& options, std::uint16_t port) {
    sockaddr_storage storage{};
    addrinfo hints{};
    hints.ai_flags = AI_NUMERICHOST;
    addrinfo* found = nullptr;
    expect(getaddrinfo(options.address.c_str(), std::to_string(port).c_str(), &hints, &found) == 0, "address");
    std::memcpy(&storage, found->ai_addr, found->ai_addrlen);
    freeaddrinfo(found);
    return storage;
}

void ask(Session& s, unsigned count) {
    sockaddr_storage address = server_address(s.options, s.control.recv<std::uint16_t>());
    const Owned<rdma_event_channel> channel = new_event_channel();
    CqSet set;
    Ids ids;
    for (unsigned i = 0; i < count; ++i) {
        rdma_cm_id* id = nullptr;
        expect(rdma_create_id(channel.get(), &id, nullptr, RDMA_PS_TCP) == 0, "rdma_create_id: {}", Errno{});
        ids.list.emplace_back(id);
        expect(rdma_resolve_addr(id, nullptr, reinterpret_cast<sockaddr*>(&address), 5000) == 0, "rdma_resolve_addr");
        expect_cm_event(next_cm_event(channel.get(), s.options.patience, "address"), RDMA_CM_EVENT_ADDR_RESOLVED);
        expect(rdma_resolve_route(id, 5000) == 0, "rdma_resolve_route");
        expect_cm_event(next_cm_event(channel.get(), s.options.patience, "route"), RDMA_CM_EVENT_ROUTE_RESOLVED);
        if (i == 0) set = make_set(id->verbs, count);
        make_qp(id, set);
    }
    for (unsigned i = 0; i < count; ++i) {
        rdma_conn_param param{};
        param.private_data = &i;
        param.private_data_len = sizeof i;
        expect(rdma_connect(ids.list[i].get(), &param) == 0, "rdma_connect: {}", Errno{});
    }
    for (unsigned i = 0; i < count; ++i) {
        expect_cm_event(next_cm_event(channel.get(), s.options.patience, "ESTABLISHED"), RDMA_CM_EVENT_ESTABLISHED);
    }
    s.control.barrier("all are there");
}

void answer(Session& s, unsigned count) {
    const Listener listener(s.options, 0, static_cast<int>(count));
    CqSet set;
    Ids ids;
    unsigned established = 0;
    std::vector<bool> came(count, false);
    s.control.send(listener.port());
    while (established < count) {
        const CmEvent event = next_cm_event(listener.channel(), s.options.patience, "a request or ESTABLISHED");
        if (event.type == RDMA_CM_EVENT_ESTABLISHED) {
            ++established;
            continue;
        }
        expect_cm_event(event, RDMA_CM_EVENT_CONNECT_REQUEST);
        const auto place = static_cast<unsigned>(ids.list.size());
        ids.list.emplace_back(event.id);
        unsigned number = count;
        expect(event.private_data.size() == sizeof number, "private data of {} octets", event.private_data.size());
        std::memcpy(&number, event.private_data.data(), sizeof number);
        expect(number < count && !came[number], "request {} came twice or was never made", number);
        came[number] = true;
        expect(!s.options.ordered || number == place, "request {} came in place {}", number, place);
        if (place == 0) set = make_set(event.id->verbs, count);
        make_qp(event.id, set);
        rdma_conn_param param{};
        expect(rdma_accept(event.id, &param) == 0, "rdma_accept: {}", Errno{});
    }
    s.control.barrier("all are there");
}

}  // namespace

void run_burst(Session& s) {
    const unsigned count = s.options.small ? 16 : 48;
    for (unsigned round = 0; round < (s.options.small ? 3U : 10U); ++round) {
        s.active ? ask(s, count) : answer(s, count);
        s.control.barrier("burst over");
        s.cases += count;
    }
}

}  // namespace checker
