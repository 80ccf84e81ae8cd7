// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Connections in numbers: so many at once, left idle, ended; over and over. Says as JSON what an idle one costs and
// what stays behind. With BUSY the client, at each line that it reads, writes over so many of them for half a second,
// as fast as it can, and says how fast that was (10^6 octets a second); at the end of its input all are left idle.
//
//   many_connections server ADDRESS PORT AT_ONCE ROUNDS [BUSY]
//   many_connections client ADDRESS PORT AT_ONCE ROUNDS [BUSY]
#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

[[noreturn]] void fail(const char* what) {
    std::perror(what);
    std::exit(1);
}
void require(bool holds, const char* what) {
    if (!holds) fail(what);
}

[[noreturn]] void unexpected(rdma_cm_event_type type) {
    std::fprintf(stderr, "unexpected: %s\n", rdma_event_str(type));
    std::exit(1);
}

long resident_kib() {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);)
        if (line.starts_with("VmRSS:")) return std::stol(line.substr(6));
    return 0;
}
long descriptors() {
    long count = 0;
    DIR* const open = ::opendir("/proc/self/fd");
    while (::readdir(open) != nullptr)
        ++count;
    ::closedir(open);
    return count;
}
double cpu_seconds() {
    rusage used{};
    ::getrusage(RUSAGE_SELF, &used);
    const auto seconds = [](const timeval& t) {
        return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
    };
    return seconds(used.ru_utime) + seconds(used.ru_stime);
}

// Both sides of the program.
class Side {
  public:
    Side(const char* address, const char* port) {
        events_ = rdma_create_event_channel();
        require(events_ != nullptr, "rdma_create_event_channel");
        address_.sin_family = AF_INET;
        ::inet_pton(AF_INET, address, &address_.sin_addr);
        address_.sin_port = htons(static_cast<std::uint16_t>(std::stoi(port)));
    }

    void listen() {
        require(rdma_create_id(events_, &listener_, nullptr, RDMA_PS_TCP) == 0, "rdma_create_id");
        require(rdma_bind_addr(listener_, reinterpret_cast<sockaddr*>(&address_)) == 0, "rdma_bind_addr");
        require(rdma_listen(listener_, 1024) == 0, "rdma_listen");
    }

    void accept(std::size_t count) {
        std::size_t established = 0;
        for (rdma_cm_id* id : std::exchange(early_, {}))
            take(id);
        while (established < count) {
            rdma_cm_id* id = nullptr;
            const rdma_cm_event_type type = next(id);
            switch (type) {
                case RDMA_CM_EVENT_CONNECT_REQUEST:
                    if (ids_.size() < count)
                        take(id);
                    else
                        early_.push_back(id);
                    break;
                case RDMA_CM_EVENT_ESTABLISHED:
                    ++established;
                    break;
                case RDMA_CM_EVENT_DISCONNECTED:  // the peer has all of them, and ends the first
                    ++ended_;
                    break;
                default:
                    unexpected(type);
            }
        }
    }

    // No more at once than a listener lets in half-open: beyond that the slowest are turned away.
    void connect(std::size_t count) {
        constexpr std::size_t kUnderWay = 100;
        std::size_t established = 0;
        while (established < count) {
            while (ids_.size() < std::min(count, established + kUnderWay))
                begin_connect();
            rdma_cm_id* id = nullptr;
            rdma_conn_param parameters{};
            const rdma_cm_event_type type = next(id);
            switch (type) {
                case RDMA_CM_EVENT_ADDR_RESOLVED:
                    require(rdma_resolve_route(id, 5000) == 0, "rdma_resolve_route");
                    break;
                case RDMA_CM_EVENT_ROUTE_RESOLVED:
                    make_qp(id);
                    require(rdma_connect(id, &parameters) == 0, "rdma_connect");
                    break;
                case RDMA_CM_EVENT_ESTABLISHED:
                    ++established;
                    break;
                default:
                    unexpected(type);
            }
        }
    }

