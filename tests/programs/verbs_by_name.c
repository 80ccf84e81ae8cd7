// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Opens all devices and says which: as programs do that load libibverbs at run time, by a path or a name (the
// arguments; the last one's functions are called), or, with LINKED_IN, as one that has it linked into it.
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <stdio.h>

static void* library;

#undef ibv_get_device_list  // a macro, for static providers
#ifdef LINKED_IN
#define FUNCTION(name) (name)
#else
#define FUNCTION(name) ((__typeof__(&(name)))dlsym(library, #name))
#endif

int main(int count, char** arguments) {
    struct ibv_device** list;
    int devices = 0;
    int i;

    for (i = 1; i < count; i++) {
        library = dlopen(arguments[i], RTLD_NOW | RTLD_LOCAL);
        if (!library) {
            fprintf(stderr, "%s\n", dlerror());
            return 1;
        }
    }
    list = FUNCTION(ibv_get_device_list)(&devices);
    printf("%d devices\n", list ? devices : -1);
    for (i = 0; list && i < devices; i++) {
        struct ibv_context* context = FUNCTION(ibv_open_device)(list[i]);

        if (!context) continue;
        printf("opened %s\n", FUNCTION(ibv_get_device_name)(list[i]));
        FUNCTION(ibv_close_device)(context);
    }
    return 0;
}
