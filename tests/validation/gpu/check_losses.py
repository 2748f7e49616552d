"""Section `losses`: a GPU trains as the host does, twice the same, and alike in every layout."""

import hashlib
import math
import shutil

from check import Failed
from commands import make_plan, train

STEPS = 20
EMULATED_STEPS = 4  # each takes seconds of several ranks
SHAPE = {"layers": 4, "hidden": 256, "heads": 4, "length": 128, "vocabulary": 1024, "batch": 8}
TINY_SHAPE = {"layers": 4, "hidden": 32, "heads": 4, "length": 16, "vocabulary": 64, "batch": 4}
F32, SIXTEEN_BITS = 1e-5, 1e-2
RUN_SECONDS = 20.0

# name: tp, pp, dp, and further flags of ptdp-plan.
LAYOUTS = {
    "tp=2": (2, 1, 1, []),
    "tp=4, sequence parallel": (4, 1, 1, ["--sequence-parallel", "on"]),
    "pp=2": (1, 2, 1, ["--schedule", "1f1b"]),
    "pp=4, gpipe": (1, 4, 1, ["--schedule", "gpipe"]),
    "pp=2, interleaved": (1, 2, 1, ["--schedule", "interleaved", "--vpp", 2]),
    "pp=2, zb-h1": (1, 2, 1, ["--schedule", "zb-h1"]),
    "dp=2": (1, 1, 2, ["--zero-stage", 0]),
    "dp=4, ZeRO-1": (1, 1, 4, ["--zero-stage", 1]),
    "tp=2 pp=2 dp=2": (2, 2, 2, ["--schedule", "1f1b", "--zero-stage", 1]),
    "full recomputation": (1, 1, 1, ["--recompute", "full"]),
}


# Of a short check: each kind of parallelism once.
SHORT_LAYOUTS = ("tp=2", "pp=2, zb-h1", "dp=4, ZeRO-1", "full recomputation")


def layouts_of(machine):
    return {name: layout for name, layout in LAYOUTS.items()
            if machine.is_full or name in SHORT_LAYOUTS}


def steps_of(machine):
    return EMULATED_STEPS if machine.emulates else STEPS


def shape_of(machine):
    return TINY_SHAPE if machine.rehearses else SHAPE


def layout_flags(tp, pp, dp, flags):
    """Of ptdp-plan; recomputation is none unless `flags` name it."""
    recompute = [] if "--recompute" in flags else ["--recompute", "none"]
    return ["--gpus", tp * pp * dp, "--tp", tp, "--pp", pp, "--dp", dp, "--micro-batch-size", 1,
            *recompute, *flags]


def losses_of(check, name, layout, flags):
    # The shipped host: its stack runs every layout, and nothing here is timed.
    plan = make_plan(check, name, shape_of(check.machine), layout_flags(*layout),
                     cluster=["--cluster", "host"])
    if plan is None:
        raise Failed(f"{name}: nothing fits")
    report = train(check, plan, name, ["--steps", steps_of(check.machine), "--warm-up", 1, *flags])
    return {"losses": report["losses"], "norms": report["gradient_norms"]}


def largest_difference(found, expected):
    """Relative to `expected`; infinite where one is no number or they are not as many."""
    if len(found) != len(expected) or not found:
        return math.inf
    differences = [abs(a - b) / abs(b) for a, b in zip(found, expected)]
    return math.inf if any(math.isnan(value) for value in differences) else max(differences)


def one_rank(check, name, flags):
    return check.remember(name, lambda: losses_of(check, name.replace(" ", "-"), (1, 1, 1, []),
                                                  flags), RUN_SECONDS)


def digest_of(directory):
    """Of all that a checkpoint's ranks hold."""
    whole = hashlib.sha256()
    files = sorted(directory.glob("step-*/rank-*.bin"))
    if not files:
        raise Failed(f"{directory} has no checkpoint")
    for path in files:
        whole.update(path.read_bytes())
    return whole.hexdigest()


def run_twice(check):
    """Whether two runs leave the same bits: losses, norms, weights and the optimizer's state."""
    results = []
    for turn in ("first", "second"):
        directory = check.scratch / f"checkpoint-{turn}"
        shutil.rmtree(directory, ignore_errors=True)
        result = losses_of(check, f"bits-{turn}", (1, 1, 1, []), [
            *check.machine.device_flags(), "--dtype", "bf16", "--reproducible",
            "--save", directory])
        results.append(result | {"digest": digest_of(directory)})
        shutil.rmtree(directory)
    return results


def against_host(check):
    """[what, tolerance, largest difference]"""
    device = check.machine.device_flags()
    rows = []
    for dropout in (0, 0.1):
        flags = ["--dtype", "f32", "--dropout", dropout]
        host = one_rank(check, f"host f32 dropout {dropout}", flags)
        found = one_rank(check, f"gpu f32 dropout {dropout}", [*flags, *device])
        rows.append((f"f32, dropout {dropout}, against the host", F32,
                     largest_difference(found["losses"], host["losses"])))
    host = check.parts["host f32 dropout 0"]
    for dtype in ("bf16", "fp16"):
        found = one_rank(check, f"gpu {dtype} dropout 0",
                         ["--dtype", dtype, "--dropout", 0, *device])
        rows.append((f"{dtype} against the host in f32", SIXTEEN_BITS,
                     largest_difference(found["losses"], host["losses"])))
    return rows


def losses(check):
    rows = against_host(check)
    device = check.machine.device_flags()
    alone = check.parts["gpu f32 dropout 0.1"]
    for name, layout in layouts_of(check.machine).items():
        found = check.remember(
            name, lambda name=name, layout=layout: losses_of(
                check, "layout-" + "".join(filter(str.isalnum, name)), layout,
                ["--dtype", "f32", "--dropout", 0.1, *device]), RUN_SECONDS)
        rows.append((f"f32, {name} against one rank", F32,
                     largest_difference(found["losses"], alone["losses"])))
    for what, tolerance, difference in rows:
        check.goal(f"{steps_of(check.machine)} losses: {what}", f"<= {tolerance:.0e}",
                   f"{difference:.1e}", difference <= tolerance)
    first, second = check.remember("twice", lambda: run_twice(check), 2 * RUN_SECONDS)
    check.goal("bf16 --reproducible, twice", "equal bits",
               "equal" if first == second else "different", first == second)
