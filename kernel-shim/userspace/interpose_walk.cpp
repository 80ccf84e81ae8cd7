// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The walks of libc that may come into the tree: glob, ftw and nftw. Libc's own would go past us; these go by the
// interposed functions, and where they do not come near the tree libc's do it.
#include <dirent.h>
#include <ftw.h>
#include <glob.h>
#include <sys/stat.h>
#include <unistd.h>

#include <climits>
#include <cstring>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "interpose.h"
#include "real.h"
#include "vfs.h"

using namespace swrnic::shim;

// ---- glob ----

namespace {

// libc asks us for directories by its own interface for that. The program's fields are as they were afterwards.
template <typename Glob, typename Dirent, typename Stat, typename Real>
int glob_by_us(Real real, const char* pattern, int flags, int (*failed)(const char*, int), Glob* out,
               Dirent* (*next)(DIR*), int (*by_link)(const char*, Stat*), int (*status)(const char*, Stat*)) {
    const Glob before = *out;
    out->gl_opendir = [](const char* path) -> void* { return opendir(path); };
    out->gl_closedir = [](void* dir) { closedir(static_cast<DIR*>(dir)); };
    out->gl_readdir = reinterpret_cast<decltype(out->gl_readdir)>(next);
    out->gl_lstat = by_link;
    out->gl_stat = status;
    const int result = real(pattern, flags | GLOB_ALTDIRFUNC, failed, out);
    out->gl_opendir = before.gl_opendir;
    out->gl_closedir = before.gl_closedir;
    out->gl_readdir = before.gl_readdir;
    out->gl_lstat = before.gl_lstat;
    out->gl_stat = before.gl_stat;
    out->gl_flags &= ~GLOB_ALTDIRFUNC;
    return result;
}

}  // namespace

SWRNIC_EXPORT int glob(const char* pattern, int flags, int (*failed)(const char*, int), glob_t* out) noexcept {
    const auto real = SWRNIC_REAL(glob);
    if ((flags & GLOB_ALTDIRFUNC) != 0 || !may_lead_to_ours(pattern)) return real(pattern, flags, failed, out);
    return glob_by_us(real, pattern, flags, failed, out, &readdir, &lstat, &stat);
}

SWRNIC_EXPORT int glob64(const char* pattern, int flags, int (*failed)(const char*, int), glob64_t* out) noexcept {
    const auto real = SWRNIC_REAL(glob64);
    if ((flags & GLOB_ALTDIRFUNC) != 0 || !may_lead_to_ours(pattern)) return real(pattern, flags, failed, out);
    return glob_by_us(real, pattern, flags, failed, out, &readdir64, &lstat64, &stat64);
}

// ---- ftw ----

namespace {

using Visit = std::function<int(const char* path, const struct stat* status, int type, FTW* where)>;

class TreeWalk {
  public:
    // ftw's callbacks do not know the type for dangling links.
    TreeWalk(Visit visit, int flags, bool plain) : visit_(std::move(visit)), flags_(flags), plain_(plain) {}

    int from(const char* path) {
        if (path[0] == '\0') return answer(-ENOENT);
        std::string name = path;
        while (name.size() > 1 && name.back() == '/')
            name.pop_back();
        if (name[0] != '/' && (flags_ & FTW_CHDIR) != 0) {
            char here[PATH_MAX];
            if (getcwd(here, sizeof(here)) == nullptr) return -1;
            start_ = std::string(here) + "/";
        }
        if (!status_of(name, root_) && lstat(reach(name).c_str(), &root_) != 0) return -1;
        const std::size_t slash = name.rfind('/');
        const int base = slash == std::string::npos ? 0 : static_cast<int>(slash + 1);
        const int back = (flags_ & FTW_CHDIR) != 0 ? ::open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
        const int result = at(name, base, 0);
        if (back >= 0) {
            const int kept = errno;
            (void)!fchdir(back);
            ::close(back);
            errno = kept;
        }
        const bool acts = (flags_ & FTW_ACTIONRETVAL) != 0;
        return acts && (result == FTW_SKIP_SUBTREE || result == FTW_SKIP_SIBLINGS) ? 0 : result;
    }

  private:
    // By the place where the walk began, if it changes the working directory.
    std::string reach(const std::string& path) const { return start_ + path; }
    bool follows() const { return (flags_ & FTW_PHYS) == 0; }
    bool status_of(const std::string& path, struct stat& out) const {
        const std::string there = reach(path);
        return (follows() ? stat(there.c_str(), &out) : lstat(there.c_str(), &out)) == 0;
    }

