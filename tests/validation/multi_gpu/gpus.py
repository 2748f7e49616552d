"""The machine that tools/multi-gpu-check runs on: all of its GPUs, and what starts ranks there."""

import os
import re
import shutil

from machine import Machine, find_smi, output_of
from nodes import Node

MEETINGS = ("tcp", "threads", "mpi")
# How ranks that have GPUs meet on one machine, and what a row calls it.
WORDS_OF_MEETINGS = {"tcp": "processes of a launcher", "own processes": "ptdp-run's own processes",
                     "threads": "threads of one process", "mpi": "processes of mpirun"}
# Between two GPUs in the matrix of nvidia-smi topo -m, the fastest first.
LINKS = re.compile(r"^(NV\d+|PIX|PXB|PHB|NODE|SYS)$")


def visible(environment, number, identity):
    """Whether programs see this GPU."""
    listed = environment.get("CUDA_VISIBLE_DEVICES")
    if listed is None:
        return True
    words = [word.strip() for word in listed.split(",")]
    return number in words or any(word.startswith("GPU-") and identity.startswith(word)
                                  for word in words)


def find_gpus(environment):
    """Number, name and the other words of each GPU that programs see."""
    smi = find_smi(environment)
    if smi is None:
        return []
    rows = output_of([smi, "--query-gpu=index,uuid,name", "--format=csv,noheader"],
                     environment).splitlines()
    gpus = [[field.strip() for field in row.split(",", 2)] for row in rows]
    return [{"number": fields[0], "name": fields[2]} for fields in gpus
            if len(fields) == 3 and visible(environment, fields[0], fields[1])]


def links_in(matrix):
    """What joins GPUs, each word once, of nvidia-smi topo -m."""
    rows = [line.split()[1:] for line in matrix.splitlines() if re.match(r"GPU\d+\s", line)]
    words = {word for row in rows for word in row[:len(rows)] if LINKS.match(word)}
    return sorted(words)


class GpuMachine(Machine):
    """`on_host`: ranks on the cores of this host, to try the sections without a GPU, and the
    transports of a host with them. `emulates`: likewise, on as many emulated GPUs as `ranks`, which
    threads of a process share."""

    def __init__(self, directory, on_host=False, build=None, environment=None, meeting=None,
                 ranks=None, emulates=False):
        environment = dict(os.environ if environment is None else environment)
        if emulates:
            environment["PTDP_EMULATED_GPUS"] = str(ranks or 4)
        super().__init__(directory, on_host, build, environment, emulates)
        self.gpus = find_gpus(self.environment) if self.on_gpu else []
        smi = find_smi(self.environment) if self.on_gpu else None
        self.links = links_in(output_of([smi, "topo", "-m"])) if smi else []
        self.meeting = meeting or ("threads" if emulates else "tcp")
        self.address = "127.0.0.1"  # where ranks meet
        self.mpirun = shutil.which("mpirun", path=self.environment.get("PATH", ""))
        self.nodes = [Node(self)]
        self.gpus_per_node = len(self.gpus)
        self.host_ranks = ranks or 4
        self.is_quick = False   # a sample of the layouts and faults
        self.nccl_tests = None  # the folder of all_reduce_perf
        self.launches = []      # what stands before a program to start it on all nodes

    def description(self):
        described = super().description()
        if self.on_host and not self.emulates:
            return {**described, "ranks": self.host_ranks}
        return {**described, "gpus": [gpu["name"] for gpu in self.gpus], "links": self.links,
                "nodes": len(self.nodes)}

    @property
    def on_host(self):
        """Whether models are tiny, ranks share cores, and so times have no goal."""
        return self.rehearses

    def use_nodes(self, nodes):
        """These instead of this one alone; the first is this one."""
        self.nodes = nodes
        self.gpus_per_node = min([len(self.gpus)] +
                                 [node.description()["num_gpus"] for node in nodes[1:]])

    def num_ranks(self):
        """As many as have a GPU each on nodes of equally many."""
        return self.host_ranks if self.on_host else self.gpus_per_node * len(self.nodes)

    def sizes(self):
        """2, 4, 8 ... ranks, and all of them, that can be spread over the nodes evenly."""
        most = self.num_ranks()
        sizes = {2 ** k for k in range(1, 12) if 2 ** k <= most} | {most}
        return [size for size in sorted(sizes) if size > 1 and size % len(self.nodes) == 0]

    def most_of_eight(self):
        """The largest power of two up to 8 among the sizes; 0 for none."""
        return max((size for size in self.sizes() if size in (2, 4, 8)), default=0)

    def used_memory(self):
        """MiB in use, by GPU."""
        smi = find_smi(self.environment)
        if self.on_host or smi is None:
            return []
        rows = output_of([smi, "--query-gpu=memory.used", "--format=csv,noheader,nounits"])
        return [float(row) for row in rows.split() if row.replace(".", "").isdigit()]

    def transport_flags(self, meeting):
        """Of ptdp-run: over what tensors travel between ranks that meet like this."""
        if self.on_gpu:
            return ["--device", "cuda", "--transport",
                    "nccl-threads" if meeting == "threads" else "nccl"]
        return ["--transport", meeting] if meeting in MEETINGS else []

    def benchmark_flags(self, meeting):
        """Of nccl_benchmark, whose ranks are threads wherever no launcher started several."""
        flags = self.transport_flags(meeting)
        return [flag.removesuffix("-threads") for flag in flags]

    def tensors_over(self, meeting):
        """As reports call it."""
        return "nccl" if self.on_gpu else meeting

    def fault(self):
        """Why nothing can be checked here; empty where it can."""
        if self.emulates:
            return "" if self.gpu else "no emulated GPU: nvidia-smi of its folder does not run"
        if self.on_host:
            if self.meeting == "mpi" and self.mpirun is None:
                return "--transport mpi: no mpirun on the PATH"
            return ""
        if not self.gpu:
            return "no GPU here (nvidia-smi shows none); --host tries the sections without one"
        if len(self.gpus) * len(self.nodes) < 2:
            return ("one GPU here: expected two or more, or several nodes (--commands shows how to "
                    "start it there)")
        return ""
