// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A random walk over the verbs: several threads make, connect, post, poll, move, disconnect and destroy at will.
// Nothing may crash, hang or leak a completion; sanitizers watch. What the verbs forbid (to destroy what another thread
// uses) is not done.
//
//   verbs_walker SEED SECONDS THREADS
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <rdma/rdma_cma.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <random>
#include <shared_mutex>
#include <string>
#include <thread>
#include <vector>

namespace {

using Random = std::mt19937;
constexpr std::size_t kPairs = 6, kRegion = 16384;
constexpr int kWr = 16;

[[noreturn]] void fail(const char* what) {
    std::fprintf(stderr, "walker: %s (errno %d)\n", what, errno);
    std::abort();
}
void require(bool holds, const char* what) {
    if (!holds) fail(what);
}
unsigned below(Random& random, std::size_t limit) {
    return static_cast<unsigned>(random() % limit);
}

struct Counts {
    std::atomic<std::uint64_t> pairs{0}, posts{0}, refused{0}, completions{0}, errors{0}, events{0}, moves{0},
        reregistered{0}, windows{0}, atomics{0};
};

struct Region {
    alignas(kRegion) std::array<char, kRegion> data{};
    ibv_mr* mr = nullptr;
    std::shared_mutex use;  // unique: to register it anew
};

struct Side {
    rdma_cm_id* id = nullptr;
    ibv_comp_channel* channel = nullptr;
    ibv_cq* send_cq = nullptr;
    ibv_cq* recv_cq = nullptr;
    ibv_srq* srq = nullptr;
    // What is read and what is written, by whichever side: nothing is both, or it would be a race of the walker's own.
    Region source, sink;
    // Written by the peer alone, through a window alone. The key is 0 while it is not bound.
    Region behind;
    ibv_mw* window = nullptr;
    std::atomic<std::uint32_t> window_key{0};
    // For the peer's atomics alone.
    std::array<std::uint64_t, 8> words{};
    ibv_mr* words_mr = nullptr;
    std::atomic<std::uint64_t> posted{0}, completed{0};
};

// Two connected QPs. Shared lock: to use them; unique: to make and destroy them.
struct Pair {
    std::shared_mutex use;
    bool made = false;
    std::atomic<bool> broken{false};  // somebody saw an error completion: soon to be made anew
    rdma_event_channel* events = nullptr;
    rdma_cm_id* listener = nullptr;
    std::array<Side, 2> sides;
};

rdma_cm_event_type wait_event(rdma_event_channel* channel, rdma_cm_id** id = nullptr) {
    pollfd waiting{.fd = channel->fd, .events = POLLIN, .revents = 0};
    require(::poll(&waiting, 1, 30'000) == 1, "no rdma_cm event within 30 s");
    rdma_cm_event* event = nullptr;
    require(rdma_get_cm_event(channel, &event) == 0, "rdma_get_cm_event");
    const rdma_cm_event_type type = event->event;
    if (id != nullptr) *id = event->id;
    rdma_ack_cm_event(event);
    return type;
}

constexpr int kRights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

void equip(Side& side, Random& random) {
    side.channel = ibv_create_comp_channel(side.id->verbs);
    require(side.channel != nullptr, "ibv_create_comp_channel");
    ::fcntl(side.channel->fd, F_SETFL, ::fcntl(side.channel->fd, F_GETFL) | O_NONBLOCK);
    side.send_cq = ibv_create_cq(side.id->verbs, 64, nullptr, below(random, 2) ? side.channel : nullptr, 0);
    side.recv_cq = ibv_create_cq(side.id->verbs, 64, nullptr, side.channel, 0);
    require(side.send_cq != nullptr && side.recv_cq != nullptr, "ibv_create_cq");
    ibv_qp_init_attr attr{};
    if (below(random, 3) == 0) {
        ibv_srq_init_attr shared{};
        shared.attr = {.max_wr = kWr, .max_sge = 2, .srq_limit = 0};
        side.srq = ibv_create_srq(side.id->pd, &shared);
        require(side.srq != nullptr, "ibv_create_srq");
    }
    attr.send_cq = side.send_cq;
    attr.recv_cq = side.recv_cq;
    attr.srq = side.srq;
    attr.qp_type = IBV_QPT_RC;
    attr.sq_sig_all = 1;
    attr.cap = {.max_send_wr = kWr, .max_recv_wr = kWr, .max_send_sge = 2, .max_recv_sge = 2, .max_inline_data = 64};
    require(rdma_create_qp(side.id, side.id->pd, &attr) == 0, "rdma_create_qp");
    for (Region* region : {&side.source, &side.sink}) {
        region->mr = ibv_reg_mr(side.id->pd, region->data.data(), kRegion, kRights);
        require(region->mr != nullptr, "ibv_reg_mr");
    }
    side.behind.mr =
        ibv_reg_mr(side.id->pd, side.behind.data.data(), kRegion, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
    side.window = ibv_alloc_mw(side.id->pd, IBV_MW_TYPE_2);
    require(side.behind.mr != nullptr && side.window != nullptr, "ibv_alloc_mw");
    side.words_mr = ibv_reg_mr(side.id->pd, side.words.data(), sizeof side.words, kRights | IBV_ACCESS_REMOTE_ATOMIC);
    require(side.words_mr != nullptr, "ibv_reg_mr");
    side.window_key = 0;
    side.posted = side.completed = 0;
}

void make(Pair& pair, Random& random) {
    pair.events = rdma_create_event_channel();
    require(pair.events != nullptr, "rdma_create_event_channel");
    require(rdma_create_id(pair.events, &pair.listener, nullptr, RDMA_PS_TCP) == 0, "rdma_create_id");
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    require(rdma_bind_addr(pair.listener, reinterpret_cast<sockaddr*>(&address)) == 0, "rdma_bind_addr");
    require(rdma_listen(pair.listener, 1) == 0, "rdma_listen");
    address.sin_port = rdma_get_src_port(pair.listener);
    auto& [client, server] = pair.sides;
    require(rdma_create_id(pair.events, &client.id, nullptr, RDMA_PS_TCP) == 0, "rdma_create_id");
    require(rdma_resolve_addr(client.id, nullptr, reinterpret_cast<sockaddr*>(&address), 5000) == 0,
            "rdma_resolve_addr");
    require(wait_event(pair.events) == RDMA_CM_EVENT_ADDR_RESOLVED, "the address is resolved");
    require(rdma_resolve_route(client.id, 5000) == 0, "rdma_resolve_route");
    require(wait_event(pair.events) == RDMA_CM_EVENT_ROUTE_RESOLVED, "the route is resolved");
    equip(client, random);
    rdma_conn_param parameters{};
    parameters.initiator_depth = parameters.responder_resources = 4;
    require(rdma_connect(client.id, &parameters) == 0, "rdma_connect");
    require(wait_event(pair.events, &server.id) == RDMA_CM_EVENT_CONNECT_REQUEST, "a request comes");
    equip(server, random);
    require(rdma_accept(server.id, &parameters) == 0, "rdma_accept");
    require(wait_event(pair.events) == RDMA_CM_EVENT_ESTABLISHED, "one side is established");
    require(wait_event(pair.events) == RDMA_CM_EVENT_ESTABLISHED, "the other too");
    pair.made = true;
    pair.broken = false;
}

// How many of them are errors.
int poll_cq(Side& side, ibv_cq* cq, int most, Counts& counts) {
    std::array<ibv_wc, 16> done;
    const int got = ibv_poll_cq(cq, most, done.data());
    require(got >= 0, "ibv_poll_cq");
    side.completed += static_cast<std::uint64_t>(got);
    counts.completions += static_cast<std::uint64_t>(got);
    const auto errors =
        std::count_if(done.begin(), done.begin() + got, [](const ibv_wc& wc) { return wc.status != IBV_WC_SUCCESS; });
    counts.errors += static_cast<std::uint64_t>(errors);
    return static_cast<int>(errors);
}

void take_events(Side& side, Counts& counts) {
    ibv_cq* cq = nullptr;
    void* context = nullptr;
    while (ibv_get_cq_event(side.channel, &cq, &context) == 0) {
        ibv_ack_cq_events(cq, 1);
        ++counts.events;
    }
}

// After a QP went to ERROR every request that it took must be completed. Not with a shared queue: what stands there
// stays.
void drain(Side& side, Counts& counts) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_ERR;
    require(ibv_modify_qp(side.id->qp, &attr, IBV_QP_STATE) == 0, "to ERR");
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (side.srq == nullptr && side.completed != side.posted) {
        poll_cq(side, side.send_cq, 16, counts);
        poll_cq(side, side.recv_cq, 16, counts);
        require(std::chrono::steady_clock::now() < deadline, "every request of a QP in ERROR is completed");
        require(side.completed <= side.posted, "none is completed twice");
    }
}

void unmake(Pair& pair, Random& random, Counts& counts) {
    if (below(random, 2)) rdma_disconnect(pair.sides[below(random, 2)].id);
    for (Side& side : pair.sides) {
        if (below(random, 2)) drain(side, counts);
        take_events(side, counts);
        const bool regions_first = below(random, 2) != 0;
        const auto end_regions = [&side] {
            for (Region* region : {&side.source, &side.sink})
                require(ibv_dereg_mr(region->mr) == 0, "ibv_dereg_mr");
            require(ibv_dereg_mr(side.words_mr) == 0, "ibv_dereg_mr");
            require(ibv_dealloc_mw(side.window) == 0, "ibv_dealloc_mw");
            require(ibv_dereg_mr(side.behind.mr) == 0, "ibv_dereg_mr of what no window is bound to any more");
        };
        if (regions_first) end_regions();
        rdma_destroy_qp(side.id);
        if (side.srq != nullptr) require(ibv_destroy_srq(side.srq) == 0, "ibv_destroy_srq");
        side.srq = nullptr;
        take_events(side, counts);
        require(ibv_destroy_cq(side.send_cq) == 0 && ibv_destroy_cq(side.recv_cq) == 0, "ibv_destroy_cq");
        require(ibv_destroy_comp_channel(side.channel) == 0, "ibv_destroy_comp_channel");
        if (!regions_first) end_regions();
    }
    for (Side& side : pair.sides)
        require(rdma_destroy_id(side.id) == 0, "rdma_destroy_id");
    require(rdma_destroy_id(pair.listener) == 0, "rdma_destroy_id");
    rdma_destroy_event_channel(pair.events);
    pair.made = false;
    ++counts.pairs;
}

ibv_sge some_memory(Region& region, Random& random, std::shared_lock<std::shared_mutex>& hold) {
    hold = std::shared_lock(region.use, std::try_to_lock);
    if (!hold.owns_lock()) return {};  // it is being registered anew; nobody waits with another region in hand
    const unsigned start = below(random, kRegion);
    const unsigned length =
        below(random, below(random, 4) == 0 ? kRegion - start + 1 : std::min<std::size_t>(100, kRegion - start) + 1);
    // Now and then a key that is none, or more than there is.
    const bool wrong = below(random, 20'000) == 0;
    return {.addr = reinterpret_cast<std::uintptr_t>(region.data.data() + start),
            .length = length,
            .lkey = wrong ? region.mr->lkey ^ 0x100 : region.mr->lkey};
}

int post(Side& side, ibv_send_wr& wr, Counts& counts) {
    ibv_send_wr* bad = nullptr;
    const int error = ibv_post_send(side.id->qp, &wr, &bad);
    ++(error ? counts.refused : counts.posts);
    if (!error) ++side.posted;
    return error;
}

void post_send(Side& side, Side& peer, Random& random, Counts& counts) {
    std::shared_lock<std::shared_mutex> hold, peer_hold;
    static constexpr std::array kOpcodes = {IBV_WR_SEND,          IBV_WR_RDMA_WRITE,          IBV_WR_RDMA_READ,
                                            IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_WRITE};
    ibv_send_wr wr{};
    wr.opcode = kOpcodes[below(random, kOpcodes.size())];
    const bool read = wr.opcode == IBV_WR_RDMA_READ;
    ibv_sge local = some_memory(read ? side.sink : side.source, random, hold);
    if (!hold.owns_lock()) return;
    const ibv_sge remote = some_memory(read ? peer.source : peer.sink, random, peer_hold);
    if (!peer_hold.owns_lock()) return;
    wr.sg_list = &local;
    wr.num_sge = 1;
    wr.send_flags = below(random, 4) == 0 ? IBV_SEND_FENCE : below(random, 4) == 0 ? IBV_SEND_SOLICITED : 0;
    local.length = std::min(local.length, remote.length);
    if (local.length <= 64 && !read && below(random, 2)) wr.send_flags |= IBV_SEND_INLINE;
    wr.wr.rdma.remote_addr = remote.addr;
    wr.wr.rdma.rkey = remote.lkey;
    post(side, wr, counts);
}

void post_atomic(Side& side, Side& peer, Random& random, Counts& counts) {
    std::shared_lock<std::shared_mutex> hold;
    ibv_sge result = some_memory(side.sink, random, hold);
    if (!hold.owns_lock() || result.length < sizeof(std::uint64_t)) return;
    result.length = sizeof(std::uint64_t);
    ibv_send_wr wr{};
    wr.opcode = below(random, 2) ? IBV_WR_ATOMIC_FETCH_AND_ADD : IBV_WR_ATOMIC_CMP_AND_SWP;
    wr.sg_list = &result;
    wr.num_sge = 1;
    const std::uint64_t& word = peer.words[below(random, static_cast<unsigned>(peer.words.size()))];
    // Now and then one that is not aligned.
    wr.wr.atomic = {.remote_addr = reinterpret_cast<std::uintptr_t>(&word) + (below(random, 20'000) == 0 ? 4 : 0),
                    .compare_add = below(random, 3),
                    .swap = below(random, 3),
                    .rkey = peer.words_mr->rkey};
    if (post(side, wr, counts) == 0) ++counts.atomics;
}

void turn_window(Side& side, Random& random, Counts& counts) {
    const std::unique_lock hold(side.behind.use, std::try_to_lock);
    if (!hold.owns_lock()) return;
    ibv_send_wr wr{};
    if (below(random, 4) == 0) wr.send_flags = IBV_SEND_FENCE;
    const std::uint32_t bound = side.window_key;
    if (bound != 0) {
        wr.opcode = IBV_WR_LOCAL_INV;
        wr.invalidate_rkey = bound;
    } else {
        wr.opcode = IBV_WR_BIND_MW;
        wr.bind_mw.mw = side.window;
        wr.bind_mw.rkey = (side.window->rkey & ~0xffu) | below(random, 256);
        wr.bind_mw.bind_info = {.mr = side.behind.mr,
                                .addr = reinterpret_cast<std::uintptr_t>(side.behind.data.data()),
                                .length = kRegion,
                                .mw_access_flags = IBV_ACCESS_REMOTE_WRITE};
    }
    if (post(side, wr, counts) != 0) return;
    side.window_key = bound != 0 ? 0 : wr.bind_mw.rkey;
    ++counts.windows;
}

// By the peer of the window's owner. It may come too early or too late: then the connection ends.
void use_window(Side& side, Side& peer, Random& random, Counts& counts) {
    std::shared_lock<std::shared_mutex> hold, peer_hold;
    ibv_sge local = some_memory(side.source, random, hold);
    const ibv_sge remote = some_memory(peer.behind, random, peer_hold);
    const std::uint32_t key = peer.window_key;
    if (!hold.owns_lock() || !peer_hold.owns_lock() || key == 0) return;
    local.length = std::min(local.length, remote.length);
    ibv_send_wr wr{};
    wr.sg_list = &local;
    wr.num_sge = 1;
    if (below(random, 8) == 0) {
        wr.opcode = IBV_WR_SEND_WITH_INV;
        wr.invalidate_rkey = key;
    } else {
        wr.opcode = IBV_WR_RDMA_WRITE;
        wr.wr.rdma.remote_addr = remote.addr;
        wr.wr.rdma.rkey = key;
    }
    post(side, wr, counts);
}

void post_recv(Side& side, Random& random, Counts& counts) {
    std::shared_lock<std::shared_mutex> hold;
    ibv_sge into = some_memory(side.sink, random, hold);
    if (!hold.owns_lock()) return;
    // Nearly always room for whatever is sent.
    if (below(random, 1000) != 0) {
        into.addr -= into.addr % kRegion;
        into.length = kRegion;
    }
    ibv_recv_wr wr{};
    wr.sg_list = &into;
    wr.num_sge = 1;
    ibv_recv_wr* bad = nullptr;
    const int error =
        side.srq != nullptr ? ibv_post_srq_recv(side.srq, &wr, &bad) : ibv_post_recv(side.id->qp, &wr, &bad);
    ++(error ? counts.refused : counts.posts);
    if (!error && side.srq == nullptr) ++side.posted;
}

void register_anew(Side& side, Random& random, Counts& counts) {
    Region& region = below(random, 2) ? side.source : side.sink;
    const std::unique_lock hold(region.use, std::try_to_lock);
    if (!hold.owns_lock()) return;
    if (below(random, 2)) {
        require(ibv_rereg_mr(region.mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, kRights) == 0, "ibv_rereg_mr");
    } else {
        require(ibv_dereg_mr(region.mr) == 0, "ibv_dereg_mr");
        region.mr = ibv_reg_mr(side.id->pd, region.data.data(), kRegion, kRights);
        require(region.mr != nullptr, "ibv_reg_mr");
    }
    ++counts.reregistered;
}

void use(Pair& pair, Random& random, Counts& counts) {
    Side& side = pair.sides[below(random, 2)];
    Side& peer = pair.sides[&side == &pair.sides[0] ? 1 : 0];
    switch (below(random, 5000)) {
        case 0: {
            static constexpr std::array kStates = {IBV_QPS_ERR, IBV_QPS_SQD, IBV_QPS_SQE};
            ibv_qp_attr attr{};
            attr.qp_state = kStates[below(random, kStates.size())];
            ibv_modify_qp(side.id->qp, &attr, IBV_QP_STATE);
            ++counts.moves;
            return;
        }
        case 1:
            ibv_resize_cq(below(random, 2) ? side.send_cq : side.recv_cq, static_cast<int>(64 + below(random, 64)));
            return;
        case 2:
        case 3:
            return register_anew(side, random, counts);
        case 4:
        case 5:
        case 6:
        case 7:
        case 8:
        case 9:
            return turn_window(side, random, counts);
        case 10:
        case 11:
        case 12:
            return use_window(side, peer, random, counts);
        default:
            break;
    }
    ibv_qp_attr attr{};
    ibv_qp_init_attr made{};
    switch (below(random, 16)) {
        case 0:
            return take_events(side, counts);
        case 1:
            require(ibv_req_notify_cq(below(random, 2) ? side.send_cq : side.recv_cq,
                                      static_cast<int>(below(random, 2))) == 0,
                    "ibv_req_notify_cq");
            return;
        case 2:
            require(ibv_query_qp(side.id->qp, &attr, IBV_QP_STATE, &made) == 0, "ibv_query_qp");
            return;
        case 3:
        case 4:
        case 5:
        case 6:
        case 7:
            return post_recv(side, random, counts);
        case 8:
        case 9:
        case 10:
            return post_send(side, peer, random, counts);
        case 11:
            return post_atomic(side, peer, random, counts);
        default:
            if (poll_cq(side, side.send_cq, static_cast<int>(1 + below(random, 16)), counts) +
                    poll_cq(side, side.recv_cq, static_cast<int>(1 + below(random, 16)), counts) !=
                0)
                pair.broken = true;
            return;
    }
}

void walk(std::array<Pair, kPairs>& pairs, unsigned seed, std::chrono::steady_clock::time_point end, Counts& counts) {
    Random random(seed);
    while (std::chrono::steady_clock::now() < end) {
        Pair& pair = pairs[below(random, kPairs)];
        if (below(random, pair.broken ? 5 : 1000) == 0) {
            const std::unique_lock hold(pair.use);
            if (pair.made)
                unmake(pair, random, counts);
            else
                make(pair, random);
            continue;
        }
        const std::shared_lock hold(pair.use, std::try_to_lock);
        for (int i = 0; hold.owns_lock() && pair.made && i < 20; ++i)
            use(pair, random, counts);
    }
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 4) return 2;
    ::setenv("SWRNIC_LOG", "error", 0);  // every Terminate is a warning
    const auto seed = static_cast<unsigned>(std::stoul(argv[1]));
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(std::stoul(argv[2]));
    auto pairs = std::make_unique<std::array<Pair, kPairs>>();
    Counts counts;
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < std::stoul(argv[3]); ++i)
        threads.emplace_back([&, i] { walk(*pairs, seed * 1000 + i, end, counts); });
    for (std::thread& thread : threads)
        thread.join();
    Random random(seed);
    for (Pair& pair : *pairs)
        if (pair.made) unmake(pair, random, counts);
    std::printf(
        "seed %u: %lu pairs, %lu posts (%lu refused), %lu completions (%lu errors), %lu events, %lu moves, %lu regions "
        "anew, %lu windows turned, %lu atomics\n",
        seed, counts.pairs.load(), counts.posts.load(), counts.refused.load(), counts.completions.load(),
        counts.errors.load(), counts.events.load(), counts.moves.load(), counts.reregistered.load(),
        counts.windows.load(), counts.atomics.load());
    require(counts.pairs > 0 && counts.posts > 0 && counts.completions > 0 && counts.events > 0 && counts.atomics > 0,
            "something was done");
    return 0;
}
