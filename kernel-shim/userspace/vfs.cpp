// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "vfs.h"

#include <linux/memfd.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstring>
#include <mutex>

#include "log.h"
#include "state.h"
#include "ucma.h"
#include "user_memory.h"
#include "uverbs.h"

namespace swrnic::shim {

bool DirectoryFile::fake_stat(struct stat& out) const {
    fill_stat(path_, Node{}, out);
    return true;
}

namespace {

constinit std::atomic<bool> g_in_virtual_directory{false};

Place failed(int error) {
    Place place;
    place.kind = Place::Kind::kVirtual;
    place.error = error;
    return place;
}

// What is left of a path, the next part last.
class Parts {
  public:
    void push(std::string_view path) {
        std::vector<std::string> parts;
        for (std::size_t at = 0; at < path.size();) {
            const std::size_t end = std::min(path.find('/', at), path.size());
            const std::string_view part = path.substr(at, end - at);
            if (!part.empty() && part != ".") parts.emplace_back(part);
            at = end + 1;
        }
        left_.insert(left_.end(), std::make_move_iterator(parts.rbegin()), std::make_move_iterator(parts.rend()));
    }
    std::string pop() {
        std::string part = std::move(left_.back());
        left_.pop_back();
        return part;
    }
    bool empty() const { return left_.empty(); }

  private:
    std::vector<std::string> left_;
};

std::string read_link(const char* path) {
    std::array<char, PATH_MAX> buffer;
    const long size = sys::call(SYS_readlinkat, AT_FDCWD, path, buffer.data(), buffer.size());
    return size > 0 ? std::string(buffer.data(), static_cast<std::size_t>(size)) : std::string{};
}

// As a kernel resolves a path, part by part. The real file system is asked for the links of its own that stand before
// or behind what is ours.
class Walk {
  public:
    Walk(std::string start, bool touched) : at_(std::move(start)), touched_(touched) {}

    Place to(std::string_view path, Last last) {
        must_be_directory_ = path.ends_with('/') || path.ends_with("/.") || path == ".";
        follow_last_ = last == Last::kFollow || must_be_directory_;
        left_.push(path);
        while (!left_.empty()) {
            if (const int error = step(left_.pop()); error != 0) return failed(error);
        }
        return arrived();
    }

  private:
    static constexpr int kMaxLinks = 40;  // the kernel's

    int step(const std::string& part) {
        if (part == "..") {
            at_.erase(std::min(at_.rfind('/'), at_.size()));
            return 0;
        }
        std::string next = at_ + "/" + part;
        if (const auto it = tree_.find(next); it != tree_.end()) return enter(std::move(next), it->second);
        if (covers(next)) return -ENOENT;
        if (!leads_to_ours(next)) {
            const std::string target = left_.empty() && !follow_last_ ? std::string{} : read_link(next.c_str());
            if (!target.empty()) return follow(target);
        }
        at_ = std::move(next);
        return 0;
    }
    int enter(std::string next, const Node& node) {
        touched_ = true;
        if (node.kind == Node::Kind::kLink && (!left_.empty() || follow_last_)) return follow(node.content);
        if (node.kind != Node::Kind::kDirectory && (!left_.empty() || must_be_directory_)) return -ENOTDIR;
        at_ = std::move(next);
        return 0;
    }
    int follow(const std::string& target) {
        if (++links_ > kMaxLinks) return -ELOOP;
        if (target.starts_with('/')) at_.clear();
        left_.push(target);
        return 0;
    }
    Place arrived() const {
        Place place;
        if (const auto it = tree_.find(at_); it != tree_.end()) {
            place.kind = Place::Kind::kVirtual;
            place.node = it->second;
        } else if (touched_) {
            place.kind = Place::Kind::kReal;
        }
        place.path = at_.empty() ? "/" : at_;
        if (place.kind == Place::Kind::kReal && must_be_directory_) place.path += '/';
        return place;
    }

