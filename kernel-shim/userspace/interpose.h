// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What all interposed path functions share.
#pragma once

#include <errno.h>

#define SWRNIC_EXPORT extern "C" [[gnu::visibility("default")]]

namespace swrnic::shim {

template <typename Result>
Result answer(Result result) {
    if (result >= 0) return result;
    errno = static_cast<int>(-result);
    return -1;
}

}  // namespace swrnic::shim
