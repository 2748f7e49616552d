"""Section `memory`: what a run uses of the GPU beside its plan. A full check also sees that a run
that was predicted to fit and does not ends with what was predicted beside what was there."""

import json
import re
import signal
import subprocess
import threading
import time

from check import Failed
from check_speed import most_layers
from commands import end_group, make_plan, note, one_gpu, program, run_plan, train
from machine import find_smi, output_of, smi_selection
from shapes import TINY_STACKS, STACKS, model_of

CATEGORIES = ("weights", "gradients", "optimizer", "activations")
KEPT = CATEGORIES[:3]  # what a run keeps between steps; the rest comes and goes
SHARE = 0.6  # of the GPU's memory, for each of two runs
# With so many sequences about half of it is activations: the second run ends in its first step.
MICROBATCH = 8
MOSTLY = 0.9  # of what is predicted: then the first run is in its step
LAYERS, STEPS = 4, 8  # of the run whose use is watched
START_SECONDS = 120.0
RUN_SECONDS = 200.0
ENDS_WITHIN = 30.0  # seconds after memory ended


def used_mebibytes(machine):
    row = output_of([find_smi(machine.environment), *smi_selection(machine.environment),
                     "--query-gpu=memory.used", "--format=csv,noheader,nounits"])
    return float(row or 0)


def peak_mebibytes(plan):
    return 1024 * json.loads(plan.read_text())["memory"]["peak_GiB"]


def named_in(text):
    return [category for category in CATEGORIES if re.search(rf"\b{category} [\d.]+", text)]


def judged(status, messages, seconds):
    """What ptdp-run says: "... had allocated 2 GB at most: weights 1 GB, ...; predicted 3 GB:
    weights 1 GB, ..."."""
    actual, _, predicted = messages.partition("predicted")
    return {"status": status, "actual": named_in(actual), "predicted": named_in(predicted),
            "seconds": seconds, "out_of_memory": "out of memory" in messages,
            "messages": messages[-2000:]}


class MemoryWatch:
    """The most that nvidia-smi shows in use meanwhile [MiB], asked every so often by a thread."""

    INTERVAL = 0.2  # seconds

    def __init__(self, machine):
        self.machine = machine
        self.most = used_mebibytes(machine)
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._watch)

    def _watch(self):
        while not self.ended.wait(self.INTERVAL):
            self.most = max(self.most, used_mebibytes(self.machine))

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()


def use(check):
    """[MiB]: in use before and at most, the plan's peak, what of it is reserved for the context,
    libraries and the allocator, and the peak that the run's allocator saw."""
    plan = make_plan(check, "use", model_of(STACKS["hidden 4096"], LAYERS), one_gpu(2))
    if plan is None:
        raise Failed(f"{LAYERS} layers do not fit")
    before = used_mebibytes(check.machine)
    with MemoryWatch(check.machine) as watch:
        report = train(check, plan, "use", ["--steps", STEPS, "--warm-up", 2,
                                            *check.machine.device_flags()])
    memory = json.loads(plan.read_text())["memory"]
    return {"before": before, "most": watch.most, "peak": peak_mebibytes(plan),
            "reserve": 1024 * memory["stages"][memory["heaviest_stage"]]["reserve_GiB"],
            "allocated": report["memory"][0]["measured_bytes"] / 2**20}


def judge_use(check, found):
    check.values["use"] = found
    used = found["most"] - found["before"]
    check.goal(f"memory in use, {LAYERS} layers: within the plan's peak with its reserve",
               f"<= {found['peak']:.0f} MiB", f"{used:.0f} MiB", 0 < used <= found["peak"])
    check.tell("of it what is not this program's allocations, beside the reserve for it",
               f"{used - found['allocated']:.0f} of {found['reserve']:.0f} MiB")


def rehearse(check):
    """An allocation that fails on purpose."""
    plan = make_plan(check, "plan", model_of(TINY_STACKS["hidden 64"], 1), one_gpu(1))
    start = time.monotonic()
    done, _ = run_plan(check, plan, "run", ["--inject", "rank=0,action=0F0,step=1,what=alloc",
                                            *check.machine.device_flags()])
    return judged(done.returncode, done.stderr, time.monotonic() - start)


def wait_until_full(check, process, mebibytes):
    """Until the first run holds its memory."""
    end = time.monotonic() + min(START_SECONDS, check.time_left())
    while used_mebibytes(check.machine) < mebibytes:
        if process.poll() is not None:
            raise Failed(f"the run that fills the memory ended with {process.returncode}")
        if time.monotonic() > end:
            raise Failed(f"the GPU never held {mebibytes:.0f} MiB")
        time.sleep(1.0)


def exhaust(check):
    """Two runs that each fit alone share the GPU: the second one runs out of memory."""
    stack = STACKS["hidden 4096"]
    headroom = ["--memory-headroom", f"{1 - SHARE:.2f}"]

    def plan_of(layers):
        return make_plan(check, "plan", model_of(stack, layers), [*one_gpu(MICROBATCH), *headroom])

    layers = most_layers(lambda number: plan_of(number) is not None, 96)
    plan = plan_of(layers)
    if plan is None:
        raise Failed("not even one layer fits")
    device = check.machine.device_flags()
    command = [str(word) for word in [program(check, "ptdp-run"), plan, "--quiet", "--steps", 1000,
                                      *device]]
    note(check, f"$ {' '.join(command)} &")
    with subprocess.Popen(command, env=check.machine.program_environment(),
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                          start_new_session=True) as first:
        try:
            wait_until_full(check, first, MOSTLY * peak_mebibytes(plan))
            start = time.monotonic()
            done, _ = run_plan(check, plan, "run", ["--steps", 3, *device])
            return judged(done.returncode, done.stderr, time.monotonic() - start)
        finally:
            end_group(first, signal.SIGKILL)


def memory(check):
    if check.machine.rehearses:
        check.skip("memory in use", "nvidia-smi shows none of a host or an emulation")
    else:
        judge_use(check, check.remember("use", lambda: use(check), 60.0))
    if check.machine.rehearses or check.machine.is_full:
        end_of_memory(check)


def end_of_memory(check):
    result = check.remember(
        "exhausted", lambda: rehearse(check) if check.machine.rehearses else exhaust(check),
        RUN_SECONDS)
    check.values.update(result)
    check.goal("out of memory although predicted to fit: status", "4", str(result["status"]),
               result["status"] == 4 and result["out_of_memory"])
    check.goal("tells what was predicted, by category", ", ".join(CATEGORIES),
               ", ".join(result["predicted"]) or "none", result["predicted"] == list(CATEGORIES))
    check.goal("tells what was allocated, by category", ", ".join(KEPT),
               ", ".join(result["actual"]) or "none", set(KEPT) <= set(result["actual"]))
    check.goal("out of memory: ends within", f"{ENDS_WITHIN:.0f} s",
               f"{result['seconds']:.0f} s", result["seconds"] <= ENDS_WITHIN)