    const Tree tree_ = device_tree();
    std::string at_;
    Parts left_;
    int links_ = 0;
    bool touched_;
    bool must_be_directory_ = false, follow_last_ = true;
};

std::shared_ptr<DirectoryFile> directory_of(int fd) {
    if (!FdTable::owns(fd)) return nullptr;
    Locked locked;
    return std::dynamic_pointer_cast<DirectoryFile>(locked->fds.find(locked, fd));
}

// The directory of a path that is relative to a real one. Empty: it cannot come to what is ours from there.
std::string real_base(int dirfd) {
    std::string base = read_link(dirfd == AT_FDCWD ? "/proc/self/cwd" : fmt::format("/proc/self/fd/{}", dirfd).c_str());
    if (!base.starts_with("/sys") && !base.starts_with("/dev")) base.clear();
    return base;
}

bool text_is_readable(const char* text) {
    return text != nullptr && readable_string(text);
}

}  // namespace

Place locate(int dirfd, const char* path, Last last) {
    if (!text_is_readable(path)) return {};
    if (path[0] == '/') {
        if (!maybe_virtual(path) || !active()) return {};
        return Walk({}, false).to(path, last);
    }
    if (path[0] == '\0') return {};  // ENOENT everywhere
    if (dirfd == AT_FDCWD) {
        if (const auto directory = vfs_working_directory()) return Walk(*directory, true).to(path, last);
    } else if (FdTable::owns(dirfd)) {
        const auto directory = directory_of(dirfd);
        return directory != nullptr ? Walk(directory->path(), true).to(path, last) : failed(-ENOTDIR);
    }
    if (!names_ours(path) || !active()) return {};
    const std::string base = real_base(dirfd);
    return base.empty() ? Place{} : Walk(base, false).to(path, last);
}

Place locate_with_flags(int dirfd, const char* path, int flags) {
    if ((flags & AT_EMPTY_PATH) != 0 && text_is_readable(path) && path[0] == '\0') return locate(dirfd, ".");
    return locate(dirfd, path, (flags & AT_SYMLINK_NOFOLLOW) != 0 ? Last::kNoFollow : Last::kFollow);
}

bool may_lead_to_ours(const char* path) {
    if (!text_is_readable(path) || !active()) return false;
    if (path[0] != '/') return names_ours(path) || g_in_virtual_directory.load(std::memory_order_acquire);
    while (path[1] == '/')
        ++path;
    return path[1] == '\0' || strncmp(path, "/sys", 4) == 0 || strncmp(path, "/dev", 4) == 0;
}

namespace {

int open_content(const Place& place, int flags) {
    if ((flags & O_ACCMODE) != O_RDONLY) return -EACCES;
    const unsigned close_on_exec = (flags & O_CLOEXEC) != 0 ? MFD_CLOEXEC : 0;
    const int fd = sys::memfd(place.path.substr(place.path.rfind('/') + 1).c_str(), close_on_exec | MFD_ALLOW_SEALING);
    if (fd < 0) return fd;
    sys::write(fd, place.node.content.data(), place.node.content.size());
    sys::fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE);
    sys::call(SYS_lseek, fd, 0L, SEEK_SET);
    return fd;
}

}  // namespace

int vfs_open(const Place& place, int flags) {
    if (place.error != 0) return place.error == -ENOENT && (flags & O_CREAT) != 0 ? -EACCES : place.error;
    const Node::Kind kind = place.node.kind;
    if ((flags & O_DIRECTORY) != 0 && kind != Node::Kind::kDirectory) return -ENOTDIR;
    if (kind == Node::Kind::kLink) return -ELOOP;
    if (kind == Node::Kind::kFile) return open_content(place, flags);
    Locked locked;
    int fd = -EISDIR;
    if (kind == Node::Kind::kDirectory) {
        if ((flags & O_ACCMODE) != O_RDONLY) return fd;
        fd = locked->fds.install_new(locked, std::make_shared<DirectoryFile>(place.path), EFD_CLOEXEC);
    } else if (kind == Node::Kind::kUverbs) {
        fd = locked->fds.install_new(locked, std::make_shared<UverbsFile>(place.node.device), EFD_CLOEXEC);
    } else {
        fd = locked->fds.install_new(locked, std::make_shared<UcmaFile>(), EFD_CLOEXEC | (flags & O_NONBLOCK));
    }
    log(LogLevel::kDebug, "open {}: {}", place.path, fd);
    return fd;
}

int vfs_stat(const Place& place, struct stat& out) {
    if (place.error != 0) return place.error;
    fill_stat(place.path, place.node, out);
    return 0;
}

