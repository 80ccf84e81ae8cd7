// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The libc functions that take a path. What is not ours goes to the next definition, untouched.
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#include <algorithm>
#include <climits>
#include <cstring>

#include "interpose.h"
#include "real.h"
#include "user_memory.h"
#include "vfs.h"

using namespace swrnic::shim;

// ---- open ----

namespace {

mode_t mode_argument(int flags, va_list arguments) {
    const bool creates = (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
    return creates ? static_cast<mode_t>(va_arg(arguments, unsigned)) : 0;
}

Place place_to_open(int dirfd, const char* path, int flags) {
    const bool itself = (flags & O_NOFOLLOW) != 0 || (flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL);
    return locate(dirfd, path, itself ? Last::kNoFollow : Last::kFollow);
}

}  // namespace

#define SWRNIC_OPEN(name)                                           \
    SWRNIC_EXPORT int name(const char* path, int flags, ...) {      \
        va_list arguments;                                          \
        va_start(arguments, flags);                                 \
        const mode_t mode = mode_argument(flags, arguments);        \
        va_end(arguments);                                          \
        const Place place = place_to_open(AT_FDCWD, path, flags);   \
        if (place.ours()) return answer(vfs_open(place, flags));    \
        return SWRNIC_REAL(name)(place.path_or(path), flags, mode); \
    }
SWRNIC_OPEN(open)
SWRNIC_OPEN(open64)

#define SWRNIC_OPENAT(name)                                                \
    SWRNIC_EXPORT int name(int dirfd, const char* path, int flags, ...) {  \
        va_list arguments;                                                 \
        va_start(arguments, flags);                                        \
        const mode_t mode = mode_argument(flags, arguments);               \
        va_end(arguments);                                                 \
        const Place place = place_to_open(dirfd, path, flags);             \
        if (place.ours()) return answer(vfs_open(place, flags));           \
        return SWRNIC_REAL(name)(dirfd, place.path_or(path), flags, mode); \
    }
SWRNIC_OPENAT(openat)
SWRNIC_OPENAT(openat64)

#define SWRNIC_CREAT(name)                                                              \
    SWRNIC_EXPORT int name(const char* path, mode_t mode) {                             \
        const Place place = locate(AT_FDCWD, path);                                     \
        if (place.ours()) return answer(vfs_open(place, O_CREAT | O_WRONLY | O_TRUNC)); \
        return SWRNIC_REAL(name)(place.path_or(path), mode);                            \
    }
SWRNIC_CREAT(creat)
SWRNIC_CREAT(creat64)

// What fortified programs call when the compiler cannot see the flags.
#define SWRNIC_OPEN_2(name)                                       \
    extern "C" int name(const char* path, int flags);             \
    SWRNIC_EXPORT int name(const char* path, int flags) {         \
        const Place place = place_to_open(AT_FDCWD, path, flags); \
        if (place.ours()) return answer(vfs_open(place, flags));  \
        return SWRNIC_REAL(name)(place.path_or(path), flags);     \
    }
SWRNIC_OPEN_2(__open_2)
SWRNIC_OPEN_2(__open64_2)

#define SWRNIC_OPENAT_2(name)                                        \
    extern "C" int name(int dirfd, const char* path, int flags);     \
    SWRNIC_EXPORT int name(int dirfd, const char* path, int flags) { \
        const Place place = place_to_open(dirfd, path, flags);       \
        if (place.ours()) return answer(vfs_open(place, flags));     \
        return SWRNIC_REAL(name)(dirfd, place.path_or(path), flags); \
    }
SWRNIC_OPENAT_2(__openat_2)
SWRNIC_OPENAT_2(__openat64_2)

#define SWRNIC_FOPEN(name)                                                            \
    SWRNIC_EXPORT FILE* name(const char* path, const char* mode) {                    \
        const Place place = locate(AT_FDCWD, path);                                   \
        if (!place.ours()) return SWRNIC_REAL(name)(place.path_or(path), mode);       \
        const int fd = answer(vfs_open(place, mode[0] == 'r' ? O_RDONLY : O_WRONLY)); \
        return fd < 0 ? nullptr : fdopen(fd, mode);                                   \
    }
SWRNIC_FOPEN(fopen)
SWRNIC_FOPEN(fopen64)

// libc opens the file again by the name that /proc has for it.
#define SWRNIC_FREOPEN(name)                                                                        \
    SWRNIC_EXPORT FILE* name(const char* path, const char* mode, FILE* stream) {                    \
        const Place place = path == nullptr ? Place{} : locate(AT_FDCWD, path);                     \
        if (!place.ours()) return SWRNIC_REAL(name)(place.path_or(path), mode, stream);             \
        const int fd = answer(vfs_open(place, O_CLOEXEC | (mode[0] == 'r' ? O_RDONLY : O_WRONLY))); \
        if (fd < 0) return fclose(stream), nullptr;                                                 \
        char again[32];                                                                             \
        snprintf(again, sizeof(again), "/proc/self/fd/%d", fd);                                     \
        FILE* const result = SWRNIC_REAL(name)(again, mode, stream);                                \
        ::close(fd);                                                                                \
        return result;                                                                              \
    }
SWRNIC_FREOPEN(freopen)
SWRNIC_FREOPEN(freopen64)

// ---- stat: libc >= 2.33 by these names, older binaries by the versioned ones below; one layout on 64-bit systems ----

static_assert(sizeof(struct stat) == sizeof(struct stat64));

namespace {

int stat_into(const Place& place, void* out) {
    struct stat found {};
    if (const int error = vfs_stat(place, found); error != 0) return answer(error);
    if (!writable(out, sizeof(found))) return answer(-EFAULT);
    std::memcpy(out, &found, sizeof(found));
    return 0;
}

}  // namespace

#define SWRNIC_STAT(name, type, flags)                                \
    SWRNIC_EXPORT int name(const char* path, type* out) {             \
        const Place place = locate_with_flags(AT_FDCWD, path, flags); \
        if (place.ours()) return stat_into(place, out);               \
        return SWRNIC_REAL(name)(place.path_or(path), out);           \
    }
SWRNIC_STAT(stat, struct stat, 0)
SWRNIC_STAT(stat64, struct stat64, 0)
SWRNIC_STAT(lstat, struct stat, AT_SYMLINK_NOFOLLOW)
SWRNIC_STAT(lstat64, struct stat64, AT_SYMLINK_NOFOLLOW)

#define SWRNIC_FSTATAT(name, type)                                              \
    SWRNIC_EXPORT int name(int dirfd, const char* path, type* out, int flags) { \
        const Place place = locate_with_flags(dirfd, path, flags);              \
        if (place.ours()) return stat_into(place, out);                         \
        return SWRNIC_REAL(name)(dirfd, place.path_or(path), out, flags);       \
    }
SWRNIC_FSTATAT(fstatat, struct stat)
SWRNIC_FSTATAT(fstatat64, struct stat64)

#define SWRNIC_XSTAT(name, flags)                                                           \
    extern "C" int name(int version, const char* path, struct stat* out);                   \
    SWRNIC_EXPORT int name(int version, const char* path, struct stat* out) {               \
        const Place place = locate_with_flags(AT_FDCWD, path, flags);                       \
        if (place.ours()) return stat_into(place, out);                                     \
        const auto real = SWRNIC_REAL(name);                                                \
        return real != nullptr ? real(version, place.path_or(path), out) : answer(-ENOSYS); \
    }
SWRNIC_XSTAT(__xstat, 0)
SWRNIC_XSTAT(__xstat64, 0)
SWRNIC_XSTAT(__lxstat, AT_SYMLINK_NOFOLLOW)
SWRNIC_XSTAT(__lxstat64, AT_SYMLINK_NOFOLLOW)

#define SWRNIC_FXSTATAT(name)                                                                             \
    extern "C" int name(int version, int dirfd, const char* path, struct stat* out, int flags);           \
    SWRNIC_EXPORT int name(int version, int dirfd, const char* path, struct stat* out, int flags) {       \
        const Place place = locate_with_flags(dirfd, path, flags);                                        \
        if (place.ours()) return stat_into(place, out);                                                   \
        const auto real = SWRNIC_REAL(name);                                                              \
        return real != nullptr ? real(version, dirfd, place.path_or(path), out, flags) : answer(-ENOSYS); \
    }
SWRNIC_FXSTATAT(__fxstatat)
SWRNIC_FXSTATAT(__fxstatat64)

SWRNIC_EXPORT int statx(int dirfd, const char* path, int flags, unsigned mask, struct statx* out) {
    const Place place = locate_with_flags(dirfd, path, flags);
    if (!place.ours()) return SWRNIC_REAL(statx)(dirfd, place.path_or(path), flags, mask, out);
    struct stat plain {};
    if (const int error = vfs_stat(place, plain); error != 0) return answer(error);
    if (!writable(out, sizeof(*out))) return answer(-EFAULT);
    *out = {};
    out->stx_mask = STATX_BASIC_STATS;
    out->stx_mode = static_cast<std::uint16_t>(plain.st_mode);
    out->stx_nlink = 1;
    out->stx_ino = plain.st_ino;
    out->stx_size = static_cast<std::uint64_t>(plain.st_size);
    out->stx_blksize = 4096;
    out->stx_rdev_major = major(plain.st_rdev);
    out->stx_rdev_minor = minor(plain.st_rdev);
    out->stx_dev_major = major(plain.st_dev);
    out->stx_dev_minor = minor(plain.st_dev);
    return 0;
}

// ---- access ----

#define SWRNIC_ACCESS(name)                                         \
    SWRNIC_EXPORT int name(const char* path, int wanted) {          \
        const Place place = locate(AT_FDCWD, path);                 \
        if (place.ours()) return answer(vfs_access(place, wanted)); \
        return SWRNIC_REAL(name)(place.path_or(path), wanted);      \
    }
SWRNIC_ACCESS(access)
SWRNIC_ACCESS(euidaccess)
SWRNIC_ACCESS(eaccess)

SWRNIC_EXPORT int faccessat(int dirfd, const char* path, int wanted, int flags) {
    const Place place = locate_with_flags(dirfd, path, flags);
    if (place.ours()) return answer(vfs_access(place, wanted));
    return SWRNIC_REAL(faccessat)(dirfd, place.path_or(path), wanted, flags);
}

// ---- links ----

namespace {

ssize_t read_link(const Place& place, char* buffer, std::size_t room) {
    if (place.error != 0) return answer<ssize_t>(place.error);
    if (place.node.kind != Node::Kind::kLink || room == 0) return answer<ssize_t>(-EINVAL);
    const std::size_t size = std::min(room, place.node.content.size());
    if (!writable(buffer, size)) return answer<ssize_t>(-EFAULT);
    return static_cast<ssize_t>(place.node.content.copy(buffer, size));
}

}  // namespace

SWRNIC_EXPORT ssize_t readlink(const char* path, char* buffer, size_t room) {
    const Place place = locate(AT_FDCWD, path, Last::kNoFollow);
    if (place.ours()) return read_link(place, buffer, room);
    return SWRNIC_REAL(readlink)(place.path_or(path), buffer, room);
}
SWRNIC_EXPORT ssize_t readlinkat(int dirfd, const char* path, char* buffer, size_t room) {
    const Place place = locate(dirfd, path, Last::kNoFollow);
    if (place.ours()) return read_link(place, buffer, room);
    return SWRNIC_REAL(readlinkat)(dirfd, place.path_or(path), buffer, room);
}
extern "C" ssize_t __readlink_chk(const char* path, char* buffer, size_t room, size_t size);
SWRNIC_EXPORT ssize_t __readlink_chk(const char* path, char* buffer, size_t room, size_t size) {
    const Place place = locate(AT_FDCWD, path, Last::kNoFollow);
    if (place.ours() && room <= size) return read_link(place, buffer, room);
    return SWRNIC_REAL(__readlink_chk)(place.path_or(path), buffer, room, size);
}
extern "C" ssize_t __readlinkat_chk(int dirfd, const char* path, char* buffer, size_t room, size_t size);
SWRNIC_EXPORT ssize_t __readlinkat_chk(int dirfd, const char* path, char* buffer, size_t room, size_t size) {
    const Place place = locate(dirfd, path, Last::kNoFollow);
    if (place.ours() && room <= size) return read_link(place, buffer, room);
    return SWRNIC_REAL(__readlinkat_chk)(dirfd, place.path_or(path), buffer, room, size);
}

namespace {

char* give_path(const std::string& path, char* room) {
    if (room == nullptr) return strdup(path.c_str());
    if (path.size() >= PATH_MAX) return errno = ENAMETOOLONG, nullptr;
    return std::strcpy(room, path.c_str());
}

char* resolve(const Place& place, char* room) {
    if (place.error != 0) return errno = -place.error, nullptr;
    return give_path(place.path, room);
}

}  // namespace

SWRNIC_EXPORT char* realpath(const char* path, char* resolved) {
    const Place place = locate(AT_FDCWD, path);
    if (place.ours()) return resolve(place, resolved);
    return SWRNIC_REAL(realpath)(place.path_or(path), resolved);
}
extern "C" char* __realpath_chk(const char* path, char* resolved, size_t size);
SWRNIC_EXPORT char* __realpath_chk(const char* path, char* resolved, size_t size) {
    const Place place = locate(AT_FDCWD, path);
    if (place.ours() && size >= PATH_MAX) return resolve(place, resolved);
    return SWRNIC_REAL(__realpath_chk)(place.path_or(path), resolved, size);
}
SWRNIC_EXPORT char* canonicalize_file_name(const char* path) {
    return realpath(path, nullptr);
}

// ---- what is asked of the file system around ----

namespace {

const char* around(const Place& place) {
    return place.path.starts_with("/dev") ? "/dev" : "/sys";
}

}  // namespace

#define SWRNIC_STATFS(name, type)                                                              \
    SWRNIC_EXPORT int name(const char* path, type* out) {                                      \
        const Place place = locate(AT_FDCWD, path);                                            \
        if (!place.ours()) return SWRNIC_REAL(name)(place.path_or(path), out);                 \
        return place.error != 0 ? answer(place.error) : SWRNIC_REAL(name)(around(place), out); \
    }
SWRNIC_STATFS(statfs, struct statfs)
SWRNIC_STATFS(statfs64, struct statfs64)
SWRNIC_STATFS(statvfs, struct statvfs)
SWRNIC_STATFS(statvfs64, struct statvfs64)

#define SWRNIC_FSTATFS(name, by_path, type)                                            \
    SWRNIC_EXPORT int name(int fd, type* out) {                                        \
        if (FdTable::owns(fd)) {                                                       \
            const Place place = locate(fd, ".");                                       \
            if (place.is_directory()) return SWRNIC_REAL(by_path)(around(place), out); \
        }                                                                              \
        return SWRNIC_REAL(name)(fd, out);                                             \
    }
SWRNIC_FSTATFS(fstatfs, statfs, struct statfs)
SWRNIC_FSTATFS(fstatfs64, statfs64, struct statfs64)
SWRNIC_FSTATFS(fstatvfs, statvfs, struct statvfs)
SWRNIC_FSTATFS(fstatvfs64, statvfs64, struct statvfs64)

SWRNIC_EXPORT long pathconf(const char* path, int name) {
    const Place place = locate(AT_FDCWD, path);
    if (!place.ours()) return SWRNIC_REAL(pathconf)(place.path_or(path), name);
    return place.error != 0 ? answer<long>(place.error) : SWRNIC_REAL(pathconf)(around(place), name);
}

// Nothing of ours has an extended attribute.
#define SWRNIC_GETXATTR(name, last)                                                                 \
    SWRNIC_EXPORT ssize_t name(const char* path, const char* attribute, void* value, size_t size) { \
        const Place place = locate(AT_FDCWD, path, last);                                           \
        if (!place.ours()) return SWRNIC_REAL(name)(place.path_or(path), attribute, value, size);   \
        return answer<ssize_t>(place.error != 0 ? place.error : -ENODATA);                          \
    }
SWRNIC_GETXATTR(getxattr, Last::kFollow)
SWRNIC_GETXATTR(lgetxattr, Last::kNoFollow)

#define SWRNIC_LISTXATTR(name, last)                                                  \
    SWRNIC_EXPORT ssize_t name(const char* path, char* list, size_t size) {           \
        const Place place = locate(AT_FDCWD, path, last);                             \
        if (!place.ours()) return SWRNIC_REAL(name)(place.path_or(path), list, size); \
        return answer<ssize_t>(place.error);                                          \
    }
SWRNIC_LISTXATTR(listxattr, Last::kFollow)
SWRNIC_LISTXATTR(llistxattr, Last::kNoFollow)
