// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// fts over the interposed functions, for walks that may come into the tree. It never changes the working directory,
// which fts leaves to whoever implements it.
#include <dirent.h>
#include <fts.h>
#include <stddef.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "interpose.h"
#include "real.h"
#include "vfs.h"

using namespace swrnic::shim;

namespace {

using Compare = int (*)(const FTSENT**, const FTSENT**);

// The program sees entry; the name stands behind it.
struct Found {
    struct stat status;
    FTSENT* children;  // linked by fts_link
    FTSENT entry;
};

Found* found(FTSENT* entry) {
    return reinterpret_cast<Found*>(reinterpret_cast<char*>(entry) - offsetof(Found, entry));
}

void free_children(FTSENT* of) {
    FTSENT* next = std::exchange(found(of)->children, nullptr);
    while (next != nullptr) {
        FTSENT* const entry = std::exchange(next, next->fts_link);
        free_children(entry);
        free(entry->fts_path);
        free(found(entry));
    }
}

class Fts {
  public:
    FTS face{};  // first: the program's handle is its address

    Fts(int options, Compare compare) : compare_(compare) { face.fts_options = options; }
    Fts(const Fts&) = delete;
    Fts& operator=(const Fts&) = delete;
    ~Fts() {
        if (top_ == nullptr) return;
        free_children(top_);
        free(top_->fts_path);
        free(found(top_));
    }

    bool begin(char* const* paths) {
        top_ = make("", "", nullptr, FTS_ROOTPARENTLEVEL);
        if (top_ == nullptr) return false;
        std::vector<FTSENT*> roots;
        for (; *paths != nullptr; ++paths) {
            std::string_view path = *paths;
            while (path.size() > 1 && path.ends_with('/'))
                path.remove_suffix(1);
            FTSENT* const root = make(std::string(path), std::string(path), top_, FTS_ROOTLEVEL);
            if (root == nullptr) return false;
            look(root, (face.fts_options & (FTS_LOGICAL | FTS_COMFOLLOW)) != 0);
            roots.push_back(root);
        }
        adopt(top_, roots);
        return true;
    }

    FTSENT* next_entry() {
        FTSENT* const here = face.fts_cur;
        if (here == nullptr) return ended_ ? nullptr : arrive(found(top_)->children);
        const int instruction = std::exchange(here->fts_instr, static_cast<unsigned short>(FTS_NOINSTR));
        if (instruction == FTS_AGAIN) return look(here, follows()), here;
        if (instruction == FTS_FOLLOW && (here->fts_info == FTS_SL || here->fts_info == FTS_SLNONE)) {
            return look(here, true), here;
        }
        if (here->fts_info != FTS_D) return leave(here);
        if (instruction == FTS_SKIP || ((face.fts_options & FTS_XDEV) != 0 && here->fts_dev != face.fts_dev)) {
            here->fts_info = FTS_DP;
            return here;
        }
        if (!std::exchange(listed_, false)) list(here);
        if (FTSENT* const child = found(here)->children) return arrive(child);
        if (here->fts_info == FTS_D) here->fts_info = FTS_DP;
        return here;
    }

    FTSENT* children_of_current() {
        errno = 0;
        FTSENT* const here = face.fts_cur;
        if (here == nullptr) return ended_ ? nullptr : found(top_)->children;
        if (here->fts_info != FTS_D) return nullptr;
        if (!std::exchange(listed_, true)) list(here);
        return found(here)->children;
    }

  private:
    bool follows() const { return (face.fts_options & FTS_LOGICAL) != 0; }

    FTSENT* make(const std::string& path, const std::string& name, FTSENT* parent, int level) {
        void* const room = calloc(1, sizeof(Found) + name.size() + 1);
        if (room == nullptr) return nullptr;
        FTSENT* const entry = &static_cast<Found*>(room)->entry;
        entry->fts_path = entry->fts_accpath = strdup(path.c_str());
        if (entry->fts_path == nullptr) return free(room), nullptr;
        entry->fts_pathlen = static_cast<unsigned short>(path.size());
        entry->fts_namelen = static_cast<unsigned short>(name.size());
        entry->fts_parent = parent;
        entry->fts_level = static_cast<short>(level);
        entry->fts_instr = FTS_NOINSTR;
        entry->fts_info = FTS_INIT;
        entry->fts_statp = &found(entry)->status;
        std::memcpy(static_cast<char*>(room) + offsetof(Found, entry) + offsetof(FTSENT, fts_name), name.c_str(),
                    name.size() + 1);
        return entry;
    }

