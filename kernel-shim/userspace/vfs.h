// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What the interposed path functions do with a virtual path.
#pragma once

#include <dirent.h>

#include <optional>
#include <string>

#include "file.h"
#include "sysfs.h"

namespace swrnic::shim {

// An open virtual directory: it serves openat, fstatat and fdopendir.
class DirectoryFile : public File {
  public:
    explicit DirectoryFile(std::string path) : path_(std::move(path)) {}
    const std::string& path() const { return path_; }
    bool fake_stat(struct stat& out) const override;

  private:
    const std::string path_;
};

// The virtual path that (dirfd, path) names, if this is ours to answer at all; normalized.
std::optional<std::string> virtual_path(int dirfd, const char* path);

int vfs_open(const std::string& path, int flags);         // fd or -errno
int vfs_stat(const std::string& path, struct stat& out);  // 0 or -errno
int vfs_access(const std::string& path, int wanted);      // 0 or -errno

// A directory stream of our own making, passed around as DIR*. Foreign streams are told apart by address.
struct DirectoryStream {
    int fd;
    std::vector<Entry> entries;
    std::size_t next;
    dirent current;
};
DirectoryStream* stream_open(int fd, const std::string& path);  // takes fd
DirectoryStream* stream_of(const void* dir);  // nullptr: foreign. Lock-free while there are none of ours
dirent* stream_next(DirectoryStream& stream);
void stream_forget(DirectoryStream* stream);  // frees it; the descriptor stays open

}  // namespace swrnic::shim
