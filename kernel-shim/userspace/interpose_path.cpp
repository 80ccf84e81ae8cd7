// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The libc functions that take a path. What is not ours goes to the next definition, untouched.
#include <dirent.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "real.h"
#include "vfs.h"

#define SWRNIC_EXPORT extern "C" [[gnu::visibility("default")]]

using swrnic::shim::vfs_access;
using swrnic::shim::vfs_open;
using swrnic::shim::vfs_stat;
using swrnic::shim::virtual_path;

namespace {

template <typename Result>
Result answer(Result result) {
    if (result >= 0) return result;
    errno = static_cast<int>(-result);
    return -1;
}

mode_t mode_argument(int flags, va_list arguments) {
    const bool creates = (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
    return creates ? static_cast<mode_t>(va_arg(arguments, unsigned)) : 0;
}

// stat of a path, or (empty path) of one of our descriptors. nullopt: not ours.
std::optional<int> stat_at(int dirfd, const char* path, struct stat* out) {
    if (const auto virt = virtual_path(dirfd, path)) return vfs_stat(*virt, *out);
    return std::nullopt;
}

}  // namespace

#define SWRNIC_OPEN(name)                                      \
    SWRNIC_EXPORT int name(const char* path, int flags, ...) { \
        va_list arguments;                                     \
        va_start(arguments, flags);                            \
        const mode_t mode = mode_argument(flags, arguments);   \
        va_end(arguments);                                     \
        if (const auto virt = virtual_path(AT_FDCWD, path)) {  \
            return answer(vfs_open(*virt, flags));             \
        }                                                      \
        return SWRNIC_REAL(name)(path, flags, mode);           \
    }
SWRNIC_OPEN(open)
SWRNIC_OPEN(open64)

#define SWRNIC_OPENAT(name)                                               \
    SWRNIC_EXPORT int name(int dirfd, const char* path, int flags, ...) { \
        va_list arguments;                                                \
        va_start(arguments, flags);                                       \
        const mode_t mode = mode_argument(flags, arguments);              \
        va_end(arguments);                                                \
        if (const auto virt = virtual_path(dirfd, path)) {                \
            return answer(vfs_open(*virt, flags));                        \
        }                                                                 \
        return SWRNIC_REAL(name)(dirfd, path, flags, mode);               \
    }
SWRNIC_OPENAT(openat)
SWRNIC_OPENAT(openat64)

// What fortified programs call when the compiler cannot see the flags.
extern "C" {
int __open_2(const char* path, int flags);
int __open64_2(const char* path, int flags);
int __openat_2(int dirfd, const char* path, int flags);
int __openat64_2(int dirfd, const char* path, int flags);
}
SWRNIC_EXPORT int __open_2(const char* path, int flags) {
    if (const auto virt = virtual_path(AT_FDCWD, path)) return answer(vfs_open(*virt, flags));
    return SWRNIC_REAL(__open_2)(path, flags);
}
SWRNIC_EXPORT int __open64_2(const char* path, int flags) {
    if (const auto virt = virtual_path(AT_FDCWD, path)) return answer(vfs_open(*virt, flags));
    return SWRNIC_REAL(__open64_2)(path, flags);
}
SWRNIC_EXPORT int __openat_2(int dirfd, const char* path, int flags) {
    if (const auto virt = virtual_path(dirfd, path)) return answer(vfs_open(*virt, flags));
    return SWRNIC_REAL(__openat_2)(dirfd, path, flags);
}
SWRNIC_EXPORT int __openat64_2(int dirfd, const char* path, int flags) {
    if (const auto virt = virtual_path(dirfd, path)) return answer(vfs_open(*virt, flags));
    return SWRNIC_REAL(__openat64_2)(dirfd, path, flags);
}

#define SWRNIC_FOPEN(name)                                                            \
    SWRNIC_EXPORT FILE* name(const char* path, const char* mode) {                    \
        const auto virt = virtual_path(AT_FDCWD, path);                               \
        if (!virt) return SWRNIC_REAL(name)(path, mode);                              \
        const int fd = answer(vfs_open(*virt, mode[0] == 'r' ? O_RDONLY : O_WRONLY)); \
        return fd < 0 ? nullptr : fdopen(fd, mode);                                   \
    }
SWRNIC_FOPEN(fopen)
SWRNIC_FOPEN(fopen64)

// ---- stat: libc >= 2.33 by these names, older binaries by the versioned ones below; one layout on 64-bit systems ----

static_assert(sizeof(struct stat) == sizeof(struct stat64));

#define SWRNIC_STAT(name, type)                                                                             \
    SWRNIC_EXPORT int name(const char* path, type* out) {                                                   \
        if (const auto r = stat_at(AT_FDCWD, path, reinterpret_cast<struct stat*>(out))) return answer(*r); \
        return SWRNIC_REAL(name)(path, out);                                                                \
    }
SWRNIC_STAT(stat, struct stat)
SWRNIC_STAT(stat64, struct stat64)
SWRNIC_STAT(lstat, struct stat)
SWRNIC_STAT(lstat64, struct stat64)

#define SWRNIC_FSTATAT(name, type)                                                                       \
    SWRNIC_EXPORT int name(int dirfd, const char* path, type* out, int flags) {                          \
        if (const auto r = stat_at(dirfd, path, reinterpret_cast<struct stat*>(out))) return answer(*r); \
        return SWRNIC_REAL(name)(dirfd, path, out, flags);                                               \
    }
SWRNIC_FSTATAT(fstatat, struct stat)
SWRNIC_FSTATAT(fstatat64, struct stat64)

#define SWRNIC_XSTAT(name)                                                    \
    extern "C" int name(int version, const char* path, struct stat* out);     \
    SWRNIC_EXPORT int name(int version, const char* path, struct stat* out) { \
        if (const auto r = stat_at(AT_FDCWD, path, out)) return answer(*r);   \
        const auto real = SWRNIC_REAL(name);                                  \
        return real != nullptr ? real(version, path, out) : answer(-ENOSYS);  \
    }
SWRNIC_XSTAT(__xstat)
SWRNIC_XSTAT(__xstat64)
SWRNIC_XSTAT(__lxstat)
SWRNIC_XSTAT(__lxstat64)

#define SWRNIC_FXSTATAT(name)                                                                       \
    extern "C" int name(int version, int dirfd, const char* path, struct stat* out, int flags);     \
    SWRNIC_EXPORT int name(int version, int dirfd, const char* path, struct stat* out, int flags) { \
        if (const auto r = stat_at(dirfd, path, out)) return answer(*r);                            \
        const auto real = SWRNIC_REAL(name);                                                        \
        return real != nullptr ? real(version, dirfd, path, out, flags) : answer(-ENOSYS);          \
    }
SWRNIC_FXSTATAT(__fxstatat)
SWRNIC_FXSTATAT(__fxstatat64)

SWRNIC_EXPORT int statx(int dirfd, const char* path, int flags, unsigned mask, struct statx* out) {
    struct stat plain {};
    const auto result = stat_at(dirfd, path, &plain);
    if (!result) return SWRNIC_REAL(statx)(dirfd, path, flags, mask, out);
    if (*result < 0) return answer(*result);
    *out = {};
    out->stx_mask = STATX_TYPE | STATX_MODE | STATX_NLINK | STATX_INO | STATX_SIZE;
    out->stx_mode = static_cast<std::uint16_t>(plain.st_mode);
    out->stx_nlink = 1;
    out->stx_ino = plain.st_ino;
    out->stx_size = static_cast<std::uint64_t>(plain.st_size);
    out->stx_blksize = 4096;
    out->stx_rdev_major = major(plain.st_rdev);
    out->stx_rdev_minor = minor(plain.st_rdev);
    return 0;
}

// ---- access ----

SWRNIC_EXPORT int access(const char* path, int wanted) {
    if (const auto virt = virtual_path(AT_FDCWD, path)) return answer(vfs_access(*virt, wanted));
    return SWRNIC_REAL(access)(path, wanted);
}
SWRNIC_EXPORT int euidaccess(const char* path, int wanted) {
    if (const auto virt = virtual_path(AT_FDCWD, path)) return answer(vfs_access(*virt, wanted));
    return SWRNIC_REAL(euidaccess)(path, wanted);
}
SWRNIC_EXPORT int eaccess(const char* path, int wanted) {
    if (const auto virt = virtual_path(AT_FDCWD, path)) return answer(vfs_access(*virt, wanted));
    return SWRNIC_REAL(eaccess)(path, wanted);
}
SWRNIC_EXPORT int faccessat(int dirfd, const char* path, int wanted, int flags) {
    if (const auto virt = virtual_path(dirfd, path)) return answer(vfs_access(*virt, wanted));
    return SWRNIC_REAL(faccessat)(dirfd, path, wanted, flags);
}

// ---- directory streams; opendir does not go through an interposed open ----

using swrnic::shim::stream_forget;
using swrnic::shim::stream_next;
using swrnic::shim::stream_of;
using swrnic::shim::stream_open;

SWRNIC_EXPORT DIR* opendir(const char* path) {
    const auto virt = virtual_path(AT_FDCWD, path);
    if (!virt) return SWRNIC_REAL(opendir)(path);
    const int fd = answer(vfs_open(*virt, O_RDONLY | O_DIRECTORY));
    return fd < 0 ? nullptr : reinterpret_cast<DIR*>(stream_open(fd, *virt));
}

SWRNIC_EXPORT DIR* fdopendir(int fd) {
    const auto virt = virtual_path(fd, ".");
    if (!virt) return SWRNIC_REAL(fdopendir)(fd);
    return reinterpret_cast<DIR*>(stream_open(fd, *virt));
}

SWRNIC_EXPORT struct dirent* readdir(DIR* dir) {
    if (auto* stream = stream_of(dir)) return stream_next(*stream);
    return SWRNIC_REAL(readdir)(dir);
}

SWRNIC_EXPORT struct dirent64* readdir64(DIR* dir) {
    static_assert(sizeof(struct dirent) == sizeof(struct dirent64));
    if (auto* stream = stream_of(dir)) return reinterpret_cast<struct dirent64*>(stream_next(*stream));
    return SWRNIC_REAL(readdir64)(dir);
}

SWRNIC_EXPORT void rewinddir(DIR* dir) {
    if (auto* stream = stream_of(dir)) {
        stream->next = 0;
        return;
    }
    SWRNIC_REAL(rewinddir)(dir);
}

SWRNIC_EXPORT int dirfd(DIR* dir) {
    if (const auto* stream = stream_of(dir)) return stream->fd;
    return SWRNIC_REAL(dirfd)(dir);
}

SWRNIC_EXPORT int closedir(DIR* dir) {
    auto* stream = stream_of(dir);
    if (stream == nullptr) return SWRNIC_REAL(closedir)(dir);
    const int fd = stream->fd;
    stream_forget(stream);
    return ::close(fd);  // ours, see interpose_fd.cpp
}