    int type_of(const std::string& path, struct stat& status) const {
        if (!status_of(path, status)) {
            if (errno != EACCES && errno != ENOENT && errno != ELOOP) return -1;
            const bool dangles = follows() && lstat(reach(path).c_str(), &status) == 0 && S_ISLNK(status.st_mode);
            return dangles && !plain_ ? FTW_SLN : FTW_NS;
        }
        if (S_ISDIR(status.st_mode)) return FTW_D;
        return S_ISLNK(status.st_mode) ? FTW_SL : FTW_F;
    }

    int call(const std::string& path, const struct stat& status, int type, int base, int level) const {
        FTW where{base, level};
        if ((flags_ & FTW_CHDIR) != 0) {
            const std::string parent = reach(path.substr(0, static_cast<std::size_t>(base)));
            if (!parent.empty() && chdir(parent.c_str()) != 0) return -1;
        }
        return visit_(path.c_str(), &status, type, &where);
    }

    int at(const std::string& path, int base, int level) {
        struct stat status {};
        const int type = type_of(path, status);
        if (type < 0) return -1;
        if (type != FTW_NS && (flags_ & FTW_MOUNT) != 0 && status.st_dev != root_.st_dev) return 0;
        if (type != FTW_D) return call(path, status, type, base, level);
        if (follows() && !seen_.emplace(status.st_dev, status.st_ino).second) return 0;
        return directory(path, status, base, level);
    }

    int directory(const std::string& path, const struct stat& status, int base, int level) {
        std::vector<std::string> names;
        DIR* const dir = opendir(reach(path).c_str());
        if (dir == nullptr) {
            return errno == EACCES ? call(path, status, FTW_DNR, base, level) : -1;
        }
        while (const dirent* entry = readdir(dir)) {
            if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) names.emplace_back(entry->d_name);
        }
        closedir(dir);
        const bool after = (flags_ & FTW_DEPTH) != 0, acts = (flags_ & FTW_ACTIONRETVAL) != 0;
        if (!after) {
            const int result = call(path, status, FTW_D, base, level);
            if (acts && result == FTW_SKIP_SUBTREE) return 0;
            if (result != 0) return result;
        }
        const std::string prefix = path == "/" ? path : path + "/";
        for (const std::string& name : names) {
            const int result = at(prefix + name, static_cast<int>(prefix.size()), level + 1);
            if (acts && result == FTW_SKIP_SIBLINGS) break;
            if (result != 0 && !(acts && result == FTW_SKIP_SUBTREE)) return result;
        }
        return after ? call(path, status, FTW_DP, base, level) : 0;
    }

    const Visit visit_;
    const int flags_;
    const bool plain_;
    std::string start_;
    struct stat root_ {};
    std::set<std::pair<dev_t, ino_t>> seen_;
};

}  // namespace

// How many descriptors may be open makes no difference: one is, and only while a directory is read.
#define SWRNIC_FTW(name, type, Stat)                                                                      \
    SWRNIC_EXPORT int name(const char* path, type visit, int descriptors) {                               \
        if (!may_lead_to_ours(path)) return SWRNIC_REAL(name)(path, visit, descriptors);                  \
        return TreeWalk([visit](const char* at, const struct stat* status, int kind,                      \
                                FTW*) { return visit(at, reinterpret_cast<const Stat*>(status), kind); }, \
                        0, true)                                                                          \
            .from(path);                                                                                  \
    }
SWRNIC_FTW(ftw, __ftw_func_t, struct stat)
SWRNIC_FTW(ftw64, __ftw64_func_t, struct stat64)

#define SWRNIC_NFTW(name, type, Stat)                                                                                  \
    SWRNIC_EXPORT int name(const char* path, type visit, int descriptors, int flags) {                                 \
        if (!may_lead_to_ours(path)) return SWRNIC_REAL(name)(path, visit, descriptors, flags);                        \
        return TreeWalk([visit](const char* at, const struct stat* status, int kind,                                   \
                                FTW* where) { return visit(at, reinterpret_cast<const Stat*>(status), kind, where); }, \
                        flags, false)                                                                                  \
            .from(path);                                                                                               \
    }
SWRNIC_NFTW(nftw, __nftw_func_t, struct stat)
SWRNIC_NFTW(nftw64, __nftw64_func_t, struct stat64)
