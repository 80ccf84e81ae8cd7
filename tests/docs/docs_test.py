# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Runs each block of a document that is marked "run", each in a shell of its own, and sees that somebody runs the others (documents.py).

A heading "### `text …`" explains a message of ours: what stands between the dots must be found in the sources. Links to files must lead
somewhere. Commands within the text stand in inline.txt with who runs them."""
import argparse
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

import documents

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.realpath(os.path.join(HERE, "..", ".."))
ROOMS = ("tools", "common", "provider", "kernel-shim", "system", "perftest-configs")


def read(path):
    with open(path, encoding="utf-8", errors="replace") as text:
        return text.read()


def sources():
    parts = [read(os.path.join(folder, file)) for room in ROOMS for folder, _, files in os.walk(os.path.join(ROOT, room))
             for file in files if not file.endswith((".md", ".pyc"))]
    # A message may be cut into several literals.
    return re.sub(r'"\s*\n?\s*"', "", "\n".join(parts))


def messages(text):
    for heading in re.findall(r"^### (.*)$", text, re.M):
        if heading.startswith("`"):
            yield from re.findall(r"`([^`]+)`", heading)


def fragments(message):
    """What is literal in it, of some length: short ones prove nothing."""
    return [part.strip() for part in message.split("…") if len(part.strip()) > 5]


def wrong_messages(text):
    source = sources()
    for message in messages(text):
        if not fragments(message):
            yield f"nothing in '{message}' can be looked for"
        for part in fragments(message):
            if part not in source:
                yield f"no program says '{part}'"


def wrong_links(text, folder):
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text):
        if not os.path.exists(os.path.join(folder, target)):
            yield f"link to {target}, which is not there"


class Elsewhere:
    """Who runs what is not run here."""

    def __init__(self, build):
        listed = subprocess.run(["ctest", "--test-dir", build, "-N"], capture_output=True, text=True, check=True).stdout
        self.tests = set(re.findall(r"^ *Test +#\d+: (\S+)", listed, re.M))
        self.package_test = read(f"{ROOT}/scripts/package-test") + read(f"{HERE}/containers.py")

    def wrong(self, document, words):
        """Why nobody runs it, or nothing."""
        kind, rest = words[0], words[1:]
        if kind == "not-run:" and rest:
            return ""
        if kind == "by" and rest:
            missing = [name for name in rest if name not in self.tests]
            return f"there is no test {' '.join(missing)}" if missing else ""
        if kind == "package-test" and len(rest) == 1:
            named = f"{os.path.relpath(document, ROOT)} {rest[0]}" in self.package_test
            return "" if named else "package-test does not take this block"
        if kind == "guest" and len(rest) == 1:
            scripts = glob.glob(f"{ROOT}/tests/*/{rest[0]}_guest.sh")
            named = len(scripts) == 1 and os.path.basename(document) in read(scripts[0])
            return "" if named else f"{rest[0]}_guest.sh does not take this block"
        return "neither run nor by whom, nor why not"


def shell(body, environment):
    """In a folder that looks like the tree and takes what is written; of root in a network of its own, where every port is free,
    and from which nobody is left."""
    prefix = []
    alone = ["unshare", "--net", "--pid", "--fork", "--mount-proc"]
    if os.geteuid() == 0 and subprocess.run([*alone, "true"], capture_output=True, check=False).returncode == 0:
        prefix = [*alone, "sh", "-c", 'ip link set lo up; exec "$@"', "sh"]
    # Watching has no end: a few seconds of it.
    body = re.sub(r"^(\S+ stat [^#\n]*--watch[^#\n]*)", r"timeout 4 \1 || [ $? = 124 ] ", body, flags=re.M)
    with tempfile.TemporaryDirectory(prefix="swrnic-docs-") as folder:
        for name in os.listdir(ROOT):
            if not name.startswith((".", "build")):
                os.symlink(os.path.join(ROOT, name), os.path.join(folder, name))
        return subprocess.run([*prefix, "bash", "-e", "-o", "pipefail", "-c", body], env=environment, cwd=folder, timeout=80,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)


def succeeds(body, environment):
    # On a busy machine a client may be faster than its server; perftest's on any machine, than the second listener of its server
    # (perftest-configs/README.md).
    for _ in range(3):
        done = shell(body, environment)
        print(f"$ {body}{done.stdout[-2000:]}", flush=True)
        if done.returncode == 0 or not re.search(r"RDMA_CM_EVENT_REJECTED\W+error:? -111", done.stdout):
            break
    return done.returncode == 0


def run_inline(document, elsewhere, environment):
    """What inline.txt says of the commands within the text."""
    table = dict(re.split(r"\t+", line, maxsplit=1) for line in read(f"{HERE}/inline.txt").splitlines() if line and line[0] != "#")
    for command in sorted(set(documents.inline(document))):
        if command not in table:
            yield f"'{command}' is not in inline.txt"
        elif table[command] == "run":
            if not succeeds(command + "\n", environment):
                yield f"'{command}' failed"
        else:
            why = elsewhere.wrong(document, table[command].split())
            if why:
                yield f"'{command}': {why}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("document")
    args = parser.parse_args()
    document = os.path.realpath(args.document)
    wrong = []
    if document.endswith(".md"):
        text = read(document)
        wrong += [*wrong_messages(text), *wrong_links(text, os.path.dirname(document))]
    for program in ("rping", "ib_write_bw", "tshark", "jq"):
        if not shutil.which(program):
            print(f"skipped: {program} is not installed")
            sys.exit(77)
    environment = {**os.environ, "PATH": f"{args.build}/bin:{os.environ['PATH']}", "LC_ALL": "C.UTF-8"}
    elsewhere = Elsewhere(args.build)
    count = 0
    for info, body in documents.blocks(document):
        words = info.split()
        if words[:1] != ["sh"]:
            if document.endswith(".md") or words == ["text"]:
                continue
            wrong.append(f"an example that does not say what it is: {body}")
        elif words == ["sh", "run"]:
            count += 1
            if not succeeds(body, environment):
                wrong.append(f"failed: {body}")
        else:
            why = elsewhere.wrong(document, words[1:] or [""])
            if why:
                wrong.append(f"{why}: {body}")
    if document.endswith(".md"):
        wrong += run_inline(document, elsewhere, environment)
    print(f"{count} blocks run")
    for line in wrong:
        print(f"WRONG: {line}")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
