// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The baseline: what plain TCP does on this machine in the shapes of the verbs programs that scripts/bench runs. Two
// processes on 127.0.0.1 (or, with --server and --client, on two hosts or namespaces); prints one number.
//   lat     half of a round trip, us, median; "spin" receives without blocking, "block" sleeps
//   memlat  the same, with each main thread spinning on memory that a second thread, blocked in recv, fills
//           (ib_write_lat's shape)
//   bw      one way, one send(2) per message: MB/s (10^6 octets)
//   rate    the same in messages per second
//   conn    connections per second: connect, accept, 24 octets each way, close
//   cores   no TCP: what one processor takes to see what another has written, ns, the best of some tries; it tells
//   whether
//           a virtual machine's two processors share a cache just now
#include <arpa/inet.h>
#include <fmt/core.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t kWarmUp = 1000;      // round trips that are not counted
constexpr std::size_t kHello = 24;         // octets: an MPA frame with a little private data
constexpr std::size_t kReceive = 1 << 20;  // octets that a stream's receiver asks for at once

struct Job {
    std::string mode;
    std::size_t size = 2;
    double amount = 1;  // round trips, seconds or connections
    bool spin = false;
    std::string congestion;  // its control; empty: the system's default
};

double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

[[noreturn]] void die(const char* what) {
    fmt::print(stderr, "rawtcp: {}: {}\n", what, std::strerror(errno));
    std::_Exit(1);
}

// Octets that begin a page, as the buffers of perftest do. The kernel's copies are many times as slow on some
// processors where memory begins some octets behind a page's beginning, which is where malloc() puts much of it.
template <typename T>
struct PageAllocator {
    using value_type = T;
    static constexpr std::align_val_t kPage{4096};
    T* allocate(std::size_t count) { return static_cast<T*>(::operator new(count * sizeof(T), kPage)); }
    void deallocate(T* at, std::size_t) { ::operator delete(at, kPage); }
    bool operator==(const PageAllocator&) const = default;
};
using Octets = std::vector<char, PageAllocator<char>>;

class Socket {
  public:
    explicit Socket(int fd) : fd_(fd) {}
    Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    Socket(const Socket&) = delete;
    Socket& operator=(const Socket&) = delete;
    Socket& operator=(Socket&&) = delete;
    ~Socket() {
        if (fd_ >= 0) close(fd_);
    }
    int fd() const { return fd_; }

    bool send(const Octets& octets) const {
        for (std::size_t at = 0; at != octets.size();) {
            const ssize_t sent = ::send(fd_, octets.data() + at, octets.size() - at, MSG_NOSIGNAL);
            if (sent < 0 && errno != EINTR) return false;
            at += static_cast<std::size_t>(std::max<ssize_t>(sent, 0));
        }
        return true;
    }

    // False at the end of the stream.
    bool receive(Octets& octets, bool spin) const {
        for (std::size_t at = 0; at != octets.size();) {
            const ssize_t got = recv(fd_, octets.data() + at, octets.size() - at, spin ? MSG_DONTWAIT : 0);
            if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) return false;
            at += static_cast<std::size_t>(std::max<ssize_t>(got, 0));
        }
        return true;
    }

    void send_at_once() const { set(IPPROTO_TCP, TCP_NODELAY, 1); }
    // No TIME_WAIT is left behind, which would fill the port range.
    void reset_on_close() const {
        const linger now{1, 0};
        setsockopt(fd_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    }
    void set(int level, int option, int value) const { setsockopt(fd_, level, option, &value, sizeof value); }

  private:
    int fd_;
};

struct Address {
    sockaddr_in in{};
    Address(const std::string& host, std::uint16_t port) {
        in.sin_family = AF_INET;
        in.sin_port = htons(port);
        if (inet_pton(AF_INET, host.c_str(), &in.sin_addr) != 1) die("not an IPv4 address");
    }
    const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&in); }
};

// The congestion control is chosen before there is a connection: one that was established with BBR stays paced.
Socket new_socket(const Job& job) {
    Socket made(socket(AF_INET, SOCK_STREAM, 0));
    const std::string& name = job.congestion;
    if (name.empty()) return made;
    if (setsockopt(made.fd(), IPPROTO_TCP, TCP_CONGESTION, name.data(), static_cast<socklen_t>(name.size())) != 0)
        die("congestion control");
    return made;
}

