// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What a forked child must do with the contexts of its parent: their threads are gone, their sockets are the parent's.
#pragma once

#include "provider-abi.h"

namespace swrnic::verbs {

struct Context;

void watch_forks(Context& context);    // from now on a child of fork() abandons this context
void unwatch_forks(Context& context);  // before it is freed

// While it lives, a child of fork() gets functions of this extended object that answer EIO, or do nothing where they
// answer nothing. Throws std::bad_alloc.
class ExtendedObject {
  public:
    explicit ExtendedObject(ibv_cq_ex& cq);
    explicit ExtendedObject(ibv_qp_ex& qp);
    ~ExtendedObject();
    ExtendedObject(const ExtendedObject&) = delete;
    ExtendedObject& operator=(const ExtendedObject&) = delete;

  private:
    ibv_cq_ex* const cq_ = nullptr;
    ibv_qp_ex* const qp_ = nullptr;
};

}  // namespace swrnic::verbs