    // Writes of 64 KiB in turn over `count` of the connections, a few under way on each; 10^6 octets a second.
    double stream(std::size_t count, std::chrono::milliseconds time) {
        ibv_mr* const mr = memory((*ids_.begin())->pd);
        const std::vector<rdma_cm_id*> busy(ids_.begin(), std::next(ids_.begin(), static_cast<long>(count)));
        std::uint64_t posted = 0, completed = 0;
        const auto post = [&](std::uint64_t index) {
            ibv_sge sge{.addr = reinterpret_cast<std::uint64_t>(mr->addr), .length = kWrite, .lkey = mr->lkey};
            ibv_send_wr wr{}, *bad = nullptr;
            wr.wr_id = index;
            wr.sg_list = &sge;
            wr.num_sge = 1;
            wr.opcode = IBV_WR_RDMA_WRITE;
            wr.send_flags = IBV_SEND_SIGNALED;
            wr.wr.rdma.remote_addr = target_.address;
            wr.wr.rdma.rkey = target_.rkey;
            require(ibv_post_send(busy[index]->qp, &wr, &bad) == 0, "ibv_post_send");
            ++posted;
        };
        for (std::uint64_t i = 0; i < 4 * count; ++i)
            post(i % count);
        const auto begin = std::chrono::steady_clock::now();
        std::chrono::duration<double> took{};
        while (completed < posted) {
            ibv_wc wcs[32];
            const int some = ibv_poll_cq(cq_, 32, wcs);
            require(some >= 0, "ibv_poll_cq");
            took = std::chrono::steady_clock::now() - begin;
            for (int i = 0; i < some; ++i, ++completed) {
                require(wcs[i].status == IBV_WC_SUCCESS, ibv_wc_status_str(wcs[i].status));
                if (took < time) post(wcs[i].wr_id);
            }
        }
        return static_cast<double>(completed) * kWrite / took.count() / 1e6;
    }

    void end(bool first) {
        if (first)
            for (rdma_cm_id* id : ids_)
                require(rdma_disconnect(id) == 0, "rdma_disconnect");
        while (ended_ < ids_.size()) {
            rdma_cm_id* id = nullptr;
            const rdma_cm_event_type type = next(id);
            if (type == RDMA_CM_EVENT_CONNECT_REQUEST)  // of the next round
                early_.push_back(id);
            else if (type == RDMA_CM_EVENT_DISCONNECTED)
                ++ended_;
            else
                unexpected(type);
        }
        if (mr_ != nullptr) ibv_dereg_mr(std::exchange(mr_, nullptr));
        for (rdma_cm_id* id : ids_) {
            rdma_destroy_qp(id);
            require(rdma_destroy_id(id) == 0, "rdma_destroy_id");
        }
        ids_.clear();
        ended_ = 0;
    }

  private:
    static constexpr std::uint32_t kWrite = 65536;
    struct Target {
        std::uint64_t address;
        std::uint32_t rkey;
    };

