// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The UDP sockets of UD QPs: one for each QP, whose port its number names, and one for each group that it is attached
// to. They are handed over at once; nothing here sends or receives.
#pragma once

#include "uverbs.h"

namespace swrnic::shim {

// The number of a QP that is being made, and its socket to the provider. 0 or -errno.
int give_datagrams(Locked& locked, UverbsFile& context, Qp& qp);
// A socket that has joined the group, at every interface of the device. 0 or -errno; EINVAL: it names no group.
int join_group(Locked& locked, UverbsFile& context, const Qp& qp, const Gid& group);

}  // namespace swrnic::shim
