# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""One HTML file that needs nothing beside it: the verdict first, then what was missed, the plots, each figure, how to read them."""
import base64
import html
import os
import platform
import time
from dataclasses import dataclass

from runner import plots

STYLE = """
:root { --ink: #1c2530; --soft: #5b6875; --line: #dfe4ea; --good: #1b7f4b; --bad: #b3261e; --fill: #f5f7f9; }
* { box-sizing: border-box; }
body { margin: 0; background: #fff; color: var(--ink); font: 15px/1.5 system-ui, "Helvetica Neue", Arial, sans-serif; }
main { max-width: 1320px; margin: 0 auto; padding: 28px 24px 60px; }
h1 { font-size: 26px; margin: 0 0 4px; } h2 { font-size: 19px; margin: 36px 0 10px; }
p.about { color: var(--soft); margin: 0 0 18px; }
.verdict { padding: 14px 18px; border-radius: 6px; color: #fff; font-size: 18px; font-weight: 600; background: var(--good); }
.verdict.bad { background: var(--bad); color: #fff; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(520px, 1fr)); gap: 18px; }
.plots img { width: 100%; max-width: 640px; border: 1px solid var(--line); border-radius: 6px; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: 5px 10px; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap; }
th { background: var(--fill); font-weight: 600; } th.text, td.text { text-align: left; }
td.text.limit { white-space: normal; min-width: 190px; }
tbody tr:hover { background: var(--fill); } .good { color: var(--good); } .bad { color: var(--bad); font-weight: 600; }
.none { color: #a4adb6; } .bar { display: inline-block; height: 9px; background: #8fb3d1; margin-right: 8px; border-radius: 2px; }
dt { font-weight: 600; } dd { margin: 0 0 8px; color: var(--soft); }
@media print { .plots img { break-inside: avoid; } }
"""


@dataclass
class About:
    title: str
    name: str
    rounds: int
    started: float  # monotonic
    server: str
    baseline: str
    tcp: bool


def processor():
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.machine()


def number(value):
    if not value:
        return '<span class="none">–</span>'
    return f"{value:,.0f}".replace(",", "\u202f") if value >= 100 else f"{value:.2f}" if value < 10 else f"{value:.1f}"


def share_bar(share):
    if not share:
        return number(0)
    return f'<span class="bar" style="width:{min(share, 2) * 45:.0f}px"></span>{share:.2f}'


def change(now, before, more_is_better):
    if not now or not before:
        return number(0)
    percent = (now / before - 1) * 100
    better = (percent > 0) == more_is_better
    # Within a tenth the same configuration differs from itself on most machines.
    kind = "" if abs(percent) < 10 else "good" if better else "bad"
    return f'<span class="{kind}">{percent:+.0f} %</span>'


def verdict_of(result):
    lines = []
    if result.failed:
        lines.append(f'<span class="bad">failed: {html.escape(result.failed)}</span>')
    for text, met, why in result.verdicts:
        mark = '<span class="good">met</span>' if met else f'<span class="bad">missed: {html.escape(why)}</span>'
        lines.append(f"{html.escape(text)} {mark}")
    return "<br>".join(lines) or '<span class="none">none</span>'


def rows(results, latency, baseline):
    metric, second = ("latency", "p99") if latency else ("bandwidth", "rate")
    for result in results:
        case = result.case
        value, tcp = result.value(metric), getattr(result.tcp, metric) if result.tcp else 0
        cells = [f'<td class="text">{case.program}</td>', f"<td>{plots.size_text(case.size)}</td>"]
        if not latency:
            cells.append(f"<td>{case.qps}</td>")
        cells += [f"<td>{case.crc}</td>", f"<td>IPv{case.ip}</td>", f"<td><b>{number(value)}</b></td>",
                  f"<td>{number(result.value(second))}</td>", f"<td>{number(tcp)}</td>",
                  f'<td class="text">{share_bar(value / tcp if tcp else 0)}</td>']
        if baseline:
            before = getattr(result.baseline, metric) if result.baseline else 0
            cells += [f"<td>{number(before)}</td>", f"<td>{change(value, before, not latency)}</td>"]
        cells.append(f'<td class="text limit">{verdict_of(result)}</td>')
        yield f"<tr>{''.join(cells)}</tr>"


