// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "vfs.h"

#include <linux/memfd.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cstring>
#include <mutex>

#include "log.h"
#include "state.h"
#include "ucma.h"
#include "uverbs.h"

namespace swrnic::shim {

bool DirectoryFile::fake_stat(struct stat& out) const {
    fill_stat(path_, Node{Node::Kind::kDirectory, {}}, out);
    return true;
}

std::optional<std::string> virtual_path(int dirfd, const char* path) {
    if (path == nullptr) return std::nullopt;
    std::string full;
    if (path[0] == '/') {
        if (!maybe_virtual(path)) return std::nullopt;
        full = normalized(path);
    } else {
        if (!FdTable::owns(dirfd)) return std::nullopt;
        Locked locked;
        const auto directory = std::dynamic_pointer_cast<DirectoryFile>(locked->fds.find(locked, dirfd));
        if (directory == nullptr) return std::nullopt;
        full = normalized(directory->path() + "/" + path);
    }
    if (!covers(full) || !active()) return std::nullopt;
    return full;
}

namespace {

int open_content(const std::string& path, const std::string& content, int flags) {
    if ((flags & O_ACCMODE) != O_RDONLY) return -EACCES;
    const int fd = sys::memfd(path.substr(path.rfind('/') + 1).c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0) return fd;
    sys::write(fd, content.data(), content.size());
    sys::fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE);
    sys::call(SYS_lseek, fd, 0L, SEEK_SET);
    return fd;
}

}  // namespace

int vfs_open(const std::string& path, int flags) {
    const std::optional<Node> node = find_node(path);
    if (!node) return (flags & O_CREAT) != 0 ? -EACCES : -ENOENT;
    if (node->kind == Node::Kind::kFile) {
        return (flags & O_DIRECTORY) != 0 ? -ENOTDIR : open_content(path, node->content, flags);
    }
    Locked locked;
    int fd = -EISDIR;
    if (node->kind == Node::Kind::kDirectory) {
        if ((flags & O_ACCMODE) != O_RDONLY) return fd;
        fd = locked->fds.install_new(locked, std::make_shared<DirectoryFile>(path), EFD_CLOEXEC);
    } else if ((flags & O_DIRECTORY) != 0) {
        fd = -ENOTDIR;
    } else if (node->kind == Node::Kind::kUverbs) {
        fd = locked->fds.install_new(locked, std::make_shared<UverbsFile>(), EFD_CLOEXEC);
    } else {
        fd = locked->fds.install_new(locked, std::make_shared<UcmaFile>(), EFD_CLOEXEC | (flags & O_NONBLOCK));
    }
    log(LogLevel::kDebug, "open {}: {}", path, fd);
    return fd;
}

int vfs_stat(const std::string& path, struct stat& out) {
    const std::optional<Node> node = find_node(path);
    if (!node) return -ENOENT;
    fill_stat(path, *node, out);
    return 0;
}

int vfs_access(const std::string& path, int wanted) {
    const std::optional<Node> node = find_node(path);
    if (!node) return -ENOENT;
    const bool device = node->kind == Node::Kind::kUverbs || node->kind == Node::Kind::kRdmaCm;
    if ((wanted & W_OK) != 0 && !device) return -EACCES;
    return (wanted & X_OK) != 0 && node->kind != Node::Kind::kDirectory ? -EACCES : 0;
}

// ---- directory streams ----

namespace {
constinit std::atomic<int> g_stream_count{0};
constinit std::mutex g_stream_lock;
std::vector<DirectoryStream*>& streams() {
    static auto* list = new std::vector<DirectoryStream*>;
    return *list;
}
}  // namespace

DirectoryStream* stream_open(int fd, const std::string& path) {
    auto* stream = new DirectoryStream{fd, list_directory(path), 0, {}};
    const std::lock_guard guard(g_stream_lock);
    streams().push_back(stream);
    g_stream_count.fetch_add(1, std::memory_order_release);
    return stream;
}

DirectoryStream* stream_of(const void* dir) {
    if (g_stream_count.load(std::memory_order_acquire) == 0) return nullptr;
    const std::lock_guard guard(g_stream_lock);
    const auto it = std::find(streams().begin(), streams().end(), dir);
    return it == streams().end() ? nullptr : *it;
}

dirent* stream_next(DirectoryStream& stream) {
    if (stream.next >= stream.entries.size()) return nullptr;
    const Entry& entry = stream.entries[stream.next++];
    stream.current = {};
    stream.current.d_ino = stream.next;
    stream.current.d_reclen = sizeof(stream.current);
    stream.current.d_type = entry.directory ? DT_DIR : DT_REG;
    entry.name.copy(stream.current.d_name, sizeof(stream.current.d_name) - 1);
    return &stream.current;
}

void stream_forget(DirectoryStream* stream) {
    {
        const std::lock_guard guard(g_stream_lock);
        std::erase(streams(), stream);
        g_stream_count.fetch_sub(1, std::memory_order_release);
    }
    delete stream;
}

}  // namespace swrnic::shim
