#!/usr/bin/env python3
"""Faults of whole programs: every kind of action x every fault, on threads and on MPI processes;
memory and files that fail at the k-th call. Every run must end, say which rank and action it was,
leave nothing half written, and no process behind.

usage: campaign.py BUILD_DIRECTORY [--full] [--only WORD] [--mpiexec mpirun]

By default a sample that takes seconds; --full is everything, and takes minutes. Prints a line per
case; exit status 1 if one failed."""

import argparse
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

SOURCE = pathlib.Path(__file__).resolve().parents[3]
MODEL = {"schema": "ptdp.model/1", "name": "small", "source": "a test", "num_layers": 4,
         "hidden_size": 16, "num_attention_heads": 4, "vocab_size": 61, "seq_length": 8,
         "global_batch_size": 8}
# Together they have every kind of action.
LAYOUTS = {
    "zb-h1": ["--gpus", "4", "--tp", "1", "--pp", "2", "--dp", "2", "--zero-stage", "1",
              "--micro-batch-size", "1", "--schedule", "zb-h1"],
    "1f1b": ["--gpus", "4", "--tp", "2", "--pp", "2", "--dp", "1", "--micro-batch-size", "1",
             "--schedule", "1f1b"],
    "zb-v": ["--gpus", "2", "--tp", "1", "--pp", "2", "--dp", "1", "--vpp", "2",
             "--micro-batch-size", "1", "--schedule", "zb-v"],
}
KINDS = {
    "zb-h1": ["F", "I", "W", "SEND_F", "RECV_F", "SEND_B", "RECV_B", "REDUCE_GRAD", "UNSHARD",
              "TIED", "NORM", "OPTIMIZER"],
    "1f1b": ["F", "B", "NORM"],
    "zb-v": ["COPY_F", "COPY_B"],
}
DEADLINE = 2.0  # of an action [s]
# A run must have ended after this long [s]: start, deadline, grace, the end of MPI, a loaded machine.
LIMIT = 40.0
# A job must have ended its first step after this long [s], beside the other tests on two cores.
START_LIMIT = 120.0
ENVIRONMENT = dict(os.environ, PTDP_PROFILES=str(SOURCE / "profiles"), OMPI_ALLOW_RUN_AS_ROOT="1",
                   OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_rmaps_base_oversubscribe="1",
                   PRTE_MCA_rmaps_default_mapping_policy=":oversubscribe")


