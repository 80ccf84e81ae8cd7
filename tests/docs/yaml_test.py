# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The YAML of a document is YAML, and says what its reader (GitHub, GitLab, Kubernetes) wants; containers.py runs what stands in it."""
import sys

import documents

try:
    import yaml
except ImportError:
    print("skipped: python3-yaml is not installed")
    sys.exit(77)


def main():
    found = [yaml.safe_load(body) for info, body in documents.blocks(sys.argv[1]) if info == "yaml"]
    github, gitlab, pod = found
    steps = github["jobs"]["rdma"]["steps"]
    assert github["jobs"]["rdma"]["container"] == gitlab["rdma"]["image"] == "debian:12"
    assert all(step.get("run") or step.get("uses") for step in steps) and len(steps) > 2
    assert all(isinstance(line, str) for line in gitlab["rdma"]["script"])
    assert pod["apiVersion"] == "v1" and pod["kind"] == "Pod" and pod["metadata"]["name"]
    container = pod["spec"]["containers"][0]
    assert container["image"] and all(isinstance(word, str) for word in container["args"])
    print(f"{len(found)} documents")


if __name__ == "__main__":
    main()
