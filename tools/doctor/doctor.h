// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// `swrnic doctor`: what this host offers, in plain words.
#pragma once

namespace swrnic::tools {

// 0 when `swrnic run` will work here, 1 when not.
int doctor();

}  // namespace swrnic::tools
