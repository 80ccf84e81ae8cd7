// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Which devices are ours, and the registration with libibverbs.
#include <fcntl.h>
#include <swrnic-abi.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <string_view>

#include "log.h"
#include "verbs.h"

namespace swrnic::verbs {
namespace {

// A device of ours is known by the driver_id that netlink tells. Where netlink is forbidden the userspace shim's is
// known by its mark in sysfs.
bool has_mark(const verbs_sysfs_dev& device) {
    char path[sizeof(device.ibdev_path) + sizeof("/" SWRNIC_SYSFS_MARK)];
    const int length = std::snprintf(path, sizeof(path), "%s/" SWRNIC_SYSFS_MARK, device.ibdev_path);
    if (length < 0 || static_cast<std::size_t>(length) >= sizeof(path)) return false;
    const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    char text[sizeof(SWRNIC_SYSFS_MARK "\n")];
    ssize_t got;
    do {
        got = ::read(fd, text, sizeof(text));
    } while (got < 0 && errno == EINTR);
    ::close(fd);
    if (got <= 0) return false;
    std::string_view mark(text, static_cast<std::size_t>(got));
    if (mark.back() == '\n') mark.remove_suffix(1);
    return mark == SWRNIC_SYSFS_MARK;
}

// Runs during ibv_get_device_list() on every device that nobody has taken yet: must be silent.
bool match_device(verbs_sysfs_dev* device) noexcept {
    return device->match || has_mark(*device);
}

verbs_device* alloc_device(verbs_sysfs_dev*) noexcept {
    return static_cast<verbs_device*>(std::calloc(1, sizeof(verbs_device)));
}

void uninit_device(verbs_device* device) noexcept {
    std::free(device);
}

constexpr verbs_match_ent kMatchTable[] = {
    {.driver_data = nullptr,
     .u = {.driver_id = SWRNIC_DRIVER_ID},
     .vendor = 0,
     .device = 0,
     .kind = VERBS_MATCH_BY_DRIVER_ID},
    {.driver_data = nullptr, .u = {.driver_id = 0}, .vendor = 0, .device = 0, .kind = VERBS_MATCH_END},
};

}  // namespace

const verbs_device_ops kDeviceOps = {
    .name = "swrnic",
    .match_min_abi_version = SWRNIC_ABI_IN_SYSFS,
    .match_max_abi_version = SWRNIC_ABI_IN_SYSFS,
    .match_table = kMatchTable,
    .static_providers = nullptr,
    .match_device = match_device,
    .alloc_context = alloc_context,
    .import_context = nullptr,
    .alloc_device = alloc_device,
    .uninit_device = uninit_device,
};

namespace {
// dlopen() of this library is its registration: the one thing that happens before main().
[[gnu::constructor]] void register_driver() {
    try {
        std::string why;
        if (abi::bind(why)) return abi::libibverbs.verbs_register_driver(&kDeviceOps);
        log(LogLevel::kError, "{}", why);
    } catch (const std::exception& failed) {
        log(LogLevel::kError, "the provider cannot be used: {}", failed.what());
    }
}
}  // namespace

}  // namespace swrnic::verbs
