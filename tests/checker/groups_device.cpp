// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What the device says about itself, and the connection manager's own answers.
#include <algorithm>
#include <array>
#include <numeric>

#include "buffer.h"
#include "failure.h"
#include "session.h"

namespace checker {

namespace {

void check_iwarp_port(const ibv_port_attr& port, const ibv_device_attr& device) {
    expect(port.link_layer == IBV_LINK_LAYER_ETHERNET, "link_layer {}", static_cast<unsigned>(port.link_layer));
    expect(port.lid == 0 && port.lmc == 0 && port.sm_lid == 0, "LID {}, LMC {}, SM LID {}", port.lid,
           static_cast<unsigned>(port.lmc), port.sm_lid);
    expect(device.max_qp_rd_atom <= 254 && device.max_qp_init_rd_atom <= 254, "IRD {} / ORD {} do not fit rdma_cm",
           device.max_qp_rd_atom, device.max_qp_init_rd_atom);
}

void check_gids(ibv_context* context, const ibv_port_attr& port) {
    ibv_gid gid{};
    expect(port.gid_tbl_len >= 1, "gid_tbl_len {}", port.gid_tbl_len);
    for (int i = 0; i < port.gid_tbl_len; ++i) {
        expect(ibv_query_gid(context, 1, i, &gid) == 0, "ibv_query_gid {}: {}", i, Errno{});
    }
    expect(ibv_query_gid(context, 1, 0, &gid) == 0, "ibv_query_gid 0: {}", Errno{});
    expect(std::any_of(std::begin(gid.raw), std::end(gid.raw), [](std::uint8_t b) { return b != 0; }), "GID 0 is zero");
    expect(ibv_query_gid(context, 1, port.gid_tbl_len, &gid) != 0, "ibv_query_gid beyond the table succeeds");
}

// Private data and depths, both ways.
void private_data(Session& s, std::size_t length, std::uint8_t reads) {
    Shape shape{.reads = reads};
    shape.private_data.resize(length);
    pattern_fill(shape.private_data, s.active ? 11 : 12, length);
    const auto ep = s.connect(shape);
    const CmEvent& event = s.active ? ep->established() : ep->request();
    std::vector<std::uint8_t> want(length);
    pattern_fill(want, s.active ? 12 : 11, length);
    expect(event.private_data.size() == length, "{} octets of private data came as {}", length,
           event.private_data.size());
    expect(event.private_data == want, "private data of {} octets differs", length);
    s.count(length);
}

void rejection(Session& s, std::size_t length) {
    std::vector<std::uint8_t> words(length);
    pattern_fill(words, 5, 0);
    if (!s.active) {
        const Listener listener(s.options);
        s.control.send(listener.port());
        const CmEvent request = listener.request(s.options.patience);
        const Owned<rdma_cm_id> child(request.id);
        expect(rdma_reject(child.get(), words.data(), static_cast<std::uint8_t>(length)) == 0, "rdma_reject: {}",
               Errno{});
        s.control.barrier("rejected");
        return;
    }
    const auto port = s.control.recv<std::uint16_t>();
    try {
        Endpoint::connect(s.options, port, {.greet = false});
    } catch (const Failure& failure) {
        const std::string_view text = failure.what();
        expect(text.find("REJECTED") != text.npos, "a rejected connection ends with: {}", text);
        s.control.barrier("rejected");
        s.count(length);
        return;
    }
    fail("a rejected connection was established");
}

// Nobody listens on the port: the connection ends with one of the events that the manual allows.
void refusal(Session& s) {
    if (!s.active) {
        std::uint16_t port = 0;
        {
            const Listener gone(s.options);
            port = gone.port();
        }
        s.control.send(port);
        s.control.barrier("refused");
        return;
    }
    const auto port = s.control.recv<std::uint16_t>();
    try {
        Endpoint::connect(s.options, port, {.greet = false});
    } catch (const Failure& failure) {
        const std::string_view text = failure.what();
        const bool allowed = text.find("REJECTED") != text.npos || text.find("UNREACHABLE") != text.npos ||
                             text.find("CONNECT_ERROR") != text.npos || text.find("refused") != text.npos;
        expect(allowed, "a connection to a closed port ends with: {}", text);
        s.control.barrier("refused");
        s.count(0);
        return;
    }
    fail("a connection to a closed port was established");
}

void two_listeners_one_port(Session& s) {
    const Listener first(s.options);
    try {
        const Listener second(s.options, first.port());
    } catch (const Failure&) {
        s.count(0);
        return;
    }
    fail("two listeners on one port");
}

}  // namespace

void run_device(Session& s) {
    const auto ep = s.connect();
    ibv_device_attr device{};
    ibv_port_attr port{};
    expect(ibv_query_device(ep->context(), &device) == 0, "ibv_query_device: {}", Errno{});
    expect(ibv_query_port(ep->context(), 1, &port) == 0, "ibv_query_port: {}", Errno{});
    expect(ibv_query_port(ep->context(), static_cast<std::uint8_t>(device.phys_port_cnt + 1), &port) != 0,
           "ibv_query_port beyond the last port succeeds");
    expect(ibv_query_port(ep->context(), 1, &port) == 0, "ibv_query_port: {}", Errno{});
    expect(port.state == IBV_PORT_ACTIVE, "port state {}", static_cast<int>(port.state));
    expect(port.max_msg_sz >= 8U << 20, "max_msg_sz {}", port.max_msg_sz);
    expect(device.max_qp >= 16 && device.max_cq >= 16 && device.max_mr >= 64 && device.max_pd >= 4, "limits too low");
    expect(device.max_qp_wr >= 256 && device.max_cqe >= 256 && device.max_sge >= 2, "queue limits too low");
    expect(device.max_mr_size >= 8U << 20, "max_mr_size {}", device.max_mr_size);
    expect(device.max_qp_rd_atom > 0 && device.max_qp_init_rd_atom > 0, "no Reads: IRD {}, ORD {}",
           device.max_qp_rd_atom, device.max_qp_init_rd_atom);
    if (ep->context()->device->transport_type == IBV_TRANSPORT_IWARP) check_iwarp_port(port, device);
    check_gids(ep->context(), port);
    ibv_qp_attr attr{};
    ibv_qp_init_attr init{};
    expect(ibv_query_qp(ep->qp(), &attr, IBV_QP_STATE | IBV_QP_CAP, &init) == 0, "ibv_query_qp: {}", Errno{});
    expect(attr.qp_state == IBV_QPS_RTS, "a connected QP is in state {}", static_cast<int>(attr.qp_state));
    expect(init.qp_type == IBV_QPT_RC && init.send_cq == ep->send_cq() && init.recv_cq == ep->recv_cq(),
           "ibv_query_qp returns other CQs or another type");
    s.control.barrier("both have looked");
    s.count(0);
}

void run_cm(Session& s) {
    constexpr std::array<std::size_t, 6> kLengths = {0, 1, 4, 56, 196, 251};
    for (const std::size_t length : kLengths)
        private_data(s, length, static_cast<std::uint8_t>(1 + length % 8));
    rejection(s, 0);
    rejection(s, 100);
    refusal(s);
    if (!s.active) two_listeners_one_port(s);
    s.control.barrier("listeners");
}

}  // namespace checker