Socket listen_at(const Job& job, Address& address) {
    Socket listener = new_socket(job);
    listener.set(SOL_SOCKET, SO_REUSEADDR, 1);
    if (bind(listener.fd(), address.get(), sizeof address.in) != 0 || listen(listener.fd(), 1024) != 0) die("listen");
    socklen_t length = sizeof address.in;
    getsockname(listener.fd(), reinterpret_cast<sockaddr*>(&address.in), &length);
    return listener;
}

Socket dial(const Job& job, const Address& address) {
    for (int tries = 0; tries < 100; ++tries) {
        Socket stream = new_socket(job);
        if (connect(stream.fd(), address.get(), sizeof address.in) == 0) {
            stream.send_at_once();
            return stream;
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(50));  // a server on its way up
    }
    die("connect");
}

// A process' end of the memory ping-pong; the last octet of each message says which it is.
std::vector<double> memory_ping_pong(const Socket& stream, const Job& job, bool first) {
    // Outlives this function: the receiver ends with the process.
    static std::atomic<unsigned char> arrived{0};
    std::thread([&stream, size = job.size] {
        Octets octets(size);
        while (stream.receive(octets, false))
            arrived.store(static_cast<unsigned char>(octets.back()), std::memory_order_release);
        std::_Exit(0);
    }).detach();
    Octets octets(job.size);
    std::vector<double> times;
    const auto rounds = static_cast<std::size_t>(job.amount) + kWarmUp;
    for (std::size_t round = 1; round <= rounds; ++round) {
        const auto mark = static_cast<unsigned char>(round);
        octets.back() = static_cast<char>(mark);
        const auto start = Clock::now();
        if (first) stream.send(octets);
        while (arrived.load(std::memory_order_acquire) != mark) {
        }
        if (!first) stream.send(octets);
        if (round > kWarmUp) times.push_back(seconds_since(start));
    }
    return times;
}

void serve_connections(const Socket& listener) {
    for (;;) {
        const Socket stream(accept(listener.fd(), nullptr, nullptr));
        if (stream.fd() < 0) return;
        stream.send_at_once();
        Octets hello(kHello);
        if (!stream.receive(hello, false)) continue;
        if (hello.front() == 'q') return;
        stream.send(hello);
    }
}

void serve(const Job& job, const Socket& listener) {
    if (job.mode == "conn") return serve_connections(listener);
    const Socket stream(accept(listener.fd(), nullptr, nullptr));
    stream.send_at_once();
    if (job.mode == "memlat") {
        memory_ping_pong(stream, job, false);
        pause();  // until the receiver sees the end
    }
    if (job.mode == "lat") {
        Octets octets(job.size);
        while (stream.receive(octets, job.spin) && stream.send(octets)) {
        }
        return;
    }
    Octets octets(std::max(job.size, kReceive));
    for (;;) {
        const ssize_t got = recv(stream.fd(), octets.data(), octets.size(), job.spin ? MSG_DONTWAIT : 0);
        if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) return;
    }
}

double half_median(std::vector<double>& times) {
    if (times.empty()) return 0;
    const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
    std::nth_element(times.begin(), middle, times.end());
    return *middle * 1e6 / 2;
}

double connections_per_second(const Job& job, const Address& address) {
    const auto start = Clock::now();
    for (std::size_t i = 0; i < static_cast<std::size_t>(job.amount); ++i) {
        const Socket stream = dial(job, address);
        Octets hello(kHello, 'h');
        if (!stream.send(hello) || !stream.receive(hello, false)) die("hello");
        stream.reset_on_close();
    }
    const double rate = job.amount / seconds_since(start);
    dial(job, address).send(Octets(kHello, 'q'));
    return rate;
}

double latency(const Job& job, const Socket& stream) {
    Octets octets(job.size, 'x');
    std::vector<double> times;
    for (std::size_t round = 0; round < static_cast<std::size_t>(job.amount) + kWarmUp; ++round) {
        const auto start = Clock::now();
        if (!stream.send(octets) || !stream.receive(octets, job.spin)) die("ping-pong");
        if (round >= kWarmUp) times.push_back(seconds_since(start));
    }
    return half_median(times);
}

