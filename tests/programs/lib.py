# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What every test of unmodified programs needs: processes with kept output, ports, places, and the running of cases.

A test script defines functions case_NAME(lab) and ends in lib.main(globals()). Exit status: 0 passed, 77 skipped.
"""
import argparse
import ctypes
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

SKIPPED = 77
SANITIZER = re.compile(rb"ERROR: (Address|Leak|Thread|Memory)Sanitizer|runtime error:|WARNING: ThreadSanitizer")


class Failed(Exception):
    pass


class Skip(Exception):
    pass


def expect(condition, text):
    if not condition:
        raise Failed(text)


def need(*programs):
    for program in programs:
        if not shutil.which(program):
            raise Skip(f"{program} is not installed")


def free_port():
    """A port that is free on all addresses now. perftest and rping bind it a moment later."""
    with socket.socket(socket.AF_INET6 if socket.has_ipv6 and os.path.exists("/proc/net/if_inet6") else socket.AF_INET) as s:
        s.bind(("", 0))
        return s.getsockname()[1]


def wait_until(condition, seconds, what):
    end = time.monotonic() + seconds
    while not condition():
        expect(time.monotonic() < end, f"{what}: not within {seconds} s")
        time.sleep(0.005)


def die_with_parent():
    """In the child, before exec: ctest may kill a test that takes too long, and nothing of it must stay."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def remove_stale_namespaces():
    """Those of tests that were killed; a name holds its test's pid."""
    names = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=False).stdout
    for name, pid in re.findall(r"^(swt(\d+)[ab])\b", names, re.M):
        if not os.path.exists(f"/proc/{pid}"):
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)


class Process:
    """One program under test, in a process group of its own, its output in a file."""

    def __init__(self, lab, name, command, env, stdin):
        self.name = name
        self.command = command
        self.excused = False  # what it says of its own faults does not count
        self.path = os.path.join(lab.directory, f"{len(lab.processes):03}-{name}.out")
        with open(self.path, "wb") as out:
            self.popen = subprocess.Popen(
                command, stdin=stdin, stdout=out, stderr=subprocess.STDOUT, env=env,
                cwd=lab.directory, start_new_session=True, preexec_fn=die_with_parent)
        self.pid = self.popen.pid

    def running(self):
        return self.popen.poll() is None

    def output(self):
        with open(self.path, "rb") as out:
            return out.read()

    def text(self):
        return self.output().decode("utf-8", "replace")

    def tail(self, limit=4000):
        data = self.output()
        # rping prints lines of 64 KiB: of each, the start tells enough.
        lines = [line if len(line) <= 200 else line[:200] + " […]"
                 for line in data[-50 * limit:].decode("utf-8", "replace").splitlines()]
        shown = "\n".join(lines)[-limit:]
        return shown if len(data) <= limit else f"[of {len(data)} octets]\n{shown}"

    def wait(self, seconds):
        try:
            return self.popen.wait(seconds)
        except subprocess.TimeoutExpired:
            raise Failed(f"{self.name} (pid {self.pid}) still runs after {seconds} s{self.stacks()}") from None

    def succeed(self, seconds):
        code = self.wait(seconds)
        expect(code == 0 or self.own_race(code), f"{self.name} ended with status {code}")
        return self.text()

    def own_race(self, code):
        """rping closes its event channel while its event thread may be on its way back to it; that thread then ends the
        process with a failure, on every device. All the work was done by then."""
        return "rping" in self.command and code == 255 and "rdma_get_cm_event: Bad file descriptor" in self.text()

    def came_too_early(self):
        """perftest lets its client connect the moment its server begins to listen for the data QPs, on every device. On a busy
        machine the client can be first; it is refused, and crashes as it cleans up. No test can wait for that listener."""
        told = ("RDMA_CM_EVENT_REJECTED; error: -111", "RDMA_CM_EVENT_UNREACHABLE; error: 1.")
        return not self.excused and any(text in self.text() for text in told)

    def kill(self, sig=signal.SIGKILL):
        """Signals the group that this test itself has started, and only that."""
        if self.running():
            try:
                os.killpg(self.pid, sig)
            except ProcessLookupError:
                pass

    def stacks(self):
        """Where the threads of a hanging process wait, as far as /proc tells."""
        lines = []
        try:
            for task in sorted(os.listdir(f"/proc/{self.pid}/task")):
                base = f"/proc/{self.pid}/task/{task}"
                with open(f"{base}/comm") as comm, open(f"{base}/wchan") as wchan, open(f"{base}/stat") as stat:
                    state = stat.read().rsplit(")", 1)[1].split()[0]
                    lines.append(f"\n    thread {task} {comm.read().strip()} state {state} in {wchan.read().strip() or '-'}")
        except OSError:
            pass
        return "".join(lines)

    def listens(self, port):
        """True when a socket of this process's network namespace listens on the port."""
        for table in ("tcp", "tcp6"):
            try:
                with open(f"/proc/{self.pid}/net/{table}") as lines:
                    for line in lines.readlines()[1:]:
                        fields = line.split()
                        if fields[3] == "0A" and int(fields[1].rsplit(":", 1)[1], 16) == port:
                            return True
            except OSError:
                pass
        return False

    def datagram_sockets(self):
        """Of this process's network namespace, bound to a port: (address in the kernel's hex, port)."""
        found = set()
        for table in ("udp", "udp6"):
            try:
                with open(f"/proc/{self.pid}/net/{table}") as lines:
                    for line in lines.readlines()[1:]:
                        address, port = line.split()[1].rsplit(":", 1)
                        found.add((address, int(port, 16)))
            except OSError:
                pass
        return found

    def wait_datagrams(self, port, address=None, seconds=20):
        def ready():
            expect(self.running(), f"{self.name} ended with status {self.popen.poll()} before it had UDP port {port}")
            return any(p == port and address in (None, a) for a, p in self.datagram_sockets())

        wait_until(ready, seconds, f"{self.name} has UDP port {port}")

    def wait_listening(self, port, seconds=20):
        def ready():
            expect(self.running(), f"{self.name} ended with status {self.popen.poll()} before it listened on port {port}")
            return self.listens(port)

        wait_until(ready, seconds, f"{self.name} listens on port {port}")


