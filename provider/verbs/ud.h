// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Queue pairs of datagrams (IBV_QPT_UD): what qp.cpp, post.cpp and qp_ex.cpp hand on of them.
#pragma once

#include <span>

#include "objects.h"

namespace swrnic::verbs {

// 0 or an errno value. wr: wr_id and flags.
int post_datagram(Qp& qp, const engine::SendWr& wr, std::span<const engine::Sge> sges, const DatagramTo& to);
int modify_datagram_qp(Qp& qp, ibv_qp_attr& attr, int mask);

}  // namespace swrnic::verbs
