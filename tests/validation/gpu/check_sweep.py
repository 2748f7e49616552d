"""Section `sweep`: predicted and measured time and peak memory of many configurations."""

import json
import statistics

from check import Failed
from commands import keep_run, make_plan, one_gpu, train
from shapes import SHORT_SWEEP, SWEEP, TINY_SWEEP, sweep_model

HEADROOM = "3%"
WARM_UP = 3
LEAST_STEPS, MOST_STEPS = 5, 60
MEASURED_SECONDS, SHORT_SECONDS = 2.0, 0.5
CONFIGURATION_SECONDS = 30.0
TIME_MEAN, TIME_WORST, MEMORY_WORST = 0.03, 0.08, 0.03
LEAST_CONFIGURATIONS = 20


def steps_of(predicted_seconds, is_full=True):
    wanted = int((MEASURED_SECONDS if is_full else SHORT_SECONDS) / predicted_seconds)
    return WARM_UP + min(max(wanted, LEAST_STEPS), MOST_STEPS)


def plan_with_most_layers(check, name, row):
    """Layers and plan: as the row has them, or as many as fit; (0, None) for none."""
    hidden, layers, length, microbatch, microbatches, recompute = row
    while layers > 0:
        plan = make_plan(check, name, sweep_model(hidden, layers, length, microbatch, microbatches),
                         [*one_gpu(microbatch, recompute), "--memory-headroom", HEADROOM])
        if plan is not None:
            return layers, plan
        layers -= max(layers // 8, 1)
    return 0, None


def run_configuration(check, name, row):
    layers, plan = plan_with_most_layers(check, name, row)
    if plan is None:
        return {"layers": 0}
    predicted = json.loads(plan.read_text())["predicted"]["iteration_time_s"]
    steps = steps_of(predicted, check.machine.is_full)
    report = train(check, plan, name, [*check.machine.device_flags(), "--steps", steps,
                                       "--warm-up", WARM_UP])
    keep_run(check, name)
    memory = report["memory"][0]
    return {"layers": layers, "predicted_s": report["predicted"]["iteration_time_s"],
            "measured_s": report["measured"]["iteration_time_s"],
            "predicted_bytes": memory["predicted_bytes"],
            "measured_bytes": memory["measured_bytes"],
            "terms": {term["term"]: [term["predicted_s"], term["measured_s"]]
                      for term in report["terms"]}}


def error_of(result, kind):
    return result[f"predicted_{kind}"] / result[f"measured_{kind}"] - 1


def worst_term(terms):
    """[term, predicted/measured - 1] of the term whose error is the most time; None without one."""
    known = {term: pair for term, pair in terms.items() if pair[1] > 0}
    if not known:
        return None
    term = max(known, key=lambda name: abs(known[name][0] - known[name][1]))
    return [term, known[term][0] / known[term][1] - 1]


def attempt(check, name, row):
    """A configuration that fails is a result too: the others go on."""
    try:
        return run_configuration(check, name, row)
    except Failed as fault:
        return {"failed": str(fault)}


def sweep(check):
    rows = TINY_SWEEP if check.machine.rehearses else \
        SWEEP if check.machine.is_full else SHORT_SWEEP
    results = {}
    for row in rows:
        hidden, layers, length, microbatch, microbatches, recompute = row
        name = f"h{hidden}-l{layers}-s{length}-b{microbatch}x{microbatches}-{recompute}"
        results[name] = check.remember(
            name, lambda name=name, row=row: attempt(check, name, row), CONFIGURATION_SECONDS)
    judge(check, results, len(rows))


def judge(check, results, least):
    failed = [name for name, result in results.items() if "failed" in result]
    run = {name: result for name, result in results.items() if "measured_s" in result}
    for name, result in run.items():
        check.values[name] = {"time_error": error_of(result, "s"),
                              "memory_error": error_of(result, "bytes"),
                              "worst_term": worst_term(result.get("terms", {}))}
    check.goal("configurations that ran", f">= {min(least, LEAST_CONFIGURATIONS)}, none failed",
               f"{len(run)}, {len(failed)} failed: {', '.join(failed)}".removesuffix(": "),
               len(run) >= min(least, LEAST_CONFIGURATIONS) and not failed)
    if not run:
        return
    times = {name: abs(error_of(result, "s")) for name, result in run.items()}
    memory = {name: abs(error_of(result, "bytes")) for name, result in run.items()}
    slowest, fullest = max(times, key=times.get), max(memory, key=memory.get)
    mean = statistics.mean(times.values())
    check.goal("time, mean error", f"<= {100 * TIME_MEAN:.0f} %", f"{100 * mean:.1f} %",
               mean <= TIME_MEAN)
    check.goal("time, worst error", f"<= {100 * TIME_WORST:.0f} %",
               f"{100 * times[slowest]:.1f} % ({slowest})", times[slowest] <= TIME_WORST)
    check.goal("peak memory, worst error", f"<= {100 * MEMORY_WORST:.0f} %",
               f"{100 * memory[fullest]:.1f} % ({fullest})", memory[fullest] <= MEMORY_WORST)
