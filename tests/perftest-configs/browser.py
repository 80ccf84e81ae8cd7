# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A page as headless Chromium sees it: what its console says, and which pictures it could draw."""
import os
import re
import shutil
import subprocess
import tempfile

# Nothing is looked for on the network; root, as in a container of CI, has no sandbox.
OPTIONS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
           "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--hide-scrollbars", "--enable-logging=stderr"]
# A picture that cannot be decoded has no width. The page has no script of its own.
PROBE = """<script>addEventListener("load", () => {
  const drawn = [...document.images].filter(image => image.complete && image.naturalWidth > 0).length;
  document.title = `drawn ${drawn} of ${document.images.length}`;
});</script>"""


def available():
    return shutil.which("chromium") is not None


def chromium(folder, page, *options):
    done = subprocess.run(["chromium", *OPTIONS, f"--user-data-dir={folder}/profile", *options, f"file://{os.path.realpath(page)}"],
                          capture_output=True, text=True, timeout=100, check=False)
    if done.returncode != 0:
        raise OSError(f"chromium ended with status {done.returncode}: {done.stderr[-1500:]}")
    return done


def look_at(page):
    """(lines of the console, pictures drawn, pictures that there are)."""
    with tempfile.TemporaryDirectory(prefix="swrnic-browser-") as folder:
        with open(page, encoding="utf-8") as text:
            probed = text.read().replace("<head>", f"<head>{PROBE}", 1)
        with open(f"{folder}/page.html", "w", encoding="utf-8") as out:
            out.write(probed)
        done = chromium(folder, f"{folder}/page.html", "--dump-dom")
    counted = re.search(r"<title>drawn (\d+) of (\d+)</title>", done.stdout)
    if not counted:
        raise OSError(f"chromium did not load {page}: {done.stdout[:500]} {done.stderr[-1500:]}")
    return re.findall(r"CONSOLE.*", done.stderr), int(counted[1]), int(counted[2])


def picture_of(page, png, height):
    with tempfile.TemporaryDirectory(prefix="swrnic-browser-") as folder:
        chromium(folder, page, f"--window-size=1360,{height}", f"--screenshot={png}")