int vfs_access(const Place& place, int wanted) {
    if (place.error != 0) return place.error;
    const bool device = place.node.kind == Node::Kind::kUverbs || place.node.kind == Node::Kind::kRdmaCm;
    if ((wanted & W_OK) != 0 && !device) return -EACCES;
    return (wanted & X_OK) != 0 && place.node.kind != Node::Kind::kDirectory ? -EACCES : 0;
}

// ---- the working directory ----

namespace {

// The nearest real directory above, which a container's /sys may lack.
std::string stands_for(const std::string& path) {
    std::string real(real_parent(path));
    while (!real.empty() && sys::faccess(real.c_str()) != 0)
        real.erase(real.rfind('/'));
    return real.empty() ? "/" : real;
}

void set_working_directory(std::string path) {
    if (in_vforked_child()) return;
    Locked locked;
    g_in_virtual_directory.store(!path.empty(), std::memory_order_release);
    locked->working_directory = std::move(path);
}

// A shell was in a directory of ours and has executed this program.
[[gnu::constructor]] void inherit_working_directory() {
    const char* const before = getenv("PWD");
    if (before == nullptr || !maybe_virtual(before)) return;
    const Place place = locate(AT_FDCWD, before);
    if (place.is_directory() && read_link("/proc/self/cwd") == stands_for(place.path))
        set_working_directory(place.path);
}

}  // namespace

std::optional<int> vfs_chdir(const Place& place) {
    if (place.ours()) {
        if (place.error != 0) return place.error;
        if (place.node.kind != Node::Kind::kDirectory) return -ENOTDIR;
        const int result = static_cast<int>(sys::call(SYS_chdir, stands_for(place.path).c_str()));
        if (result == 0) set_working_directory(place.path);
        return result;
    }
    return std::nullopt;
}

void vfs_left_directory() {
    if (g_in_virtual_directory.load(std::memory_order_acquire)) set_working_directory({});
}

std::optional<std::string> vfs_working_directory() {
    if (!g_in_virtual_directory.load(std::memory_order_acquire)) return std::nullopt;
    Locked locked;
    if (locked->working_directory.empty()) return std::nullopt;
    return locked->working_directory;
}

// ---- directory streams ----

namespace {
constinit std::atomic<int> g_stream_count{0};
constinit std::mutex g_stream_lock;
std::vector<DirectoryStream*>& streams() {
    static auto* list = new std::vector<DirectoryStream*>;
    return *list;
}

// Where the kernel has a directory of the same name as ours, there is one.
void append_missing(std::vector<Entry>& entries, const std::vector<Entry>& more) {
    for (const Entry& entry : more) {
        const auto same = [&](const Entry& other) { return other.name == entry.name; };
        if (std::none_of(entries.begin(), entries.end(), same)) entries.push_back(entry);
    }
}
}  // namespace

void stream_rewind(DirectoryStream& stream) {
    stream.next = 0;
    stream.entries.clear();
    if (stream.real != nullptr) {
        SWRNIC_REAL(rewinddir)(stream.real);
        while (const dirent* entry = SWRNIC_REAL(readdir)(stream.real))
            stream.entries.push_back({entry->d_name, entry->d_type, entry->d_ino});
    } else {
        const std::string parent = stream.path.substr(0, stream.path.rfind('/'));
        stream.entries = {{".", DT_DIR, inode_of(stream.path)}, {"..", DT_DIR, inode_of(parent)}};
    }
    append_missing(stream.entries, list_directory(device_tree(), stream.path));
}

DirectoryStream* stream_open(int fd, std::string path, DIR* real) {
    auto* stream = new DirectoryStream{fd, std::move(path), real, {}, 0, {}};
    stream_rewind(*stream);
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

bool stream_next(DirectoryStream& stream, dirent& out) {
    if (stream.next >= stream.entries.size()) return false;
    const Entry& entry = stream.entries[stream.next++];
    out = {};
    out.d_ino = entry.inode;
    out.d_off = static_cast<off_t>(stream.next);
    out.d_reclen = sizeof(out);
    out.d_type = entry.type;
    entry.name.copy(out.d_name, sizeof(out.d_name) - 1);
    return true;
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
