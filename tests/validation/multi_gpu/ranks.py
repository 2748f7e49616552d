"""Starts the ranks of a run, as a launcher does, and ends them."""

import json
import os
import re
import signal
import socket
import time

from check import Failed, Unfinished
from commands import last_line, note

LONGEST = 180.0  # seconds of one run
# Open MPI 4 and 5: as root, as in containers, and more processes than cores.
OF_MPI = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
          "OMPI_MCA_rmaps_base_oversubscribe": "1",
          "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe"}


def free_port():
    """Of this machine, at this moment."""
    with socket.create_server(("", 0)) as server:
        return server.getsockname()[1]


def variables_of(rank, ranks, nodes, address, port, run):
    """What torchrun sets for one of its processes, and we in its place."""
    per_node = ranks // nodes
    return {"RANK": str(rank), "WORLD_SIZE": str(ranks), "LOCAL_RANK": str(rank % per_node),
            "LOCAL_WORLD_SIZE": str(per_node), "MASTER_ADDR": address, "MASTER_PORT": str(port),
            "TORCHELASTIC_RUN_ID": run}


class Ended:
    """What became of a process: its rank, or 0 where it held all of them."""

    def __init__(self, rank, result):
        self.rank = rank
        self.status = result["status"]  # None: it had to be ended
        self.stdout = result["output"]
        self.stderr = result["errors"]
        self.seconds = result["seconds"]


class Job:
    """The processes of one run. `meeting` says how its ranks find each other: "threads" of one
    process, "own processes" that ptdp-run starts, "mpi" under mpirun, or "tcp": a process for each
    rank, spread over the nodes in blocks, with torchrun's variables; anything else is started by
    `prefix`. `only`: these ranks alone are started. `variables`: of all processes, or a function of
    the rank."""

    count = 0

    def __init__(self, check, words, ranks, meeting=None, files=None, variables=None, only=None,
                 port=None, prefix=None):
        machine = check.machine
        self.check = check
        self.meeting = meeting or machine.meeting
        Job.count += 1
        self.name = f"{check.name}-{Job.count}"
        self.words = [str(word) for word in words]
        self.nodes = machine.nodes
        of_rank = variables if callable(variables) else lambda _: variables or {}
        if self.meeting == "tcp":
            self.places = self._spread(ranks, only)
            port = port or free_port()
            run = f"{os.getpid()}.{self.name}"
            processes = [[{"words": self.words, "environment": {
                **variables_of(rank, ranks, len(self.nodes), machine.address, port, run),
                **of_rank(rank)}} for rank in held] for held in self.places]
        else:
            self.places = [[0]]
            if self.meeting == "mpi":
                prefix = [machine.mpirun, "-n", ranks]
            processes = [[{"words": [*(prefix or []), *self.words],
                           "environment": {**OF_MPI, **of_rank(0)}}]]
        for node, wanted in zip(self.nodes, processes):
            node.start(self.name, check.name, files or {}, wanted)

    def _spread(self, ranks, only):
        nodes = len(self.nodes)
        if ranks % nodes:
            raise Failed(f"{ranks} ranks cannot be spread over {nodes} nodes")
        per_node = ranks // nodes
        return [[rank for rank in range(i * per_node, (i + 1) * per_node)
                 if only is None or rank in only] for i in range(nodes)]

    def _of_rank(self, rank):
        for node, held in zip(self.nodes, self.places):
            if rank in held:
                return node, held.index(rank)
        raise Failed(f"{self.name} has no process of rank {rank}")

    def send_signal(self, rank, number):
        node, place = self._of_rank(rank)
        node.send_signal(self.name, place, number)

    def is_running(self, ranks):
        """Whether any of them is."""
        return any(node.is_running(self.name, place)
                   for node, place in map(self._of_rank, ranks))

    def wait_for(self, pattern, seconds=LONGEST):
        """Until a rank wrote it to standard error, or it is too late."""
        end = time.monotonic() + min(seconds, self.check.time_left())
        while not any(re.search(pattern, node.progress(self.name, place))
                      for node, held in zip(self.nodes, self.places) for place in range(len(held))):
            if time.monotonic() > end:
                self.wait(0.0)
                raise Failed(f"{self.name}: no rank ever wrote {pattern!r}")
            time.sleep(0.05)

    def wait(self, seconds=LONGEST):
        """All of them, by rank. Those that run on are ended."""
        left = self.check.time_left()
        end = time.monotonic() + min(seconds, max(left, 0.0))
        ended = []
        for node, held in zip(self.nodes, self.places):
            results = node.wait(self.name, max(end - time.monotonic(), 0.0))
            ended += [Ended(rank, result) for rank, result in zip(held, results)]
        for process in ended:
            note(self.check, f"$ {' '.join(self.words)}  [{self.name}, {self.meeting}, rank "
                             f"{process.rank}]\n{process.stdout[-20000:]}{process.stderr[-20000:]}"
                             f"status {process.status} after {process.seconds:.1f} s\n")
        if left < seconds and any(process.status is None for process in ended):
            raise Unfinished(f"in {self.name}")
        return ended


def processes_left(machine, seconds=3.0):
    """Of all nodes, once those that were just ended are gone."""
    end = time.monotonic() + seconds
    while True:
        left = [pid for node in machine.nodes for pid in node.processes_left()]
        if not left or time.monotonic() > end:
            return left
        time.sleep(0.05)


def fault_of(ended):
    """Why a run failed; empty where it did not. The first rank that says something of its own
    speaks."""
    failed = [process for process in ended if process.status != 0]
    if not failed:
        return ""
    speaking = [process for process in failed if "ptdp-run: " in process.stderr] or failed
    process = min(speaking, key=lambda one: one.seconds)
    status = "did not end" if process.status is None else f"status {process.status}"
    return f"rank {process.rank}: {status}: {last_line(process)}"


def run_all(check, words, ranks, **how):
    """The processes of a run that must succeed."""
    longest = how.pop("longest", LONGEST)
    ended = Job(check, words, ranks, **how).wait(longest)
    fault = fault_of(ended)
    if fault:
        raise Failed(f"{words[0]}: {fault}")
    return ended


def train(check, plan, name, ranks, flags, meeting=None, transport=True, **how):
    """The report of a run of ptdp-run that must succeed; `plan` is a file of this machine."""
    report = check.scratch / f"{name}.run.json"
    report.unlink(missing_ok=True)
    meeting = meeting or check.machine.meeting
    words = ["ptdp-run", plan.name, "--quiet", "-o", report.name, *map(str, flags)]
    if transport:
        words += check.machine.transport_flags(meeting)
    run_all(check, words, ranks, meeting=meeting, files={plan.name: plan.read_text()}, **how)
    if not report.exists():
        raise Failed(f"{name}: ptdp-run wrote no report")
    found = json.loads(report.read_text())
    over, expected = found["execution"]["transport"], check.machine.tensors_over(meeting)
    # What a launcher means is its own affair where ranks are on the host.
    if transport and over != expected and not (check.machine.on_host and meeting == "launched"):
        raise Failed(f"{name}: tensors travelled over {over}, expected {expected}")
    return found


def is_killed(status):
    return status in (-signal.SIGKILL, 128 + signal.SIGKILL)
