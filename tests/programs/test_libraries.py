# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Programs that come to libibverbs in other ways than by being linked with libibverbs.so.1: by name at run time, by a copy of
their own under another name, as Python wheels bring it, and by having it linked into them."""
import os

import lib
from lib import expect

NAME = b"libibverbs.so.1"
OTHER = b"libibverbs-x.so"  # of the same length, so that it fits into the file


def program(lab, name):
    path = os.path.join(lab.build, "bin", name)
    if not os.access(path, os.X_OK):
        raise lib.Skip(f"{name} was not built: there is no libibverbs.a")
    return path


def system_library():
    with open("/proc/self/maps") as maps:
        loaded = "libibverbs" in maps.read()
    expect(not loaded, "this interpreter has libibverbs loaded")
    text = lib.subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=True).stdout
    found = [line.split()[-1] for line in text.splitlines() if line.split()[:1] == [NAME.decode()]]
    expect(found, "ldconfig knows no libibverbs.so.1")
    return found[0]


def private_copy(lab):
    """A copy whose own name, by which the linker would know it for the same library, is another."""
    with open(system_library(), "rb") as library:
        octets = library.read()
    expect(octets.count(NAME + b"\0") == 1 and len(NAME) == len(OTHER), "libibverbs.so.1 does not hold its name once")
    path = os.path.join(lab.directory, OTHER.decode())
    with open(path, "wb") as copy:
        copy.write(octets.replace(NAME + b"\0", OTHER + b"\0"))
    return path


def open_by(lab, *libraries, settings=None):
    """The devices that a program opens by the last of the libraries, and what swrnic says."""
    text = lab.start("by-name", [program(lab, "verbs_by_name"), *libraries], settings=settings).succeed(20 * lab.slow)
    lines = text.splitlines()
    return [line for line in lines if not line.startswith("swrnic:")], [line for line in lines if line.startswith("swrnic:")]


def expect_refused(shown, said, path):
    expect(shown == ["0 devices"], f"the copy finds a device: {shown}")
    expect(len(said) == 1 and said[0].startswith("swrnic: warn: ") and f"{path} is" in said[0] and "put a link" in said[0], f"not one clear line: {said}")


def case_by_name(lab):
    for library in (NAME.decode(), system_library()):
        expect(open_by(lab, library) == (["1 devices", "opened swr0"], []), f"by dlopen({library})")


def case_private_copy(lab):
    path = private_copy(lab)
    expect_refused(*open_by(lab, path), path)
    expect_refused(*open_by(lab, NAME.decode(), path), path)
    shown, said = open_by(lab, path, NAME.decode())
    expect(shown == ["1 devices", "opened swr0"] and len(said) == 1, f"the system's library beside a copy: {shown} {said}")
    # What everyone in the process sees first the driver registers with.
    expect(open_by(lab, path, settings={"LD_PRELOAD": path}) == (["1 devices", "opened swr0"], []), "a copy in the program's own scope")


def case_linked_in(lab):
    text = lab.start("linked-in", [program(lab, "verbs_linked_in")]).succeed(20 * lab.slow)
    lines = text.splitlines()
    expect(lines.count("0 devices") == 1, f"a program with libibverbs linked in: {text}")
    said = [line for line in lines if line.startswith("swrnic:")]
    expect(len(said) == 1 and "linked into it" in said[0] and "shared library" in said[0], f"not one clear line: {text}")


if __name__ == "__main__":
    lib.main(globals())
