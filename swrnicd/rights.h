// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What a process may do, given up for good.
#pragma once

namespace swrnic::daemon {

// Root's identity and every capability, of the process as long as it has one thread. A process of root becomes nobody.
// False: the kernel refused, errno says why, and some of them may be left.
[[nodiscard]] bool give_up_rights();

// Every capability but CAP_SYS_ADMIN, which opens a device for the kernel's QPs (SWRNIC_IOC_SERVE), and what root's
// workers need to become nobody. As above.
[[nodiscard]] bool keep_the_right_to_serve();

}  // namespace swrnic::daemon
