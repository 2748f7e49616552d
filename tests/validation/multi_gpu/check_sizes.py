"""Section `sizes`: what tensors of odd sizes cost a data-parallel step, and how a pipeline's step
depends on the blocks that NCCL may take."""

from check import Failed, Skipped
from commands import make_plan
from ranks import train

# Hidden size, heads: buckets of the second divide by few powers of two.
EVEN, ODD = (4096, 32), (4104, 27)
TINY_EVEN, TINY_ODD = (64, 4), (68, 4)
LAYERS, LENGTH, VOCABULARY, BATCH = 8, 2048, 50304, 8
TINY_LAYERS, TINY_LENGTH, TINY_VOCABULARY, TINY_BATCH = 2, 32, 256, 4
STEPS, WARM_UP = 8, 3
TINY_STEPS, TINY_WARM_UP = 4, 1
BLOCKS = ("4", None)  # of NCCL_MAX_CTAS; None leaves the choice to NCCL and ptdp-run
RUN_SECONDS = 60.0
NO_SLOWER = 0.9  # goal: rate of odd sizes over that of even ones


def plan_of(check, name, widths, degrees, flags):
    hidden, heads = widths
    tp, pp, dp = degrees
    layers, length, vocabulary, batch = (
        (TINY_LAYERS, TINY_LENGTH, TINY_VOCABULARY, TINY_BATCH) if check.machine.on_host else
        (LAYERS, LENGTH, VOCABULARY, BATCH))
    plan = make_plan(check, name, {
        "layers": layers, "hidden": hidden, "heads": heads, "length": length,
        "vocabulary": vocabulary, "batch": batch, "positions": "none"}, [
            "--gpus", tp * pp * dp, "--tp", tp, "--pp", pp, "--dp", dp, "--micro-batch-size", 1,
            "--recompute", "none", *flags])
    if plan is None:
        raise Failed(f"{name}: nothing fits")
    return plan


def step_flags(check):
    """Of ptdp-run."""
    steps, warm_up = (TINY_STEPS, TINY_WARM_UP) if check.machine.on_host else (STEPS, WARM_UP)
    return ["--steps", steps, "--warm-up", warm_up]


def run_data_parallel(check, name, widths):
    """Bytes that a step sends between replicas, and seconds that it takes with nothing beside."""
    plan = plan_of(check, name, widths, (1, 1, 2), ["--zero-stage", 1])
    report = train(check, plan, name, 2, [*step_flags(check), "--overlap", "none"])
    sent = sum(row["measured_bytes"] for row in report["traffic"] if row["group"] == "data")
    term = next(row for row in report["terms"] if row["term"] == "data_parallel")
    return {"bytes": sent, "seconds": term["measured_s"],
            "step_s": report["measured"]["iteration_time_s"]}


def odd_sizes(check):
    is_tiny = check.machine.on_host
    rates = {}
    for name, widths in (("even", TINY_EVEN if is_tiny else EVEN),
                         ("odd", TINY_ODD if is_tiny else ODD)):
        result = check.remember(f"dp 2, {name}", lambda name=name, widths=widths:
                                run_data_parallel(check, f"dp-{name}", widths), RUN_SECONDS)
        check.values[name] = result | {"hidden": widths[0]}
        rates[name] = result["bytes"] / result["seconds"]
    ratio = rates["odd"] / rates["even"]
    what = (f"dp 2: rate of reductions and gathers at odd places, hidden "
            f"{check.values['odd']['hidden']} beside {check.values['even']['hidden']}")
    value = f"{100 * ratio:.0f} % of {rates['even'] / 1e9:.3g} GB/s"
    if is_tiny:
        check.tell(what, value)
    else:
        check.goal(what, f">= {100 * NO_SLOWER:.0f} %", value, ratio >= NO_SLOWER)


def run_pipeline(check, name, blocks):
    plan = plan_of(check, name, TINY_EVEN if check.machine.on_host else EVEN, (1, 2, 1),
                   ["--schedule", "1f1b"])
    variables = {"NCCL_MAX_CTAS": blocks} if blocks else {}
    report = train(check, plan, name, 2, [*step_flags(check), "--overlap", "messages"],
                   variables=variables)
    return report["measured"]["iteration_time_s"]


def blocks_of_messages(check):
    times = {blocks: check.remember(
        f"pp 2, blocks {blocks}", lambda blocks=blocks: run_pipeline(
            check, f"pp-blocks-{blocks}", blocks), RUN_SECONDS) for blocks in BLOCKS}
    check.values["step_s by NCCL_MAX_CTAS"] = {str(blocks): time for blocks, time in times.items()}
    few, usual = times[BLOCKS[0]], times[None]
    check.tell(f"pp 2: time of a step with NCCL_MAX_CTAS {BLOCKS[0]} beside the default",
               f"{100 * (few / usual - 1):+.1f} % of {1e3 * usual:.4g} ms")


def sizes(check):
    if 2 not in check.machine.sizes():
        raise Skipped("two ranks cannot be spread over these nodes")
    if not check.machine.on_gpu:
        raise Skipped("about NCCL, which joins GPUs")
    odd_sizes(check)
    blocks_of_messages(check)
