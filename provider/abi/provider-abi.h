// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The private ABI between libibverbs and its providers, which libibverbs-dev does not ship: declared here once, from
// facts about its layouts, for 64-bit machines. What is alike in all that we know (abi/layout.h) is declared, with a
// static check of each offset; what differs is found when libibverbs loads us: the operations' table (operations.h),
// where a verbs_context begins, where a verbs_qp says that it is an extended one. Nothing that has grown is trusted to
// be as large as in the headers of the machine that builds this.
//
// Calls return 0 or a positive errno (creation: a pointer, or null and errno). Nothing here throws.
#pragma once

#include <infiniband/verbs.h>
#include <pthread.h>
#include <rdma/ib_user_verbs.h>
#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <string>

#include "abi/layout.h"
#include "operations.h"

// ---- devices ----

enum : std::uint8_t { VERBS_MATCH_END = 0, VERBS_MATCH_BY_DRIVER_ID = 3 };

struct verbs_match_ent {
    void* driver_data;
    union {
        const char* modalias;
        std::uint64_t driver_id;
    } u;
    std::uint16_t vendor;
    std::uint16_t device;
    std::uint8_t kind;  // VERBS_MATCH_*
};

struct verbs_list_node {
    verbs_list_node* next;
    verbs_list_node* prev;
};

// A device as libibverbs found it, before a provider takes it.
struct verbs_sysfs_dev {
    verbs_list_node entry;
    void* provider_data;           // ours, from match_device to alloc_device
    const verbs_match_ent* match;  // the entry of match_table that fits, or null
    unsigned int flags;
    char sysfs_name[IBV_SYSFS_NAME_MAX];  // "uverbs0"
    dev_t sysfs_cdev;
    char ibdev_name[IBV_SYSFS_NAME_MAX];  // "swr0"
    char ibdev_path[IBV_SYSFS_PATH_MAX];  // "/sys/class/infiniband/swr0"
    char modalias[512];
    std::uint64_t node_guid;
    std::uint32_t driver_id;  // 0 unless netlink told it
    ibv_node_type node_type;
    int ibdev_idx;  // -1 without netlink
    std::uint32_t num_ports;
    std::uint32_t abi_ver;  // of the driver data, from the uverbs device's abi_version
    timespec time_created;
};

struct verbs_device;

struct verbs_device_ops {
    const char* name;
    std::uint32_t match_min_abi_version;
    std::uint32_t match_max_abi_version;
    const verbs_match_ent* match_table;
    const verbs_device_ops** static_providers;
    bool (*match_device)(verbs_sysfs_dev* sysfs_dev);  // if set, has the last word, whatever the table said
    // cmd_fd belongs to the provider from the call on.
    verbs_context* (*alloc_context)(ibv_device* device, int cmd_fd, void* private_data);
    verbs_context* (*import_context)(ibv_device* device, int cmd_fd);
    verbs_device* (*alloc_device)(verbs_sysfs_dev* sysfs_dev);  // zeroed memory; libibverbs fills it
    void (*uninit_device)(verbs_device* device);
};

struct verbs_device {
    ibv_device device;
    const verbs_device_ops* ops;
    int refcount;  // atomic, libibverbs' own
    verbs_list_node entry;
    verbs_sysfs_dev* sysfs;
    std::uint64_t core_support;
};

// ---- objects ----

struct verbs_mr {
    ibv_mr mr;
    int mr_type;
    int access;
};

enum : std::uint32_t { VERBS_QP_EX = 2 };

struct verbs_cq {
    union {
        ibv_cq cq;
        ibv_cq_ex cq_ex;
    };
};

// ---- commands ----

// A request as the ibv_cmd_* functions want it: room for the header that they write, the kernel's struct, then the
// driver's data. Bytes, because the kernel's structs end in a flexible array that C++ lets nothing follow.
template <typename Core>
inline constexpr std::size_t kCommandCoreSize = sizeof(ib_uverbs_cmd_hdr) + sizeof(Core);

struct ibv_fd_arr;

