// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Directory streams and the working directory. Among themselves libc's functions do not come by here, so each that
// opens a directory is answered whole.
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#include <algorithm>
#include <climits>
#include <cstring>

#include "interpose.h"
#include "real.h"
#include "state.h"
#include "user_memory.h"
#include "vfs.h"

using namespace swrnic::shim;

static_assert(sizeof(struct dirent) == sizeof(struct dirent64));

namespace {

DIR* as_dir(DirectoryStream* stream) {
    return reinterpret_cast<DIR*>(stream);
}

// A real directory above ours shows ours as well.
DIR* with_ours(DIR* real) {
    if (real == nullptr || !active()) return real;
    char link[32], path[PATH_MAX];
    const int fd = SWRNIC_REAL(dirfd)(real);
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    const long size =
        sys::call(SYS_readlinkat, AT_FDCWD, static_cast<const char*>(link), static_cast<char*>(path), sizeof(path));
    if (size <= 0 || !leads_to_ours({path, static_cast<std::size_t>(size)})) return real;
    return as_dir(stream_open(fd, {path, static_cast<std::size_t>(size)}, real));
}

}  // namespace

SWRNIC_EXPORT DIR* opendir(const char* path) {
    const Place place = locate(AT_FDCWD, path);
    if (!place.ours()) {
        DIR* const real = SWRNIC_REAL(opendir)(place.path_or(path));
        const bool may = place.kind == Place::Kind::kReal || path[0] != '/' || may_lead_to_ours(path);
        return real != nullptr && may ? with_ours(real) : real;
    }
    const int fd = answer(vfs_open(place, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    return fd < 0 ? nullptr : as_dir(stream_open(fd, place.path, nullptr));
}

SWRNIC_EXPORT DIR* fdopendir(int fd) {
    if (!FdTable::owns(fd)) return with_ours(SWRNIC_REAL(fdopendir)(fd));
    const Place place = locate(fd, ".");
    if (!place.is_directory()) return SWRNIC_REAL(fdopendir)(fd);
    return as_dir(stream_open(fd, place.path, nullptr));
}

SWRNIC_EXPORT struct dirent* readdir(DIR* dir) {
    auto* const stream = stream_of(dir);
    if (stream == nullptr) return SWRNIC_REAL(readdir)(dir);
    return stream_next(*stream, stream->current) ? &stream->current : nullptr;
}

SWRNIC_EXPORT struct dirent64* readdir64(DIR* dir) {
    if (stream_of(dir) == nullptr) return SWRNIC_REAL(readdir64)(dir);
    return reinterpret_cast<struct dirent64*>(readdir(dir));
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
SWRNIC_EXPORT int readdir_r(DIR* dir, struct dirent* entry, struct dirent** result) {
    auto* const stream = stream_of(dir);
    if (stream == nullptr) return SWRNIC_REAL(readdir_r)(dir, entry, result);
    *result = stream_next(*stream, *entry) ? entry : nullptr;
    return 0;
}

SWRNIC_EXPORT int readdir64_r(DIR* dir, struct dirent64* entry, struct dirent64** result) {
    auto* const stream = stream_of(dir);
    if (stream == nullptr) return SWRNIC_REAL(readdir64_r)(dir, entry, result);
    *result = stream_next(*stream, *reinterpret_cast<struct dirent*>(entry)) ? entry : nullptr;
    return 0;
}
#pragma GCC diagnostic pop

SWRNIC_EXPORT void rewinddir(DIR* dir) {
    if (auto* stream = stream_of(dir)) return stream_rewind(*stream);
    SWRNIC_REAL(rewinddir)(dir);
}

SWRNIC_EXPORT long telldir(DIR* dir) {
    if (const auto* stream = stream_of(dir)) return static_cast<long>(stream->next);
    return SWRNIC_REAL(telldir)(dir);
}

SWRNIC_EXPORT void seekdir(DIR* dir, long place) {
    auto* const stream = stream_of(dir);
    if (stream == nullptr) return SWRNIC_REAL(seekdir)(dir, place);
    stream->next = std::min(static_cast<std::size_t>(std::max(place, 0L)), stream->entries.size());
}

SWRNIC_EXPORT int dirfd(DIR* dir) {
    if (const auto* stream = stream_of(dir)) return stream->fd;
    return SWRNIC_REAL(dirfd)(dir);
}

SWRNIC_EXPORT int closedir(DIR* dir) {
    auto* stream = stream_of(dir);
    if (stream == nullptr) return SWRNIC_REAL(closedir)(dir);
    const int fd = stream->fd;
    DIR* const real = stream->real;
    stream_forget(stream);
    return real != nullptr ? SWRNIC_REAL(closedir)(real) : ::close(fd);  // ours, see interpose_fd.cpp
}

// ---- scandir ----

namespace {

template <typename Dirent>
struct Names {
    Dirent** list = nullptr;
    std::size_t size = 0, room = 0;

    Names() = default;
    Names(const Names&) = delete;
    Names& operator=(const Names&) = delete;
    ~Names() {
        for (std::size_t i = 0; list != nullptr && i < size; ++i)
            free(list[i]);
        free(list);
    }
    bool add(const Dirent& entry) {
        if (size == room) {
            const std::size_t more = room == 0 ? 16 : 2 * room;
            auto* const larger = static_cast<Dirent**>(realloc(list, more * sizeof(Dirent*)));
            if (larger == nullptr) return false;
            list = larger;
            room = more;
        }
        const std::size_t octets = offsetof(Dirent, d_name) + strlen(entry.d_name) + 1;
        auto* const copy = static_cast<Dirent*>(malloc(octets));
        if (copy == nullptr) return false;
        std::memcpy(copy, &entry, octets);
        copy->d_reclen = static_cast<unsigned short>(octets);
        list[size++] = copy;
        return true;
    }
};

template <typename Dirent>
int scan(DIR* dir, Dirent*** out, int (*wanted)(const Dirent*), int (*compare)(const Dirent**, const Dirent**)) {
    if (dir == nullptr) return -1;
    Names<Dirent> names;
    bool room = true;
    while (const auto* entry = reinterpret_cast<Dirent*>(readdir(dir))) {
        if (wanted != nullptr && wanted(entry) == 0) continue;
        if (!(room = names.add(*entry))) break;
    }
    closedir(dir);
    if (!room) return answer(-ENOMEM);
    if (names.size > 0 && compare != nullptr) {
        qsort(names.list, names.size, sizeof(Dirent*), reinterpret_cast<int (*)(const void*, const void*)>(compare));
    }
    *out = names.list;
    names.list = nullptr;
    return static_cast<int>(names.size);
}

DIR* open_at(int dirfd, const char* path) {
    const int fd = openat(dirfd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR* const dir = fd < 0 ? nullptr : fdopendir(fd);
    if (fd >= 0 && dir == nullptr) ::close(fd);
    return dir;
}

bool scanned_by_us(int dirfd, const char* path) {
    return may_lead_to_ours(path) || locate(dirfd, path).kind != Place::Kind::kForeign;
}

}  // namespace

#define SWRNIC_SCANDIR(name, Dirent)                                                       \
    SWRNIC_EXPORT int name(const char* path, Dirent*** out, int (*wanted)(const Dirent*),  \
                           int (*compare)(const Dirent**, const Dirent**)) {               \
        if (!may_lead_to_ours(path)) return SWRNIC_REAL(name)(path, out, wanted, compare); \
        return scan(opendir(path), out, wanted, compare);                                  \
    }
SWRNIC_SCANDIR(scandir, struct dirent)
SWRNIC_SCANDIR(scandir64, struct dirent64)

#define SWRNIC_SCANDIRAT(name, Dirent)                                                                \
    SWRNIC_EXPORT int name(int dirfd, const char* path, Dirent*** out, int (*wanted)(const Dirent*),  \
                           int (*compare)(const Dirent**, const Dirent**)) {                          \
        if (!scanned_by_us(dirfd, path)) return SWRNIC_REAL(name)(dirfd, path, out, wanted, compare); \
        return scan(open_at(dirfd, path), out, wanted, compare);                                      \
    }
SWRNIC_SCANDIRAT(scandirat, struct dirent)
SWRNIC_SCANDIRAT(scandirat64, struct dirent64)

// ---- the working directory ----

SWRNIC_EXPORT int chdir(const char* path) noexcept {
    const Place place = locate(AT_FDCWD, path);
    if (const auto result = vfs_chdir(place)) return answer(*result);
    const int result = SWRNIC_REAL(chdir)(place.path_or(path));
    if (result == 0) vfs_left_directory();
    return result;
}

SWRNIC_EXPORT int fchdir(int fd) noexcept {
    if (FdTable::owns(fd)) {
        const Place place = locate(fd, ".");
        if (const auto result = vfs_chdir(place)) return answer(*result);
    }
    const int result = SWRNIC_REAL(fchdir)(fd);
    if (result == 0) vfs_left_directory();
    return result;
}

namespace {

char* give(const std::string& path, char* buffer, std::size_t size) {
    if (buffer == nullptr && size == 0) return strdup(path.c_str());
    if (size == 0) return errno = EINVAL, nullptr;
    if (path.size() >= size) return errno = ERANGE, nullptr;
    char* const room = buffer != nullptr ? buffer : static_cast<char*>(malloc(size));
    if (room == nullptr) return nullptr;
    if (!writable(room, path.size() + 1)) return errno = EFAULT, nullptr;
    return std::strcpy(room, path.c_str());
}

}  // namespace

SWRNIC_EXPORT char* getcwd(char* buffer, size_t size) noexcept {
    if (const auto path = vfs_working_directory()) return give(*path, buffer, size);
    return SWRNIC_REAL(getcwd)(buffer, size);
}

extern "C" char* __getcwd_chk(char* buffer, size_t size, size_t room);
SWRNIC_EXPORT char* __getcwd_chk(char* buffer, size_t size, size_t room) {
    const auto path = vfs_working_directory();
    if (path && size <= room) return give(*path, buffer, size);
    return SWRNIC_REAL(__getcwd_chk)(buffer, size, room);
}

SWRNIC_EXPORT char* get_current_dir_name() noexcept {
    if (const auto path = vfs_working_directory()) return strdup(path->c_str());
    return SWRNIC_REAL(get_current_dir_name)();
}
