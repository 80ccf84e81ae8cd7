# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What a document tells to type, and who types it in a test.

A block of commands says so behind its "```sh"; a page of the manual in a comment before its ".EX":

  run                 docs_test.py, here
  package-test NAME   scripts/package-test, which takes the text from the document, in a fresh Debian 12
  guest NAME          NAME_guest.sh under tests/, which takes the text from the document, in a guest of tests/vm
  by TEST...          these tests run the same
  not-run: WHY        nobody

As a program: documents.py FILE NAME prints the block "package-test NAME" or "guest NAME" of FILE."""
import re
import sys


def markdown_blocks(text):
    """(info string, body) of each fenced block."""
    return re.findall(r"^```(.*?)\n(.*?)^```$", text, re.M | re.S)


def plain(line):
    """A line of a page of the manual as the reader sees it."""
    return line.replace(r"\-", "-").replace(r"\(aq", "'").replace(r"\(dq", '"').replace(r"\e", "\\")


def page_blocks(text):
    """The same of a page; what is no command is "text"."""
    found = re.findall(r"^(?:\.\\\" (sh .*|text)\n)?\.EX\n(.*?)^\.EE$", text, re.M | re.S)
    return [(info, "".join(plain(line) + "\n" for line in body.splitlines())) for info, body in found]


def blocks(path):
    with open(path, encoding="utf-8") as text:
        return markdown_blocks(text.read()) if path.endswith(".md") else page_blocks(text.read())


def block(path, name):
    for info, body in blocks(path):
        if info in (f"sh package-test {name}", f"sh guest {name}"):
            return body
    raise SystemExit(f"{path} has no block {name}")


def inline(path):
    """Commands within the text."""
    with open(path, encoding="utf-8") as text:
        prose = re.sub(r"^```.*?^```$", "", text.read(), flags=re.M | re.S)
    prose = re.sub(r"^#.*$", "", prose, flags=re.M)  # headings are messages
    for code in re.findall(r"`([^`]+)`", prose):
        code = " ".join(code.split())
        if re.match(r"(SWRNIC_\w+=\S+ )?(sudo|swrnic|rdma|ip|dkms|modprobe|mokutil|apt|dpkg-\w+|docker|podman|dmesg|uname|ulimit|scripts/[\w-]+"
                    r"|perftest-configs/run|cmake|ctest|make|insmod)( |$)", code):
            yield code


if __name__ == "__main__":
    sys.stdout.write(block(*sys.argv[1:]))