    void look(FTSENT* entry, bool follow) {
        struct stat& status = found(entry)->status;
        entry->fts_errno = 0;
        const char* const path = entry->fts_accpath;
        if ((follow ? stat(path, &status) : lstat(path, &status)) != 0) {
            entry->fts_errno = errno;
            const bool dangles = follow && lstat(path, &status) == 0 && S_ISLNK(status.st_mode);
            if (dangles) entry->fts_errno = 0;
            entry->fts_info = dangles ? FTS_SLNONE : FTS_NS;
            return;
        }
        entry->fts_dev = status.st_dev;
        entry->fts_ino = status.st_ino;
        entry->fts_nlink = status.st_nlink;
        entry->fts_info = S_ISREG(status.st_mode) ? FTS_F : S_ISLNK(status.st_mode) ? FTS_SL : FTS_DEFAULT;
        if (S_ISDIR(status.st_mode)) look_at_directory(entry);
    }

    static void look_at_directory(FTSENT* entry) {
        const std::string_view name = entry->fts_name;
        entry->fts_info = FTS_D;
        if (entry->fts_level > FTS_ROOTLEVEL && (name == "." || name == "..")) {
            entry->fts_info = FTS_DOT;
            return;
        }
        for (FTSENT* above = entry->fts_parent; above != nullptr; above = above->fts_parent) {
            if (above->fts_level < FTS_ROOTLEVEL || above->fts_ino != entry->fts_ino ||
                above->fts_dev != entry->fts_dev)
                continue;
            entry->fts_cycle = above;
            entry->fts_info = FTS_DC;
            return;
        }
    }

    void list(FTSENT* of) {
        DIR* const dir = opendir(of->fts_accpath);
        if (dir == nullptr) {
            of->fts_info = FTS_DNR;
            of->fts_errno = errno;
            return;
        }
        std::vector<FTSENT*> entries;
        const std::string prefix = strcmp(of->fts_path, "/") == 0 ? "/" : std::string(of->fts_path) + "/";
        while (const dirent* each = readdir(dir)) {
            const std::string name = each->d_name;
            if ((name == "." || name == "..") && (face.fts_options & FTS_SEEDOT) == 0) continue;
            FTSENT* const entry = make(prefix + name, name, of, of->fts_level + 1);
            if (entry == nullptr) break;
            const bool not_needed = (face.fts_options & FTS_NOSTAT) != 0 && each->d_type != DT_DIR &&
                                    each->d_type != DT_UNKNOWN && !(follows() && each->d_type == DT_LNK);
            if (not_needed) {
                entry->fts_info = FTS_NSOK;
            } else {
                look(entry, follows());
            }
            entries.push_back(entry);
        }
        closedir(dir);
        adopt(of, entries);
    }

    void adopt(FTSENT* parent, std::vector<FTSENT*>& entries) {
        if (compare_ != nullptr && !entries.empty()) {
            qsort(entries.data(), entries.size(), sizeof(FTSENT*),
                  reinterpret_cast<int (*)(const void*, const void*)>(compare_));
        }
        for (auto it = entries.rbegin(); it != entries.rend(); ++it) {
            (*it)->fts_link = found(parent)->children;
            found(parent)->children = *it;
        }
    }

    // At entry, or the first behind it that the program does not skip; their parent where there is none.
    FTSENT* arrive(FTSENT* entry) {
        FTSENT* last = nullptr;
        for (; entry != nullptr; last = std::exchange(entry, entry->fts_link)) {
            if (entry->fts_instr == FTS_SKIP) continue;
            if (std::exchange(entry->fts_instr, static_cast<unsigned short>(FTS_NOINSTR)) == FTS_FOLLOW)
                look(entry, true);
            if (entry->fts_level == FTS_ROOTLEVEL) face.fts_dev = entry->fts_dev;
            return face.fts_cur = entry;
        }
        return last != nullptr ? up_from(last) : end();
    }
    FTSENT* leave(FTSENT* entry) { return entry->fts_link != nullptr ? arrive(entry->fts_link) : up_from(entry); }
    FTSENT* up_from(FTSENT* entry) {
        FTSENT* const parent = entry->fts_parent;
        if (parent->fts_level == FTS_ROOTPARENTLEVEL) return end();
        free_children(parent);
        parent->fts_info = parent->fts_errno != 0 ? FTS_ERR : FTS_DP;
        return face.fts_cur = parent;
    }
    FTSENT* end() {
        ended_ = true;
        errno = 0;
        return face.fts_cur = nullptr;
    }