double stream_rate(const Job& job, const Socket& stream) {
    const Octets octets(job.size, 'x');
    std::size_t messages = 0;
    const auto start = Clock::now();
    while (seconds_since(start) < job.amount) {
        if (!stream.send(octets)) die("send");
        ++messages;
    }
    const double rate = static_cast<double>(messages) / seconds_since(start);
    return job.mode == "rate" ? rate : rate * static_cast<double>(job.size) / 1e6;
}

void stay_on(int processor) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(processor, &set);
    sched_setaffinity(0, sizeof set, &set);
}

// 0 where there is one processor alone.
double between_cores(const Job& job) {
    constexpr int kTries = 10;
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0 || CPU_COUNT(&allowed) < 2) return 0;
    int first = 0;
    while (!CPU_ISSET(first, &allowed))
        ++first;
    int second = first + 1;
    while (!CPU_ISSET(second, &allowed))
        ++second;
    const int rounds = static_cast<int>(job.amount);
    alignas(64) std::atomic<int> turn{0};
    const auto play = [&](int processor, int mine, auto&& done) {
        stay_on(processor);
        for (int i = 0; i < kTries * rounds; ++i) {
            while (turn.load(std::memory_order_acquire) != 2 * i + mine) {
            }
            turn.store(2 * i + mine + 1, std::memory_order_release);
            if ((i + 1) % rounds == 0) done();
        }
    };
    std::thread other([&] { play(second, 1, [] {}); });
    double best = 1;
    auto start = Clock::now();
    play(first, 0, [&] {
        best = std::min(best, seconds_since(start));
        start = Clock::now();
    });
    other.join();
    return best * 1e9 / rounds / 2;
}

double measure(const Job& job, const Address& address) {
    if (job.mode == "conn") return connections_per_second(job, address);
    const auto stream = std::make_unique<Socket>(dial(job, address));
    if (job.mode == "lat") return latency(job, *stream);
    if (job.mode != "memlat") return stream_rate(job, *stream);
    std::vector<double> times = memory_ping_pong(*stream, job, true);
    // Its receiver ends the process with the stream: say the result first.
    fmt::print("{:.2f}\n", half_median(times));
    std::fflush(stdout);
    std::_Exit(0);
}

}  // namespace

int main(int argc, char** argv) {
    Job job;
    bool server = false;
    std::string client, shape = "block";
    std::uint16_t port = 0;
    CLI::App app{"What plain TCP does: lat, memlat, bw, rate, conn; and cores"};
    app.add_option("mode", job.mode)
        ->required()
        ->check(CLI::IsMember({"lat", "memlat", "bw", "rate", "conn", "cores"}));
    app.add_option("size", job.size, "octets of a message")->required()->check(CLI::Range(1, 1 << 30));
    app.add_option("amount", job.amount, "round trips, seconds or connections")->required()->check(CLI::PositiveNumber);
    app.add_option("shape", shape, "how a receiver waits")->check(CLI::IsMember({"spin", "block"}));
    app.add_flag("--server", server, "only the server, at --port");
    app.add_option("--client", client, "only the client of the server at this IPv4 address");
    app.add_option("--port", port);
    app.add_option("--congestion", job.congestion, "congestion control instead of the system's default");
    CLI11_PARSE(app, argc, argv);
    job.spin = shape == "spin";
    if (job.mode == "cores") {
        fmt::print("{:.0f}\n", between_cores(job));
        return 0;
    }

    Address address(server ? "0.0.0.0" : client.empty() ? "127.0.0.1" : client, port);
    pid_t child = 0;
    if (client.empty()) {
        const Socket listener = listen_at(job, address);
        if (!server) child = fork();
        if (server || child == 0) {
            serve(job, listener);
            return 0;
        }
    }
    // A parent of its own child: the child ends when its stream does.
    fmt::print("{:.2f}\n", measure(job, address));
    std::fflush(stdout);
    if (child != 0) waitpid(child, nullptr, 0);
    return 0;
}
