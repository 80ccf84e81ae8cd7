# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Each row's ratio to plain TCP beside its target, by gnuplot."""
import subprocess


def plot(results, path):
    # A latency is turned over, so that longer is better throughout.
    def score(result, value):
        return result["target"] / value if result["at_most"] else value / result["target"]

    rows = [f'"{result["name"]}" {score(result, result["ratio"]):.3f}' for result in reversed(results)]
    script = f"""
set terminal svg size 900,{80 + 34 * len(rows)} font "sans,12" background "white"
set output "{path}"
set title "Measured ratio to plain TCP, as a share of its target (1 = reached; latencies turned over)"
set style fill solid 0.7 noborder
set yrange [-0.7:{len(rows) - 0.3}]
set xrange [0:*]
set grid xtics
set arrow from 1,-0.7 to 1,{len(rows) - 0.3} nohead lw 2 lc rgb "#444444"
$rows << END
{chr(10).join(rows)}
END
plot $rows using ($2/2):0:($2/2):(0.35):ytic(1) with boxxyerror lc rgb "#3070b0" notitle, \\
     $rows using ($2+0.03):0:(sprintf("%.2f", $2)) with labels left notitle
"""
    subprocess.run(["gnuplot"], input=script, text=True, check=True)
