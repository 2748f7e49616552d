#!/usr/bin/env python3
"""Ranks that are killed or stopped at random moments, from the start of their process to its end,
or that never start: over MPI, over TCP and as threads, with checkpoints and without. Every run ends
in time, with a status that tells, names a rank and what it was in, and leaves nothing behind.

usage: random_moments.py BUILD_DIRECTORY [--trials N] [--seed N] [--parallel N] [--grace S]
                         [--mpiexec mpirun] [--only tcp|mpi|threads]

Prints a line per trial; exit status 1 if one failed. The same seed draws the same trials."""

import argparse
import concurrent.futures
import json
import os
import pathlib
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

from campaign import ENVIRONMENT, LAYOUTS, MODEL

STEPS = 30
DEADLINE = 4.0  # what --deadline says [s]
KINDS = {"zb-h1": ["F", "I", "W", "NORM", "OPTIMIZER", "REDUCE_GRAD"], "zb-v": ["F", "NORM"],
         "1f1b": ["F", "B", "NORM"]}
# Where a rank was, in the words of ptdp-run.
PLACE = re.compile(r"the (start|end): rank \d+|its start|the meeting|MPI_Init|its end|of step \d+|"
                   r"before step \d+|reading weights or a checkpoint")


def descendants(process):
    """Process numbers below this one's."""
    parents = {}
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            words = stat.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if words[0] != "Z":
            parents.setdefault(int(words[1]), []).append(int(stat.parent.name))
    found, rest = [], [process]
    while rest:
        children = parents.get(rest.pop(), [])
        found += children
        rest += children
    return found


def rank_of(process):
    try:
        words = pathlib.Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
    except OSError:
        return None
    ranks = [int(word.split(b"=")[1]) for word in words
             if word.startswith(b"OMPI_COMM_WORLD_RANK=")]
    return ranks[0] if ranks else None


def is_alive(process):
    try:
        return pathlib.Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def free_port():
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return listening.getsockname()[1]


