"""Two hosts that are namespaces of this machine: each with a name, a network and a link to the
other of its own. All that runs on them ends with this process, however that ends."""

import os
import pathlib
import re
import select
import shlex
import shutil
import signal
import subprocess
import tempfile
import time

NAMES = ("h1", "h2")
ADDRESSES = ("10.213.7.1", "10.213.7.2")
TOOLS = {"ip": "iproute2", "mount": "mount", "nsenter": "util-linux", "unshare": "util-linux"}
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
START_SECONDS = 20.0
# Namespaces of processes, mounts and network, whose first process ends with our end of its standard
# input, and the others with it; so does what is mounted there.
MAKE_HOSTS = """\
set -e
mount -t tmpfs tmpfs /run
mount --bind "$1/hosts" /etc/hosts
ip link set lo up
for host in h1 h2; do
  ip netns add $host
  ip -n $host link set lo up
done
ip link add link0 netns h1 type veth peer name link0 netns h2
ip -n h1 address add 10.213.7.1/24 dev link0
ip -n h2 address add 10.213.7.2/24 dev link0
for host in h1 h2; do ip -n $host link set link0 up; done
echo ready
exec cat
"""
# What a remote shell is between hosts with wires: on_host HOST COMMAND...
ON_HOST = """\
#!/bin/sh
host=$1
shift
exec ip netns exec "$host" unshare --uts sh -c "hostname $host; $*"
"""


class Failed(Exception):
    """What was started did not do what is demanded."""


class Missing(Exception):
    """This machine has not what it takes; says how to get it."""


def require_tools():
    missing = [tool for tool in TOOLS if not shutil.which(tool, path=SYSTEM_PATH)]
    if missing:
        packages = sorted({TOOLS[tool] for tool in missing})
        raise Missing(f"no {', '.join(missing)}: apt-get install {' '.join(packages)}")
    if os.geteuid() != 0:
        raise Missing("network namespaces need root: run it as root")


class Process:
    """A program on a host; what it writes goes to files."""

    def __init__(self, name, started, output, errors):
        self.name = name
        self.started = started
        self.output = output
        self.errors = errors

    def error_text(self):
        return self.errors.read_text(errors="replace")

    def end(self):
        try:
            os.killpg(self.started.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.started.wait()

    def texts(self):
        return self.output.read_text(errors="replace") + self.error_text()


class Hosts:
    def __init__(self, build):
        require_tools()
        self.build = build
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="ptdp-launchers-"))
        self.init = None
        self.processes = []
        self.num_started = 0
        try:
            self._make()
        except BaseException:
            self.close()
            raise

    def _make(self):
        names = "".join(f"{address} {name}\n" for name, address in zip(NAMES, ADDRESSES))
        (self.directory / "hosts").write_text("127.0.0.1 localhost\n" + names)
        self.on_host = self.directory / "on_host"
        self.on_host.write_text(ON_HOST)
        self.on_host.chmod(0o755)
        # In a session of its own: an interrupt is for us alone.
        self.init = subprocess.Popen(
            ["unshare", "--net", "--pid", "--fork", "--kill-child", "--mount", "--mount-proc", "sh",
             "-c", MAKE_HOSTS, "hosts", self.directory],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=self.environment(), start_new_session=True)
        readable, _, _ = select.select([self.init.stdout], [], [], START_SECONDS)
        if not readable or self.init.stdout.readline() != "ready\n":
            self.init.stdin.close()
            self.init.kill()
            raise Missing("network namespaces are not allowed here (a container without "
                          f"CAP_SYS_ADMIN?): {self.init.stderr.read().strip()}")
        children = pathlib.Path(f"/proc/{self.init.pid}/task/{self.init.pid}/children")
        self.first = int(children.read_text().split()[0])
        self.process_space = os.readlink(f"/proc/{self.first}/ns/pid")

    def environment(self):
        """Of programs on the hosts: nothing of a launcher that may have started this one."""
        return {"PATH": SYSTEM_PATH, "HOME": str(self.directory), "TMPDIR": str(self.directory),
                "LC_ALL": "C.UTF-8", "PTDP_PROFILES": str(self.build.source / "profiles"),
                "ASAN_OPTIONS": "detect_leaks=0"}  # Open MPI's

    def _inside(self, words):
        return ["nsenter", "--target", str(self.first), "--mount", "--pid", "--net",
                *map(str, words)]

    def call(self, *words):
        """A command of the system's beside both hosts; returns what it prints."""
        done = subprocess.run(self._inside(words), env=self.environment(), text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, check=False)
        if done.returncode != 0:
            raise Failed(f"{shlex.join(map(str, words))}: {done.stderr.strip()}")
        return done.stdout

    def start(self, host, name, words, variables=None):
        """Starts a program on host 0 or 1."""
        folder = self.directory / "written"
        folder.mkdir(exist_ok=True)
        self.num_started += 1
        paths = [folder / f"{self.num_started}-{name}.{stream}" for stream in ("out", "err")]
        with open(paths[0], "wb") as output, open(paths[1], "wb") as errors:
            started = subprocess.Popen(
                self._inside([self.on_host, NAMES[host], shlex.join(map(str, words))]),
                env={**self.environment(), **(variables or {})}, stdin=subprocess.DEVNULL,
                stdout=output, stderr=errors, start_new_session=True)
        self.processes.append(Process(name, started, *paths))
        return self.processes[-1]

    def link(self, state):
        """"up" or "down": the wire between them."""
        self.call("ip", "-n", NAMES[0], "link", "set", "link0", state)

    def running(self, program=None):
        """Processes on both hosts, of this program or of all."""
        found = []
        for entry in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if (os.readlink(entry / "ns/pid") == self.process_space
                        and program in (None, (entry / "comm").read_text().strip())
                        and not re.search(r"^State:\s+[ZX]", (entry / "status").read_text(), re.M)):
                    found.append(int(entry.name))
            except OSError:
                continue  # it ended
        return [number for number in found if number != self.first]

    def end(self, program=None):
        """Ends such processes at once."""
        for number in self.running(program):
            try:
                os.kill(number, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def end_all(self):
        self.end()
        for process in self.processes:
            process.started.wait()
        self.processes.clear()

    def close(self):
        if self.init is not None:
            self.init.stdin.close()
            try:
                self.init.wait(5.0)
            except subprocess.TimeoutExpired:
                os.killpg(self.init.pid, signal.SIGKILL)
                self.init.wait()
            for process in self.processes:
                process.started.wait()
            self.init.stdout.close()
            self.init.stderr.close()
        shutil.rmtree(self.directory, ignore_errors=True)


def wait_until(condition, seconds, pause=0.02):
    """Whether it came true, and after how long."""
    start = time.monotonic()
    while not condition():
        if time.monotonic() - start > seconds:
            return False, seconds
        time.sleep(pause)
    return True, time.monotonic() - start
