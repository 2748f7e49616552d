#!/usr/bin/env python3
"""Kills at random moments of runs that save every step, up to three in a row; then the same command
line once more. Its last checkpoint must have the bits of a run that nobody disturbed, its report
that run's losses, and the command line once again must do nothing.

usage: resumption.py BUILD_DIRECTORY [--trials N] [--seed N] [--mpiexec mpirun]

Ranks are threads, or with --mpiexec processes, of which one, or the launcher, gets the signal. Prints a line per trial that failed; exit status 1 if there is one."""

import argparse
import collections
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

SOURCE = pathlib.Path(__file__).resolve().parents[3]
MODEL = {"schema": "ptdp.model/1", "name": "small", "source": "a test", "num_layers": 4,
         "hidden_size": 16, "num_attention_heads": 4, "vocab_size": 61, "seq_length": 8,
         "global_batch_size": 8}
LAYOUTS = {
    "pp2": ["--gpus", "2", "--tp", "1", "--pp", "2", "--dp", "1", "--schedule", "1f1b"],
    "tp2": ["--gpus", "2", "--tp", "2", "--pp", "1", "--dp", "1"],
    "dp2-zero1": ["--gpus", "2", "--tp", "1", "--pp", "1", "--dp", "2", "--zero-stage", "1"],
    "interleaved": ["--gpus", "2", "--tp", "1", "--pp", "2", "--dp", "1", "--vpp", "2",
                    "--schedule", "interleaved"],
}
STEPS = 8
SIGNALS = [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGUSR1]
# A run that has not ended by then hangs, also on a machine that does much else [s].
LIMIT = 180.0
ENVIRONMENT = dict(os.environ, PTDP_PROFILES=str(SOURCE / "profiles"), OMPI_ALLOW_RUN_AS_ROOT="1",
                   OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_rmaps_base_oversubscribe="1",
                   PRTE_MCA_rmaps_default_mapping_policy=":oversubscribe")


class Layout:
    """A plan, and the run of it that nobody disturbs."""

    def __init__(self, build, directory, flags, launcher):
        self.program = [*launcher, str(build / "tools/ptdp-run")]
        self.plan = str(directory / "plan.json")
        model = directory / "small.json"
        model.write_text(json.dumps(MODEL))
        subprocess.run([str(build / "tools/ptdp-plan"), "--model", str(model), "--cluster", "host",
                        "--micro-batch-size", "1", *flags, "-o", self.plan], check=True,
                       stdout=subprocess.DEVNULL, env=ENVIRONMENT)
        start = time.monotonic()
        subprocess.run(self.command(directory / "whole"), capture_output=True, env=ENVIRONMENT,
                       timeout=LIMIT, check=True)
        self.seconds = time.monotonic() - start
        self.bits = bits_of(directory / "whole")
        self.losses = report_of(directory / "whole")["losses"]

    def command(self, directory):
        directory.mkdir(exist_ok=True)
        saved = str(directory / "saved")
        return [*self.program, self.plan, "--quiet", "--steps", str(STEPS), "--save", saved,
                "--save-every", "1", "--resume", saved, "-o", str(directory / "run.json")]


def bits_of(directory):
    last = directory / "saved" / f"step-{STEPS:08}"
    return {path.name: path.read_bytes() for path in sorted(last.glob("rank-*.bin"))}


def report_of(directory):
    return json.loads((directory / "run.json").read_text())


def descendants(pid):
    try:
        children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    return [found for child in map(int, children) for found in [child, *descendants(child)]]