class Trial:
    """A job, its fault, and what came of it."""

    def __init__(self, number, transport, arguments, plans, checkpoints):
        self.chance = random.Random(f"{arguments.seed} {number}")
        self.grace = arguments.grace
        self.number = number
        self.transport = transport
        self.layout = self.chance.choice(list(LAYOUTS))
        self.ranks = int(LAYOUTS[self.layout][1])
        self.victim = self.chance.randrange(self.ranks)
        self.moment = self.chance.choice(["start", "any", "end"])
        faults = {"threads": ["hang", "KILL"], "mpi": ["STOP", "STOP", "KILL"],
                  "tcp": ["STOP", "STOP", "KILL", "absent"]}
        self.what = self.chance.choice(faults[transport])
        self.program = str(arguments.build / "tools/ptdp-run")
        self.mpiexec = arguments.mpiexec
        self.plan = plans[self.layout]
        self.checkpoint = checkpoints[self.layout] if self.chance.random() < 0.5 else None
        self.problems = []
        # Open MPI 4.1's mpirun now and then crashes or locks up behind the end of all ranks, where
        # one died in MPI_Init (PMIx 4.2, PMIx_server_finalize).
        self.launcher_failed = False
        self.processes = []
        self.errors = ""
        self.last_step = threading.Event()
        self.directory = tempfile.TemporaryDirectory(prefix="ptdp")

    def name(self):
        return (f"{self.number:4d} {self.transport} {self.layout} rank {self.victim} {self.what} "
                f"{self.moment}{' with checkpoints' if self.checkpoint else ''}")

    def command(self):
        command = [self.program, self.plan, "--deadline", str(DEADLINE), "--steps", str(STEPS)]
        if self.checkpoint:
            command += ["--resume", self.checkpoint, "--save", self.directory.name + "/saved",
                        "--save-every", "1"]
        if self.what == "hang":
            kind = self.chance.choice(KINDS[self.layout])
            step = self.chance.randint(2, STEPS)
            self.victim = self.ranks - 1
            command += ["--inject", f"rank={self.victim},kind={kind},step={step},what=hang"]
        return command

    def spawn(self, command, environment):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                   env=environment, text=True, start_new_session=True,
                                   errors="replace")
        reader = threading.Thread(target=self.read, args=(process.stderr,))
        reader.start()
        self.processes.append((process, reader))
        return process

    def read(self, stream):
        for line in stream:
            self.errors += line
            if (step := re.match(r"step +(\d+)/(\d+)", line)) and step[1] == step[2]:
                self.last_step.set()
        self.last_step.set()

    def start(self):
        """Starts the job; returns how to find the process of the victim."""
        own = pathlib.Path(self.directory.name)
        (own / "shm").mkdir()
        (own / "tmp").mkdir()
        environment = dict(ENVIRONMENT, TMPDIR=str(own / "tmp"),
                           OMPI_MCA_btl_vader_backing_directory=str(own / "shm"))
        if self.transport == "tcp":
            place = {"WORLD_SIZE": str(self.ranks), "MASTER_ADDR": "127.0.0.1",
                     "MASTER_PORT": str(free_port()), "PTDP_JOB_SECRET": "of a test"}
            by_rank = {}
            for rank in self.chance.sample(range(self.ranks), self.ranks):
                if self.what != "absent" or rank != self.victim:
                    by_rank[rank] = self.spawn(self.command(), dict(
                        environment, RANK=str(rank), LOCAL_RANK=str(rank), **place))
            return lambda: by_rank[self.victim].pid
        launcher = [] if self.transport == "threads" else [
            self.mpiexec, "--bind-to", "none", "-n", str(self.ranks)]
        process = self.spawn(launcher + self.command(), environment)
        if self.transport == "threads":
            return lambda: process.pid
        return lambda: next((each for each in descendants(process.pid)
                             if rank_of(each) == self.victim), None)

    def disturb(self, find):
        """Returns whether the fault met the job, and when it was done."""
        if self.what in ("absent", "hang"):
            return True, time.monotonic()
        end = time.monotonic() + 20
        while (victim := find()) is None and time.monotonic() < end:
            time.sleep(0.005)
        if self.moment == "end":
            self.last_step.wait(20)
            time.sleep(self.chance.uniform(0, 0.03))
        else:
            time.sleep(self.chance.uniform(0, 0.5 if self.moment == "start" else 1.2))
        meets = victim is not None and is_alive(victim)
        if meets:
            os.kill(victim, getattr(signal, "SIG" + self.what))
        return meets, time.monotonic()

    def wait(self, since, limit):
        """Waits for all but a stopped process; kills what does not end."""
        stays = self.what == "STOP" and self.transport == "tcp"
        victim = self.find() if stays else None
        for process, _ in self.processes:
            if process.pid == victim:
                continue
            try:
                process.wait(max(0.1, since + limit - time.monotonic()))
            except subprocess.TimeoutExpired:
                ranks = [each for each in descendants(process.pid) if rank_of(each) is not None]
                if self.transport == "mpi" and not ranks:
                    self.launcher_failed = True
                else:
                    self.problems.append(f"did not end within {limit:.0f} s")
        seconds = time.monotonic() - since
        for process, reader in self.processes:
            if process.poll() is None:
                if process.pid != victim:
                    for each in descendants(process.pid):
                        os.kill(each, signal.SIGKILL)
                process.kill()
                process.wait()
            reader.join(10)
        return seconds

    def left_behind(self):
        """Processes of this job, and files of the launcher; a moment is granted."""
        own = pathlib.Path(self.directory.name)
        end = time.monotonic() + 4
        while time.monotonic() < end:
            left = [str(path) for path in (own / "shm").iterdir()]
            for entry in pathlib.Path("/proc").glob("[0-9]*/environ"):
                try:
                    if self.directory.name.encode() in entry.read_bytes():
                        left.append("process " + entry.parent.name)
                except OSError:
                    continue
            if not left:
                return []
            time.sleep(0.1)
        return left

    def judge(self, meets, statuses):
        if not meets:
            if any(status != 0 for status in statuses):
                self.problems.append(f"statuses {statuses} without a fault")
            return
        killed = self.what == "KILL"
        expected = {4, -9, 137} if killed else {4}
        if killed or self.what == "STOP":
            expected |= {0}  # it may have been past its last word to the others
        if self.transport == "mpi" and statuses[0] in (-signal.SIGSEGV, -signal.SIGPIPE,
                                                       -signal.SIGABRT):
            self.launcher_failed = True
        if self.launcher_failed:
            statuses = [4]
        if any(status not in expected for status in statuses):
            self.problems.append(f"statuses {statuses}, expected {sorted(expected)}: "
                                 + self.errors[-2000:])
        if all(status in (0, -9) for status in statuses):  # nobody else was there to notice
            return
        if self.transport == "threads" and killed:
            return
        says = self.errors
        if killed and self.transport == "mpi" and re.search(r"process rank \d+ .* signal 9", says):
            return
        if not re.search(r"rank(s)? \d+", says) or not PLACE.search(says):
            self.problems.append("names no rank or phase: " + says[-400:])

    def run(self):
        self.find = self.start()
        meets, since = self.disturb(self.find)
        is_early = self.what in ("absent", "hang") or not meets
        limit = DEADLINE + self.grace + (8.0 if is_early else 0.0)
        seconds = self.wait(since, limit)
        victim = self.find() if self.what == "STOP" and self.transport == "tcp" else None
        statuses = [process.returncode for process, _ in self.processes if process.pid != victim]
        self.judge(meets, statuses)
        if left := self.left_behind():
            self.problems.append(f"left behind: {left}")
        self.directory.cleanup()
        named = f"rank {self.victim}" in self.errors
        verdict = "FAILED: " + "; ".join(self.problems) if self.problems else \
            "mpirun failed" if self.launcher_failed else "ok"
        print(f"{self.name():<64}{seconds:6.1f} s  {statuses} "
              f"{'names it' if named else ''}{'' if meets else '(over before)'} {verdict}", flush=True)
        return self, meets, seconds, named


