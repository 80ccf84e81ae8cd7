// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// group_member listen|send GROUP COUNT [DEVICE]: a UD QP that receives COUNT datagrams of a multicast group, or sends
// them. GROUP is written as an IPv6 address; DEVICE is the first one where it is not named. Exit status 0: all have
// come, or left.
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

constexpr std::uint32_t kQkey = 0x22222222;
constexpr std::uint32_t kGrh = 40;

[[noreturn]] void fail(const char* what) {
    std::perror(what);
    std::exit(1);
}

void modify(ibv_qp* qp, ibv_qp_state to, int more) {
    ibv_qp_attr attr{};
    attr.qp_state = to;
    attr.port_num = 1;
    attr.qkey = kQkey;
    if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | more) != 0) fail("ibv_modify_qp");
}

// The handle from the first GID from which the group can be reached: one of its family.
ibv_ah* way_to(ibv_pd* pd, const ibv_gid& group) {
    ibv_gid gid{};
    for (int index = 1; ibv_query_gid(pd->context, 1, index, &gid) == 0; ++index) {
        ibv_ah_attr attr{};
        attr.is_global = 1;
        attr.port_num = 1;
        attr.grh.dgid = group;
        attr.grh.sgid_index = static_cast<std::uint8_t>(index);
        if (ibv_ah* ah = ibv_create_ah(pd, &attr)) return ah;
    }
    fail("ibv_create_ah");
}

}  // namespace

int main(int argc, char** argv) {
    ibv_gid group{};
    if (argc < 4 || argc > 5 || inet_pton(AF_INET6, argv[2], group.raw) != 1) return 2;
    const bool listens = std::string(argv[1]) == "listen";
    const int count = std::atoi(argv[3]);
    ibv_device** device = ibv_get_device_list(nullptr);
    while (argc == 5 && device != nullptr && *device != nullptr && std::strcmp((*device)->name, argv[4]) != 0)
        ++device;
    ibv_context* context = device != nullptr && *device != nullptr ? ibv_open_device(*device) : nullptr;
    if (context == nullptr) fail("no device");
    ibv_pd* pd = ibv_alloc_pd(context);
    ibv_cq* cq = ibv_create_cq(context, 256, nullptr, nullptr, 0);
    ibv_qp_init_attr attr{};
    attr.send_cq = attr.recv_cq = cq;
    attr.qp_type = IBV_QPT_UD;
    attr.cap = {.max_send_wr = 64, .max_recv_wr = 64, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
    ibv_qp* qp = ibv_create_qp(pd, &attr);
    if (qp == nullptr) fail("ibv_create_qp");
    static std::array<char, 4096> memory;
    ibv_mr* mr = ibv_reg_mr(pd, memory.data(), memory.size(), IBV_ACCESS_LOCAL_WRITE);
    modify(qp, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
    ibv_sge sge{reinterpret_cast<std::uintptr_t>(memory.data()), kGrh + 64, mr->lkey};
    ibv_recv_wr receive{}, *bad_receive = nullptr;
    receive.sg_list = &sge;
    receive.num_sge = 1;
    for (int i = 0; listens && i < 64; ++i)
        if (ibv_post_recv(qp, &receive, &bad_receive) != 0) fail("ibv_post_recv");
    modify(qp, IBV_QPS_RTR, 0);
    if (listens) {
        if (const int error = ibv_attach_mcast(qp, &group, 0); error != 0) {
            errno = error;
            fail("ibv_attach_mcast");
        }
        std::puts("joined");
        std::fflush(stdout);
        alarm(60);
        for (int come = 0; come < count;) {
            ibv_wc wc{};
            if (ibv_poll_cq(cq, 1, &wc) == 0) continue;
            if (wc.status != IBV_WC_SUCCESS || wc.byte_len != kGrh + 5 ||
                std::strcmp(memory.data() + kGrh, "news") != 0)
                return 1;
            ++come;
            if (ibv_post_recv(qp, &receive, &bad_receive) != 0) fail("ibv_post_recv");
        }
        return 0;
    }
    modify(qp, IBV_QPS_RTS, IBV_QP_SQ_PSN);
    std::strcpy(memory.data(), "news");
    sge.length = 5;
    ibv_send_wr wr{}, *bad = nullptr;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.ud.ah = way_to(pd, group);
    wr.wr.ud.remote_qpn = 0xffffff;
    wr.wr.ud.remote_qkey = kQkey;
    for (int i = 0; i < count; ++i) {
        if (ibv_post_send(qp, &wr, &bad) != 0) fail("ibv_post_send");
        ibv_wc wc{};
        while (ibv_poll_cq(cq, 1, &wc) == 0) {
        }
        if (wc.status != IBV_WC_SUCCESS) return 1;
        usleep(1000);
    }
    return 0;
}