class Lab:
    """Where the two sides run (one host or two network namespaces), and all that was started there."""

    def __init__(self, build, place):
        self.build = os.path.abspath(build)
        self.place = place
        self.directory = tempfile.mkdtemp(prefix="swrnic-programs-")
        self.processes = []
        self.names = []
        self.server_prefix = []
        self.client_prefix = []
        self.address = "127.0.0.1"
        self.address6 = "::1"
        self.device = "lo"  # where tcpdump listens
        self.slow = 1  # all time limits are multiplied by it
        self.trials = ""
        if place == "netns":
            self.make_namespaces()
        tool = os.path.join(self.build, "bin", "swrnic")
        expect(os.access(tool, os.X_OK), f"{tool} is not there: build first")
        self.swrnic = [tool, "run", "--"]
        self.checker = os.path.join(self.build, "bin", "swrnic-checker")
        self.has_ipv6 = self.place == "netns" or self.loopback_has_ipv6()

    @staticmethod
    def loopback_has_ipv6():
        try:
            with open("/proc/net/if_inet6") as lines:
                return any(line.split()[5] == "lo" for line in lines)
        except OSError:
            return False

    def need_ipv6(self):
        if not self.has_ipv6:
            raise Skip("this host's loopback has no IPv6 address")

    def make_namespaces(self):
        if os.geteuid() != 0:
            raise Skip("network namespaces need root")
        remove_stale_namespaces()
        tag = f"swt{os.getpid()}"
        server, client = f"{tag}a", f"{tag}b"
        steps = [
            f"netns add {server}", f"netns add {client}",
            f"link add {tag}va netns {server} type veth peer name {tag}vb netns {client}",
            f"-n {server} link set lo up", f"-n {client} link set lo up",
            f"-n {server} addr add 10.77.0.1/24 dev {tag}va", f"-n {client} addr add 10.77.0.2/24 dev {tag}vb",
            f"-n {server} addr add fd77::1/64 dev {tag}va nodad", f"-n {client} addr add fd77::2/64 dev {tag}vb nodad",
            f"-n {server} link set {tag}va up", f"-n {client} link set {tag}vb up",
        ]
        for step in steps:
            done = subprocess.run(["ip", *step.split()], capture_output=True, text=True, check=False)
            if done.returncode != 0 and step.startswith("netns add"):
                raise Skip(f"no network namespaces here: {done.stderr.strip()}")
            expect(done.returncode == 0, f"ip {step}: {done.stderr.strip()}")
            if step.startswith("netns add"):
                self.names.append(step.split()[-1])
        self.server_prefix = ["ip", "netns", "exec", server]
        self.client_prefix = ["ip", "netns", "exec", client]
        self.address, self.address6, self.device = "10.77.0.1", "fd77::1", f"{tag}va"

    def environment(self, settings):
        env = {k: v for k, v in os.environ.items() if not k.startswith("SWRNIC_")}
        env["LC_ALL"] = "C"
        suppressions = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tsan.supp")
        env["TSAN_OPTIONS"] = ":".join(filter(None, [env.get("TSAN_OPTIONS"), f"suppressions={suppressions}"]))
        env.update(settings or {})
        return env

    def checkout(self, name, file):
        """Public source that is not Debian's and not ours to copy: the directory NAME below --trials, in which FILE is."""
        path = os.path.join(self.trials, name)
        if not self.trials or not os.path.exists(os.path.join(path, file)):
            raise Skip(f"no checkout of {name}: CONTRIBUTING.md, SWRNIC_TRIALS")
        return os.path.abspath(path)

    def start(self, name, command, side="server", device=True, settings=None, stdin=subprocess.DEVNULL):
        prefix = self.server_prefix if side == "server" else self.client_prefix
        full = [*prefix, *(self.swrnic if device else []), *map(str, command)]
        process = Process(self, name, full, self.environment(settings), stdin)
        self.processes.append(process)
        return process

    def pair(self, server, client, port, seconds=60, settings=None, server_seconds=15):
        """Runs a server and, once it listens, a client; both must end with status 0. Returns both outputs."""
        s = self.start(f"{os.path.basename(server[0])}-server", server, "server", settings=settings)
        s.wait_listening(port, 20 * self.slow)
        c = self.start(f"{os.path.basename(client[0])}-client", client, "client", settings=settings)
        client_text = c.succeed(seconds * self.slow)
        return s.succeed(server_seconds * self.slow), client_text

    def perftest(self, step):
        """Runs step(), which starts a pair of perftest; again when its client came too early. Returns what the step returns."""
        before = len(self.processes)
        for _ in range(2):
            try:
                return step()
            except Failed:
                started = self.processes[before:]
                if not any(process.came_too_early() for process in started):
                    raise
                print("    the client was refused before the server listened: again")
                for process in started:
                    process.kill()
                    process.wait(10)
                    process.excused = True
        return step()

    def forget(self):
        """Drops the output of what has ended well, which can be large. Sanitizer reports still count."""
        for process in self.processes:
            if not process.running():
                self.check_sanitizers(process)
                with open(process.path, "wb"):
                    pass

    @staticmethod
    def check_sanitizers(process):
        if process.excused:
            return
        found = SANITIZER.search(process.output())
        expect(not found, f"{process.name}: a sanitizer reports: {found.group(0).decode() if found else ''}")

    def close(self, keep):
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.popen.wait()
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
        if not keep:
            for process in self.processes:
                os.unlink(process.path)
            for left in os.listdir(self.directory):
                os.unlink(os.path.join(self.directory, left))
            os.rmdir(self.directory)


