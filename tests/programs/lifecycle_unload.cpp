// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A program that knows verbs by a plugin only, which it unloads.
//
//   lifecycle_unload PLUGIN steady|alive ADDRESS PORT
#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

int main(int argc, char** argv) {
    if (argc != 5) return 2;
    const int rounds = std::strcmp(argv[2], "steady") == 0 ? 3 : 1;
    for (int i = 0; i < rounds; ++i) {
        void* const plugin = dlopen(argv[1], RTLD_NOW);
        void* const entry = plugin != nullptr ? dlsym(plugin, "lifecycle_plugin") : nullptr;
        if (entry == nullptr) {
            std::fprintf(stderr, "%s\n", dlerror());
            return 1;
        }
        if (reinterpret_cast<int (*)(const char*, const char*, const char*)>(entry)(argv[2], argv[3], argv[4]) != 0)
            return 1;
        if (dlclose(plugin) != 0) return 1;
        usleep(300'000);  // threads of what was unloaded would fall now
    }
    return 0;
}
