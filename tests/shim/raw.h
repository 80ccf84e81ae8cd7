// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The uAPI spoken by hand, as libibverbs and librdmacm speak it, but with every field and length in the test's hands.
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_cm.h>

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "swrnic-abi.h"

namespace swrnic::test {

// A descriptor that closes itself; -1: none.
class Fd {
  public:
    explicit Fd(int fd = -1) : fd_(fd) {}
    Fd(Fd&& other) noexcept : fd_(other.release()) {}
    Fd& operator=(Fd&& other) noexcept;
    ~Fd() { reset(); }
    int get() const { return fd_; }
    int release();
    void reset();

  private:
    int fd_;
};

using Bytes = std::vector<std::uint8_t>;

template <typename T>
void append(Bytes& bytes, const T& value) {
    const std::size_t at = bytes.size();
    bytes.resize(at + sizeof(value));
    std::memcpy(bytes.data() + at, &value, sizeof(value));
}

template <typename T>
std::uint64_t address_of(T& object) {
    return reinterpret_cast<std::uint64_t>(&object);
}

template <typename T>
Bytes bytes_of(const T& value) {
    Bytes bytes;
    append(bytes, value);
    return bytes;
}

int send_bytes(int fd, const Bytes& bytes);  // 0, or errno

// Of a small file, from where the descriptor stands; "unreadable" if it cannot be read.
std::string contents(int fd);
std::string contents(const std::string& path);

// One verbs context. Commands return 0 or errno.
class Context {
  public:
    Context();  // opens the device and gets a context; check ok()

    bool ok() const { return cmd.get() >= 0 && async.get() >= 0 && events.get() >= 0; }

    // The command with its header; core and driver data back to back, the response's room in 32-bit words from
    // out_size.
    template <typename Core>
    int command(std::uint32_t number, const Core& core, std::size_t out_size, const Bytes& driver = {}) const {
        Bytes bytes;
        ib_uverbs_cmd_hdr header{};
        header.command = number;
        header.in_words = static_cast<std::uint16_t>((sizeof(header) + sizeof(core) + driver.size()) / 4);
        header.out_words = static_cast<std::uint16_t>(out_size / 4);
        append(bytes, header);
        append(bytes, core);
        for (const std::uint8_t octet : driver)  // insert() is a false alarm of g++ 12's -Warray-bounds
            bytes.push_back(octet);
        return send_bytes(cmd.get(), bytes);
    }

    int alloc_pd(std::uint32_t& handle) const;
    int create_channel(Fd& channel) const;
    int create_cq(std::uint32_t& handle, int channel = -1, std::uint64_t user_handle = 0, std::uint32_t cqe = 16) const;
    int destroy_cq(std::uint32_t handle, ib_uverbs_destroy_cq_resp& counts) const;
    int reg_mr(std::uint32_t pd, std::uint32_t stag, std::uint32_t access, ib_uverbs_reg_mr_resp& made) const;
    struct Qp {
        std::uint32_t handle = 0, qpn = 0;
    };
    int create_qp(std::uint32_t pd, std::uint32_t cq, Qp& qp, const swrnic_create_qp_req& startup,
                  std::uint64_t user_handle = 0, std::uint8_t type = 2) const;
    int modify_qp(std::uint32_t handle, std::uint8_t state) const;
    int query_qp(std::uint32_t handle, ib_uverbs_query_qp_resp& attributes) const;
    int destroy_qp(std::uint32_t handle, std::uint32_t* events_reported = nullptr) const;
    // A QP in INIT with its own PD and CQ.
    std::optional<Qp> ready_qp(const swrnic_create_qp_req& startup) const;

    int report(std::uint32_t type, std::uint32_t id, std::uint32_t aux = 0) const;  // writes one swrnic_up
    std::optional<swrnic_down> next_order(int timeout_ms = 2000) const;             // reads one swrnic_down

    Fd cmd, async, events;
    std::uint32_t comp_vectors = 0;
};

swrnic_create_qp_req default_startup();

// One rdma_cm file.
class Cm {
  public:
    Cm();

    template <typename Command>
    int command(std::uint32_t number, const Command& command, std::size_t out = 0) const {
        Bytes bytes;
        rdma_ucm_cmd_hdr header{};
        header.cmd = number;
        header.in = sizeof(command);
        header.out = static_cast<std::uint16_t>(out);
        append(bytes, header);
        append(bytes, command);
        return send_bytes(fd.get(), bytes);
    }

    std::uint32_t create_id(std::uint64_t uid, std::uint16_t port_space = RDMA_PS_TCP) const;
    int destroy_id(std::uint32_t id, std::uint32_t* events_reported = nullptr) const;
    int bind(std::uint32_t id, const sockaddr* address, std::size_t size) const;
    int listen(std::uint32_t id, std::uint32_t backlog = 8) const;
    int resolve(std::uint32_t id, const sockaddr* to, std::size_t size) const;
    int resolve_route(std::uint32_t id) const;
    int connect(std::uint32_t id, std::uint32_t qpn, std::string_view private_data = {}, std::uint8_t ird = 1,
                std::uint8_t ord = 1) const;
    int accept(std::uint32_t id, std::uint64_t uid, std::uint32_t qpn, std::string_view private_data = {},
               std::uint8_t ird = 1, std::uint8_t ord = 1) const;
    int reject(std::uint32_t id, std::string_view private_data) const;
    int disconnect(std::uint32_t id) const;
    template <typename Value>
    int set_option(std::uint32_t id, std::uint32_t name, const Value& value) const {
        rdma_ucm_set_option set{};
        set.optval = reinterpret_cast<std::uintptr_t>(&value);
        set.id = id;
        set.level = RDMA_OPTION_ID;
        set.optname = name;
        set.optlen = sizeof(value);
        return command(RDMA_USER_CM_CMD_SET_OPTION, set);
    }
    int query_addr(std::uint32_t id, rdma_ucm_query_addr_resp& out) const;
    int get_event(rdma_ucm_event_resp& event) const;                        // as the descriptor's flags say
    std::optional<rdma_ucm_event_resp> event(int timeout_ms = 3000) const;  // polls, then gets

    // For common sequences; they EXPECT every step.
    std::uint16_t listen_on_loopback(std::uint32_t id, std::uint32_t backlog = 8) const;  // returns the port
    bool resolve_to_loopback(std::uint32_t id, std::uint16_t port) const;

    Fd fd;
};

// Numbers of enum rdma_cm_event_type, whose header cannot be included beside the uAPI's.
enum : std::uint32_t {
    kAddrResolved = 0,
    kAddrError = 1,
    kRouteResolved = 2,
    kConnectRequest = 4,
    kConnectError = 6,
    kUnreachable = 7,
    kRejected = 8,
    kEstablished = 9,
    kDisconnected = 10,
    kMulticastJoin = 12,
};

sockaddr_in loopback(std::uint16_t port = 0);
Fd raw_client(std::uint16_t port);     // a plain TCP connection to the loopback
Fd raw_listener(std::uint16_t& port);  // a plain TCP listener
bool readable(int fd, int timeout_ms);
// The MPA Request of RFC 5044 with the given fields, by hand.
std::string mpa_request(std::uint8_t flags, std::uint8_t revision, std::uint16_t length, const std::string& body);
std::string private_text(const rdma_ucm_event_resp& event);

}  // namespace swrnic::test
