// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "rights.h"

#include <grp.h>
#include <linux/capability.h>
#include <linux/prctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstdint>

namespace swrnic::daemon {

namespace {

constexpr uid_t kNobody = 65534;

constexpr std::uint32_t bit(unsigned capability) {
    return std::uint32_t{1} << capability;
}

// low: of the first 32.
bool keep_capabilities(std::uint32_t low) {
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    std::array<__user_cap_data_struct, 2> data{};
    data[0].effective = data[0].permitted = low;
    return ::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) == 0 &&
           ::syscall(SYS_capset, &header, data.data()) == 0 && ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;
}

}  // namespace

bool give_up_rights() {
    const bool other =
        ::geteuid() != 0 || (::setgroups(0, nullptr) == 0 && ::setresgid(kNobody, kNobody, kNobody) == 0 &&
                             ::setresuid(kNobody, kNobody, kNobody) == 0);
    return other && keep_capabilities(0);
}

bool keep_the_right_to_serve() {
    const std::uint32_t become_nobody = bit(CAP_SETUID) | bit(CAP_SETGID);
    return keep_capabilities(bit(CAP_SYS_ADMIN) | (::geteuid() == 0 ? become_nobody : 0));
}

}  // namespace swrnic::daemon
