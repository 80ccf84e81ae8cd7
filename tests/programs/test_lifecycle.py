# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What processes do to themselves under traffic, and how connections end under it: nothing hangs, the other side sees the right
end, and what it had before is all that it has afterwards."""
import json
import os
import signal
import subprocess
import time

import lib
from lib import expect

SOON = 1.0
MEMORY = 4 * 1024  # KiB that the allocator of a survivor may keep


class Peer:
    def __init__(self, lab, settings=None):
        self.lab, self.settings, self.port, self.seen = lab, settings, lib.free_port(), 0
        self.process = lab.start("lifecycle-peer", [program(lab), "peer", lab.address, self.port], "server", settings=settings)
        self.process.wait_listening(self.port, 20 * lab.slow)
        self.steady()
        self.steady()
        self.descriptors, self.kib = self.open(), self.last["kib"]
        self.threads = self.last["threads"]

    def lines(self, key):
        text = [line for line in self.process.text().splitlines() if line.startswith("{") and line.endswith("}")]
        return [line for line in map(json.loads, text) if key in line]

    def open(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def start(self, way, *more):
        return self.lab.start(f"lifecycle-{way}", [program(self.lab), way, self.lab.address, self.port, *more], "client",
                              settings=self.settings)

    def ended(self, seconds=10):
        """The peer's account of the next connection; nothing of it may be left open."""
        def told():
            expect(self.process.running(), "the peer has ended")
            return len(self.lines("connection")) > self.seen
        lib.wait_until(told, seconds * self.lab.slow, "the peer's account of the connection")
        self.last = self.lines("connection")[self.seen]
        self.seen += 1
        expect(self.last["never_completed"] == 0, f"{self.last['never_completed']} requests of the peer never completed")
        return self.last

    def as_before(self, way):
        lib.wait_until(lambda: self.open() <= self.descriptors, 10 * self.lab.slow,
                       f"after {way} the peer has {self.open()} descriptors, {self.descriptors} before")
        expect(self.last["threads"] <= self.threads, f"after {way} the peer has {self.last['threads']} threads, {self.threads} before")
        grown = self.last["kib"] - self.kib
        expect(grown < MEMORY, f"after {way} the peer has {grown} KiB more")

    def steady(self, way="steady", seconds=30):
        client = self.start(way)
        mine = json.loads(client.succeed(seconds * self.lab.slow).splitlines()[-1])
        self.in_good_order(mine)

    def in_good_order(self, mine):
        theirs = self.ended()
        expect(theirs["received"] == mine["sent"] and theirs["sent"] == mine["received"], f"lost on the way: {mine}, {theirs}")


def program(lab, name="lifecycle"):
    return os.path.join(lab.build, "bin", name)


def seconds(us):
    return us / 1e6  # CLOCK_MONOTONIC, as time.monotonic()


def case_good(lab):
    """What harms no traffic: every message arrives, in order."""
    peer = Peer(lab)
    for way in ("programs", "forks", "signals", "cancel", "cloexec"):
        peer.steady(way)
        peer.as_before(way)
        print(f"    {way}: {peer.last['received']} messages came, {peer.last['sent']} went")


def case_speaks(lab):
    """Who speaks first: both at once, and the passive side, which without revision 2 has to wait for the active one."""
    for settings, way in (({"SWRNIC_MPA_REV": "2"}, "server_first"), ({"SWRNIC_MPA_REV": "1"}, "server_must_wait"),
                          ({"SWRNIC_MPA_REV": "2", "SWRNIC_CRC": "on"}, "server_first"),
                          ({"SWRNIC_MPA_REV": "1", "SWRNIC_CRC": "on", "SWRNIC_FPDU": "emss"}, "server_must_wait")):
        peer = Peer(lab, settings)  # two connections on which both speak at once
        for _ in range(2):
            peer.steady(way)
        peer.as_before(way)
        peer.process.kill()
        print(f"    {settings}: {way}")


def case_fork_afresh(lab):
    """A child opens the device afresh, while the traffic of its parent flows."""
    peer, other = Peer(lab), Peer(lab)
    client = peer.start("fork_afresh", other.port)
    said = [line for line in client.succeed(30 * lab.slow).splitlines() if line.startswith("{")]
    child, parent = map(json.loads, said)
    peer.in_good_order(parent)
    other.in_good_order(child)
    peer.as_before("fork_afresh")
    other.as_before("fork_afresh")


def case_ends(lab):
    """However a process ends under traffic, it does end, with the status that it wants, and the peer knows within a second."""
    peer = Peer(lab)
    for way in ("exit", "exit_in_thread", "_exit", "_exit_in_thread", "quick_exit", "quick_exit_in_thread", "orphan", "close_all"):
        peer.start(way).succeed(20 * lab.slow)
        gone = time.monotonic()
        late = max(seconds(peer.ended()["all_us"]), seconds(peer.last["disconnected_us"])) - gone
        expect(late < SOON * lab.slow, f"{way}: the peer's last request completed {late:.2f} s after the end")
        peer.as_before(way)
        print(f"    {way}: the peer had everything {late * 1000:.0f} ms after the process had gone")


