"""The nodes of a check: this one, and others on which another multi-gpu-check does what the first
one asks for. Only the first decides; so no plan, port or result can differ between them."""

import json
import os
import pathlib
import signal
import socket
import subprocess
import time

from check import Failed
from commands import end_group
from machine import revision

TOKEN = "PTDP_MULTI_GPU_CHECK"  # a variable by which processes of ours are found
JOINING_SECONDS = 300.0
HELLO_SECONDS = 10.0
ANSWER_SECONDS = 600.0
TELL_EVERY = 10.0
# What launchers set for their own processes, and which those that we start must not see.
OF_LAUNCHERS = ("OMPI_", "PMI_", "PMIX_", "PRTE_", "SLURM_", "MPI_LOCAL", "TORCHELASTIC_",
                "PTDP_MEETING_")
OF_TORCHRUN = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK",
               "GROUP_WORLD_SIZE", "ROLE_RANK", "ROLE_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def without_launcher(environment):
    return {name: value for name, value in environment.items()
            if not name.startswith(OF_LAUNCHERS) and name not in OF_TORCHRUN}


def left_over(token):
    """Processes of this machine that began as ours and have not ended."""
    left = []
    for entry in pathlib.Path("/proc").glob("[0-9]*/environ"):
        try:
            variables = entry.read_bytes().split(b"\0")
            state = (entry.parent / "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if f"{TOKEN}={token}".encode() in variables and state not in "ZX":
            left.append(int(entry.parent.name))
    return left


class Node:
    """This machine."""

    METHODS = ("description", "start", "progress", "is_running", "send_signal", "wait",
               "used_memory", "processes_left")

    def __init__(self, machine, number=0):
        self.machine = machine
        self.number = number
        self.token = f"{os.getpid()}-{time.monotonic_ns()}"
        self.running = {}

    def description(self):
        return {"host": socket.gethostname(), "num_gpus": len(self.machine.gpus),
                **self.machine.description()}

    def start(self, job, directory, files, processes):
        """Starts them in a folder of its own; each has words, the first a program of ours or of the
        system, and variables beside those of this machine. Places count from 0."""
        folder = self.machine.directory / "scratch" / directory
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (folder / name).write_text(text)
        started = []
        for place, process in enumerate(processes):
            words = [str(word) for word in process["words"]]
            # Behind a launcher's words too.
            words = [str(self.machine.find_program(word) or word) for word in words]
            environment = without_launcher(self.machine.program_environment())
            environment |= {TOKEN: self.token, **process["environment"]}
            paths = [folder / f"{job}.{place}.{stream}" for stream in ("out", "err")]
            with open(paths[0], "w", encoding="utf-8") as output, \
                    open(paths[1], "w", encoding="utf-8") as errors:
                started.append((subprocess.Popen(words, stdout=output, stderr=errors,
                                                 stdin=subprocess.DEVNULL, cwd=folder,
                                                 env=environment, start_new_session=True), paths))
        self.running[job] = (time.monotonic(), started)

    def progress(self, job, place):
        """What it wrote to standard error so far."""
        return self.running[job][1][place][1][1].read_text(errors="replace")

    def is_running(self, job, place):
        return self.running[job][1][place][0].poll() is None

    def send_signal(self, job, place, number):
        end_group(self.running[job][1][place][0], number)

    def wait(self, job, seconds):
        """Of each: its status, or None where it had to be ended, what it wrote, and how long it
        ran."""
        start, started = self.running.pop(job)
        end = time.monotonic() + seconds
        took = [None] * len(started)
        while None in took and time.monotonic() < end:
            for place, (process, _) in enumerate(started):
                if took[place] is None and process.poll() is not None:
                    took[place] = time.monotonic() - start
            time.sleep(0.01)
        results = []
        for (process, paths), duration in zip(started, took):
            if duration is None:
                end_group(process)
            status = process.wait()
            texts = [path.read_text(errors="replace")[-200000:] for path in paths]
            results.append({"status": None if duration is None else status, "output": texts[0],
                            "errors": texts[1],
                            "seconds": round(duration or time.monotonic() - start, 2)})
        return results

    def used_memory(self):
        return self.machine.used_memory()

    def processes_left(self):
        return left_over(self.token)

    def end_all(self):
        for _, started in self.running.values():
            for process, _ in started:
                end_group(process, signal.SIGKILL)
                process.wait()
        self.running.clear()


class Lines:
    """JSON values, one on a line, both ways."""

    def __init__(self, connection):
        self.connection = connection
        self.file = connection.makefile("rw", encoding="utf-8", newline="\n")

    def send(self, value):
        self.file.write(json.dumps(value) + "\n")
        self.file.flush()

    def receive(self):
        line = self.file.readline()
        if not line.endswith("\n"):
            raise ConnectionError("the connection ended")
        return json.loads(line)

    def close(self):
        self.connection.close()


class RemoteNode:
    """Another node, with the methods of Node."""

    def __init__(self, lines, number, host):
        self.lines = lines
        self.number = number
        self.host = host

    def __getattr__(self, name):
        if name not in Node.METHODS:
            raise AttributeError(name)
        return lambda *arguments: self._call(name, arguments)

    def _call(self, method, arguments):
        try:
            self.lines.send({"method": method, "arguments": arguments})
            answer = self.lines.receive()
        except (OSError, ValueError) as fault:
            raise Failed(f"node {self.number} ({self.host}) does not answer: {fault}") from None
        if "fault" in answer:
            raise Failed(f"node {self.number} ({self.host}): {answer['fault']}")
        return answer["result"]

    def end(self, status):
        try:
            self.lines.send({"method": "end", "arguments": [status]})
        except OSError:
            pass
        self.lines.close()


def address_of(master):
    """Host and port of "host:port"; ValueError for anything else."""
    host, separator, port = master.rpartition(":")
    if not separator or not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise ValueError(f"--master: expected HOST:PORT, got {master!r}")
    return host.strip("[]"), int(port)


def join_others(count, master, tell, seconds=JOINING_SECONDS):
    """The nodes 1 to `count` - 1, once all have come."""
    _, port = address_of(master)
    come = {}
    end = time.monotonic() + seconds
    with socket.create_server(("", port)) as server:
        server.settimeout(TELL_EVERY)
        while len(come) < count - 1:
            missing = [number for number in range(1, count) if number not in come]
            if time.monotonic() > end:
                raise Failed(f"after {seconds:.0f} s no word from node "
                             f"{', '.join(map(str, missing))}: start it with --master {master}")
            try:
                connection, _ = server.accept()
            except TimeoutError:
                tell(f"waiting at {master} for node {', '.join(map(str, missing))}")
                continue
            connection.settimeout(HELLO_SECONDS)
            lines = Lines(connection)
            try:
                hello = lines.receive()
                fault = fault_of(hello, count, missing)
                lines.send({"fault": fault} if fault else {"result": "welcome"})
            except (OSError, ValueError):
                lines.close()
                continue
            if fault:
                tell(fault)
                lines.close()
                continue
            connection.settimeout(ANSWER_SECONDS)
            come[hello["node"]] = RemoteNode(lines, hello["node"], hello["host"])
    return [come[number] for number in range(1, count)]


def fault_of(hello, count, missing):
    """Why a node cannot join; empty where it can."""
    if not isinstance(hello, dict) or not {"node", "nodes", "host", "revision"} <= hello.keys():
        return "somebody came who is no multi-gpu-check"
    name = f"node {hello['node']} ({hello['host']})"
    if hello["nodes"] != count:
        return f"{name}: expected --nodes {count}, got {hello['nodes']}"
    if hello["revision"] != revision():
        return f"{name}: expected revision {revision()}, got {hello['revision']}"
    if hello["node"] not in missing:
        return f"{name}: there is one already, or none of {count}"
    return ""


def connect(master, seconds):
    end = time.monotonic() + seconds
    while True:
        try:
            return socket.create_connection(address_of(master), timeout=5.0)
        except OSError as fault:
            if time.monotonic() > end:
                raise Failed(f"nobody answers at {master} ({fault}): is node 0 started?") from None
            time.sleep(0.5)


def serve(node, count, master, seconds=JOINING_SECONDS):
    """Does what node 0 asks for until that has ended; returns its status."""
    connection = connect(master, seconds)
    connection.settimeout(None)
    lines = Lines(connection)
    lines.send({"node": node.number, "nodes": count, "host": socket.gethostname(),
                "revision": revision()})
    answer = lines.receive()
    if "fault" in answer:
        raise Failed(answer["fault"])
    try:
        while True:
            request = lines.receive()
            if request["method"] == "end":
                return request["arguments"][0]
            lines.send(answer_to(node, request))
    except ConnectionError:
        raise Failed("node 0 is gone") from None
    finally:
        node.end_all()
        lines.close()


def answer_to(node, request):
    if request["method"] not in Node.METHODS:
        return {"fault": f"no such request: {request['method']}"}
    try:
        return {"result": getattr(node, request["method"])(*request["arguments"])}
    except (OSError, KeyError, IndexError) as fault:
        return {"fault": f"{request['method']}: {type(fault).__name__}: {fault}"}
