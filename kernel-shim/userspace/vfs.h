// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What the interposed path functions do with a virtual path.
#pragma once

#include <dirent.h>

#include <optional>
#include <string>
#include <vector>

#include "file.h"
#include "sysfs.h"

namespace swrnic::shim {

// An open virtual directory: it serves openat, fstatat, fchdir and fdopendir.
class DirectoryFile : public File {
  public:
    explicit DirectoryFile(std::string path) : path_(std::move(path)) {}
    const std::string& path() const { return path_; }  // without links
    bool fake_stat(struct stat& out) const override;

  private:
    const std::string path_;
};

// What (dirfd, path) names. All interposed functions ask by locate() alone, so that they agree.
struct Place {
    enum class Kind {
        kForeign,  // the next definition is asked, with what it was given
        kReal,     // by way of the tree, back into the real file system: the next definition is asked for `path`
        kVirtual,  // ours to answer
    };
    Kind kind = Kind::kForeign;
    int error = 0;     // kVirtual: there is no such node, -errno
    std::string path;  // absolute, without links
    Node node;         // kVirtual without error

    bool ours() const { return kind == Kind::kVirtual; }
    bool is_directory() const { return ours() && error == 0 && node.kind == Node::Kind::kDirectory; }
    const char* path_or(const char* given) const { return kind == Kind::kReal ? path.c_str() : given; }
};
enum class Last { kFollow, kNoFollow };  // when the last part of the path is a link
// A path that cannot be read is foreign: the kernel says EFAULT.
Place locate(int dirfd, const char* path, Last last = Last::kFollow);
// As above for the functions with AT_* flags: AT_SYMLINK_NOFOLLOW, and AT_EMPTY_PATH of a directory of ours.
Place locate_with_flags(int dirfd, const char* path, int flags);

// Whether a walk that begins at path may come into the tree.
bool may_lead_to_ours(const char* path);

// 0 (vfs_open: fd) or -errno.
int vfs_open(const Place& place, int flags);
int vfs_stat(const Place& place, struct stat& out);
int vfs_access(const Place& place, int wanted);

// The working directory cannot be a virtual one to the kernel, which gets the real directory above; programs that this
// one executes take it from $PWD, as shells export it. 0 or -errno; nullopt: not ours.
std::optional<int> vfs_chdir(const Place& place);
void vfs_left_directory();  // the kernel's working directory is the process's again
std::optional<std::string> vfs_working_directory();

// A directory stream of our own making, passed around as DIR*. Foreign streams are told apart by address.
struct DirectoryStream {
    int fd;
    std::string path;
    DIR* real;  // of a real directory that has entries of ours; nullptr: a virtual one
    std::vector<Entry> entries;
    std::size_t next;
    dirent current;
};
DirectoryStream* stream_open(int fd, std::string path, DIR* real);  // takes both over
DirectoryStream* stream_of(const void* dir);  // nullptr: foreign. Lock-free while there are none of ours
void stream_rewind(DirectoryStream& stream);
bool stream_next(DirectoryStream& stream, dirent& out);
void stream_forget(DirectoryStream* stream);  // frees it; what it has open stays open

}  // namespace swrnic::shim
