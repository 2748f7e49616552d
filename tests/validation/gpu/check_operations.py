"""Sections `operations` and `profile`: single operations beside the data sheet's prediction, and
the machine as ptdp-profile measures it."""

import json
import math
import shutil
import statistics

from check import SHORT_SHARE, Skipped
from commands import program, run_program, succeeded

# gpu_benchmark's names, in pieces of a few minutes.
PIECES = {
    "forward": "^linear/forward/",
    "input gradient": "^linear/input_gradient/",
    "weight gradient": "^linear/weight_gradient/",
    "memory and launches": "^(element_wise|copy|empty_kernel|launch_by_host)",
}
PIECE_SECONDS = 60.0
COPY_SHARE = 0.85  # goal: of the rate of a copy
LEAST_BYTES = 128 << 20  # moved by a case that is judged: smaller ones stay in the cache
# Numbers that an operation must read and write for each of its elements (kernels/backend.h).
PASSES = {"copy": 2, "layer-norm": 2, "layer-norm-backward": 4, "bias": 2, "bias-gelu": 3,
          "gelu-backward": 3, "bias-add": 3, "bias-dropout-add": 3, "dropout-backward": 2,
          "sum-layer-norm": 4, "sum-rms-norm": 4, "dropout-sum-layer-norm": 4,
          "dropout-sum-rms-norm": 4, "layer-norm-backward-bias": 4, "rms-norm-backward-bias": 4,
          "bias-gradient": 1, "embedding": 2, "cross-entropy": 2, "cross-entropy-backward": 2}
# Of a parameter in 16 bits: reading its gradient; that, master and moments in and out, the weight
# out and the gradient zeroed, all but the weight in f32.
OPTIMIZER_BYTES = {"add-squares": 4, "adamw": 34}
PROFILE_SECONDS = 30.0
SHORT_PROFILE = 40  # of ptdp-profile --seconds
# Products of one head's attention by operation, each of 2 s^2 d FLOPs of which the causal mask
# leaves half: forward two; backward the scores again and four gradients.
ATTENTION_PRODUCTS = {"attention": 2, "attention-backward": 5,
                      "dropout-attention": 2, "dropout-attention-backward": 5}


def benchmark_rows(report):
    """[name, microseconds, TFLOP/s or GB/s or None, error of the prediction or None]."""
    return [[row["name"].removesuffix("/manual_time"), round(row["real_time"], 3),
             row.get("TFLOPs", row.get("GBps")), row.get("error")]
            for row in report["benchmarks"] if row.get("run_type", "iteration") == "iteration"]


def run_piece(check, expression):
    output = check.scratch / "gpu_benchmark.json"
    succeeded(run_program(check, [
        program(check, "gpu_benchmark"), f"--benchmark_filter={expression}",
        f"--benchmark_out={output}", "--benchmark_out_format=json"]))
    report = json.loads(output.read_text())
    for row in report["benchmarks"]:
        if row.get("error_occurred"):
            raise ValueError(f"{row['name']}: {row.get('error_message')}")
    return benchmark_rows(report)


def operations(check):
    if check.machine.rehearses:
        raise Skipped("a rehearsal has no GPU")
    for name, expression in PIECES.items():
        rows = check.remember(name, lambda expression=expression: run_piece(check, expression),
                              PIECE_SECONDS)
        rates = [row[2] for row in rows if row[2] is not None]
        errors = [abs(row[3]) for row in rows if row[3] is not None]
        check.values[name] = {
            "operations": len(rows), "best_rate": max(rates, default=None),
            "median_error": statistics.median(errors) if errors else None}


def bytes_of_element(operation, precision):
    """None for what is not bound by memory."""
    width = 2 if precision in ("bf16", "fp16") else 4
    if operation in OPTIMIZER_BYTES:
        return OPTIMIZER_BYTES[operation] if width == 2 else None
    return PASSES[operation] * width if operation in PASSES else None


def operation_rates(cluster, precision):
    """GB/s of the largest case of each measured operation, by name; None where that is small."""
    rates = {}
    for table in cluster["gpu"].get("measured_operations", []):
        size = bytes_of_element(table["operation"], precision)
        if size is None or table["precision"] != precision:
            continue
        elements, time_us = max(zip(map(math.prod, zip(table["rows"], table["width"])),
                                    table["time_us"]))
        is_large = size * elements >= LEAST_BYTES
        rates[table["operation"]] = size * elements / time_us / 1e3 if is_large else None
    return rates


def operation_tflops(cluster, precision):
    """Of the fastest case of each kind of product and attention, by name."""
    rates = {}
    for table in cluster["gpu"].get("measured_operations", []):
        name = table["operation"]
        if table["precision"] != precision:
            continue
        if name.endswith("-product"):
            flops = [2 * m * n * k for m, n, k in zip(table["m"], table["n"], table["k"])]
        elif name in ATTENTION_PRODUCTS:
            flops = [ATTENTION_PRODUCTS[name] * heads * length**2 * size for heads, length, size in
                     zip(table["heads"], table["seq_length"], table["head_size"])]
        else:
            continue
        rates[name] = max(count / time_us for count, time_us in
                          zip(flops, table["time_us"])) / 1e6
    return rates


def measure_profile(check):
    cluster = check.scratch / "cluster.json"
    flags = ["--device", "cuda"] if check.machine.on_gpu else ["--seconds", 2, "--ranks", 2]
    if check.machine.emulates:
        flags += ["--seconds", 1, "--types", "bf16"]
    elif check.machine.on_gpu and not check.machine.is_full:
        flags += ["--seconds", SHORT_PROFILE]
    done = succeeded(run_program(check, [program(check, "ptdp-profile"), "-o", cluster, *flags]))
    shutil.copy(cluster, check.machine.measured_cluster())
    if check.machine.runs().exists():
        shutil.rmtree(check.machine.runs())
        check.tell("reports in runs/", "removed: predicted from the profile before")
    return {"summary": done.stdout}


def profile(check):
    """Leaves DIRECTORY/cluster.json, with which the later sections plan."""
    if not check.machine.measured_cluster().exists():
        check.parts.pop("profile", None)
    is_short = check.machine.on_gpu and not check.machine.is_full
    summary = check.remember("profile", lambda: measure_profile(check),
                             SHORT_PROFILE / SHORT_SHARE if is_short else PROFILE_SECONDS)
    check.values["summary"] = summary["summary"]
    check.skip("spread of cuBLASLt's candidates", "no program tells the times of those that lost")
    cluster = json.loads(check.machine.measured_cluster().read_text())
    precision = "bf16" if check.machine.on_gpu else "fp32"
    rates = operation_rates(cluster, precision)
    copy = rates.pop("copy", None)
    check.values["GBps"], check.values["copy_GBps"] = rates, copy
    check.values["TFLOPs"] = operation_tflops(cluster, precision)
    for name, rate in sorted(check.values["TFLOPs"].items()):
        check.tell(f"{name}, the fastest", f"{rate:.4g} TFLOP/s")
    for name in sorted(rates) if copy else []:
        if rates[name] is None:
            check.skip(f"{name}, of a copy's rate", f"no case of {LEAST_BYTES >> 20} MiB")
            continue
        check.goal(f"{name}, of a copy's rate", f">= {100 * COPY_SHARE:.0f} %",
                   f"{100 * rates[name] / copy:.0f} %", rates[name] >= COPY_SHARE * copy)
