#!/usr/bin/env python3
"""Random searches of ptdp-plan: every shipped model, cluster and stack, 1 to 2^20 GPUs, with every
schedule or those of the stack. Each must be answered within its time limit and in little memory,
and say whether the answer is proven; some are asked again on two threads and by a short limit.

usage: campaign.py BUILD_DIRECTORY [--queries N] [--seed S] [--time-limit SECONDS] [--slack SECONDS]
                   [--csv FILE]

The slack is what an answer may take beyond the limit: CPU time, which other processes do not
disturb. Prints the worst and the share that is proven, and what it found wrong; exit status 1 if
that is anything."""

import argparse
import collections
import json
import os
import pathlib
import random
import shlex
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parents[3]
MOST_KIBIBYTES = 1024 * 1024
MOST_GPUS_LOG = 20
BAD_WORDS = ["bug of ours", "terminate called", "Sanitizer", "runtime error:", "Assertion"]
Run = collections.namedtuple("Run", "command status seconds kibibytes output errors")


def shipped(kind):
    return sorted(path.stem for path in (SOURCE / "profiles" / kind).glob("*.json"))


class Campaign:
    def __init__(self, build, arguments):
        self.program = str(build / "tools" / "ptdp-plan")
        self.arguments = arguments
        self.chance = random.Random(arguments.seed)
        self.kinds = {kind: shipped(kind) for kind in ("models", "clusters", "stacks")}
        self.problems = []
        self.rows = []

    def draw(self):
        gpus = self.chance.choice([2 ** self.chance.randint(0, MOST_GPUS_LOG),
                                   int(2 ** self.chance.uniform(0, MOST_GPUS_LOG)),
                                   8 * int(2 ** self.chance.uniform(0, MOST_GPUS_LOG - 3))])
        query = ["--gpus", str(gpus)]
        for kind, names in self.kinds.items():
            query += ["--" + kind[:-1], self.chance.choice(names)]
        return query + (["--schedule", "all"] if self.chance.random() < 0.4 else [])

    def ask(self, query, limit, threads=1):
        command = [self.program, *query, "--format", "json", "--time-limit", str(limit),
                   "--threads", str(threads)]
        with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
            process = subprocess.Popen(command, stdout=output, stderr=errors)
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)  # Popen waits no more
            texts = []
            for stream in (output, errors):
                stream.seek(0)
                texts.append(stream.read().decode())
        return Run(command, process.returncode, usage.ru_utime + usage.ru_stime, usage.ru_maxrss,
                   *texts)

    def fail(self, run, problem):
        self.problems.append(f"{problem}\n    {shlex.join(run.command)}")

    def check(self, run, limit):
        """Returns the document, where there is one."""
        if run.seconds > limit + self.arguments.slack:
            self.fail(run, f"took {run.seconds:.1f} s of CPU for a limit of {limit} s")
        if run.kibibytes > MOST_KIBIBYTES:
            self.fail(run, f"took {run.kibibytes // 1024} MiB")
        if any(word in run.errors for word in BAD_WORDS):
            self.fail(run, run.errors)
        if run.status == 2 and run.errors.count("\n") == 1 and not run.output:
            return None  # a stack that cannot train the model, or on such GPUs
        if run.status not in (0, 3, 4):
            self.fail(run, f"status {run.status}: {run.errors}")
            return None
        document = json.loads(run.output)
        counted = document["candidates"]
        if counted["enumerated"] != counted["feasible"] + sum(counted["violations"].values()):
            self.fail(run, "candidates are not feasible ones and violations")
        if counted["complete"] == ("least_unseen_s" in counted):
            self.fail(run, "a bound of what is unseen goes with answers that are not complete")
        if counted["complete"] and not counted["proven"]:
            self.fail(run, "complete, and not proven")
        if (run.status == 0) != bool(document["plans"]):
            self.fail(run, f"status {run.status} with {len(document['plans'])} plans")
        if (run.status == 4) and (counted["complete"] or "time limit" not in run.errors):
            self.fail(run, f"status 4: {run.errors}")
        if run.status == 3 and not counted["complete"]:
            self.fail(run, "nothing fits, without having looked at everything")
        return document

    def compare(self, query, run, document):
        """Proven answers do not depend on threads, and bounds of short searches hold for them."""
        again = self.ask(query, 10 * self.arguments.time_limit, threads=2)
        other = json.loads(again.output)
        if other["candidates"]["complete"] and other != document:
            self.fail(again, "two threads give another answer")
        limit = 0.2 * max(run.seconds, 0.01)
        cut = self.ask(query, limit)
        short = self.check(cut, limit)
        if short is None or short["candidates"]["complete"]:
            return
        found = [plan["config"] for plan in short["plans"]]
        for plan in document["plans"]:
            time = plan["predicted"]["iteration_time_s"]
            factor = plan["predicted"]["calibration_factor"]
            if plan["config"] not in found:
                if short["candidates"]["proven"]:
                    self.fail(cut, "proven, and lacks a plan of the whole search")
                # The bound is calibrated by the cluster's factor, a plan by its own.
                if factor == 1 and time < short["candidates"]["least_unseen_s"] * (1 - 1e-9):
                    self.fail(cut, f"a plan takes {time} s, less than what is left is said to")

    def run(self):
        limit = self.arguments.time_limit
        for i in range(self.arguments.queries):
            query = self.draw()
            run = self.ask(query, limit)
            document = self.check(run, limit)
            state = "refused"
            if document is not None:
                counted = document["candidates"]
                state = ("complete" if counted["complete"] else
                         "proven" if counted["proven"] else "not proven")
                if state == "complete" and document["plans"] and i % 5 == 0:
                    self.compare(query, run, document)
            self.rows.append((run, state))
            if self.arguments.csv:
                with open(self.arguments.csv, "a", encoding="utf-8") as file:
                    file.write(f"{run.seconds:.3f},{run.kibibytes},{run.status},{state},"
                               f"{shlex.join(query)}\n")

    def report(self):
        answers = [row for row in self.rows if row[1] != "refused"]
        states = collections.Counter(state for _, state in self.rows)
        print(f"{len(self.rows)} queries: " +
              ", ".join(f"{count} {state}" for state, count in sorted(states.items())))
        if answers:
            share = sum(state != "not proven" for _, state in answers) / len(answers)
            slowest = max(answers, key=lambda row: row[0].seconds)[0]
            largest = max(answers, key=lambda row: row[0].kibibytes)[0]
            print(f"proven: {100 * share:.1f} %")
            print(f"slowest: {slowest.seconds:.2f} s of CPU: {shlex.join(slowest.command)}")
            print(f"largest: {largest.kibibytes / 1024:.0f} MiB: {shlex.join(largest.command)}")
        for problem in self.problems:
            print(problem)
        return 1 if self.problems else 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--queries", type=int, default=16)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--time-limit", type=float, default=10.0)
    parser.add_argument("--slack", type=float, default=1.0)
    parser.add_argument("--csv")
    arguments = parser.parse_args()
    campaign = Campaign(arguments.build.resolve(), arguments)
    campaign.run()
    return campaign.report()


if __name__ == "__main__":
    sys.exit(main())
