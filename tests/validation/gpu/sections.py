"""Runs the sections of a check in turn, keeps what they find, and sums it up."""

import pathlib
import sys
import time

from check import SECTION_SECONDS, Check, read_json, write_json
from machine import ClockLog

DONE, BAD_USAGE, FAULT, MISSED = 0, 2, 4, 6
LEAST_SECONDS = 20.0  # worth beginning a section with, unless its budget is less


def add_flags(parser, sections):
    """What a check of sections takes on its command line."""
    parser.add_argument("directory", type=pathlib.Path, help="where the results are kept")
    parser.add_argument("--section", action="append", choices=list(sections), metavar="NAME",
                        help="only this one; can be given several times")
    parser.add_argument("--again", action="store_true", help="also what is done, from its start")
    parser.add_argument("--seconds", type=float,
                        help="begin nothing after so long, and end what runs then")
    parser.add_argument("--build", type=pathlib.Path,
                        help="the build to use (default: build/gpu, else build/cuda)")


def is_done(record):
    return record.get("status") in ("done", "skipped")


def verdict(goal):
    if goal["met"] is None:
        return "noted" if goal["goal"] else "skipped"
    return "yes" if goal["met"] else "NO"


def summary_rows(records):
    """[section, what, goal, value, whether met] of each goal, and a row for what is not done."""
    rows = []
    for name, record in records.items():
        status = record.get("status", "not run")
        if status != "done":
            rows.append([name, record.get("message", ""), "", "", status])
        for goal in record.get("goals", []):
            rows.append([name, goal["what"], goal["goal"], goal["value"], verdict(goal)])
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
    missed = any(goal["met"] is False for record in records.values()
                 for goal in record.get("goals", []))
    return MISSED if missed else DONE


class Sections:
    """`functions` by name, in the order in which they run; `tool` stands before messages. A run of
    one takes at most `longest` seconds. `budgets`: seconds of a section that others wait for; what
    one leaves of them the next ones may take."""

    def __init__(self, tool, functions, machine, longest=SECTION_SECONDS, budgets=None):
        self.tool = tool
        self.functions = functions
        self.machine = machine
        self.longest = longest
        self.budgets = budgets or {}

    def tell(self, text):
        print(f"{self.tool}: {text}", file=sys.stderr, flush=True)

    def file(self, name):
        return self.machine.directory / f"{name}.json"

    def run_one(self, name, seconds, again=False):
        """Runs it, whether it is done or not; keeps the record with the clocks of this time."""
        check = Check(name, self.machine, self.machine.directory, seconds)
        if again:
            check.parts = {}
        self.tell(f"{name} ...")
        clock_file = self.machine.directory / "logs" / f"{name}.clocks.csv"
        with ClockLog(self.machine, clock_file) as clocks:
            record = check.run(self.functions[name])
        record["clocks"] = clocks.summary()
        write_json(check.file, record)
        message = f": {record['message']}" if "message" in record else ""
        self.tell(f"{name} {record['status']} after {record['seconds']:.0f} s{message}")

    def run(self, chosen=None, again=False, seconds=float("inf")):
        """Of those that are chosen what is not done; returns the records of all of them."""
        self.machine.directory.mkdir(parents=True, exist_ok=True)
        end = time.monotonic() + seconds
        chosen = chosen or list(self.functions)
        due = [name for name in chosen if again or not is_done(read_json(self.file(name)))]
        for number, name in enumerate(due):
            left = min(self.longest, end - time.monotonic())
            if name in self.budgets:
                others = sum(self.budgets.get(other, 0.0) for other in due[number + 1:])
                # An end in sight is shared out, none is not.
                left = min(left, max(self.budgets[name], end - time.monotonic() - others))
            if left < min(LEAST_SECONDS, self.budgets.get(name, LEAST_SECONDS)):
                self.tell(f"{name}: no time left; run the same command again")
                continue
            self.run_one(name, left, again)
        return {name: read_json(self.file(name)) for name in chosen}
