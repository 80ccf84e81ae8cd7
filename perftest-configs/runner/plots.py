# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Figures by size, as SVG drawn by gnuplot: one plot for each number of QPs, CRC and IP version."""
import shutil
import subprocess

# Told apart by colour-blind readers too (Okabe and Ito); the point's shape says the same again.
STYLES = {"write": ("RDMA Write", "#0072B2", 7), "read": ("RDMA Read", "#D55E00", 5), "send": ("Send", "#009E73", 9),
          "rstream": ("rsockets", "#AA4499", 13)}
TCP_COLOUR = "#444444"
BASELINE = "baseline"  # dotted, in the colour of what it is compared with: one line in the key tells them all
Y_LABELS = {"bandwidth": "MB/s (10^6 octets)", "rate": "messages per second", "latency": "half a round trip, us"}


def available():
    return shutil.which("gnuplot") is not None


def size_text(size):
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit and size % unit == 0:
            return f"{size // unit} {name}"
    return str(size)


def kind_of(case):
    return "rstream" if case.program.startswith("rstream") else case.program.split("_")[1]


def groups(results, latency):
    """(qps, crc, ip) -> results, in order."""
    found = {}
    for result in results:
        if result.case.is_latency == latency:
            found.setdefault((result.case.qps, result.case.crc, result.case.ip), []).append(result)
    return found


def series(results, metric):
    """(title, style of the line, points): each program, the same in the baseline before it, and plain TCP."""
    lines = []
    for kind, (title, colour, point) in STYLES.items():
        ours = [r for r in results if kind_of(r.case) == kind]
        now = [(r.case.size, r.value(metric)) for r in ours if r.value(metric)]
        before = [(r.case.size, getattr(r.baseline, metric)) for r in ours if r.baseline and getattr(r.baseline, metric)]
        if before:
            lines.append((BASELINE, f'lc rgb "{colour}" lw 1.5 dt 3 pt {point} ps 0.4', before))
        if now:
            lines.append((title, f'lc rgb "{colour}" lw 2.5 pt {point} ps 0.8', now))
    tcp = sorted({(r.case.size, getattr(r.tcp, metric)) for r in results if r.tcp and getattr(r.tcp, metric)})
    if tcp:
        lines.append(("plain TCP", f'lc rgb "{TCP_COLOUR}" lw 2 dt 2 pt 2 ps 0.6', tcp))
    return lines


def script_of(title, metric, lines):
    sizes = sorted({size for _, _, points in lines for size, _ in points})
    tics = ", ".join(f'"{size_text(size)}" {size}' for size in sizes)
    blocks = "\n".join(f"$d{n} << END\n" + "\n".join(f"{x} {y:.6g}" for x, y in sorted(points)) + "\nEND"
                       for n, (_, _, points) in enumerate(lines))
    drawn = [f"$d{n} using 1:2 with linespoints {style} " + ("notitle" if name == BASELINE else f'title "{name}"')
             for n, (name, style, _) in enumerate(lines)]
    if any(name == BASELINE for name, _, _ in lines):
        drawn.append(f'keyentry with lines lc rgb "#888888" lw 1.5 dt 3 title "{BASELINE}"')
    low, high = (end(y for _, _, points in lines for _, y in points) for end in (min, max))
    return f"""
set terminal svg size 620,400 font "Helvetica,13" noenhanced background "#ffffff"
set title "{title}" font "Helvetica,15"
set ylabel "{Y_LABELS[metric]}"
set logscale x 2
set logscale y 10
set format y "%g"
set xrange [{sizes[0] / 1.6:.6g}:{sizes[-1] * 1.6:.6g}]
set yrange [{low / 1.7:.6g}:{high * 1.7:.6g}]
set xtics ({tics}) {'rotate by -35' if len(sizes) > 7 else ''}
set grid xtics ytics lc rgb "#dddddd" lw 1
set border 3 lc rgb "#666666"
set tics nomirror
set key outside bottom center horizontal samplen 3 width 1 font "Helvetica,12"
{blocks}
plot {", ".join(drawn)}
"""


def draw(results, metric):
    """[(title, SVG)] for each group in which something was measured."""
    drawings = []
    for (qps, crc, ip), members in groups(results, metric == "latency").items():
        lines = series(members, metric)
        if not any(title != "plain TCP" for title, _, _ in lines):
            continue
        where = f"{qps} QP{'s' if qps > 1 else ''}, CRC {crc}, IPv{ip}"
        title = f"{metric.capitalize()}: {where}"
        done = subprocess.run(["gnuplot"], input=script_of(title, metric, lines), capture_output=True, text=True, timeout=60, check=False)
        if done.returncode != 0 or "<svg" not in done.stdout:
            raise OSError(f"gnuplot cannot draw '{title}': {done.stderr.strip()}")
        drawings.append((title, done.stdout))
    return drawings
