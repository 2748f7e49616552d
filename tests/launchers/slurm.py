"""Slurm of two nodes, from munged to slurmd; its files are in the check's directory."""

import secrets
import shutil

from hosts import ADDRESSES, NAMES, SYSTEM_PATH, Failed, Missing, wait_until

PROGRAMS = {"munged": "munge", "slurmctld": "slurmctld", "slurmd": "slurmd", "srun": "slurm-client",
            "sinfo": "slurm-client"}
START_SECONDS = 30.0
# Without accounting, cgroups and binding; nodes that do not answer are given up soon.
CONFIGURATION = """\
ClusterName=ptdp
SlurmctldHost={names[0]}({addresses[0]})
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={directory}/munge.socket
CredType=cred/munge
StateSaveLocation={directory}/state
TmpFS={directory}/tmp-%n
SlurmdSpoolDir={directory}/spool-%n
SlurmctldPidFile={directory}/slurmctld.pid
SlurmdPidFile={directory}/slurmd-%n.pid
SlurmctldLogFile={directory}/slurmctld.log
SlurmdLogFile={directory}/slurmd-%n.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/builtin
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SlurmdTimeout=10
MessageTimeout=5
KillWait=2
NodeName={names[0]} NodeAddr={addresses[0]} CPUs=2
NodeName={names[1]} NodeAddr={addresses[1]} CPUs=2
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


class Slurm:
    def __init__(self, hosts):
        missing = [name for name in PROGRAMS if not shutil.which(name, path=SYSTEM_PATH)]
        if missing:
            raise Missing(f"no {', '.join(missing)}: tools/check-launchers --install")
        self.hosts = hosts
        self.directory = hosts.directory / f"slurm-{hosts.num_started}"
        self.daemons = []

    def variables(self):
        return {"SLURM_CONF": str(self.directory / "slurm.conf")}

    def start(self):
        directory = self.directory
        of_nodes = [f"{kind}-{name}" for kind in ("spool", "tmp") for name in NAMES]
        for folder in ("", "state", *of_nodes):
            (directory / folder).mkdir()
        (directory / "slurm.conf").write_text(CONFIGURATION.format(
            names=NAMES, addresses=ADDRESSES, directory=directory))
        # slurmd looks for a cgroup's file system otherwise, of which /sys of a namespace has none.
        (directory / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
        key = directory / "munge.key"
        key.write_bytes(secrets.token_bytes(128))
        key.chmod(0o400)
        self._start(0, "munged", "--foreground", "--force", "--key-file", key, "--socket",
                    directory / "munge.socket", "--pid-file", directory / "munged.pid",
                    "--log-file", directory / "munged.log", "--seed-file", directory / "munge.seed")
        self._wait("munged", (directory / "munge.socket").exists)
        self._start(0, "slurmctld", "-D")
        for host, name in enumerate(NAMES):
            self._start(host, "slurmd", "-D", "-N", name)
        self._wait("nodes that are idle", self.is_idle)

    def is_idle(self):
        done = self.hosts.call("ip", "netns", "exec", NAMES[0], "env",
                               *(f"{name}={value}" for name, value in self.variables().items()),
                               "sh", "-c", "sinfo --noheader --format '%T %D' 2>&1 || true")
        return done.split() == ["idle", str(len(NAMES))]

    def _start(self, host, program, *flags):
        self.daemons.append(self.hosts.start(host, program, [program, *flags], self.variables()))

    def _wait(self, what, condition):
        came, _ = wait_until(condition, START_SECONDS, pause=0.2)
        if not came:
            told = [f"{daemon.name}: {daemon.texts().strip()[-300:]}" for daemon in self.daemons]
            logs = [f"{log.name}: {log.read_text()[-400:]}"
                    for log in sorted(self.directory.glob("*.log"))]
            raise Failed(f"Slurm: no {what} after {START_SECONDS:.0f} s: {'; '.join(told + logs)}")