def table(results, latency, baseline):
    chosen = [result for result in results if result.case.is_latency == latency]
    if not chosen:
        return ""
    heads = [("text", "Test"), ("", "Size")] + ([] if latency else [("", "QPs")]) + [("", "CRC"), ("", "IP")]
    heads += [("", "Latency, us"), ("", "99 %, us")] if latency else [("", "MB/s"), ("", "Messages/s")]
    heads += [("", "Plain TCP"), ("text", "Share of TCP")] + ([("", "Baseline"), ("", "Change")] if baseline else []) + [("text", "Limits")]
    head = "".join(f'<th class="{kind}">{text}</th>' for kind, text in heads)
    title = "Latency" if latency else "Bandwidth and message rate"
    return f"<h2>{title}</h2><table><thead><tr>{head}</tr></thead><tbody>{''.join(rows(chosen, latency, baseline))}</tbody></table>"


def image(title, svg):
    data = base64.b64encode(svg.encode()).decode()
    return f'<img alt="{html.escape(title)}" src="data:image/svg+xml;base64,{data}">'


def pictures(results):
    if not plots.available():
        return "<h2>Plots</h2><p>gnuplot is not installed here, so there are none (Debian: apt install gnuplot-nox).</p>"
    parts = []
    for metric, heading in (("bandwidth", "Bandwidth by size"), ("latency", "Latency by size"), ("rate", "Message rate by size")):
        small = [r for r in results if r.case.size <= 4096]
        drawings = plots.draw(results if metric != "rate" else small, metric)
        if drawings:
            parts.append(f'<h2>{heading}</h2><div class="plots">{"".join(image(*drawing) for drawing in drawings)}</div>')
    return "".join(parts)


def missed_list(missed):
    if not missed:
        return ""
    items = "".join(f"<li>{html.escape(str(result.case))}: {verdict_of(result)}</li>" for result in missed)
    return f"<h2>Missed</h2><ul>{items}</ul>"


READING = """
<h2>How to read it</h2>
<dl>
<dt>The plots</dt><dd>Along the bottom the size of a message; both scales are logarithmic. Solid: this run. Dotted: the baseline.
Dashed: plain TCP.</dd>
<dt>MB/s</dt><dd>10<sup>6</sup> octets of payload per second, the mean over the test.</dd>
<dt>Latency</dt><dd>Half of a round trip in microseconds, the median; for RDMA Read, whose answer comes from the provider, the whole.
99 %: the time that 99 of 100 round trips keep.</dd>
<dt>Plain TCP</dt><dd>The same size over a kernel TCP socket, measured in this run: one stream for bandwidth, ping-pong for latency; of a receiver that
spins and one that sleeps the better. With several QPs it is still one stream.</dd>
<dt>Share of TCP</dt><dd>The measured figure divided by plain TCP's. For bandwidth more is better, for latency less.</dd>
<dt>Limits</dt><dd>What the configuration demands. What could not be measured counts as missed.</dd>
</dl>
"""


def write(path, about, results):
    missed = [result for result in results if result.missed()]
    limits = sum(len(result.verdicts) for result in results)
    verdict = (f"{len(missed)} of {len(results)} tests failed or missed a limit" if missed
               else f"All {len(results)} tests ran" + (f", all {limits} limits met" if limits else "; the configuration sets no limits"))
    retried = sum(result.tries() > 1 for result in results)
    facts = [time.strftime("%Y-%m-%d %H:%M %Z"), f"took {(time.monotonic() - about.started) / 60:.1f} min", processor(),
             f"{os.cpu_count()} processors", f"Linux {platform.release()}",
             f"client here, server on {about.server}" if about.server else "both sides on one host"]
    facts += [f"median of {about.rounds} rounds"] if about.rounds > 1 else []
    facts += [f"baseline: {about.baseline}"] if about.baseline else []
    facts += [] if about.tcp else ["plain TCP was not measured"]
    facts += [f"{retried} tests needed more than one try"] if retried else []
    page = f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{html.escape(about.title)}</title><style>{STYLE}</style></head><body><main>
<h1>{html.escape(about.title)}</h1><p class="about">{html.escape(' · '.join(facts))}</p>
<div class="verdict{' bad' if missed else ''}">{verdict}</div>
{missed_list(missed)}{pictures(results)}{table(results, False, bool(about.baseline))}{table(results, True, bool(about.baseline))}{READING}
</main></body></html>
"""
    with open(path, "w", encoding="utf-8") as out:
        out.write(page)
