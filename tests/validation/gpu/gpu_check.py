"""tools/gpu-check: settles on a machine with a GPU what needs one. --help shows the rest."""

import argparse
import pathlib
import sys
import time

import pack
from check import SECTION_SECONDS, Check, read_json, write_json
from check_losses import losses
from check_memory import memory
from check_operations import operations, profile
from check_overhead import overhead
from check_pytorch import pytorch
from check_speed import speed
from check_sweep import sweep
from check_tests import sanitizer, tests
from machine import ClockLog, Machine

# In this order; the later ones plan with what `profile` measured and train what `speed` fitted.
SECTIONS = {"tests": tests, "sanitizer": sanitizer, "operations": operations, "profile": profile,
            "speed": speed, "pytorch": pytorch, "sweep": sweep, "losses": losses,
            "overhead": overhead, "memory": memory}
DONE, FAULT, MISSED, BAD_USAGE = 0, 4, 6, 2
LEAST_SECONDS = 20.0  # worth beginning a section with


def is_done(record):
    return record.get("status") in ("done", "skipped")


def run_section(name, machine, seconds, again):
    """Runs it unless it is done; keeps the record with the clocks of this time."""
    check = Check(name, machine, machine.directory, seconds)
    if again:
        check.parts = {}
    print(f"gpu-check: {name} ...", file=sys.stderr, flush=True)
    with ClockLog(machine, machine.directory / "logs" / f"{name}.clocks.csv") as clocks:
        record = check.run(SECTIONS[name])
    record["clocks"] = clocks.summary()
    write_json(check.file, record)
    message = f": {record['message']}" if "message" in record else ""
    print(f"gpu-check: {name} {record['status']} after {record['seconds']:.0f} s{message}",
          file=sys.stderr, flush=True)


def summary_rows(records):
    """[section, what, goal, value, whether met] of each goal, and a row for what is not done."""
    rows = []
    for name, record in records.items():
        status = record.get("status", "not run")
        if status != "done":
            rows.append([name, record.get("message", ""), "", "", status])
        for goal in record.get("goals", []):
            rows.append([name, goal["what"], goal["goal"], goal["value"],
                         "yes" if goal["met"] else "NO"])
        if status == "done" and not record.get("goals"):
            rows.append([name, "", "", "", status])
    return rows


def table(rows):
    rows = [["section", "what", "goal", "value", "met"], *rows]
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip()
                     for row in rows)


def exit_status(records):
    """Of all sections, those of earlier runs too."""
    if any(not is_done(record) for record in records.values()):
        return FAULT
    met = all(goal["met"] for record in records.values() for goal in record.get("goals", []))
    return DONE if met else MISSED


def run_sections(arguments, machine):
    machine.directory.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + arguments.seconds
    chosen = arguments.section or list(SECTIONS)
    for name in chosen:
        done = is_done(read_json(machine.directory / f"{name}.json"))
        seconds = min(SECTION_SECONDS, end - time.monotonic())
        if done and not arguments.again:
            continue
        if seconds < LEAST_SECONDS:
            print(f"gpu-check: {name}: no time left; run the same command again", file=sys.stderr)
            continue
        run_section(name, machine, seconds, arguments.again)
    records = {name: read_json(machine.directory / f"{name}.json") for name in chosen}
    print(table(summary_rows(records)))
    return exit_status(records)


def parse(words):
    parser = argparse.ArgumentParser(
        prog="gpu-check", formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="gpu-check DIRECTORY [--section NAME]... [--again] [--seconds S]\n"
              "       gpu-check --pack DIRECTORY [--build BUILD]",
        description="Checks what needs a GPU, section by section, and keeps what it finds as\n"
                    "DIRECTORY/<section>.json. What is done is not done again.\n"
                    f"sections: {' '.join(SECTIONS)}",
        epilog="exit status: 0 all ran and met their goals; 6 a goal is missed; 4 no GPU, a\n"
               "section failed or is not finished (run the same command again); 2 bad usage")
    parser.add_argument("directory", type=pathlib.Path, help="where the results are kept")
    parser.add_argument("--section", action="append", choices=list(SECTIONS), metavar="NAME",
                        help="only this one; can be given several times")
    parser.add_argument("--again", action="store_true", help="also what is done, from its start")
    parser.add_argument("--seconds", type=float, default=float("inf"),
                        help="begin nothing after so long, and end what runs then")
    parser.add_argument("--build", type=pathlib.Path,
                        help="the build to use (default: build/gpu, else build/cuda)")
    parser.add_argument("--pack", action="store_true",
                        help="collect in DIRECTORY what a machine without a compiler needs")
    parser.add_argument("--rehearse", action="store_true",
                        help="try the sections without a GPU: tiny models on this host")
    return parser.parse_args(words)


def main(words):
    arguments = parse(words)
    build = arguments.build.resolve() if arguments.build else None
    if arguments.pack:
        return pack.pack(arguments.directory, build)
    machine = Machine(arguments.directory.resolve(), arguments.rehearse, build)
    if not machine.gpu and not machine.rehearses:
        print("gpu-check: no GPU here (nvidia-smi shows none)", file=sys.stderr)
        return FAULT
    return run_sections(arguments, machine)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