def show(lab):
    for process in lab.processes:
        state = "runs" if process.running() else f"status {process.popen.poll()}"
        print(f"---- {process.name} ({state}): {' '.join(process.command)}\n{process.tail()}")
    print(f"---- the whole outputs are in {lab.directory}")


def run_case(function, args):
    lab = None
    place = args.place
    started = time.monotonic()
    keep = True
    try:
        lab = Lab(args.build, args.place)
        lab.slow, lab.trials = args.slow, args.trials
        function(lab)
        for process in lab.processes:
            lab.check_sanitizers(process)
        print(f"ok   {function.__name__[5:]} ({place}, {time.monotonic() - started:.1f} s)")
        keep = False
        return 0
    except Skip as why:
        print(f"SKIP {function.__name__[5:]} ({place}): {why}")
        keep = False
        return SKIPPED
    except (Failed, OSError) as why:
        print(f"FAIL {function.__name__[5:]} ({place}): {why}")
        if lab:
            show(lab)
        return 1
    finally:
        if lab:
            lab.close(keep)


def on_alarm(_signal, _frame):
    raise Failed("the time of this test is over")


def main(names):
    cases = {name[5:]: value for name, value in names.items() if name.startswith("case_")}
    parser = argparse.ArgumentParser(description="cases: " + " ".join(cases))
    parser.add_argument("--build", required=True, help="build directory with bin/swrnic")
    parser.add_argument("--place", choices=["lo", "netns"], default="lo")
    parser.add_argument("--limit", type=int, default=280, help="seconds for each case")
    parser.add_argument("--slow", type=int, default=1, help="factor for the time limits inside (sanitizers)")
    parser.add_argument("--trials", default="", help="directory of checkouts (CONTRIBUTING.md)")
    parser.add_argument("case", nargs="*", default=[])
    args = parser.parse_args()
    sys.stdout.reconfigure(line_buffering=True)
    signal.signal(signal.SIGALRM, on_alarm)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    results = []
    for name in args.case or cases:
        signal.alarm(args.limit)
        results.append(run_case(cases[name], args))
        signal.alarm(0)
    if any(r not in (0, SKIPPED) for r in results):
        sys.exit(1)
    sys.exit(SKIPPED if all(r == SKIPPED for r in results) else 0)
