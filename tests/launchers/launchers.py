"""What starts the four ranks of a plan on two hosts, two on each."""

import shutil
import subprocess

from hosts import ADDRESSES, NAMES, SYSTEM_PATH, Missing
from slurm import Slurm

RANKS, RANKS_PER_HOST = 4, 2
# As root, as in containers, and with more ranks than cores: Open MPI 4, and 5.
OF_MPI = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
          "OMPI_MCA_rmaps_base_oversubscribe": "1",
          "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe"}


class Launcher:
    """`transport`: over which ranks that it starts talk. `fault_status`: how it ends where ranks
    end with 4. `num_hosts`: on which it starts them."""

    name = ""
    transport = "tcp"
    fault_status = 4
    num_hosts = 2
    cases = ("trains", "rank killed", "resumed", "link cut")
    quick_cases = ("trains", "rank killed", "resumed")

    def __init__(self, hosts):
        self.hosts = hosts
        self.prepare()

    def prepare(self):
        """Starts what stays there from job to job. Throws Missing."""

    def start(self, words):
        """Starts a job; returns its processes on our side."""
        raise NotImplementedError

    def version(self):
        return ""


class Tcp(Launcher):
    """Nobody: the ranks are started one by one, with the variables of torchrun."""

    name = "tcp"
    quick_cases = ("trains", "link cut")  # other tests kill and resume

    def start(self, words):
        return [self.hosts.start(rank // RANKS_PER_HOST, f"rank{rank}", words, {
            "RANK": str(rank), "WORLD_SIZE": str(RANKS), "LOCAL_RANK": str(rank % RANKS_PER_HOST),
            "MASTER_ADDR": ADDRESSES[0], "MASTER_PORT": "29500"}) for rank in range(RANKS)]


def first_line(words):
    done = subprocess.run(words, text=True, capture_output=True, check=False)
    return (done.stdout or done.stderr).partition("\n")[0].strip()


class Mpirun(Launcher):
    name = "mpirun"
    transport = "mpi"
    cases = (*Launcher.cases, "transport")

    def prepare(self):
        self.program = shutil.which("mpirun", path=SYSTEM_PATH)
        if self.program is None:
            raise Missing("no mpirun: tools/install-dependencies")
        if "Open MPI" not in self.version() and "Open-MPI" not in self.version():
            raise Missing(f"expected the mpirun of Open MPI, got {self.version()}: "
                          "apt-get install openmpi-bin libopenmpi-dev")
        if not self.hosts.build.has_mpi:
            raise Missing("ptdp-run was built without MPI: tools/install-dependencies, then "
                          "cmake with -DPTDP_MPI=ON")

    def version(self):
        return first_line([self.program, "--version"])

    def start(self, words):
        places = ",".join(f"{name}:{RANKS_PER_HOST}" for name in NAMES)
        return [self.hosts.start(0, "mpirun", [
            self.program, "-n", RANKS, "--host", places, "--bind-to", "none", "--mca",
            "plm_rsh_agent", self.hosts.on_host, "-x", "PTDP_PROFILES", *words], OF_MPI)]


class Torchrun(Launcher):
    """An agent on each host; they meet at the first (--rdzv-backend c10d)."""

    name = "torchrun"
    fault_status = 1  # of ranks that failed; it shows theirs

    def prepare(self):
        self.program = self.hosts.build.torchrun()
        if self.program is None:
            raise Missing("no torchrun: tools/check-launchers --install")

    def version(self):
        python = self.program.parent / "python3"
        return first_line([python, "-c", "import torch; print('PyTorch', torch.__version__)"])

    def flags(self, host):
        return ["--nnodes", 2, "--nproc-per-node", RANKS_PER_HOST, "--rdzv-backend", "c10d",
                "--rdzv-endpoint", f"{ADDRESSES[0]}:29400", "--rdzv-id", "check"]

    def start(self, words):
        return [self.hosts.start(host, f"torchrun{host}", [
            self.program, "--no-python", *self.flags(host), *words], {"OMP_NUM_THREADS": "1"})
            for host in range(self.num_hosts)]


class TorchrunMaster(Torchrun):
    """As on clusters whose scheduler numbers the nodes."""

    name = "torchrun-master"
    cases = ("trains", "rank killed", "resumed")

    def flags(self, host):
        return ["--nnodes", 2, "--nproc-per-node", RANKS_PER_HOST, "--node-rank", host,
                "--master-addr", ADDRESSES[0], "--master-port", 29500]


class TorchrunAlone(Torchrun):
    """As the help of ptdp-run says."""

    name = "torchrun-alone"
    num_hosts = 1
    cases = ("trains", "rank killed", "resumed", "restarted")
    max_restarts = 0

    def flags(self, host):
        return ["--nproc-per-node", RANKS, "--max-restarts", self.max_restarts]


class Srun(Launcher):
    """A step of Slurm without a PMI."""

    name = "srun"
    mpi = "none"

    def prepare(self):
        self.slurm = Slurm(self.hosts)
        self.slurm.start()

    def version(self):
        return first_line(["slurmd", "-V"])

    def start(self, words):
        return [self.hosts.start(0, self.name, [
            "srun", f"--mpi={self.mpi}", "-N", 2, "-n", RANKS, "--overcommit", "--job-name", "ptdp",
            *words], self.slurm.variables())]


class SrunPmix(Srun):
    """A step of Slurm whose PMIx tells MPI who the others are."""

    name = "srun-pmix"
    transport = "mpi"
    mpi = "pmix"

    def prepare(self):
        if not self.hosts.build.has_mpi:
            raise Missing("ptdp-run was built without MPI: tools/install-dependencies, then "
                          "cmake with -DPTDP_MPI=ON")
        super().prepare()


LAUNCHERS = {launcher.name: launcher for launcher in (
    Tcp, Mpirun, Torchrun, TorchrunMaster, TorchrunAlone, Srun, SrunPmix)}
