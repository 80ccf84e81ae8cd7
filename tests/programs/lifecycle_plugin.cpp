// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What lifecycle_unload loads and unloads: the only user of verbs in its process.
#include "lifecycle.h"

// way "steady": a connection that ends in good order. "alive": it stays, and nobody calls for it ever again.
extern "C" [[gnu::visibility("default")]] int lifecycle_plugin(const char* way, const char* address, const char* port) {
    auto* const session = new lifecycle::Session(lifecycle::parse(address, port));
    if (std::strcmp(way, "alive") == 0) return 0;
    session->start();
    session->finish();
    delete session;
    return 0;
}