    const Compare compare_;
    FTSENT* top_ = nullptr;  // its children are where the walk begins
    bool listed_ = false;    // the current entry's children are there already
    bool ended_ = false;
};

constinit std::mutex g_walks_lock;
std::vector<Fts*>& walks() {
    static auto* list = new std::vector<Fts*>;
    return *list;
}

Fts* walk_of(const void* handle) {
    const std::lock_guard guard(g_walks_lock);
    const auto it = std::find_if(walks().begin(), walks().end(), [&](Fts* walk) { return &walk->face == handle; });
    return it == walks().end() ? nullptr : *it;
}

FTS* open_walk(char* const* paths, int options, Compare compare) {
    const int kind = options & (FTS_LOGICAL | FTS_PHYSICAL);
    if (kind == 0 || (options & ~FTS_OPTIONMASK) != 0) return errno = EINVAL, nullptr;
    auto* const walk = new Fts(options, compare);
    if (!walk->begin(paths)) {
        delete walk;
        return errno = ENOMEM, nullptr;
    }
    const std::lock_guard guard(g_walks_lock);
    walks().push_back(walk);
    return &walk->face;
}

int close_walk(Fts* walk) {
    {
        const std::lock_guard guard(g_walks_lock);
        std::erase(walks(), walk);
    }
    delete walk;
    return 0;
}

bool walked_by_us(char* const* paths) {
    for (; *paths != nullptr; ++paths) {
        if (may_lead_to_ours(*paths)) return true;
    }
    return false;
}

int instruct(FTSENT* entry, int instruction) {
    if (instruction != 0 && instruction != FTS_AGAIN && instruction != FTS_FOLLOW && instruction != FTS_NOINSTR &&
        instruction != FTS_SKIP)
        return answer(-EINVAL);
    entry->fts_instr = static_cast<unsigned short>(instruction);
    return 0;
}

}  // namespace

static_assert(sizeof(FTS) == sizeof(FTS64) && sizeof(FTSENT) == sizeof(FTSENT64));

#define SWRNIC_FTS(open, read, children, set, close, Handle, Result)                                              \
    SWRNIC_EXPORT Handle* open(char* const* paths, int options, int (*compare)(const Result**, const Result**)) { \
        if (!walked_by_us(paths)) return SWRNIC_REAL(open)(paths, options, compare);                              \
        return reinterpret_cast<Handle*>(open_walk(paths, options, reinterpret_cast<Compare>(compare)));          \
    }                                                                                                             \
    SWRNIC_EXPORT Result* read(Handle* handle) {                                                                  \
        Fts* const walk = walk_of(handle);                                                                        \
        return walk != nullptr ? reinterpret_cast<Result*>(walk->next_entry()) : SWRNIC_REAL(read)(handle);       \
    }                                                                                                             \
    SWRNIC_EXPORT Result* children(Handle* handle, int options) {                                                 \
        Fts* const walk = walk_of(handle);                                                                        \
        if (walk != nullptr) return reinterpret_cast<Result*>(walk->children_of_current());                       \
        return SWRNIC_REAL(children)(handle, options);                                                            \
    }                                                                                                             \
    SWRNIC_EXPORT int set(Handle* handle, Result* entry, int instruction) noexcept {                              \
        if (walk_of(handle) == nullptr) return SWRNIC_REAL(set)(handle, entry, instruction);                      \
        return instruct(reinterpret_cast<FTSENT*>(entry), instruction);                                           \
    }                                                                                                             \
    SWRNIC_EXPORT int close(Handle* handle) {                                                                     \
        Fts* const walk = walk_of(handle);                                                                        \
        return walk != nullptr ? close_walk(walk) : SWRNIC_REAL(close)(handle);                                   \
    }
SWRNIC_FTS(fts_open, fts_read, fts_children, fts_set, fts_close, FTS, FTSENT)
SWRNIC_FTS(fts64_open, fts64_read, fts64_children, fts64_set, fts64_close, FTS64, FTSENT64)
