// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Each function of libc that looks at a path answers for the device as on a kernel's /sys. What is right is said by
// the tree itself, by open() and read(), or by the real file system beside it.
#include <dirent.h>
#include <fcntl.h>
#include <fts.h>
#include <ftw.h>
#include <glob.h>
#include <limits.h>
#include <net/if.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>

#include "raw.h"

namespace swrnic::test {
namespace {

constexpr const char* kPort = "/sys/class/infiniband/swr0/ports/1";
constexpr const char* kDevice = "/sys/class/infiniband/swr0";

std::string text(char* made) {
    const std::string result = made == nullptr ? std::string("none: ") + strerror(errno) : made;
    free(made);
    return result;
}
std::string link_of(const char* path) {
    char buffer[PATH_MAX];
    const ssize_t size = readlink(path, buffer, sizeof(buffer));
    return size < 0 ? std::string("none: ") + strerror(errno) : std::string(buffer, static_cast<std::size_t>(size));
}

class Stream {
  public:
    explicit Stream(DIR* dir) : dir_(dir) {}
    explicit Stream(const char* path) : Stream(opendir(path)) {}
    ~Stream() {
        if (dir_ != nullptr) closedir(dir_);
    }
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;
    DIR* get() const { return dir_; }
    std::vector<std::string> rest() const {
        std::vector<std::string> names;
        while (const dirent* entry = readdir(dir_))
            names.emplace_back(entry->d_name);
        return names;
    }

