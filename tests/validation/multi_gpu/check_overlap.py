"""Section `overlap`: what it gains to run messages, reductions, gathers and tensor-parallel
collectives beside compute, beside what the plan predicts of it."""

import json
import statistics

from check import Failed, Skipped
from commands import make_plan
from ranks import train

SHAPE = {"layers": 16, "hidden": 4096, "heads": 32, "length": 2048, "vocabulary": 50304,
         "batch": 32}
TINY_SHAPE = {"layers": 4, "hidden": 64, "heads": 4, "length": 64, "vocabulary": 256, "batch": 8}
STEPS, WARM_UP = 12, 4
EMULATED_SHAPE = {**TINY_SHAPE, "length": 32, "layers": 2, "batch": 4}
TINY_STEPS, TINY_WARM_UP = 6, 2
TURNS = 3
RUN_SECONDS = 60.0
NOT_SLOWER = 0.01  # than without overlap: what two runs of the same differ by
NEAR = 0.05        # of the step's time: how far a gain may be from the predicted one

# name: tp, pp, dp as functions of the number of ranks, flags, and what is overlapped in turn.
CASES = {
    "data parallel": (lambda n: (1, 1, n), ["--zero-stage", 1],
                      ["none", "reductions", "reductions,gathers", "all"]),
    "pipeline": (lambda n: (1, n, 1), ["--schedule", "1f1b"], ["none", "messages"]),
    "tensor parallel": (lambda n: (n, 1, 1), ["--sequence-parallel", "on"], ["none", "tensor"]),
}


def cases_of(machine):
    """Those that these nodes can run: 2, 4 or 8 ranks, tensor parallelism within a node."""
    ranks = machine.most_of_eight()
    found = {}
    for name, (degrees, flags, overlaps) in CASES.items():
        tp, pp, dp = degrees(ranks)
        # Only over NCCL do tensor-parallel collectives run behind products.
        if tp > 1 and (machine.on_host or ranks // len(machine.nodes) % tp):
            continue
        found[name] = ((tp, pp, dp), flags, overlaps)
    return found


def plan_of(check, name, degrees, flags, overlap):
    tp, pp, dp = degrees
    shape = EMULATED_SHAPE if check.machine.emulates else \
        TINY_SHAPE if check.machine.on_host else SHAPE
    plan = make_plan(check, name, shape, [
        "--gpus", tp * pp * dp, "--tp", tp, "--pp", pp, "--dp", dp, "--micro-batch-size", 1,
        "--recompute", "none", "--overlap", overlap, *flags])
    if plan is None:
        raise Failed(f"{name}: nothing fits")
    return plan


def run_turn(check, name, degrees, flags, overlap):
    """Predicted and measured seconds of a step."""
    slug = "".join(c for c in f"{name}-{overlap}" if c.isalnum() or c == "-")
    plan = plan_of(check, slug, degrees, flags, overlap)
    tp, pp, dp = degrees
    steps, warm_up = (TINY_STEPS, TINY_WARM_UP) if check.machine.on_host else (STEPS, WARM_UP)
    report = train(check, plan, slug, tp * pp * dp, [
        "--steps", steps, "--warm-up", warm_up, "--dropout", 0, "--overlap", overlap])
    predicted = json.loads(plan.read_text())["predicted"]["iteration_time_s"]
    return [predicted, report["measured"]["iteration_time_s"]]


def gain(base, other):
    """How much less time than `base`, as a share of it."""
    return 1.0 - other / base


def judge(check, name, turns):
    """`turns`: by what is overlapped, [predicted, measured] of each turn."""
    def of(overlap, column):
        return statistics.median(turn[column] for turn in turns[overlap])

    for overlap in list(turns)[1:]:
        measured = gain(of("none", 1), of(overlap, 1))
        predicted = gain(of("none", 0), of(overlap, 0))
        what = f"{name}, overlap {overlap}"
        value = f"{100 * measured:.1f} %, predicted {100 * predicted:.1f} %"
        if check.machine.on_host:
            check.tell(f"{what}: gain", value)  # ranks share cores: nothing runs beside anything
            continue
        check.goal(f"{what}: gain", f">= -{100 * NOT_SLOWER:.0f} %", value,
                   measured >= -NOT_SLOWER)
        check.goal(f"{what}: gain beside the predicted", f"within {100 * NEAR:.0f} points",
                   f"{100 * (measured - predicted):+.1f} points", abs(measured - predicted) <= NEAR)


def overlap(check):
    if not check.machine.most_of_eight():
        raise Skipped("2, 4 or 8 ranks cannot be spread over these nodes")
    for name, (degrees, flags, overlaps) in cases_of(check.machine).items():
        turns = {overlap: [] for overlap in overlaps}
        # In turn, so that what drifts meanwhile falls on all of them.
        for turn in range(1 if check.machine.is_quick else TURNS):
            for chosen in overlaps:
                turns[chosen].append(check.remember(
                    f"{name}, overlap {chosen}, turn {turn + 1}",
                    lambda name=name, degrees=degrees, flags=flags, chosen=chosen: run_turn(
                        check, name, degrees, flags, chosen), RUN_SECONDS))
        check.values[name] = {"degrees": list(degrees), "predicted_and_measured_s": turns}
        judge(check, name, turns)
