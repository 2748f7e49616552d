"""Section `prediction`: profile this machine, plan for it, run the plans, and hold the prediction
against what is measured."""

import os
import statistics

from check import Failed, Skipped
from commands import make_plan, program, run_program, succeeded
from ranks import train

# hidden, layers, sequence, sequences of a microbatch, microbatches per replica.
SHAPES = [(2048, 16, 2048, 2, 8), (4096, 16, 4096, 1, 8)]
TINY_SHAPES = [(128, 4, 64, 2, 4)]
EMULATED_SHAPES = [(64, 2, 32, 1, 2)]
STEPS, WARM_UP = 12, 4
EMULATED_STEPS, EMULATED_WARM_UP = 4, 1
TIME_MEAN, TIME_WORST, MEMORY_WORST = 0.05, 0.10, 0.03
PROFILE_SECONDS = 250.0
RUN_SECONDS = 60.0


def profile(check):
    """The cluster of this machine. One GPU is measured; what joins several is the catalog's."""
    machine = check.machine
    target = machine.measured_cluster()
    part = target.with_name(target.name + ".part")
    words = [program(check, "ptdp-profile"), "-o", part, "--quiet"]
    if machine.emulates:
        words += ["--device", "cuda", "--seconds", 1, "--types", "bf16"]
    elif machine.on_host:
        words += ["--ranks", max(2, 2 ** (machine.num_ranks().bit_length() - 1)), "--types", "f32",
                  "--seconds", 2 if machine.is_quick else 15]
    else:
        words += ["--device", "cuda"]
    done = succeeded(run_program(check, words))
    os.replace(part, target)
    return done.stdout[-4000:]


def degrees_of(machine):
    """tp, pp, dp of 2, 4 or 8 ranks, tensor parallelism within a node."""
    ranks = machine.most_of_eight()
    per_node = ranks // len(machine.nodes)
    rows = [(1, ranks, 1), (1, 1, ranks)]
    if per_node % 2 == 0:
        rows.append((2, 1, ranks // 2))
    if ranks >= 4 and ranks % 4 == 0 and per_node % 2 == 0:
        rows += [(2, 2, ranks // 4), (1, 2, ranks // 2)]
    return rows[:1] + rows[-1:] if machine.is_quick else rows


def run_configuration(check, name, shape, degrees):
    hidden, layers, length, microbatch, microbatches = shape
    tp, pp, dp = degrees
    model = {"layers": layers, "hidden": hidden, "heads": max(hidden // 128, 4), "length": length,
             "vocabulary": 50304 if hidden >= 1024 else 256, "positions": "none",
             "batch": microbatch * microbatches * dp}
    plan = make_plan(check, name, model, [
        "--gpus", tp * pp * dp, "--tp", tp, "--pp", pp, "--dp", dp, "--micro-batch-size",
        microbatch, "--recompute", "none", "--schedule", "1f1b"])
    if plan is None:
        return {"fits": False}
    steps, warm_up = (EMULATED_STEPS, EMULATED_WARM_UP) if check.machine.emulates else \
        (STEPS, WARM_UP)
    report = train(check, plan, name, tp * pp * dp, ["--steps", steps, "--warm-up", warm_up,
                                                     "--nccl-estimates"])
    if not report["predicted"]["iteration_time_s"]:
        raise Failed(f"{name}: {report['execution']['basis']}")
    memory = report["memory"]
    return {"fits": True, "predicted_s": report["predicted"]["iteration_time_s"],
            "measured_s": report["measured"]["iteration_time_s"],
            "predicted_bytes": [row["predicted_bytes"] for row in memory],
            "measured_bytes": [row["measured_bytes"] for row in memory],
            "terms": {term["term"]: [term.get("predicted_s"), term["measured_s"]]
                      for term in report["terms"]},
            # Of each collective: what we predict, what NCCL expects, what it took.
            "calls": [[call["group"], call["collective"], call["size_bytes"], call["predicted_s"],
                       call["estimated_s"], call["measured_s"]]
                      for call in report.get("calls", [])]}


def judge(check, results):
    run = {name: result for name, result in results.items() if result["fits"]}
    check.goal("configurations that ran", ">= 1", f"{len(run)} of {len(results)}", bool(run))
    if not run:
        return
    times = {name: result["predicted_s"] / result["measured_s"] - 1 for name, result in run.items()}
    memory = {name: max((p / m - 1 for p, m in zip(result["predicted_bytes"],
                                                   result["measured_bytes"])), key=abs)
              for name, result in run.items()}
    check.values["errors"] = {name: [times[name], memory[name]] for name in run}
    mean = statistics.mean(abs(error) for error in times.values())
    worst = max(times, key=lambda name: abs(times[name]))
    fullest = max(memory, key=lambda name: abs(memory[name]))
    if check.machine.on_host:
        # Ranks of a loaded host: their times are told. Memory is counted, not timed.
        check.tell("time, mean error", f"{100 * mean:.1f} %")
    else:
        check.goal("time, mean error", f"<= {100 * TIME_MEAN:.0f} %", f"{100 * mean:.1f} %",
                   mean <= TIME_MEAN)
        check.goal("time, worst error", f"<= {100 * TIME_WORST:.0f} %",
                   f"{100 * times[worst]:+.1f} % ({worst})", abs(times[worst]) <= TIME_WORST)
    value = f"{100 * memory[fullest]:+.1f} % ({fullest})"
    if check.machine.emulates:  # without the workspace of cuBLASLt, which is most of a tiny model's
        check.tell("peak memory, worst error", value)
        return
    check.goal("peak memory, worst error", f"<= {100 * MEMORY_WORST:.0f} %", value,
               abs(memory[fullest]) <= MEMORY_WORST)


def prediction(check):
    if not check.machine.most_of_eight():
        raise Skipped("2, 4 or 8 ranks cannot be spread over these nodes")
    if "profile" not in check.parts or not check.machine.measured_cluster().exists():
        check.parts.pop("profile", None)
    check.values["profile"] = check.remember("profile", lambda: profile(check), PROFILE_SECONDS
                                             if not check.machine.on_host else 20.0)
    results = {}
    shapes = EMULATED_SHAPES if check.machine.emulates else \
        TINY_SHAPES if check.machine.on_host else SHAPES
    for shape in shapes:
        for degrees in degrees_of(check.machine):
            name = "h{}-l{}-s{}-b{}x{}".format(*shape) + "-tp{}-pp{}-dp{}".format(*degrees)
            results[name] = check.remember(
                name, lambda name=name, shape=shape, degrees=degrees: run_configuration(
                    check, name, shape, degrees), RUN_SECONDS)
    judge(check, results)