    void begin_connect() {
        rdma_cm_id* id = nullptr;
        require(rdma_create_id(events_, &id, nullptr, RDMA_PS_TCP) == 0, "rdma_create_id");
        require(rdma_resolve_addr(id, nullptr, reinterpret_cast<sockaddr*>(&address_), 5000) == 0, "rdma_resolve_addr");
        ids_.insert(id);
    }
    ibv_mr* memory(ibv_pd* pd) {
        if (mr_ != nullptr) return mr_;
        memory_.resize(kWrite);
        mr_ = ibv_reg_mr(pd, memory_.data(), kWrite, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
        require(mr_ != nullptr, "ibv_reg_mr");
        return mr_;
    }
    void take(rdma_cm_id* id) {
        make_qp(id);
        const ibv_mr* const mr = memory(id->pd);
        const Target here{reinterpret_cast<std::uint64_t>(mr->addr), mr->rkey};
        rdma_conn_param parameters{};
        parameters.private_data = &here;
        parameters.private_data_len = sizeof here;
        require(rdma_accept(id, &parameters) == 0, "rdma_accept");
        ids_.insert(id);
    }
    rdma_cm_event_type next(rdma_cm_id*& id) {
        rdma_cm_event* event = nullptr;
        require(rdma_get_cm_event(events_, &event) == 0, "rdma_get_cm_event");
        id = event->id;
        const rdma_cm_event_type type = event->event;
        if (event->status != 0) std::fprintf(stderr, "%s, status %d\n", rdma_event_str(type), event->status);
        if (type == RDMA_CM_EVENT_ESTABLISHED && event->param.conn.private_data_len >= sizeof target_)
            std::memcpy(&target_, event->param.conn.private_data, sizeof target_);
        rdma_ack_cm_event(event);
        return type;
    }
    void make_qp(rdma_cm_id* id) {
        if (cq_ == nullptr) cq_ = ibv_create_cq(id->verbs, 1024, nullptr, nullptr, 0);
        require(cq_ != nullptr, "ibv_create_cq");
        ibv_qp_init_attr attr{};
        attr.send_cq = attr.recv_cq = cq_;
        attr.qp_type = IBV_QPT_RC;
        attr.cap = {.max_send_wr = 128, .max_recv_wr = 128, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
        require(rdma_create_qp(id, nullptr, &attr) == 0, "rdma_create_qp");
    }

    rdma_event_channel* events_ = nullptr;
    rdma_cm_id* listener_ = nullptr;
    sockaddr_in address_{};
    std::set<rdma_cm_id*> ids_;
    std::vector<rdma_cm_id*> early_;  // requests of the next round
    std::size_t ended_ = 0;
    ibv_cq* cq_ = nullptr;
    std::vector<std::byte> memory_;
    ibv_mr* mr_ = nullptr;
    Target target_{};  // of the server
};

}  // namespace

int main(int argc, char** argv) {
    if (argc != 6 && argc != 7) return 2;
    const bool server = std::strcmp(argv[1], "server") == 0;
    const std::size_t at_once = std::stoul(argv[4]), rounds = std::stoul(argv[5]);
    const std::size_t busy_ones = argc == 7 ? std::stoul(argv[6]) : 0;
    Side side(argv[2], argv[3]);
    if (server) side.listen();
    const auto one_round = [&](std::size_t count, auto&& idle) {
        if (server)
            side.accept(count);
        else
            side.connect(count);
        idle();
        side.end(!server);
    };
    const auto wait_for_lingering = [] { std::this_thread::sleep_for(std::chrono::milliseconds(1500)); };
    one_round(1, [] {});  // what is made once is made now
    wait_for_lingering();
    const long before_kib = resident_kib(), before_fds = descriptors();
    long each_bytes = 0;
    double idle_cpu = 0;
    const auto start = std::chrono::steady_clock::now();
    for (std::size_t i = 0; i < rounds; ++i) {
        one_round(at_once, [&] {
            if (i != 0) return;
            if (busy_ones != 0 && !server) {
                for (std::string line; std::getline(std::cin, line);)
                    std::cout << side.stream(busy_ones, std::chrono::milliseconds(500)) << std::endl;
            }
            each_bytes = (resident_kib() - before_kib) * 1024 / static_cast<long>(at_once);
            const double busy = cpu_seconds();
            std::this_thread::sleep_for(std::chrono::seconds(2));
            idle_cpu = (cpu_seconds() - busy) / 2;
        });
    }
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    wait_for_lingering();
    std::printf(
        "{\"bytes_each\": %ld, \"idle_cpu\": %.4f, \"descriptors_left\": %ld, \"kib_left\": %ld, \"seconds\": %.2f}\n",
        each_bytes, idle_cpu, descriptors() - before_fds, resident_kib() - before_kib, took.count());
    return 0;
}