def case_unload(lab):
    """dlclose of the only user of verbs, with and without a connection that lives."""
    peer = Peer(lab)
    plugin = os.path.join(lab.build, "lib", "liblifecycle_plugin.so")
    for way, connections in (("steady", 3), ("alive", 1)):
        lab.start(f"lifecycle-unload-{way}", [program(lab, "lifecycle_unload"), plugin, way, lab.address, peer.port],
                  "client").succeed(30 * lab.slow)
        for _ in range(connections):
            peer.ended()
        peer.as_before(f"unload {way}")


def case_killed(lab):
    """kill -9 under traffic, over and over: the survivor is as it was."""
    peer = Peer(lab)
    for _ in range(5):
        client = peer.start("until_broken")
        lib.wait_until(lambda c=client: flows(c), 20 * lab.slow, "traffic")
        client.kill()
        gone = time.monotonic()
        late = seconds(max(peer.ended()["all_us"], peer.last["disconnected_us"])) - gone
        expect(late < SOON * lab.slow, f"the survivor's last request completed {late:.2f} s after the kill")
        peer.as_before("kill -9")


def state(process):
    with open(f"/proc/{process.pid}/stat") as stat:
        return stat.read().rsplit(")", 1)[1].split()[0]


def case_stopped(lab):
    """SIGSTOP under traffic: the other side gives up within SWRNIC_TIMEOUT, and the one that wakes up later sees that."""
    timeout = 2
    peer = Peer(lab, {"SWRNIC_TIMEOUT": str(timeout)})
    for _ in range(2):
        client = peer.start("stopped")
        lib.wait_until(lambda c=client: state(c) == "T", 20 * lab.slow, "the client stops itself")
        stopped = time.monotonic()
        spent = seconds(max(peer.ended(30)["all_us"], peer.last["disconnected_us"])) - stopped
        expect(timeout * 0.5 < spent < timeout + 2, f"the peer had everything {spent:.2f} s after the stop; the timeout is {timeout} s")
        peer.as_before("SIGSTOP")
        client.kill(signal.SIGCONT)
        code = client.wait(10 * lab.slow)
        expect(code == 1, f"a client that was given up ends with status {code}")
        print(f"    the peer had everything {spent:.2f} s after the stop (timeout {timeout} s)")


def case_goes_on(lab):
    """SIGSTOP, and SIGCONT before the timeout: nothing is lost, even if messages wait for receives since before the stop."""
    peer = Peer(lab, {"SWRNIC_TIMEOUT": "6"})
    for way in ("stopped", "stopped_stalled"):
        client = peer.start(way)
        lib.wait_until(lambda c=client: state(c) == "T", 20 * lab.slow, "the client stops itself")
        time.sleep(2)
        client.kill(signal.SIGCONT)
        peer.in_good_order(json.loads(client.succeed(20 * lab.slow).splitlines()[-1]))
        peer.as_before(f"SIGCONT after {way}")


def cable(lab, what):
    done = subprocess.run(["ip", "-n", lab.names[0], "link", "set", lab.device, what], capture_output=True, text=True, check=False)
    expect(done.returncode == 0, f"ip link set {what}: {done.stderr.strip()}")


def wait_reachable(lab, port):
    """A link that has come up takes a moment to carry."""
    def reached():
        probe = lab.start("probe", ["python3", "-c", f"import socket; socket.create_connection(('{lab.address}', {port}), 1)"],
                          "client", device=False)
        return probe.wait(10) == 0

    lib.wait_until(reached, 20, "the other side is reached again")


def flows(process):
    expect(process.running(), f"{process.name} has ended")
    return "flows" in process.text()


def case_cable(lab):
    """A pulled cable under traffic in both directions: both sides give up within the timeout."""
    timeout = 3
    peer = Peer(lab, {"SWRNIC_TIMEOUT": str(timeout)})
    for _ in range(2):
        client = peer.start("until_broken")
        lib.wait_until(lambda c=client: flows(c), 20 * lab.slow, "traffic")
        cable(lab, "down")
        pulled = time.monotonic()
        theirs = peer.ended(30)
        mine = json.loads(client.succeed(30 * lab.slow).splitlines()[-1])
        expect(mine["never_completed"] == 0, f"{mine['never_completed']} requests of the client never completed")
        cable(lab, "up")
        wait_reachable(lab, peer.port)
        for side, said in (("peer", theirs), ("client", mine)):
            spent = seconds(max(said["all_us"], said["disconnected_us"])) - pulled
            expect(timeout * 0.5 < spent < timeout + 2, f"the {side} had everything after {spent:.2f} s; the timeout is {timeout} s")
            print(f"    the {side} had everything {spent:.2f} s after the pull (timeout {timeout} s)")
        peer.as_before("a pulled cable")


def case_cable_again(lab):
    """A cable that is pulled and put back before the timeout: nothing is lost."""
    peer = Peer(lab, {"SWRNIC_TIMEOUT": "10"})
    client = peer.start("five_seconds")
    lib.wait_until(lambda: len(peer.lines("established")) > peer.seen, 20 * lab.slow, "the connection")
    time.sleep(0.5)
    cable(lab, "down")
    time.sleep(2)
    cable(lab, "up")
    peer.in_good_order(json.loads(client.succeed(60 * lab.slow).splitlines()[-1]))
    peer.as_before("a cable put back")


if __name__ == "__main__":
    lib.main(globals())
