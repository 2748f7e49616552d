"""What tools/gpu-check leaves of all its sections: a document, a table and a summary."""

import os
import statistics

from check import write_json
from sections import exit_status, is_done, summary_rows, table

BANDWIDTH_BOUND = {"norms": ("layer-norm", "layer-norm-backward", "layer-norm-backward-bias",
                             "sum-layer-norm"),
                   "GELU": ("bias-gelu", "gelu-backward"), "AdamW": ("adamw",)}
SHOWN = 6  # goals and sections that a line names


def run_files(machine):
    """Reports of runs that were predicted from this GPU's profile, for ptdp-validate."""
    return sorted(machine.runs().glob("*.json"))


def write_results(machine, records):
    """results.json and table.txt."""
    machine.directory.mkdir(parents=True, exist_ok=True)
    kept = {name: {key: value for key, value in record.items() if key != "parts"}
            for name, record in records.items()}
    write_json(machine.directory / "results.json",
               {"status": exit_status(records), "machine": machine.description(),
                "is_full": machine.is_full, "sections": kept,
                "runs": [f"runs/{path.name}" for path in run_files(machine)]})
    part = machine.directory / "table.txt.part"
    part.write_text(table(summary_rows(records)) + "\n")
    os.replace(part, machine.directory / "table.txt")


def named(names):
    """The first of them, and how many more there are."""
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


def percent(ratio):
    return f"{100 * ratio:+.1f} %"


def of_machine(machine, _):
    described = machine.description()
    words = [described["gpu"]]
    words += [f"{name} {described[key]}" for name, key in
              (("driver", "driver"), ("CUDA", "cuda"), ("revision", "revision"))
              if described.get(key)]
    return ", ".join(words)


def of_tests(_, values):
    results = values["tests"].values()
    failed = [test for result in results for test in result["failed"]]
    return (f"{sum(result['tests'] for result in results)} tests, {len(failed)} failed, "
            f"{sum(result['skipped'] for result in results)} skipped"
            + (f": {named(failed)}" if failed else ""))


def of_step(_, values):
    found = values["step"]
    predicted, measured = found["seconds"]
    cost = values.get("dropout", {}).get("cost")
    return (f"{1e3 * measured:.4g} ms, {percent(predicted / measured - 1)} predicted from the "
            f"{found['planned_from']}"
            + (f"; attention dropout x {cost[1]:.2f} (predicted {cost[0]:.2f})" if cost else ""))


def of_speed(_, values):
    stacks = [f"{name} {100 * found['mfu_causal']:.1f} % ({found['layers']} layers)"
              for name, found in values["speed"].items()]
    ratio = values.get("pytorch", {}).get("ratio")
    return "MFU " + ", ".join(stacks) + (f"; {ratio:.3f}x PyTorch" if ratio else "")


def of_prediction(_, values):
    runs = values["sweep"]
    times = {name: abs(found["time_error"]) for name, found in runs.items()}
    worst = max(times, key=times.get)
    term = runs[worst].get("worst_term")
    memory = max(abs(found["memory_error"]) for found in runs.values())
    return (f"{len(runs)} runs, time {100 * statistics.mean(times.values()):.1f} % off on average, "
            f"{100 * times[worst]:.1f} % at worst ({worst}"
            + (f": {term[0]} {percent(term[1])}" if term else "")
            + f"); memory {100 * memory:.2f} % at worst")


def of_bandwidth(_, values):
    found = values["profile"]
    if not found["copy_GBps"]:
        return "no copy was large enough to tell"
    words = [f"copy {found['copy_GBps']:.0f} GB/s"]
    for name, operations in BANDWIDTH_BOUND.items():
        rates = [f"{100 * found['GBps'][operation] / found['copy_GBps']:.0f}"
                 for operation in operations if found["GBps"].get(operation)]
        words += [f"{name} {'/'.join(rates)} % of it"] if rates else []
    return ", ".join(words)


def of_rates(_, values):
    rates = values["profile"]["TFLOPs"]
    return ", ".join(f"{name} {rate:.3g}" for name, rate in rates.items()) + " TFLOP/s at best"


def of_memory(_, values):
    found = values["memory"]["use"]
    beside = found["most"] - found["before"] - found["allocated"]
    return (f"{found['most'] - found['before']:.0f} MiB in use of {found['peak']:.0f} planned; "
            f"{beside:.0f} beside allocations of {found['reserve']:.0f} reserved")


def of_misses(records):
    missed = [f"{name}: {goal['what']} {goal['value']}" for name, record in records.items()
              for goal in record.get("goals", []) if goal["met"] is False]
    undone = [f"{name} ({record.get('status', 'not run')})" for name, record in records.items()
              if not is_done(record)]
    skipped = [name for name, record in records.items() if record.get("status") == "skipped"]
    words = [f"{len(missed)} goals: {named(missed)}"] if missed else []
    words += [f"not done: {named(undone)}"] if undone else []
    words += [f"skipped: {named(skipped)}"] if skipped else []
    return "; ".join(words) or "nothing"


# What a line says, and of which section's values.
LINES = (("GPU", None, of_machine), ("tests", "tests", of_tests), ("step", "step", of_step),
         ("speed", "speed", of_speed), ("predicted", "sweep", of_prediction),
         ("bandwidth", "profile", of_bandwidth), ("rates", "profile", of_rates),
         ("memory", "memory", of_memory))


def summary(machine, records):
    """At most ten lines. A section that found nothing has none."""
    values = {name: record["values"] for name, record in records.items() if record.get("values")}
    lines = []
    for what, section, describe in LINES:
        try:
            if section is None or section in values:
                lines.append((what, describe(machine, values)))
        except (KeyError, TypeError, ValueError):
            continue  # unfinished: its row of the table says so
    lines.append(("missed", of_misses(records)))
    count = len(run_files(machine))
    lines.append(("results", f"{machine.directory}/results.json, table.txt"
                  + (f", and for ptdp-validate {count} runs/*.json" if count else "")))
    return "\n".join(f"{what:<10} {text}" for what, text in lines)
