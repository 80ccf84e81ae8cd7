# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Garbage, half frames, silence on a listening port: the listener and its real clients do not notice."""
import os
import random
import socket
import struct
import time

import lib
from lib import expect
from test_lifecycle import Peer

REQUEST_KEY = b"MPA ID Req Frame"
REPLY_KEY = b"MPA ID Rep Frame"
RANDOM = random.Random(6581)  # the same garbage in each run


def frame(key=REQUEST_KEY, flags=0x40, revision=1, length=0, private=b""):
    """RFC 5044 7.1.1: key, flags, revision, length of private data."""
    return key + struct.pack(">BBH", flags, revision, length) + private


# What strangers say. Some close after it, some reset, some stay.
WORDS = [
    b"", b"\0", b"GET / HTTP/1.0\r\n\r\n", RANDOM.randbytes(20), RANDOM.randbytes(5000), b"\xff" * 600,
    REQUEST_KEY[:7], REQUEST_KEY, frame()[:19],
    frame(REPLY_KEY), frame(revision=0), frame(revision=77), frame(flags=0xff, revision=2),
    frame(length=0xffff), frame(length=513, private=b"x" * 513), frame(length=100, private=b"y" * 50),
    frame(flags=0x50, revision=2), frame(flags=0x50, revision=2, length=2, private=b"ab"),
    frame(flags=0x50, revision=2, length=4, private=b"\xff\xff"), frame(length=512, private=b"z" * 100),
]
# None of them is a whole and good request: rping's server, which keeps one place for a request that has come, would be
# the one that is disturbed by it.


class Stranger:
    def __init__(self, address, port, number):
        self.word = WORDS[number % len(WORDS)]
        self.manner = ("stay", "close", "reset")[number % 3]
        self.socket = socket.create_connection((address, port), timeout=5)
        try:
            self.socket.sendall(self.word)
        except OSError:
            pass  # the listener may have hung up already
        if self.manner == "reset":
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        if self.manner != "stay":
            self.socket.close()


def serve(lab, port, name="rping-client"):
    client = lab.start(name, ["rping", "-c", "-V", "-a", lab.address, "-p", port, "-C", 50, "-S", 3000], "client")
    client.succeed(30 * lab.slow)


def persistent_server(lab):
    port = lib.free_port()
    server = lab.start("rping-server", ["rping", "-s", "-P", "-V", "-a", lab.address, "-p", port, "-S", 3000])
    server.wait_listening(port, 20 * lab.slow)
    return server, port


def open_descriptors(process):
    return len(os.listdir(f"/proc/{process.pid}/fd"))


def case_strangers(lab):
    server, port = persistent_server(lab)
    serve(lab, port)
    strangers = [Stranger(lab.address, port, n) for n in range(50)]
    start = time.monotonic()
    serve(lab, port, "client-beside-strangers")
    spent = time.monotonic() - start
    expect(server.running(), "the server has ended")
    strangers += [Stranger(lab.address, port, n) for n in range(50)]
    serve(lab, port, "client-beside-more-strangers")
    expect(server.running(), "the server has ended")
    print(f"    a client beside 50 strangers took {spent:.2f} s")
    for stranger in strangers:
        stranger.socket.close()
    serve(lab, port, "client-after-strangers")


def case_cleanup(lab):
    """Strangers who have gone leave no descriptor behind; those who stay are sent away in bounded time."""
    server, port = persistent_server(lab)
    serve(lab, port)
    before = open_descriptors(server)
    strangers = [Stranger(lab.address, port, n) for n in range(30)]
    lib.wait_until(lambda: open_descriptors(server) <= before + 6, 60, "the listener lets go of the strangers")
    for stranger in strangers:
        stranger.socket.close()
    lib.wait_until(lambda: open_descriptors(server) <= before + 1, 20, "the listener's descriptors are closed")
    serve(lab, port, "client-afterwards")


def case_client_meets_garbage(lab):
    """A client whose server talks nonsense ends with an error, soon, and does not crash."""
    for word in (b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", RANDOM.randbytes(600), frame(), frame(REPLY_KEY, length=0xffff),
                 frame(REPLY_KEY, flags=0xff, revision=9)):
        with socket.create_server((lab.address, 0)) as listener:
            listener.settimeout(20)
            port = listener.getsockname()[1]
            client = lab.start("rping-client", ["rping", "-c", "-a", lab.address, "-p", port, "-C", 1], "client",
                               settings={"SWRNIC_TIMEOUT": "2"})
            connection, _ = listener.accept()
            connection.sendall(word)
            if not word:
                connection.close()
            code = client.wait(30)
            connection.close()
            expect(code != 0, f"a client that met {word[:20]!r} reports success")
            expect(code > 0, f"a client that met {word[:20]!r} died of signal {-code}")


def case_garbage_in_stream(lab):
    """A peer that starts well and then sends nonsense gets its connection ended; the server serves on."""
    server, port = persistent_server(lab)
    for flags, revision, private in ((0x00, 1, b""), (0x40, 1, b""), (0x10, 2, b"\0\1\0\1")):
        for nonsense in (RANDOM.randbytes(4000), b"\0" * 4000, b"\xff" * 70000):
            with socket.create_connection((lab.address, port), timeout=10) as s:
                s.sendall(frame(flags=flags, revision=revision, length=len(private), private=private))
                head = s.recv(20, socket.MSG_WAITALL)
                expect(head[:16] == REPLY_KEY, f"no MPA reply but {head[:16]!r}")
                try:
                    s.sendall(nonsense)
                    s.shutdown(socket.SHUT_WR)  # it may announce more than it brings
                    while s.recv(65536):
                        pass
                except (ConnectionResetError, BrokenPipeError):
                    pass
        expect(server.running(), "the server has ended")
    serve(lab, port, "client-afterwards")


def case_four_hundred(lab):
    """Strangers by the hundred, then streams that start well and turn to nonsense: served on, and neither descriptors nor memory
    stay behind."""
    peer = Peer(lab)
    strangers = []
    for number in range(400):
        strangers.append(Stranger(lab.address, peer.port, number))
        if number % 100 == 99:
            peer.steady()
    most = peer.open()
    expect(most <= peer.descriptors + 140, f"{most - peer.descriptors} descriptors are open for strangers")
    for stranger in strangers:
        stranger.socket.close()
    peer.steady()
    peer.as_before("400 strangers")
    for number in range(40):
        with socket.create_connection((lab.address, peer.port), timeout=10) as s:
            s.sendall(frame(flags=0x40 if number % 2 else 0x00))
            head = s.recv(20, socket.MSG_WAITALL)
            expect(head[:16] == REPLY_KEY, f"no MPA reply but {head[:16]!r}")
            try:
                s.sendall(RANDOM.randbytes(RANDOM.choice((20, 500, 70000))))
                s.shutdown(socket.SHUT_WR)
                while s.recv(65536):
                    pass
            except (ConnectionResetError, BrokenPipeError):
                pass
        received = peer.ended()["received"]
        expect(received == 0, f"{received} messages were made of nonsense")
    peer.steady()
    peer.as_before("nonsense in streams")


if __name__ == "__main__":
    lib.main(globals())
