#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What runs elsewhere: the workflows, the hooks of pre-commit and the devcontainer name scripts of the tree that exist, can be
executed and parse, and nothing else.  workflows_test.py [TREE]"""
import glob
import json
import os
import re
import subprocess
import sys

import yaml

ROOT = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), "..", ".."))
ACTIONS = {"actions/checkout@v4"}


def read(path):
    with open(path, encoding="utf-8") as file:
        return yaml.safe_load(file)


def commands():
    """(where, command) of each."""
    for path in sorted(glob.glob(f"{ROOT}/.github/workflows/*.yml")):
        for name, job in read(path)["jobs"].items():
            for step in job["steps"]:
                where = f"{os.path.relpath(path, ROOT)}: {name}"
                if "uses" in step:
                    if step["uses"] not in ACTIONS:
                        yield where, f"(the action {step['uses']})"
                else:
                    yield from ((where, line) for line in step["run"].splitlines())
    for repo in read(f"{ROOT}/.pre-commit-config.yaml")["repos"]:
        for hook in repo["hooks"]:
            yield ".pre-commit-config.yaml", hook["entry"] if repo["repo"] == "local" else f"(hooks of {repo['repo']})"
    with open(f"{ROOT}/.devcontainer/devcontainer.json", encoding="utf-8") as file:
        container = json.load(file)
    yield ".devcontainer/devcontainer.json", container["postCreateCommand"]
    if not os.path.exists(f"{ROOT}/.devcontainer/{container['build']['dockerfile']}"):
        yield ".devcontainer/devcontainer.json", "(a Dockerfile that is not there)"


def wrong(command):
    """Why it cannot be, or nothing."""
    words = command.split()
    if not words or not re.fullmatch(r"scripts/[a-z-]+", words[0]):
        return "is no script of the tree"
    script = f"{ROOT}/{words[0]}"
    if not os.access(script, os.X_OK):
        return "does not exist, or cannot be executed"
    if subprocess.run(["bash", "-n", script], check=False).returncode != 0:
        return "does not parse"
    with open(script, encoding="utf-8") as file:
        text = file.read()
    unknown = [word for word in words[1:] if not re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", text)]
    return f"does not know {' '.join(unknown)}" if unknown else ""


def main():
    found = list(commands())
    faults = [f"{where}: {command}: {why}" for where, command in found if (why := wrong(command))]
    for template in glob.glob(f"{ROOT}/.github/ISSUE_TEMPLATE/*.yml"):
        form = read(template)
        if os.path.basename(template) != "config.yml" and not {"name", "description", "body"} <= set(form):
            faults.append(f"{template}: no form")
    print(*faults, sep="\n")
    if len(found) < 4:
        faults.append("fewer commands than there were")
    return 1 if faults else 0


sys.exit(main())