  private:
    DIR* dir_;
};

const std::set<std::string> kPortNames{"cap_mask", "counters",       "hw_counters", "gid_attrs", "gids",
                                       "lid",      "lid_mask_count", "link_layer",  "pkeys",     "phys_state",
                                       "rate",     "sm_lid",         "sm_sl",       "state",     "net"};

std::set<std::string> without_dots(const std::vector<std::string>& names) {
    std::set<std::string> result(names.begin(), names.end());
    EXPECT_EQ(result.size(), names.size()) << "a name is there twice";
    result.erase(".");
    result.erase("..");
    return result;
}

TEST(Directory, StreamsGoForthAndBack) {
    const Stream stream(kPort);
    ASSERT_NE(stream.get(), nullptr);
    const std::vector<std::string> all = stream.rest();
    EXPECT_EQ(all.size(), kPortNames.size() + 2) << "and . and ..";
    EXPECT_EQ(without_dots(all), kPortNames);
    rewinddir(stream.get());
    EXPECT_EQ(stream.rest(), all);
    rewinddir(stream.get());
    for (int i = 0; i < 4; ++i)
        readdir(stream.get());
    const long fifth = telldir(stream.get());
    EXPECT_EQ(stream.rest(), std::vector(all.begin() + 4, all.end()));
    seekdir(stream.get(), fifth);
    EXPECT_EQ(std::string(readdir64(stream.get())->d_name), all[4]);
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
TEST(Directory, StreamsGiveEntriesToTheCallersRoom) {
    const Stream stream(kPort);
    ASSERT_NE(stream.get(), nullptr);
    std::vector<std::string> names;
    dirent entry{}, *result = nullptr;
    while (readdir_r(stream.get(), &entry, &result) == 0 && result == &entry)
        names.emplace_back(entry.d_name);
    EXPECT_EQ(result, nullptr);
    EXPECT_EQ(without_dots(names), kPortNames);
    rewinddir(stream.get());
    dirent64 entry64{}, *result64 = nullptr;
    EXPECT_EQ(readdir64_r(stream.get(), &entry64, &result64), 0);
    EXPECT_EQ(result64, &entry64);
}
#pragma GCC diagnostic pop

TEST(Directory, EntriesAreWhatTheyAreSaidToBe) {
    for (const char* path : {"/sys/class/infiniband", kDevice, kPort, "/sys/class/infiniband_verbs/uverbs0",
                             "/sys/class/infiniband/swr0/device/net", "/sys/class/misc/rdma_cm", "/dev/infiniband"}) {
        const Stream stream(path);
        ASSERT_NE(stream.get(), nullptr) << path;
        while (const dirent* entry = readdir(stream.get())) {
            struct stat status {};
            ASSERT_EQ(fstatat(dirfd(stream.get()), entry->d_name, &status, AT_SYMLINK_NOFOLLOW), 0) << entry->d_name;
            EXPECT_EQ(DTTOIF(entry->d_type), status.st_mode & S_IFMT) << path << "/" << entry->d_name;
            if (strcmp(entry->d_name, "..") != 0) {
                EXPECT_EQ(entry->d_ino, status.st_ino) << path << "/" << entry->d_name;
            }
        }
    }
}

TEST(Directory, BelowADescriptor) {
    const Fd device(open(kDevice, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    ASSERT_GE(device.get(), 0);
    const Fd ports(openat(device.get(), "ports", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    EXPECT_EQ(contents(Fd(openat(ports.get(), "1/state", O_RDONLY)).get()), "4: ACTIVE\n");
    EXPECT_EQ(contents(Fd(openat(ports.get(), "./../node_type", O_RDONLY)).get()), "4: RNIC\n");
    EXPECT_EQ(contents(Fd(openat(ports.get(), "../device/infiniband/swr0/fw_ver", O_RDONLY)).get()), "0.0.0\n");
    EXPECT_EQ(openat(ports.get(), "", O_RDONLY), -1);
    EXPECT_EQ(errno, ENOENT);
    EXPECT_EQ(openat(ports.get(), "1/state/none", O_RDONLY), -1);
    EXPECT_EQ(errno, ENOTDIR);
    const Fd verbs(open("/dev/infiniband/uverbs0", O_RDWR | O_CLOEXEC));
    EXPECT_EQ(openat(verbs.get(), "state", O_RDONLY), -1);
    EXPECT_EQ(errno, ENOTDIR);
    EXPECT_EQ(faccessat(ports.get(), "1/state", R_OK, 0), 0);
    EXPECT_EQ(faccessat(ports.get(), "2", F_OK, 0), -1);
    EXPECT_EQ(errno, ENOENT);

    struct stat itself {
    }, by_path{}, link{};
    EXPECT_EQ(fstatat(device.get(), "", &itself, AT_EMPTY_PATH), 0);
    EXPECT_EQ(stat(kDevice, &by_path), 0);
    EXPECT_EQ(itself.st_ino, by_path.st_ino);
    EXPECT_EQ(fstatat(device.get(), "subsystem", &link, AT_SYMLINK_NOFOLLOW), 0);
    EXPECT_TRUE(S_ISLNK(link.st_mode));
    struct statx extended {};
    EXPECT_EQ(statx(device.get(), "subsystem", AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS, &extended), 0);
    EXPECT_EQ(extended.stx_ino, link.st_ino);
    EXPECT_EQ(extended.stx_mode, link.st_mode);

    const Stream stream(fdopendir(dup(ports.get())));
    ASSERT_NE(stream.get(), nullptr);
    EXPECT_EQ(without_dots(stream.rest()), std::set<std::string>{"1"});
    EXPECT_EQ(fdopendir(verbs.get()), nullptr);
    EXPECT_EQ(errno, ENOTDIR);
}

TEST(Directory, LinksLeadWhereAKernelsDo) {
    EXPECT_EQ(link_of(kDevice), "../../devices/platform/swrnic.0/infiniband/swr0");
    const std::string real = text(realpath(kDevice, nullptr));
    EXPECT_EQ(real, "/sys/devices/platform/swrnic.0/infiniband/swr0");
    EXPECT_EQ(text(canonicalize_file_name("/sys/class/infiniband/swr0/ports/../node_guid")), real + "/node_guid");
    EXPECT_EQ(text(realpath("/sys/class/infiniband/swr0/subsystem", nullptr)), "/sys/class/infiniband");
    EXPECT_EQ(text(realpath("/sys/class/infiniband_verbs/uverbs0/device", nullptr)),
              text(realpath("/sys/class/infiniband/swr0/device", nullptr)));
    EXPECT_EQ(text(realpath("/sys/class/misc/rdma_cm", nullptr)), "/sys/devices/virtual/misc/rdma_cm");
    EXPECT_EQ(text(realpath("/sys/class/infiniband/swr1", nullptr)), "none: No such file or directory");
    char room[PATH_MAX];
    EXPECT_EQ(realpath(kDevice, room), room);
    EXPECT_EQ(room, real);
    EXPECT_EQ(link_of("/sys/class/infiniband/swr0/node_guid"), "none: Invalid argument");
    EXPECT_EQ(link_of("/sys/class/infiniband/swr0/subsystem/"), "none: Invalid argument") << "that is the directory";
    EXPECT_EQ(readlink(kDevice, room, 5), 5) << "cut to the room that there is";
    const Fd verbs_class(open("/sys/class/infiniband_verbs", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    EXPECT_GT(readlinkat(verbs_class.get(), "uverbs0", room, sizeof(room)), 0);
    EXPECT_EQ(open(kDevice, O_RDONLY | O_NOFOLLOW), -1);
    EXPECT_EQ(errno, ELOOP);
    struct stat behind {
    }, link{};
    EXPECT_EQ(stat(kDevice, &behind), 0);
    EXPECT_EQ(lstat(kDevice, &link), 0);
    EXPECT_TRUE(S_ISDIR(behind.st_mode) && S_ISLNK(link.st_mode));
    EXPECT_EQ(lstat("/sys/class/infiniband/swr0/", &link), 0);
    EXPECT_TRUE(S_ISDIR(link.st_mode));
    // The parent of a link's target is not that of the link.
    EXPECT_EQ(text(realpath("/sys/class/infiniband/swr0/..", nullptr)), "/sys/devices/platform/swrnic.0/infiniband");
}

TEST(Directory, TheParentAndThePortNameTheInterface) {
    const Stream stream("/sys/class/infiniband/swr0/device/net");
    ASSERT_NE(stream.get(), nullptr);
    const std::set<std::string> names = without_dots(stream.rest());
    ASSERT_EQ(names.size(), 1u);
    const std::string name = *names.begin();
    const Stream of_port("/sys/class/infiniband/swr0/ports/1/net");
    ASSERT_NE(of_port.get(), nullptr);
    EXPECT_EQ(without_dots(of_port.rest()), names);
    EXPECT_NE(if_nametoindex(name.c_str()), 0u) << name;
    EXPECT_EQ(contents("/sys/class/infiniband/swr0/ports/1/gid_attrs/ndevs/0"), name + "\n");
    const std::string real = "/sys/class/net/" + name;
    if (access(real.c_str(), F_OK) != 0) GTEST_SKIP() << "/sys shows another network namespace";
    const std::string by_device = "/sys/class/infiniband/swr0/device/net/" + name;
    EXPECT_EQ(contents(by_device + "/mtu"), contents(real + "/mtu"));
    EXPECT_EQ(text(realpath(by_device.c_str(), nullptr)), text(realpath(real.c_str(), nullptr)));
    EXPECT_EQ(access((by_device + "/address").c_str(), R_OK), 0);
    const std::string by_port = "/sys/class/infiniband/swr0/ports/1/net/" + name;
    EXPECT_EQ(text(realpath(by_port.c_str(), nullptr)), text(realpath(real.c_str(), nullptr)));
    const Fd device(open("/sys/class/infiniband/swr0/device", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    EXPECT_EQ(contents(Fd(openat(device.get(), ("net/" + name + "/mtu").c_str(), O_RDONLY)).get()),
              contents(real + "/mtu"));
}

TEST(Directory, TheParentIsADeviceOfThePlatform) {
    const std::string parent = "/sys/class/infiniband/swr0/device/";
    EXPECT_EQ(contents(parent + "numa_node"), "-1\n");
    EXPECT_EQ(contents(parent + "vendor"), "0x737772\n");
    EXPECT_EQ(contents(parent + "modalias"), "platform:swrnic\n");
    EXPECT_EQ(contents(parent + "uevent"), "MODALIAS=platform:swrnic\n");
    EXPECT_EQ(text(realpath((parent + "subsystem").c_str(), nullptr)), "/sys/bus/platform");
}

TEST(Directory, RealDirectoriesAboveShowOurs) {
    for (const auto& [path, name] : {std::pair{"/sys/class", "infiniband"}, std::pair{"/sys/class", "infiniband_verbs"},
                                     std::pair{"/sys/class/misc", "rdma_cm"}, std::pair{"/dev", "infiniband"}}) {
        if (access(path, R_OK) != 0) continue;
        const Stream stream(path);
        ASSERT_NE(stream.get(), nullptr);
        const std::set<std::string> names = without_dots(stream.rest());
        EXPECT_TRUE(names.contains(name)) << path;
        EXPECT_GT(names.size(), 1u) << path << " has what is really there as well";
        const Fd above(open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        EXPECT_GE(Fd(openat(above.get(), name, O_RDONLY | O_DIRECTORY | O_CLOEXEC)).get(), 0) << path << "/" << name;
        const Stream by_descriptor(fdopendir(dup(above.get())));
        EXPECT_EQ(without_dots(by_descriptor.rest()), names);
    }
    if (access("/sys/class/net", R_OK) == 0) {
        EXPECT_EQ(access("/sys/class/infiniband/../net", R_OK), 0);
    }
}

// Programs ask errno whether a directory is not there or the walk through it has failed, and what they ask on the way
// is the shim's own affair.
TEST(Directory, ErrnoIsWhatTheProgramsOwnCallsLeave) {
    for (const char* path : {"/sys/none", "/dev/none", "/none", "none", "/sys/class/infiniband/none"}) {
        errno = 0;
        EXPECT_EQ(opendir(path), nullptr);
        EXPECT_EQ(errno, ENOENT) << path;
        errno = 0;
        EXPECT_EQ(open(path, O_RDONLY), -1);
        EXPECT_EQ(errno, ENOENT) << path;
        struct stat status;
        errno = 0;
        EXPECT_EQ(stat(path, &status), -1);
        EXPECT_EQ(errno, ENOENT) << path;
        dirent** entries = nullptr;
        errno = 0;
        EXPECT_EQ(scandir(path, &entries, nullptr, nullptr), -1);
        EXPECT_EQ(errno, ENOENT) << path;
    }
    for (const char* path : {"/sys", "/sys/class", "/sys/class/infiniband", "/dev", "/tmp"}) {
        const Stream stream(path);
        ASSERT_NE(stream.get(), nullptr) << path;
        errno = 0;
        stream.rest();
        EXPECT_EQ(errno, 0) << path;
    }
}

TEST(Directory, Scandir) {
    const auto by_name = [](const dirent* entry) { return entry->d_name[0] == 's' ? 1 : 0; };
    const auto take = [](dirent** list, int size) {
        std::vector<std::string> names;
        for (int i = 0; i < size; ++i) {
            names.emplace_back(list[i]->d_name);
            free(list[i]);
        }
        if (size >= 0) free(list);
        return names;
    };
    const std::vector<std::string> want{"sm_lid", "sm_sl", "state"};
    dirent** list = nullptr;
    int size = scandir(kPort, &list, by_name, alphasort);
    EXPECT_EQ(take(list, size), want);
    const Fd device(open(kDevice, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    size = scandirat(device.get(), "ports/1", &list, by_name, alphasort);
    EXPECT_EQ(take(list, size), want);
    dirent64** list64 = nullptr;
    size = scandir64(kPort, &list64, nullptr, alphasort64);
    EXPECT_EQ(without_dots(take(reinterpret_cast<dirent**>(list64), size)), kPortNames);
    size = scandirat64(device.get(), "ports", &list64, nullptr, nullptr);
    EXPECT_EQ(take(reinterpret_cast<dirent**>(list64), size).size(), 3u);
    EXPECT_EQ(scandir("/sys/class/infiniband/none", &list, nullptr, nullptr), -1);
    EXPECT_EQ(errno, ENOENT);
    EXPECT_EQ(scandir("/sys/class/infiniband/swr0/node_type", &list, nullptr, nullptr), -1);
    EXPECT_EQ(errno, ENOTDIR);
}

std::vector<std::string> globbed(const char* pattern, int flags = 0) {
    std::vector<std::string> paths;
    glob_t found{};
    const int result = glob(pattern, flags, nullptr, &found);
    for (std::size_t i = 0; result == 0 && i < found.gl_pathc; ++i)
        paths.emplace_back(found.gl_pathv[i]);
    EXPECT_EQ(found.gl_opendir, nullptr) << "the program's field";
    EXPECT_EQ(found.gl_flags & GLOB_ALTDIRFUNC, 0);
    globfree(&found);
    return paths;
}

TEST(Directory, Glob) {
    EXPECT_EQ(globbed("/sys/class/infiniband/*"), std::vector<std::string>{kDevice});
    EXPECT_EQ(globbed("/sys/class/infini*/swr0/ports/[0-9]/sta?e"),
              std::vector<std::string>{std::string(kPort) + "/state"});
    EXPECT_EQ(globbed("/dev/infini*/u*"), std::vector<std::string>{"/dev/infiniband/uverbs0"});
    EXPECT_EQ(globbed("/sys/class/infiniband/swr0/s*", GLOB_ONLYDIR | GLOB_MARK),
              std::vector<std::string>{"/sys/class/infiniband/swr0/subsystem/"});
    EXPECT_TRUE(globbed("/sys/class/infiniband/mlx*").empty());
    EXPECT_EQ(globbed("/proc/self/stat"), std::vector<std::string>{"/proc/self/stat"});
    glob64_t found{};
    EXPECT_EQ(glob64("/sys/class/infiniband_verbs/uv*", 0, nullptr, &found), 0);
    EXPECT_EQ(found.gl_pathc, 1u);
    globfree64(&found);
}

std::set<std::string> below(const std::string& root) {
    std::set<std::string> paths{root};
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root))
        paths.insert(entry.path());
    return paths;
}

struct Visited {
    std::set<std::string> paths;
    std::map<int, int> types;
    int deepest = 0;
    std::set<std::string> stop_at;
    int result = 0;
} visited;

int visit(const char* path, const struct stat*, int type, FTW* where) {
    EXPECT_TRUE(visited.paths.insert(path).second) << path << " came twice";
    EXPECT_EQ(std::string(path).rfind('/') + 1, static_cast<std::size_t>(where->base));
    ++visited.types[type];
    visited.deepest = std::max(visited.deepest, where->level);
    return visited.stop_at.contains(path) ? visited.result : 0;
}

TEST(Directory, Nftw) {
    const std::string root = text(realpath(kDevice, nullptr));
    const std::set<std::string> all = below(root);
    ASSERT_GT(all.size(), 25u);
    constexpr int kDirectories =
        11;  // the device, ports, 1, counters, hw_counters, gids, gid_attrs, types, ndevs, net, pkeys
    visited = {};
    EXPECT_EQ(nftw(root.c_str(), visit, 8, FTW_PHYS), 0);
    EXPECT_EQ(visited.paths, all);
    EXPECT_EQ(visited.types[FTW_SL], 3) << "device, subsystem and the interface";
    EXPECT_EQ(visited.types[FTW_D], kDirectories);
    EXPECT_EQ(visited.deepest, 5);
    visited = {};
    EXPECT_EQ(nftw(root.c_str(), visit, 8, FTW_PHYS | FTW_DEPTH), 0);
    EXPECT_EQ(visited.paths, all);
    EXPECT_EQ(visited.types[FTW_DP], kDirectories);
    EXPECT_EQ(visited.types[FTW_D], 0);
    visited = {};
    visited.stop_at = {root + "/ports"};
    visited.result = FTW_SKIP_SUBTREE;
    EXPECT_EQ(nftw(root.c_str(), visit, 8, FTW_PHYS | FTW_ACTIONRETVAL), 0);
    EXPECT_FALSE(visited.paths.contains(root + "/ports/1"));
    EXPECT_TRUE(visited.paths.contains(root + "/uevent"));
    visited = {};
    visited.stop_at = {root + "/ports/1"};
    visited.result = 77;
    EXPECT_EQ(nftw(root.c_str(), visit, 8, FTW_PHYS), 77);
    visited = {};
    // device leads up again, so the walk meets the device once more; it ends all the same. The interface and
    // the subsystem of the parent lead to all of the real /sys.
    visited.stop_at = {"/sys/class/infiniband/swr0/device/net", "/sys/class/infiniband/swr0/device/subsystem",
                       "/sys/class/infiniband/swr0/ports/1/net",
                       "/sys/class/infiniband/swr0/device/infiniband/swr0/ports/1/net"};
    visited.result = FTW_SKIP_SUBTREE;
    EXPECT_EQ(nftw64(kDevice, reinterpret_cast<__nftw64_func_t>(visit), 8, FTW_CHDIR | FTW_ACTIONRETVAL), 0);
    EXPECT_TRUE(visited.paths.contains("/sys/class/infiniband/swr0/ports/1/gids/0"));
    EXPECT_TRUE(visited.paths.contains("/sys/class/infiniband/swr0/device/infiniband_verbs/uverbs0/ibdev"));
    EXPECT_EQ(nftw("/sys/class/infiniband/none", visit, 8, 0), -1);
    EXPECT_EQ(errno, ENOENT);
}

int count_plain = 0;
int count_entry(const char*, const struct stat* status, int type) {
    EXPECT_EQ(type, S_ISDIR(status->st_mode) ? FTW_D : FTW_F);
    return ++count_plain, 0;
}

TEST(Directory, Ftw) {
    const std::string attributes = std::string(kDevice) + "/ports/1/gid_attrs";  // the interface leads to the real /sys
    count_plain = 0;
    EXPECT_EQ(ftw(attributes.c_str(), count_entry, 8), 0);
    EXPECT_EQ(count_plain, static_cast<int>(below(attributes).size()));
    EXPECT_EQ(ftw64(attributes.c_str(), reinterpret_cast<__ftw64_func_t>(count_entry), 8), 0);
    EXPECT_EQ(count_plain, 2 * static_cast<int>(below(attributes).size()));
}

int by_name(const FTSENT** a, const FTSENT** b) {
    return strcmp((*a)->fts_name, (*b)->fts_name);
}

TEST(Directory, Fts) {
    std::string root = text(realpath(kDevice, nullptr));
    char* const roots[] = {root.data(), nullptr};
    FTS* const walk = fts_open(roots, FTS_PHYSICAL, by_name);
    ASSERT_NE(walk, nullptr);
    std::set<std::string> seen;
    std::string last;
    int before = 0, after = 0;
    while (FTSENT* entry = fts_read(walk)) {
        EXPECT_EQ(entry->fts_pathlen, strlen(entry->fts_path));
        if (entry->fts_info == FTS_DP) {
            ++after;
            continue;
        }
        EXPECT_TRUE(seen.insert(entry->fts_path).second) << entry->fts_path;
        before += entry->fts_info == FTS_D ? 1 : 0;
        EXPECT_EQ(entry->fts_info == FTS_SL, S_ISLNK(entry->fts_statp->st_mode));
        if (entry->fts_info == FTS_D && std::string_view(entry->fts_name) == "pkeys") {
            const FTSENT* const child = fts_children(walk, 0);
            ASSERT_NE(child, nullptr);
            EXPECT_EQ(std::string(child->fts_name), "0");
            EXPECT_EQ(child->fts_link, nullptr);
        }
        if (entry->fts_level == 1) {
            EXPECT_LT(last, entry->fts_name) << "in the order asked for";
            last = entry->fts_name;
        }
    }
    EXPECT_EQ(errno, 0);
    EXPECT_EQ(before, after);
    EXPECT_EQ(seen, below(root));
    EXPECT_EQ(fts_close(walk), 0);
}

TEST(Directory, FtsSkipsAndFollows) {
    std::string root = kDevice, file = std::string(kDevice) + "/fw_ver", none = std::string(kDevice) + "/none";
    char* const roots[] = {root.data(), file.data(), none.data(), nullptr};
    FTS64* const walk = fts64_open(roots, FTS_LOGICAL | FTS_NOCHDIR, nullptr);
    ASSERT_NE(walk, nullptr);
    bool saw_cycle = false, saw_missing = false, saw_file = false;
    while (FTSENT64* entry = fts64_read(walk)) {
        const std::string_view name = entry->fts_name;
        if (name == "ports" && entry->fts_info == FTS_D) {
            EXPECT_EQ(fts64_set(walk, entry, FTS_SKIP), 0);
        }
        EXPECT_NE(name, "link_layer") << "below what was skipped";
        // The interface and the parent's subsystem are the real file system's, and large.
        if ((name == "net" || name == "subsystem") && entry->fts_info == FTS_D) fts64_set(walk, entry, FTS_SKIP);
        saw_cycle |= entry->fts_info == FTS_DC;
        saw_missing |= entry->fts_info == FTS_NS && entry->fts_errno == ENOENT;
        saw_file |= entry->fts_level == 0 && entry->fts_info == FTS_F;
    }
    EXPECT_TRUE(saw_cycle) << "device/infiniband/swr0 is where the walk came from";
    EXPECT_TRUE(saw_missing);
    EXPECT_TRUE(saw_file);
    EXPECT_EQ(fts64_close(walk), 0);
}

TEST(Directory, OfTheFileSystemAround) {
    struct statfs ours {
    }, real{};
    ASSERT_EQ(statfs("/sys", &real), 0);
    EXPECT_EQ(statfs(kPort, &ours), 0);
    EXPECT_EQ(ours.f_type, real.f_type);
    const Fd device(open(kDevice, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    EXPECT_EQ(fstatfs(device.get(), &ours), 0);
    EXPECT_EQ(ours.f_type, real.f_type);
    struct stat status {
    }, root{};
    EXPECT_EQ(stat(kPort, &status), 0);
    EXPECT_EQ(stat("/sys", &root), 0);
    EXPECT_EQ(status.st_dev, root.st_dev) << "walks that stay on one device go on";
}

TEST(Directory, AsTheWorkingDirectory) {
    const std::string before = text(getcwd(nullptr, 0));
    ASSERT_EQ(chdir(kDevice), 0);
    const std::string device = "/sys/devices/platform/swrnic.0/infiniband/swr0";
    EXPECT_EQ(text(getcwd(nullptr, 0)), device);
    EXPECT_EQ(text(get_current_dir_name()), device);
    EXPECT_EQ(contents("ports/1/state"), "4: ACTIVE\n");
    EXPECT_EQ(access("../swr0/./fw_ver", R_OK), 0);
    EXPECT_EQ(access("none", R_OK), -1);
    EXPECT_EQ(errno, ENOENT);
    EXPECT_EQ(globbed("n*e"), std::vector<std::string>{"node_type"});
    ASSERT_EQ(chdir("ports"), 0);
    EXPECT_EQ(contents("1/state"), "4: ACTIVE\n");
    char small[4];
    EXPECT_EQ(getcwd(small, sizeof(small)), nullptr);
    EXPECT_EQ(errno, ERANGE);
    EXPECT_EQ(chdir("1/state"), -1);
    EXPECT_EQ(errno, ENOTDIR);
    const Fd port(open("1", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    ASSERT_EQ(fchdir(port.get()), 0);
    EXPECT_EQ(contents("state"), "4: ACTIVE\n");
    ASSERT_EQ(chdir(before.c_str()), 0);
    EXPECT_EQ(text(getcwd(nullptr, 0)), before);
    EXPECT_EQ(access("ports", F_OK), -1);
}

TEST(Directory, PathsAndRoomThatLeadNowhere) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "the sanitizer's own interceptors read the paths";
#endif
    void* const page = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(page, MAP_FAILED);
    struct stat status {};
    char room[64];
    for (char* const nowhere : {static_cast<char*>(page), reinterpret_cast<char*>(16)}) {
        const auto refuses = [](auto result) { return result == -1 && errno == EFAULT; };
        EXPECT_TRUE(refuses(open(nowhere, O_RDONLY)));
        EXPECT_TRUE(refuses(openat(AT_FDCWD, nowhere, O_RDONLY)));
        EXPECT_TRUE(refuses(stat(nowhere, &status)));
        EXPECT_TRUE(refuses(fstatat(AT_FDCWD, nowhere, &status, 0)));
        EXPECT_TRUE(refuses(access(nowhere, R_OK)));
        EXPECT_TRUE(refuses(readlink(nowhere, room, sizeof(room))));
        EXPECT_TRUE(refuses(chdir(nowhere)));
        EXPECT_TRUE(refuses(stat(kPort, reinterpret_cast<struct stat*>(nowhere))));
        EXPECT_TRUE(refuses(statx(AT_FDCWD, kPort, 0, STATX_ALL, reinterpret_cast<struct statx*>(nowhere))));
        EXPECT_TRUE(refuses(readlink(kDevice, nowhere, 64)));
    }
    munmap(page, 4096);
}

}  // namespace
}  // namespace swrnic::test
