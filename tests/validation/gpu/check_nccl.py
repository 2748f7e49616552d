"""Section `nccl`: a world of one over NCCL: every collective, and runs that take all of NCCL's way
beside the same without it."""

import csv
import io
import statistics

from check import Failed
from check_losses import shape_of, steps_of
from commands import make_plan, one_gpu, run_program, succeeded, train
from shapes import STACKS, TINY_STACKS, model_of

PROGRAM = "nccl_benchmark"
SIZES = (8, 4096, 1 << 20, 64 << 20)
KINDS = ("all-reduce", "reduce-scatter", "all-gather")
LAYERS, TINY_LAYERS = 4, 1
SLOWER = 0.02  # a group of one has nothing to send
TURNS, TIMED_STEPS, WARM_UP = 3, 8, 2
RUN_SECONDS = 30.0


def nccl_flags(machine):
    return ["--transport", "nccl"] if machine.on_gpu else []


def run_collectives(check):
    """[kind, bytes, us, NCCL's estimate in us] of each; the program compares what they leave with
    what they ought to."""
    program = check.machine.find_program(PROGRAM)
    if program is None:
        raise Failed(f"{PROGRAM} is not built: cmake --preset gpu && cmake --build --preset gpu")
    device = ["--device", "cuda"] if check.machine.on_gpu else []
    sizes = SIZES[:-1] if check.machine.emulates else SIZES  # the last is of memory
    done = succeeded(run_program(check, [program, "--ranks", 1, "--bytes",
                                         ",".join(map(str, sizes)), *device]))
    return [[row["kind"], int(row["bytes"]), float(row["measured_us"]),
             float(row["nccl_us"]) if row["nccl_us"] else None]
            for row in csv.DictReader(io.StringIO(done.stdout))]


def collectives(check):
    if check.machine.rehearses and check.machine.find_program(PROGRAM) is None:
        check.skip("collectives of a world of one", f"{PROGRAM} is not built")
        return
    rows = check.remember("collectives", lambda: run_collectives(check), RUN_SECONDS)
    check.values["kind, bytes, us, estimated us"] = rows
    wanted = len(SIZES) - check.machine.emulates
    right = [kind for kind in KINDS if sum(row[0] == kind for row in rows) == wanted]
    check.goal("collectives of a world of one that are right", ", ".join(KINDS),
               ", ".join(right) or "none", right == list(KINDS))


def run_of(check, name, shape, microbatch, steps, flags):
    plan = make_plan(check, name, shape, one_gpu(microbatch))
    if plan is None:
        raise Failed(f"{name}: does not fit")
    report = train(check, plan, name, [*check.machine.device_flags(), "--steps", steps,
                                       "--warm-up", WARM_UP, *flags])
    return {"losses": report["losses"], "norms": report["gradient_norms"],
            "seconds": report["measured"]["iteration_time_s"],
            "transport": report["execution"]["transport"]}


def same_losses(check):
    is_short = check.machine.rehearses or not check.machine.is_full
    for dtype in ("f32",) if is_short else ("f32", "bf16"):
        runs = [check.remember(
            f"{name} {dtype}",
            lambda name=name, flags=flags, dtype=dtype: run_of(
                check, f"{name}-{dtype}", shape_of(check.machine), 1, steps_of(check.machine),
                ["--dtype", dtype, "--overlap", "all", "--reproducible", *flags]), RUN_SECONDS)
            for name, flags in (("without", []), ("with", nccl_flags(check.machine)))]
        over = "nccl" if check.machine.on_gpu else "threads"
        if runs[1]["transport"] != over:
            raise Failed(f"tensors travelled over {runs[1]['transport']}, expected {over}")
        same = all(runs[0][key] == runs[1][key] for key in ("losses", "norms"))
        check.goal(f"{steps_of(check.machine)} losses and norms, {dtype}, one rank over NCCL and "
                   "without", "equal bits", "equal" if same else "different", same)


def same_speed(check):
    stacks = TINY_STACKS if check.machine.rehearses else STACKS
    name, stack = next(iter(stacks.items()))
    shape = model_of(stack, TINY_LAYERS if check.machine.rehearses else LAYERS)
    seconds = {"without": [], "with": []}
    for turn in range(TURNS):
        for how, flags in (("without", []), ("with", nccl_flags(check.machine))):
            seconds[how].append(check.remember(
                f"{how} timed {turn + 1}",
                lambda how=how, flags=flags: run_of(check, f"timed-{how}", shape, 1, TIMED_STEPS,
                                                    ["--dropout", 0, *flags]),
                RUN_SECONDS)["seconds"])
    ratio = statistics.median(seconds["with"]) / statistics.median(seconds["without"]) - 1
    value = f"{100 * ratio:+.1f} %"
    if check.machine.rehearses:
        check.tell(f"time of a step, {name}, twice without NCCL", value)
    else:
        check.goal(f"time of a step, {name}, one rank over NCCL", f"<= +{100 * SLOWER:.0f} %",
                   value, ratio <= SLOWER)


def nccl(check):
    collectives(check)
    same_losses(check)
    if check.machine.is_full:
        same_speed(check)
