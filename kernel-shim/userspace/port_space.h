// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// On an adapter the ports of rdma_cm and those of TCP are two spaces. Here both are TCP's, so the SYN of a connection
// of rdma_cm's says whose it is, by a traffic class for local use (RFC 2474, section 6: pool 2). Where a plain socket
// listens at the address of a listener of rdma_cm's the kernel gives it what does not say so.
#pragma once

#include "net.h"

namespace swrnic::shim {

// Has what connects next by this socket say so. Returns the traffic class that it had, and is to have again once it is
// connected.
int mark_connect(int fd);

// Has plain sockets listen at the address of `listener`, which listens there, from now on. Each of them must have
// SO_REUSEPORT before it is bound. 0 or -errno.
int share_port(int listener, const Address& local);

// The other way round: has the plain socket of this process that listens at the address admit a listener beside it,
// which must have SO_REUSEPORT before it is bound, and join_port() once it listens. False: there is none.
bool plain_socket_admits(const Address& local);
// 0 or -errno.
int join_port(int listener);

}  // namespace swrnic::shim