namespace swrnic::abi {

// cmd: a request as above, cmd_size octets, which the function fills up to the driver data.
//
// _verbs_init_and_alloc_context calloc()s size octets with a verbs_context at offset (a number in a pointer's clothes)
// and initialises that. It takes cmd_fd, also when it fails. The caller frees the memory with free(), after
// verbs_uninit_context(), which closes cmd_fd and async_fd. verbs_set_ops overwrites what is not null in its table, and
// may be called again. The destruction of a CQ, a QP or an SRQ returns after the application has acknowledged every
// event of it that it has read.
// clang-format off
#define SWRNIC_PRIVATE_FUNCTIONS(F) \
    F(void*, _verbs_init_and_alloc_context, (ibv_device* device, int cmd_fd, std::size_t size, verbs_context* offset, std::uint32_t driver_id)) \
    F(void, verbs_uninit_context, (verbs_context* context)) \
    F(void, verbs_set_ops, (verbs_context* context, const OperationTable* ops)) \
    F(int, ibv_cmd_get_context, (verbs_context* context, void* cmd, std::size_t cmd_size, ib_uverbs_get_context_resp* resp, std::size_t resp_size)) \
    F(int, ibv_cmd_query_device_any, (ibv_context* context, const ibv_query_device_ex_input* input, ibv_device_attr_ex* attr, std::size_t attr_size, ib_uverbs_ex_query_device_resp* resp, std::size_t* resp_size)) \
    F(int, ibv_cmd_query_port, (ibv_context* context, std::uint8_t port_num, ibv_port_attr* attr, void* cmd, std::size_t cmd_size)) \
    F(int, ibv_cmd_alloc_pd, (ibv_context* context, ibv_pd* pd, void* cmd, std::size_t cmd_size, ib_uverbs_alloc_pd_resp* resp, std::size_t resp_size)) \
    F(int, ibv_cmd_dealloc_pd, (ibv_pd* pd)) \
    F(int, ibv_cmd_reg_mr, (ibv_pd* pd, void* addr, std::size_t length, std::uint64_t hca_va, int access, verbs_mr* mr, void* cmd, std::size_t cmd_size, ib_uverbs_reg_mr_resp* resp, std::size_t resp_size)) \
    F(int, ibv_cmd_dereg_mr, (verbs_mr* mr)) \
    F(int, ibv_cmd_alloc_mw, (ibv_pd* pd, ibv_mw_type type, ibv_mw* mw, void* cmd, std::size_t cmd_size, ib_uverbs_alloc_mw_resp* resp, std::size_t resp_size)) \
    F(int, ibv_cmd_dealloc_mw, (ibv_mw* mw)) \
    F(int, ibv_cmd_create_ah, (ibv_pd* pd, ibv_ah* ah, ibv_ah_attr* attr, ib_uverbs_create_ah_resp* resp, std::size_t resp_size)) \
    F(int, ibv_cmd_destroy_ah, (ibv_ah* ah)) \
    F(int, ibv_cmd_attach_mcast, (ibv_qp* qp, const ibv_gid* gid, std::uint16_t lid)) \
    F(int, ibv_cmd_detach_mcast, (ibv_qp* qp, const ibv_gid* gid, std::uint16_t lid)) \
    F(int, ibv_cmd_create_cq, (ibv_context* context, int cqe, ibv_comp_channel* channel, int comp_vector, ibv_cq* cq, void* cmd, std::size_t cmd_size, ib_uverbs_create_cq_resp* resp, std::size_t resp_size)) \
    F(int, ibv_cmd_destroy_cq, (ibv_cq* cq)) \
    F(int, ibv_cmd_create_qp, (ibv_pd* pd, ibv_qp* qp, ibv_qp_init_attr* attr, void* cmd, std::size_t cmd_size, ib_uverbs_create_qp_resp* resp, std::size_t resp_size)) \
    F(int, ibv_cmd_modify_qp, (ibv_qp* qp, ibv_qp_attr* attr, int attr_mask, void* cmd, std::size_t cmd_size)) \
    F(int, ibv_cmd_destroy_qp, (ibv_qp* qp)) \
    F(int, ibv_cmd_create_srq, (ibv_pd* pd, ibv_srq* srq, ibv_srq_init_attr* attr, void* cmd, std::size_t cmd_size, ib_uverbs_create_srq_resp* resp, std::size_t resp_size)) \
    F(int, ibv_cmd_modify_srq, (ibv_srq* srq, ibv_srq_attr* attr, int attr_mask, void* cmd, std::size_t cmd_size)) \
    F(int, ibv_cmd_destroy_srq, (ibv_srq* srq))
// clang-format on

}  // namespace swrnic::abi

// ---- checks ----

static_assert(sizeof(void*) == 8, "the layouts are known for 64-bit machines only");

static_assert(sizeof(verbs_match_ent) == 24);
static_assert(offsetof(verbs_match_ent, driver_data) == 0 && offsetof(verbs_match_ent, u) == 8);
static_assert(offsetof(verbs_match_ent, vendor) == 16 && offsetof(verbs_match_ent, device) == 18);
static_assert(offsetof(verbs_match_ent, kind) == 20);

static_assert(sizeof(verbs_sysfs_dev) == 992);
static_assert(offsetof(verbs_sysfs_dev, entry) == 0 && offsetof(verbs_sysfs_dev, provider_data) == 16);
static_assert(offsetof(verbs_sysfs_dev, match) == 24 && offsetof(verbs_sysfs_dev, flags) == 32);
static_assert(offsetof(verbs_sysfs_dev, sysfs_name) == 36 && offsetof(verbs_sysfs_dev, sysfs_cdev) == 104);
static_assert(offsetof(verbs_sysfs_dev, ibdev_name) == 112 && offsetof(verbs_sysfs_dev, ibdev_path) == 176);
static_assert(offsetof(verbs_sysfs_dev, modalias) == 432 && offsetof(verbs_sysfs_dev, node_guid) == 944);
static_assert(offsetof(verbs_sysfs_dev, driver_id) == 952 && offsetof(verbs_sysfs_dev, node_type) == 956);
static_assert(offsetof(verbs_sysfs_dev, ibdev_idx) == 960 && offsetof(verbs_sysfs_dev, num_ports) == 964);
static_assert(offsetof(verbs_sysfs_dev, abi_ver) == 968 && offsetof(verbs_sysfs_dev, time_created) == 976);

