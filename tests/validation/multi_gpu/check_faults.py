"""Section `faults`: a rank that dies, hangs, stops, throws or leaves ends the whole run in time,
and nothing of it stays behind: tests/runtime/faults/campaign.py over what joins the GPUs."""

import re
import signal
import time

from check import Failed
from check_layouts import TINY_SHAPE
from check_losses import layout_flags
from commands import make_plan
from ranks import Job, is_killed, processes_left

DEADLINE = 2.0       # of an action, on the host [s]
GPU_DEADLINE = 10.0  # where a first step loads kernels
# Beyond the deadline: start, the making of communicators, the grace of the others [s].
ALLOWANCE = 40.0
STEPS, STEP = 4, 3
MEMORY_BACK_SECONDS = 10.0
MEMORY_BACK_MIB = 64.0
CASE_SECONDS = 60.0

# By layout, where its faults are: in compute, in messages, in collectives.
LAYOUTS = {
    "pipeline": (1, 2, 1, ["--schedule", "1f1b"]),
    "data": (1, 1, 2, ["--zero-stage", 1]),
    "tensor": (2, 1, 1, []),
}
# layout, rank, kind of action, faults.
CASES = [
    ("pipeline", 1, "F", ("throw", "hang", "exit", "kill", "stop")),
    ("pipeline", 0, "SEND_F", ("throw", "kill", "stop")),
    ("pipeline", 1, "RECV_F", ("hang", "kill")),
    ("pipeline", 1, "SEND_B", ("throw", "exit")),
    ("data", 1, "REDUCE_GRAD", ("throw", "hang", "kill", "stop")),
    ("data", 0, "UNSHARD", ("kill",)),
    ("data", 1, "NORM", ("hang", "exit")),
    ("tensor", 1, "F", ("throw", "kill", "stop")),
    ("tensor", 0, "B", ("hang", "kill")),
]
QUICK = {("pipeline", "SEND_F", "kill"), ("data", "REDUCE_GRAD", "throw")}
SIGNALS = {"KILL": signal.SIGKILL, "STOP": signal.SIGSTOP}
IN_THREADS = ("throw", "hang")
# What a rank that ends by itself may end with.
OWN_STATUS = {"throw": (4,), "hang": (4,), "exit": (3, 4)}


def deadline(machine):
    return DEADLINE if machine.on_host else GPU_DEADLINE


def layouts_of(machine):
    """Of two ranks, or one on each node; a tensor-parallel group stays within a node."""
    nodes = len(machine.nodes)
    return {name: layout for name, layout in LAYOUTS.items()
            if 2 % nodes == 0 and (layout[0] == 1 or nodes == 1)}


def cases_of(machine):
    """[layout, rank, kind, fault, how ranks meet]"""
    found = []
    for layout, rank, kind, faults in CASES:
        if layout not in layouts_of(machine):
            continue
        for fault in faults:
            if machine.is_quick and (layout, kind, fault) not in QUICK:
                continue
            if machine.meeting == "threads":
                if fault in IN_THREADS:
                    found.append((layout, rank, kind, fault, "threads"))
                continue
            found.append((layout, rank, kind, fault, machine.meeting))
            if fault in IN_THREADS and not machine.on_host and len(machine.nodes) == 1:
                found += [(layout, rank, kind, fault, meeting)
                          for meeting in ("own processes", "threads")]
    return found


def command_of(check, layout, steps, flags, meeting):
    """Words for ptdp-run, and the file that they need."""
    plan = make_plan(check, layout, TINY_SHAPE, layout_flags(*LAYOUTS[layout]),
                     cluster=["--cluster", "host"])
    if plan is None:
        raise Failed(f"{layout}: nothing fits")
    words = ["ptdp-run", plan.name, "--steps", steps, "--deadline", deadline(check.machine),
             *flags, *check.machine.transport_flags(meeting)]
    return words, {plan.name: plan.read_text()}


def problems_of(ended, victim, fault, named):
    """What is wrong with how the processes of a run ended. `named`: what a line must have."""
    problems = []
    for process in ended:
        is_victim = process.rank == victim and len(ended) > 1
        if is_victim and fault == "stop":
            continue  # its launcher ends it
        if process.status is None:
            problems.append(f"rank {process.rank} did not end")
        elif is_victim and fault == "kill":
            if not is_killed(process.status):
                problems.append(f"rank {process.rank}: status {process.status}, expected a SIGKILL")
        else:
            wanted = OWN_STATUS[fault] if is_victim or (len(ended) == 1 and fault in OWN_STATUS) \
                else (4,)
            if len(ended) == 1 and fault in ("kill", "stop"):
                wanted = (4, 128 + signal.SIGKILL, -signal.SIGKILL)  # mpirun's
            if process.status not in wanted:
                problems.append(f"rank {process.rank}: status {process.status}, expected "
                                f"{' or '.join(map(str, wanted))}")
    told = "\n".join(process.stderr for process in ended)
    if not re.search(named, told):
        problems.append(f"no line has {named!r}: {told[-300:]}")
    return problems


