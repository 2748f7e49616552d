#!/usr/bin/env python3
"""Predicted against measured on this machine: models of three sizes under several layouts, with and
without recomputation, each planned with a profile of ptdp-profile and then run.

  ptdp-profile -o host.json
  tests/validation/host_sweep.py --cluster host.json --programs build/release/tools

Prints a row for each, whether plans that differ are ordered right, and what the fastest predicted
plan loses to the fastest measured one (regret). The machine should have nothing else to do.
"""

import argparse
import itertools
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

# name: layers, hidden size, heads, sequence length, vocabulary, sequences per iteration.
MODELS = {
    "small": (4, 128, 4, 64, 1024, 16),
    "medium": (6, 256, 4, 128, 2048, 8),
    "large": (8, 512, 8, 256, 4096, 4),
    "between": (5, 384, 6, 96, 3072, 8),
}
# name: tp, pp, dp.
LAYOUTS = {
    "1 rank": (1, 1, 1),
    "tp=2": (2, 1, 1),
    "pp=2": (1, 2, 1),
    "dp=2": (1, 1, 2),
    "tp=4": (4, 1, 1),
    "pp=4": (1, 4, 1),
    "dp=4": (1, 1, 4),
    "tp=2 pp=2": (2, 2, 1),
}
DIFFERENT = 0.10  # plans whose measured times are closer are a tie


def write_model(directory, name):
    layers, hidden, heads, sequence, vocabulary, batch = MODELS[name]
    path = directory / f"{name}.json"
    path.write_text(json.dumps({
        "schema": "ptdp.model/1", "name": name, "source": "host_sweep.py",
        "num_layers": layers, "hidden_size": hidden, "num_attention_heads": heads,
        "vocab_size": vocabulary, "seq_length": sequence, "global_batch_size": batch}))
    return path


def run(command, **options):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)
    if done.returncode != 0:
        sys.exit(f"{' '.join(str(word) for word in command)}: {done.stderr.strip()}")
    return done.stdout


def busy_seconds():
    """Of all processors since the machine started, by any process."""
    ticks = [int(word) for word in open("/proc/stat").readline().split()[1:9]]
    return (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK")


def measure(arguments, directory, model, layout, recompute):
    """The report of ptdp-run as an object, and the cores that other processes kept busy."""
    tp, pp, dp = LAYOUTS[layout]
    plan = directory / "plan.json"
    run([arguments.programs / "ptdp-plan", "--cluster", arguments.cluster, "--model", model,
         "--gpus", tp * pp * dp, "--tp", tp, "--pp", pp, "--dp", dp, "--recompute", recompute,
         "--micro-batch-size", 1, "--schedule", arguments.schedule, "--calibration", "none",
         "-o", plan, "--format", "csv"])
    predicted = json.loads(plan.read_text())["predicted"]["iteration_time_s"]
    warm_up = 3
    steps = warm_up + max(arguments.steps, min(60, int(arguments.seconds / predicted)))
    report = directory / "run.json"
    busy = busy_seconds()
    used = os.times()
    run([*arguments.launcher.split(), arguments.programs / "ptdp-run", plan, "--steps", steps,
         "--warm-up", warm_up, "--quiet", "-o", report])
    after = os.times()
    own = after.children_user + after.children_system - used.children_user - used.children_system
    others = max(busy_seconds() - busy - own, 0.0) / (after.elapsed - used.elapsed)
    return json.loads(report.read_text()), others


def measured_seconds(report):
    return report["measured"]["iteration_time_s"]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cluster", required=True, type=pathlib.Path)
    parser.add_argument("--programs", default=pathlib.Path("build/release/tools"),
                        type=pathlib.Path)
    parser.add_argument("--models", default="small,medium,large")
    parser.add_argument("--layouts", default="1 rank,tp=2,pp=2,dp=2")
    parser.add_argument("--recompute", default="none,full")
    parser.add_argument("--schedule", default="1f1b")
    parser.add_argument("--steps", default=10, type=int, help="to measure at least")
    parser.add_argument("--seconds", default=1.0, type=float, help="of steps at least")
    parser.add_argument("--turns", default=1, type=int,
                        help="through all rows of a model; of each the quietest counts")
    parser.add_argument("--launcher", default="", help="put before ptdp-run")
    parser.add_argument("--terms", action="store_true", help="print every term of every row")
    arguments = parser.parse_args()

    errors = []
    with tempfile.TemporaryDirectory() as temporary:
        directory = pathlib.Path(temporary)
        print(f"{'model':<9}{'layout':<11}{'recompute':<11}{'predicted':>11}{'measured':>11}"
              f"{'error':>9}   medians of all turns; cores that others used")
        for name in arguments.models.split(","):
            model = write_model(directory, name)
            rows = list(itertools.product(arguments.layouts.split(","),
                                          arguments.recompute.split(",")))
            turns = [[measure(arguments, directory, model, *row) for row in rows]
                     for _ in range(arguments.turns)]
            plans = []
            for (layout, recompute), reports in zip(rows, zip(*turns)):
                report, others = min(reports, key=lambda pair: measured_seconds(pair[0]))
                predicted = report["predicted"]["iteration_time_s"]
                measured = measured_seconds(report)
                error = predicted / measured - 1.0
                errors.append(error)
                plans.append((predicted, measured, f"{layout} {recompute}"))
                medians = " ".join(f"{1e3 * measured_seconds(each):.2f}" for each, _ in reports)
                print(f"{name:<9}{layout:<11}{recompute:<11}{1e3 * predicted:>8.2f} ms"
                      f"{1e3 * measured:>8.2f} ms{100 * error:>+8.1f} %   {medians}; {others:.2f}",
                      flush=True)
                if arguments.terms:
                    for term in report["terms"]:
                        print(f"    {term['term']:<22}{1e3 * term['predicted_s']:>10.3f}"
                              f"{1e3 * term['measured_s']:>10.3f}")
            different = [(a, b) for a, b in itertools.combinations(plans, 2)
                         if abs(a[1] - b[1]) > DIFFERENT * min(a[1], b[1])]
            wrong = [(a, b) for a, b in different if (a[0] < b[0]) != (a[1] < b[1])]
            chosen = min(plans)
            best = min(plan[1] for plan in plans)
            print(f"  {len(different) - len(wrong)} of {len(different)} pairs that differ by more "
                  f"than 10 % ordered right; regret of \"{chosen[2]}\": "
                  f"{100 * (chosen[1] / best - 1.0):.1f} %")
            for a, b in wrong:
                print(f"    ordered wrong: {a[2]} and {b[2]}")
    absolute = [abs(error) for error in errors]
    print(f"error: mean {100 * statistics.mean(absolute):.1f} %, worst {100 * max(absolute):.1f} %, "
          f"{sum(error <= 0.10 for error in absolute)} of {len(errors)} within 10 %")


if __name__ == "__main__":
    main()