class Campaign:
    def __init__(self, arguments, directory):
        self.build = pathlib.Path(arguments.build).resolve()
        self.run_program = str(self.build / "tools/ptdp-run")
        self.shim = str(self.build / "tests/runtime/faults/libfailing_calls.so")
        self.mpiexec = arguments.mpiexec
        self.full = arguments.full
        self.only = arguments.only
        self.directory = pathlib.Path(directory)
        self.num_failed = 0
        self.num_cases = 0
        self.slowest = {}
        (self.directory / "small.json").write_text(json.dumps(MODEL))
        self.plans = {name: self.plan(name, flags) for name, flags in LAYOUTS.items()}

    def plan(self, name, flags):
        path = self.directory / f"{name}.json"
        subprocess.run([str(self.build / "tools/ptdp-plan"), "--model",
                        str(self.directory / "small.json"), "--cluster", "host", *flags, "-o",
                        str(path)], check=True, stdout=subprocess.DEVNULL, env=ENVIRONMENT)
        return str(path)

    def wants(self, name):
        return self.only is None or self.only in name

    def check(self, name, group, problems, seconds):
        self.num_cases += 1
        self.num_failed += 1 if problems else 0
        self.slowest[group] = max(self.slowest.get(group, 0.0), seconds)
        verdict = "FAILED: " + "; ".join(problems) if problems else "ok"
        print(f"{name:<52}{seconds:7.2f} s  {verdict}", flush=True)

    def run(self, command, environment=None):
        """Status (None: did not end), output, errors, seconds."""
        start = time.monotonic()
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   env=environment or ENVIRONMENT, text=True,
                                   start_new_session=True, errors="replace")
        try:
            output, errors = process.communicate(timeout=LIMIT)
            status = process.returncode
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, errors = process.communicate()
            status = None
        return status, output, errors, time.monotonic() - start

    def orphans(self):
        """Processes that have something of this campaign on their command line."""
        left = []
        for entry in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = entry.read_bytes().split(b"\0")
            except OSError:
                continue
            if words[0].endswith(b"ptdp-run") and str(self.directory).encode() in b" ".join(words):
                left.append(entry.parent.name)
        return left

    def left_behind(self):
        """The same, once those that a launcher just killed are gone."""
        end = time.monotonic() + 3.0
        while self.orphans() and time.monotonic() < end:
            time.sleep(0.05)
        return self.orphans()

    def command(self, layout, transport, flags):
        command = [self.run_program, self.plans[layout], "--deadline", str(DEADLINE), *flags]
        if transport == "mpi":
            ranks = LAYOUTS[layout][1]
            return [self.mpiexec, "-n", ranks, *command]
        return command

    def problems_of(self, what, transport, rank, kind, status, output, errors):
        problems = []
        if status is None:
            problems.append("did not end")
        if what.startswith("slow"):
            if status != 0:
                problems.append(f"status {status}, expected 0")
            return problems
        expected = {"exit": [3, 4], "kill": [128 + 9, -9, 4]}.get(what, [4])
        if status not in expected:
            problems.append(f"status {status}, expected {expected}")
        line = re.search(rf"ptdp-run: rank {rank}: \d+{kind}\d+ of step 3: (.*)", errors)
        if not line:
            problems.append("no line names the rank and the action: " + errors[-300:])
        if not re.search(r"rank \d+ (\([a-z ]+\) )?has (worked|waited) in ", errors):
            problems.append("no dump of actions")
        if transport == "threads" and "Ended after 2 of 4 steps." not in output and \
                "Ended after 1 of 4 steps." not in output:
            problems.append("no report of the steps before")
        return problems

    def actions(self):
        """Every kind of action x every fault, on both transports."""
        faults = {"threads": ["throw", "hang", "slow:2", "alloc"],
                  "mpi": ["throw", "exit", "kill", "stop", "hang", "slow:2"]}
        cases = [(transport, layout, kind, what) for layout, kinds in KINDS.items()
                 for kind in kinds for transport in faults for what in faults[transport]]
        if not self.full:
            sample = [("threads", "W", what) for what in faults["threads"]] + [
                ("threads", "REDUCE_GRAD", "throw"), ("mpi", "W", "throw"), ("mpi", "W", "stop")]
            cases = [case for case in cases if (case[0], *case[2:]) in sample]
        for transport, layout, kind, what in cases:
            name = f"{transport} {layout} {kind} {what}"
            if not self.wants(name):
                continue
            if transport == "mpi" and self.mpiexec is None:
                continue
            # One of the ranks that have the kind.
            rank = {"F": 1, "SEND_F": 1, "RECV_B": 1, "TIED": 0, "COPY_F": 1,
                    "COPY_B": 1}.get(kind, int(LAYOUTS[layout][1]) - 1)
            if layout == "1f1b" and kind == "B":
                rank = 3
            if layout == "zb-v":
                rank = 1
            flags = ["--quiet", "--steps", "4", "--inject",
                     f"rank={rank},kind={kind},step=3,what={what}"]
            status, output, errors, seconds = self.run(self.command(layout, transport, flags))
            problems = self.problems_of(what, transport, rank, kind, status, output, errors)
            left = self.left_behind()
            if left:
                problems.append(f"processes left behind: {left}")
            self.check(name, f"{transport} {what.split(':')[0]}", problems, seconds)

    def signals_from_outside(self):
        """Real signals to one process of a job."""
        if self.mpiexec is None:
            return
        for sent, trials in [("KILL", 3), ("STOP", 2), ("SEGV", 1)] if self.full else [("KILL", 1)]:
            for trial in range(trials):
                name = f"mpi kill -{sent} from outside ({trial + 1})"
                if self.wants(name):
                    self.signal_from_outside(name, sent, 1 + trial % 3)

    def signal_from_outside(self, name, sent, rank):
        command = self.command("zb-h1", "mpi", ["--steps", "1000000"])
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                   env=ENVIRONMENT, text=True, start_new_session=True,
                                   errors="replace")
        ending = threading.Timer(START_LIMIT, os.killpg, (process.pid, signal.SIGKILL))
        ending.start()
        # Until a step is reported ranks may still meet: then the launcher alone knows who is gone.
        before = ""
        while (line := process.stderr.readline()) and not line.startswith("step "):
            before += line
        ending.cancel()
        victims = sorted(int(pid) for pid in self.orphans())
        problems = []
        sent_at = time.monotonic()
        if line and len(victims) == 4:
            os.kill(victims[rank], getattr(signal, "SIG" + sent))
        else:
            problems.append(f"no step of {len(victims)} ranks to disturb")
            os.killpg(process.pid, signal.SIGKILL)
        try:
            _, errors = process.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            _, errors = process.communicate()
            problems.append("did not end")
        errors = before + errors
        if process.returncode == 0:
            problems.append("status 0")
        if not re.search(r"ptdp-run: rank \d+: .*(has ended|does not answer|has not ended)", errors):
            problems.append("no line names the rank: " + errors[-300:])
        if self.left_behind():
            problems.append("processes left behind")
        self.check(name, f"mpi outside {sent}", problems, time.monotonic() - sent_at)

    def newest_step(self, directory):
        return max([int(path.name[5:]) for path in (directory / "saved").glob("step-*")], default=0)

    def saving(self, directory):
        """A run of two steps more that saves a checkpoint and writes a report, to be run again with
        a fault."""
        steps = str(self.newest_step(directory) + 2)
        return [self.run_program, self.plans["1f1b"], "--quiet", "--steps", steps, "--save",
                str(directory / "saved"), "--resume", str(directory / "saved"), "-o",
                str(directory / "run.json"), "--format", "json"]

    def failing_calls(self):
        """Memory and files that fail at the k-th call, until a run has no such call."""
        kinds = [("write", ["ENOSPC", "EIO", "EINTR"]), ("fsync", ["EIO"]),
                 ("rename", ["EIO"]), ("close", ["EIO"]), ("malloc", [""])]
        for kind, errors_of_kind in kinds:
            for error in errors_of_kind if self.full else errors_of_kind[:1]:
                name = f"{kind} {error} at every k"
                if self.wants(name):
                    self.fail_every_call(name, kind, error)

    def fail_every_call(self, name, kind, error):
        start = time.monotonic()
        problems = []
        statuses = {}
        with tempfile.TemporaryDirectory(dir=self.directory) as text:
            directory = pathlib.Path(text)
            status, before, errors, _ = self.run(self.saving(directory))
            if status != 0:
                problems.append(f"without a fault: status {status}: {errors}")
            k = 1
            while not problems:
                failed = directory / "failed"
                failed.unlink(missing_ok=True)
                environment = dict(ENVIRONMENT, LD_PRELOAD=self.shim, PTDP_FAIL=kind,
                                   PTDP_FAIL_AT=str(k), PTDP_FAIL_ERRNO=error,
                                   PTDP_FAIL_COUNT=str(failed))
                status, _, errors, _ = self.run(self.saving(directory), environment)
                if not failed.exists():
                    break
                statuses[status] = statuses.get(status, 0) + 1
                # Some calls may fail without harm, such as that which syncs a directory.
                if status not in ([0, 4, 5] if kind == "malloc" else [0, 5]):
                    problems.append(f"k={k}: status {status}: {errors[-300:]}")
                if status != 0 and "ptdp-run: " not in errors:
                    problems.append(f"k={k}: status {status} without a word")
                problems += [f"k={k}: {what}" for what in self.damage(directory)]
                dense = 8 if kind == "malloc" and not self.full else 40
                k += 1 if k < dense else max(1, k // (10 if self.full else 2)) \
                    if kind == "malloc" else (1 if self.full else 11)
        counts = ", ".join(f"{count} x status {status}" for status, count in sorted(
            statuses.items(), key=lambda item: str(item[0])))
        self.check(f"{name} ({counts})", f"k-th {kind}", problems[:3], time.monotonic() - start)

    def damage(self, directory):
        """What is not whole afterwards."""
        found = []
        try:
            json.loads((directory / "run.json").read_text())
        except ValueError:
            found.append("run.json is not whole")
        names = [path.name for path in directory.iterdir()]
        found += [f"left behind: {name}" for name in names if name.startswith(".ptdp")]
        newest = self.newest_step(directory)
        status, output, errors, _ = self.run(
            [self.run_program, self.plans["1f1b"], "--quiet", "--steps", str(newest + 1), "--resume",
             str(directory / "saved"), "--format", "json"])
        if status != 0:
            return found + [f"cannot be resumed: {errors}"]
        if json.loads(output)["execution"]["first_step"] != newest:
            found.append("the newest checkpoint is not whole")
        return found


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--only")
    parser.add_argument("--mpiexec")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        campaign = Campaign(arguments, directory)
        for part in [campaign.actions, campaign.signals_from_outside, campaign.failing_calls]:
            part()
    print(f"\n{campaign.num_cases} cases, {campaign.num_failed} failed; slowest [s]: " +
          ", ".join(f"{group} {seconds:.1f}" for group, seconds in campaign.slowest.items()))
    return 1 if campaign.num_failed else 0


if __name__ == "__main__":
    sys.exit(main())