def memory_problems(machine, before):
    """GPUs that did not get back what the run had."""
    end = time.monotonic() + MEMORY_BACK_SECONDS
    while True:
        now = [node.used_memory() for node in machine.nodes]
        kept = [f"GPU {gpu} of node {node}: {mib - was:.0f} MiB"
                for node, (had, has) in enumerate(zip(before, now))
                for gpu, (was, mib) in enumerate(zip(had, has)) if mib - was > MEMORY_BACK_MIB]
        if not kept:
            return []
        if time.monotonic() > end:
            return [f"memory is not given back: {', '.join(kept)}"]
        time.sleep(0.5)


def end_and_judge(check, job, victim, fault, named, before, since, longest):
    """Seconds until all processes but those that are stopped ended, and what is wrong."""
    if fault == "stop" and job.meeting == "tcp":
        ended = wait_without(check, job, victim, longest)
    else:
        ended = job.wait(longest)
    seconds = max(process.seconds for process in ended if process.rank != victim or fault != "stop"
                  or len(ended) == 1)
    problems = problems_of(ended, victim, fault, named)
    left = processes_left(check.machine)
    if left:
        problems.append(f"processes left behind: {left}")
    problems += memory_problems(check.machine, before)
    return {"seconds": round(seconds - since, 1), "problems": problems}


def wait_without(check, job, victim, longest):
    """A stopped process is ended once the others have, as launchers do."""
    others = [rank for held in job.places for rank in held if rank != victim]
    end = time.monotonic() + min(longest, check.time_left())
    while job.is_running(others) and time.monotonic() < end:
        time.sleep(0.02)
    job.send_signal(victim, signal.SIGKILL)
    return job.wait(5.0)


def run_case(check, layout, rank, kind, fault, meeting):
    before = [node.used_memory() for node in check.machine.nodes]
    flags = ["--quiet", "--inject", f"rank={rank},kind={kind},step={STEP},what={fault}"]
    words, files = command_of(check, layout, STEPS, flags, meeting)
    job = Job(check, words, 2, meeting=meeting, files=files)
    named = rf"ptdp-run: rank {rank}: \d+{kind}\d+ of step {STEP}: "
    return end_and_judge(check, job, rank, fault, named, before, 0.0,
                         deadline(check.machine) + ALLOWANCE)


def run_signal(check, layout, sent):
    """A signal from outside, while the ranks train."""
    machine = check.machine
    before = [node.used_memory() for node in machine.nodes]
    words, files = command_of(check, layout, 1000000, [], "tcp")
    start = time.monotonic()
    job = Job(check, words, 2, meeting="tcp", files=files)
    job.wait_for(r"step +\d+/", seconds=ALLOWANCE)
    job.send_signal(1, SIGNALS[sent])
    since = time.monotonic() - start
    named = r"ptdp-run: rank \d+: .*(has ended|does not answer|has not ended|is gone|rank 1)"
    return end_and_judge(check, job, 1, sent.lower(), named, before, since,
                         deadline(machine) + ALLOWANCE)


def faults(check):
    machine = check.machine
    if not layouts_of(machine):
        check.skip("faults", "more than two nodes: one or two are tried")
        return
    cases = {f"{meeting} {layout} {kind} {fault}": (
        lambda case=(layout, rank, kind, fault, meeting): run_case(check, *case))
        for layout, rank, kind, fault, meeting in cases_of(machine)}
    if machine.meeting == "tcp":
        for layout in list(layouts_of(machine))[:1 if machine.is_quick else None]:
            for sent in ("KILL",) if machine.is_quick else SIGNALS:
                cases[f"tcp {layout} kill -{sent} from outside"] = (
                    lambda layout=layout, sent=sent: run_signal(check, layout, sent))
    for name, run in cases.items():
        result = check.remember(name, run, CASE_SECONDS if not machine.is_quick else 5.0)
        check.goal(name, "all end, status 4, the rank named",
                   f"{result['seconds']:.1f} s" + "".join(f"; {problem}"
                                                          for problem in result["problems"]),
                   not result["problems"])