def is_running(pid):
    try:
        state = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def kill(command, delay, number, chance):
    """Whether the process was still there; it must end, and alone not with a status of a fault."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                               env=ENVIRONMENT, text=True, errors="replace")
    time.sleep(delay)
    was_there = process.poll() is None
    processes = [process.pid, *descendants(process.pid)] if was_there else []
    if processes:
        try:
            os.kill(chance.choice(processes), number)
        except ProcessLookupError:
            was_there = False
    end = time.monotonic() + LIMIT
    try:
        _, errors = process.communicate(timeout=LIMIT)
        # Ranks whose launcher was killed end a little later, as does their lock.
        while any(is_running(pid) for pid in processes):
            if time.monotonic() > end:
                raise subprocess.TimeoutExpired(command, LIMIT)
            time.sleep(0.05)
    except subprocess.TimeoutExpired:
        for pid in filter(is_running, processes):
            os.kill(pid, signal.SIGKILL)
        return was_there, [f"{signal.Signals(number).name}: did not end"]
    # A signal that comes before its handler ends the process by itself; launchers have their own.
    allowed = {0, -number, 128 + number}
    is_launched = not command[0].endswith("ptdp-run")
    return was_there, [] if process.returncode in allowed or is_launched else [
        f"{signal.Signals(number).name} ends with {process.returncode}: {errors[-300:]}"]


def finish(layout, directory):
    """What is wrong with the run that nobody kills any more, and with the one after it."""
    run = subprocess.run(layout.command(directory), capture_output=True, env=ENVIRONMENT,
                         timeout=LIMIT, text=True)
    if run.returncode != 0:
        return [f"status {run.returncode}: {run.stderr[-300:]}"]
    problems = []
    if "passed over" in run.stderr:
        problems.append(f"a checkpoint is damaged: {run.stderr[-300:]}")
    if bits_of(directory) != layout.bits:
        problems.append(f"other bits at step {STEPS}")
    hidden = {path.name for path in (directory / "saved").iterdir() if path.name[0] == "."}
    if "nothing to do" not in run.stderr:
        losses = report_of(directory)["losses"]
        if losses != layout.losses[len(layout.losses) - len(losses):]:
            problems.append("other losses")
        if hidden != {".lock"}:
            problems.append(f"left behind {hidden}")
    report = (directory / "run.json").read_bytes() if (directory / "run.json").exists() else None
    again = subprocess.run(layout.command(directory), capture_output=True, env=ENVIRONMENT,
                           timeout=LIMIT, text=True)
    if again.returncode != 0 or "nothing to do" not in again.stderr or again.stdout:
        problems.append(f"once again: status {again.returncode}: {again.stderr[-300:]}")
    if report is not None and (directory / "run.json").read_bytes() != report:
        problems.append("once again: the report is another")
    return problems


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--trials", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--mpiexec")
    arguments = parser.parse_args()
    launcher = [arguments.mpiexec, "-n", "2"] if arguments.mpiexec else []
    chance = random.Random(arguments.seed)
    num_failed = 0
    kills = collections.Counter()
    with tempfile.TemporaryDirectory() as text:
        layouts = {}
        for trial in range(arguments.trials):
            name = list(LAYOUTS)[trial % len(LAYOUTS)]
            if name not in layouts:
                directory = pathlib.Path(text) / name
                directory.mkdir()
                layouts[name] = Layout(arguments.build.resolve(), directory, LAYOUTS[name],
                                       launcher)
            layout = layouts[name]
            with tempfile.TemporaryDirectory(dir=text) as place:
                directory = pathlib.Path(place)
                problems = []
                moments = []
                for _ in range(chance.randint(1, 3)):
                    number = chance.choice(SIGNALS)
                    delay = chance.uniform(0.0, 1.1 * layout.seconds)
                    moments.append(f"{signal.Signals(number).name} at {delay:.3f} s")
                    was_there, found = kill(layout.command(directory), delay, number, chance)
                    problems += found
                    kills[signal.Signals(number).name if was_there else "too late"] += 1
                try:
                    problems += finish(layout, directory)
                except subprocess.TimeoutExpired as hang:
                    problems.append(str(hang))
            if problems:
                num_failed += 1
                print(f"trial {trial}, {name}, {', '.join(moments)}: {'; '.join(problems)}",
                      flush=True)
    print(f"{arguments.trials} trials, {num_failed} failed; " +
          ", ".join(f"{count} {name}" for name, count in sorted(kills.items())))
    return 1 if num_failed else 0


if __name__ == "__main__":
    sys.exit(main())