static_assert(sizeof(verbs_device_ops) == 72);
static_assert(offsetof(verbs_device_ops, name) == 0 && offsetof(verbs_device_ops, match_min_abi_version) == 8);
static_assert(offsetof(verbs_device_ops, match_max_abi_version) == 12 && offsetof(verbs_device_ops, match_table) == 16);
static_assert(offsetof(verbs_device_ops, static_providers) == 24 && offsetof(verbs_device_ops, match_device) == 32);
static_assert(offsetof(verbs_device_ops, alloc_context) == 40 && offsetof(verbs_device_ops, import_context) == 48);
static_assert(offsetof(verbs_device_ops, alloc_device) == 56 && offsetof(verbs_device_ops, uninit_device) == 64);

static_assert(sizeof(verbs_device) == 712 && sizeof(ibv_device) == 664);
static_assert(offsetof(verbs_device, device) == 0 && offsetof(verbs_device, ops) == 664);
static_assert(offsetof(verbs_device, refcount) == 672 && offsetof(verbs_device, entry) == 680);
static_assert(offsetof(verbs_device, sysfs) == 696 && offsetof(verbs_device, core_support) == 704);

static_assert(sizeof(verbs_mr) == 56 && sizeof(ibv_mr) == 48);
static_assert(offsetof(verbs_mr, mr_type) == 48 && offsetof(verbs_mr, access) == 52);
// What holds a pthread_mutex_t is as much longer as that is: on arm64 by eight octets.
static_assert(sizeof(ibv_qp) == 120 + sizeof(pthread_mutex_t));
static_assert(offsetof(ibv_qp_ex, wr_abort) == 296 + sizeof(pthread_mutex_t));
static_assert(sizeof(ibv_cq) == 88 + sizeof(pthread_mutex_t));
static_assert(sizeof(ibv_cq_ex) == 248 + sizeof(pthread_mutex_t) && sizeof(verbs_cq) == sizeof(ibv_cq_ex));
static_assert(sizeof(ibv_context) == 288 + sizeof(pthread_mutex_t));

static_assert(sizeof(ib_uverbs_cmd_hdr) == 8);

// ---- the libibverbs that has loaded us ----

namespace swrnic::abi {

// libibverbs' part of a queue pair: a verbs_qp, whose ibv_qp_ex has grown and may grow.
union QueuePair {
    ibv_qp qp;
    ibv_qp_ex qp_ex;
    std::array<std::byte, 448> room;
};

// An ibv_port_attr as a newer libibverbs fills it.
union PortAttributes {
    ibv_port_attr attr;
    std::array<std::byte, 128> room;
};

struct Libibverbs {
#define SWRNIC_POINTER(Result, name, arguments) Result(*name) arguments;
    SWRNIC_PRIVATE_FUNCTIONS(SWRNIC_POINTER)
#undef SWRNIC_POINTER
    void (*verbs_register_driver)(const verbs_device_ops* ops);  // verbs_register_driver_<pabi>
    const Layout* layout;
    std::size_t qp_comp_mask;  // where it looks for VERBS_QP_EX in a verbs_qp
};

// Bound once, while the driver registers; everything else comes behind that.
extern Libibverbs libibverbs;

// Looks at the libibverbs of this process. False: it has a layout that we do not know, and why says so in one line.
bool bind(std::string& why);

inline int get_context(verbs_context* context, void* cmd, std::size_t cmd_size, ib_uverbs_get_context_resp* resp,
                       std::size_t resp_size) {
    if (libibverbs.layout->pabi < 57) return libibverbs.ibv_cmd_get_context(context, cmd, cmd_size, resp, resp_size);
    using Since57 = int (*)(verbs_context*, void*, std::size_t, ibv_fd_arr*, ib_uverbs_get_context_resp*, std::size_t);
    const auto function = reinterpret_cast<Since57>(reinterpret_cast<Operation>(libibverbs.ibv_cmd_get_context));
    return function(context, cmd, cmd_size, nullptr, resp, resp_size);
}

inline void mark_extended(QueuePair& qp) {
    constexpr std::uint32_t kMask = VERBS_QP_EX;
    std::memcpy(qp.room.data() + libibverbs.qp_comp_mask, &kMask, sizeof(kMask));
}

// A verbs_context ends with its ibv_context.
inline verbs_context* verbs_context_of(ibv_context* context) {
    return reinterpret_cast<verbs_context*>(reinterpret_cast<std::byte*>(context) - libibverbs.layout->context_offset);
}

// It knows its own size, in front of the ibv_context. What is not as long as we think was cut off or has grown.
inline bool is_as_known(ibv_context* context) {
    std::size_t size;
    std::memcpy(&size, reinterpret_cast<std::byte*>(context) - sizeof(size), sizeof(size));
    return size == libibverbs.layout->context_offset + sizeof(ibv_context);
}

}  // namespace swrnic::abi