def prepare(build, directory):
    """Plans, and checkpoints to go on from."""
    (directory / "small.json").write_text(json.dumps(MODEL))
    plans, checkpoints = {}, {}
    for name, flags in LAYOUTS.items():
        plans[name] = str(directory / f"{name}.json")
        checkpoints[name] = str(directory / f"{name}-saved")
        subprocess.run([str(build / "tools/ptdp-plan"), "--model", str(directory / "small.json"),
                        "--cluster", "host", *flags, "-o", plans[name]], check=True,
                       stdout=subprocess.DEVNULL, env=ENVIRONMENT)
        subprocess.run([str(build / "tools/ptdp-run"), plans[name], "--steps", "1", "--quiet",
                        "--save", checkpoints[name]], check=True, stdout=subprocess.DEVNULL,
                       env=ENVIRONMENT)
    return plans, checkpoints


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--trials", type=int, default=6)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--parallel", type=int, default=3)
    parser.add_argument("--grace", type=float, default=10.0,
                        help="beyond --deadline, from the fault to the end of all [s]")
    parser.add_argument("--mpiexec")
    parser.add_argument("--only", choices=["tcp", "mpi", "threads"])
    arguments = parser.parse_args()
    arguments.build = arguments.build.resolve()
    transports = ["tcp", "mpi", "tcp", "mpi", "threads"] if arguments.mpiexec else ["tcp", "threads"]
    transports = [each for each in transports if arguments.only in (None, each)]
    with tempfile.TemporaryDirectory() as text:
        plans, checkpoints = prepare(arguments.build, pathlib.Path(text))
        trials = [Trial(number, transports[number % len(transports)], arguments, plans, checkpoints)
                  for number in range(arguments.trials)]
        with concurrent.futures.ThreadPoolExecutor(arguments.parallel) as pool:
            results = list(pool.map(Trial.run, trials))
    failed = sum(1 for trial, *_ in results if trial.problems)
    met = [(trial, seconds, named) for trial, meets, seconds, named in results if meets]
    launchers = sum(trial.launcher_failed for trial, *_ in results)
    print(f"\n{len(results)} trials, {len(met)} faults met their job, {failed} failed; mpirun itself "
          f"failed in {launchers}; "
          f"{sum(named for *_, named in met)} name the rank; longest "
          f"{max((seconds for _, seconds, _ in met), default=0.0):.1f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
