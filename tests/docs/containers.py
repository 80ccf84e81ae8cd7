# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Runs what docs/CONTAINERS.md tells to do, as root within a fresh Debian 12 that stands for the container: scripts/package-test calls it.

  containers.py DOCUMENT FOLDER-OF-PACKAGES

The steps of GitHub's and GitLab's YAML, the lines of the Dockerfile and the blocks of commands are taken from the document. Neither Docker nor
Podman nor Kubernetes is there: their lines go to a program in their place that starts the program as the Dockerfile says, in this one container. All that
installs comes first; then the network is the loopback alone."""
import ctypes
import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile

import yaml

import documents

CLONE_NEWNET = 0x40000000
YOURS = '#!/bin/sh\n# your tests\nibv_devices | grep -w swr0 && ibv_devinfo -d swr0 | grep PORT_ACTIVE\n'
STAND_IN = """#!/bin/sh
# docker and podman: an image is what its Dockerfile starts.
case $1 in
build) exit 0 ;;
inspect) echo 127.0.0.1 && exit 0 ;;
run) shift ;;
*) echo "docker $1?" >&2 && exit 2 ;;
esac
detached=
while :; do
    case $1 in
    --rm) shift ;;
    -d) detached=1 && shift ;;
    -e) export "$2" && shift 2 ;;
    --name | --network) shift 2 ;;
    rdma) shift && break ;;
    *) echo "docker run $1?" >&2 && exit 2 ;;
    esac
done
set -- setpriv --reuid=@USER@ --regid=@USER@ --clear-groups --no-new-privs --bounding-set=-all --inh-caps=-all -- @ENTRYPOINT@ "$@"
[ -n "$detached" ] || exec timeout 60 "$@"
timeout 60 "$@" >/dev/null 2>&1 </dev/null &
"""


def run(command, **more):
    # perftest's client may be faster than its server's second listener (perftest-configs/README.md).
    for _ in range(3):
        print(f"$ {command.strip()}", flush=True)
        done = subprocess.run(["bash", "-e", "-o", "pipefail", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              stdin=subprocess.DEVNULL, timeout=900, check=False, **more)
        print(done.stdout[-3000:], flush=True)
        if "RDMA_CM_EVENT_REJECTED; error: -111" not in done.stdout:
            break
    if done.returncode != 0:
        sys.exit(f"status {done.returncode} of: {command}")


def write(path, text):
    with open(path, "w", encoding="utf-8") as out:
        out.write(text)
    os.chmod(path, 0o755)


class Dockerfile:
    def __init__(self, text):
        self.lines = [line.split(None, 1) for line in text.splitlines() if line]
        self.copied = [rest.split() for word, rest in self.lines if word == "COPY"]
        self.commands = [rest for word, rest in self.lines if word == "RUN"]
        self.user = next(rest for word, rest in self.lines if word == "USER")
        self.entry = json.loads(next(rest for word, rest in self.lines if word == "ENTRYPOINT"))
        assert self.lines[0] == ["FROM", "debian:12"] and all(word in ("FROM", "COPY", "RUN", "USER", "ENTRYPOINT") for word, _ in self.lines)

    def copy(self):
        for *patterns, target in self.copied:
            for pattern in patterns:
                for file in glob.glob(pattern):
                    shutil.copy(file, target)


def main():
    document, packages = map(os.path.abspath, sys.argv[1:])
    blocks = documents.blocks(document)
    github, gitlab, pod = (yaml.safe_load(body) for info, body in blocks if info == "yaml")
    dockerfile = Dockerfile(next(body for info, body in blocks if info == "dockerfile"))
    # "docs/CONTAINERS.md ci" and "docs/CONTAINERS.md docker"
    commands = documents.block(document, "ci").splitlines()
    commands += [step["run"] for step in github["jobs"]["rdma"]["steps"] if "run" in step] + gitlab["rdma"]["script"]
    installs = [line for line in commands if "apt-get" in line]
    commands = [line for line in commands if "apt-get" not in line]
    assert len(installs) == 3 and len(commands) == 6, (installs, commands)

    with tempfile.TemporaryDirectory(prefix="swrnic-containers-") as folder:
        os.chmod(folder, 0o755)
        os.chdir(folder)
        for file in glob.glob(f"{packages}/*.deb"):
            shutil.copy(file, ".")
        os.symlink(".", "packages")
        for line in installs:
            run(line)
        dockerfile.copy()
        for line in dockerfile.commands:
            run(line)
        run("apt-get install -y sudo")

        if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET) != 0:
            sys.exit("no network namespace here")
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        os.mkdir("bin")
        write("your-tests", YOURS)
        write("bin/ctest", YOURS)  # which would run yours
        for name in ("docker", "podman"):
            write(f"bin/{name}", STAND_IN.replace("@USER@", dockerfile.user).replace("@ENTRYPOINT@", " ".join(dockerfile.entry)))
        environment = {**os.environ, "PATH": f"{folder}/bin:{os.environ['PATH']}"}
        for line in commands:
            run(line, env=environment)
        run(documents.block(document, "docker"), env=environment)
        run("docker run -e SWRNIC_CRC=on rdma ibv_devinfo -d swr0", env=environment)
        run("sudo swrnic run ibv_devinfo -d swr0")
        arguments = " ".join(pod["spec"]["containers"][0]["args"])
        run(f"docker run -d {pod['spec']['containers'][0]['image']} {arguments}\nsleep 1\ndocker run rdma {arguments} 127.0.0.1", env=environment)
    print("passed")


if __name__ == "__main__":
    main()
