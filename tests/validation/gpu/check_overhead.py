"""Section `overhead`: how long the GPU idles between the actions of a step."""

import json

from commands import make_plan, one_gpu, train
from check import Failed
from check_speed import slug, stacks
from check import read_json
from shapes import model_of

GOAL = 0.01
STEPS, WARM_UP = 8, 2
RUN_SECONDS = 45.0
LAYERS = 8  # where section `speed` has not said how many fit


def idle_share(events):
    """Of the time from the first action's start to the last one's end on one device, that in which
    no action ran: ui.perfetto.dev's events of ptdp-run --trace."""
    spans = sorted((event["ts"], event["ts"] + event["dur"]) for event in events
                   if event.get("ph") == "X" and event.get("pid") == 0)
    if not spans:
        raise ValueError("the trace has no actions")
    busy, end = 0.0, spans[0][0]
    for start, stop in spans:
        busy += max(stop - max(start, end), 0.0)
        end = max(end, stop)
    return 1.0 - busy / (end - spans[0][0])


def trace_run(check, name, stack, layers, microbatch):
    plan = make_plan(check, slug(name), model_of(stack, layers), one_gpu(microbatch))
    if plan is None:
        raise Failed(f"{name}: {layers} layers do not fit")
    trace = check.scratch / f"{slug(name)}.trace.json"
    report = train(check, plan, slug(name), [
        *check.machine.device_flags(), "--steps", STEPS, "--warm-up", WARM_UP, "--trace", trace])
    share = idle_share(json.loads(trace.read_text())["traceEvents"])
    trace.unlink()
    return {"idle": share, "seconds": report["measured"]["iteration_time_s"]}


def overhead(check):
    speed = read_json(check.machine.directory / "speed.json").get("values", {})
    for name, stack in stacks(check.machine).items():
        fitted = speed.get(name, {})
        layers = fitted.get("layers", 1 if check.machine.rehearses else LAYERS)
        microbatch = fitted.get("micro_batch_size", 1)
        found = check.remember(
            name, lambda name=name, stack=stack, layers=layers, microbatch=microbatch:
                trace_run(check, name, stack, layers, microbatch), RUN_SECONDS)
        check.values[name] = found | {"layers": layers}
        check.goal(f"GPU idle between actions, {name}", f"< {100 * GOAL:.0f} %",
                   f"{100 * found['idle']:.2f} %", found["idle"] < GOAL)
