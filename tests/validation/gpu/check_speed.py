"""Section `speed`: model FLOPs utilization of the two stacks, with as many layers as fit."""

import json

from check import Failed
from commands import keep_run, make_plan, one_gpu, run_plan, succeeded
from shapes import (MICROBATCHES, MOST_LAYERS, MOST_TINY_LAYERS, SHORT_LAYERS, STACKS, TINY_STACKS,
                    model_of, step_flops)

HEADROOM = "3%"
STEPS, WARM_UP = 8, 2
SHORT_STEPS = 5
RUN_SECONDS = 60.0
TRIES = 4
MOST_ERROR = 0.05  # of a prediction


def stacks(machine):
    return TINY_STACKS if machine.rehearses else STACKS


def slug(name):
    return name.replace(" ", "-")


def most_layers(fits, most):
    """The largest number for which `fits` is true, if smaller ones fit too; 0 for none."""
    low, high = 0, most + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def plan_stack(check, name, stack, layers, microbatch):
    """The plan, or None where it does not fit."""
    return make_plan(check, slug(name), model_of(stack, layers),
                     [*one_gpu(microbatch), "--memory-headroom", HEADROOM])


def predicted_mfu(plan):
    return json.loads(plan.read_text())["predicted"]["mfu"]


def choose_layers(check, name, stack):
    """[layers, sequences of a microbatch]: of those with the most layers that fit, the fastest as
    predicted."""
    most = MOST_TINY_LAYERS if check.machine.rehearses else \
        MOST_LAYERS if check.machine.is_full else SHORT_LAYERS[name]
    choices = []
    for microbatch in MICROBATCHES:
        def fits(layers, microbatch=microbatch):
            return plan_stack(check, name, stack, layers, microbatch) is not None
        layers = most_layers(fits, most)
        if layers > 0:
            mfu = predicted_mfu(plan_stack(check, name, stack, layers, microbatch))
            choices.append((mfu, layers, microbatch))
    if not choices:
        raise Failed(f"{name}: not even one layer fits")
    _, layers, microbatch = max(choices)
    return [layers, microbatch]


def run_stack(check, name, stack, layers, microbatch, flags=()):
    """A run's times, or None where memory ended."""
    plan = plan_stack(check, name, stack, layers, microbatch)
    if plan is None:
        raise Failed(f"{name}: {layers} layers do not fit")
    done, report = run_plan(check, plan, slug(name),
                            [*check.machine.device_flags(), "--steps",
                             STEPS if check.machine.is_full else SHORT_STEPS,
                             "--warm-up", WARM_UP, *flags])
    if done.returncode == 4 and "out of memory" in done.stderr:
        return None
    succeeded(done)
    keep_run(check, slug(name))
    return measured(check.machine, model_of(stack, layers), microbatch, report)


def measured(machine, shape, microbatch, report):
    seconds = report["measured"]["iteration_time_s"]
    peak = machine.peak_flops()
    return {"layers": shape["layers"], "micro_batch_size": microbatch,
            "tokens": shape["batch"] * shape["length"], "seconds": seconds,
            "fastest_s": report["measured"]["fastest_s"],
            "slowest_s": report["measured"]["slowest_s"],
            "predicted_s": report["predicted"]["iteration_time_s"],
            "mfu_causal": step_flops(shape, causal=True) / seconds / peak,
            "mfu_full": step_flops(shape, causal=False) / seconds / peak,
            "peak_bytes": report["memory"][0]["measured_bytes"],
            "predicted_bytes": report["memory"][0]["predicted_bytes"],
            "losses": [report["losses"][0], report["losses"][-1]]}


def fit_and_run(check, name, stack):
    """A layer less where memory ended although it was predicted to fit."""
    layers, microbatch = choose_layers(check, name, stack)
    for fewer in range(TRIES):
        result = run_stack(check, name, stack, layers - fewer, microbatch)
        if result is not None:
            return result | {"layers_that_did_not_fit": fewer}
        if layers - fewer == 1:
            break
    raise Failed(f"{name}: out of memory with {layers} layers and with fewer")


def hold_prediction(check, name, found):
    """A host's prediction is told alone: in a rehearsal no profile is that of the machine."""
    error = found["predicted_s"] / found["seconds"] - 1
    value = (f"{100 * error:+.1f} % ({1e3 * found['predicted_s']:.0f} for "
             f"{1e3 * found['seconds']:.0f} ms)")
    if check.machine.rehearses:
        check.tell(f"prediction of a step, {name}", value)
    else:
        check.goal(f"prediction of a step, {name}", f"within {100 * MOST_ERROR:.0f} %", value,
                   abs(error) <= MOST_ERROR)


def speed(check):
    for name, stack in stacks(check.machine).items():
        found = check.remember(
            name, lambda name=name, stack=stack: fit_and_run(check, name, stack), RUN_SECONDS)
        check.values[name] = found
        hold_prediction(check, name, found)
        mfu = found["mfu_causal"]
        check.goal(f"MFU, {name}, {found['layers']} layers, causal count",
                   f">= {100 * stack['goal']:.0f} % (stretch {100 * stack['stretch']:.0f})",
                   f"{100 * mfu:.1f} % (full count {100 * found['mfu_full']:.1f})",
                   mfu >= stack["goal"])
