"""What is demanded of every launcher: a plan trained, a rank killed, a checkpoint resumed, a link
cut."""

import json
import os
import re
import signal
import time

from hosts import Failed, NAMES, wait_until
from launchers import RANKS, RANKS_PER_HOST

LONGEST = 120.0  # seconds of a job that nothing happens to
DEADLINE = 3.0
ALLOWANCE = 10.0  # beyond the deadline
OWN_SECONDS = {"down": 10.0, "up": 20.0}  # for a launcher to see that its ranks have ended
STEPS, KILLED_IN = 6, 4
EQUAL = ("losses", "gradient_norms", "traffic", "memory")
MODEL = {"schema": "ptdp.model/1", "name": "small", "source": "a test", "num_layers": 4,
         "hidden_size": 64, "num_attention_heads": 4, "vocab_size": 199, "seq_length": 64,
         "global_batch_size": 8}


class Plan:
    """Tensor parallelism within the hosts, the pipeline across, and its run by threads."""

    def __init__(self, hosts):
        self.hosts = hosts
        self.path = hosts.directory / "plan.json"
        model = hosts.directory / "model.json"
        model.write_text(json.dumps(MODEL))
        self._call("ptdp-plan", "--gpus", RANKS, "--tp", RANKS_PER_HOST, "--pp", 2, "--dp", 1,
                   "--micro-batch-size", 1, "--cluster", "host", "--model", model, "-o", self.path)
        report = hosts.directory / "threads.json"
        self._call(*self.words("--quiet", "--steps", STEPS, "-o", report))
        self.of_threads = json.loads(report.read_text())

    def words(self, *flags):
        """A run of it; `--lr-decay`: however many steps a run is of."""
        return [self.hosts.build.program("ptdp-run"), self.path, "--lr-decay", STEPS, *flags]

    def _call(self, program, *words):
        process = self.hosts.start(0, "threads", [self.hosts.build.program(program), *words])
        if process.started.wait(LONGEST) != 0:
            raise Failed(f"{program}: {process.error_text().strip()}")


class Job:
    """What a launcher started, from its start on."""

    def __init__(self, launcher, words):
        self.hosts = launcher.hosts
        self.start = time.monotonic()
        self.processes = launcher.start(words)

    def told(self):
        return "\n".join(process.texts() for process in self.processes)

    def wait_for(self, pattern, seconds=LONGEST):
        came, _ = wait_until(lambda: re.search(pattern, self.told()) or self.has_ended(), seconds)
        if not came or self.has_ended():
            raise Failed(f"no {pattern!r} was written: {self.last_lines()}")

    def has_ended(self):
        return all(process.started.poll() is not None for process in self.processes)

    def wait(self, seconds):
        """Statuses once all have ended; Failed, and the end of all, after so many seconds."""
        ended, _ = wait_until(self.has_ended, seconds)
        if not ended:
            running = [process.name for process in self.processes
                       if process.started.poll() is None]
            self.kill()
            raise Failed(f"{', '.join(running)} did not end within {seconds:.0f} s: "
                         f"{self.last_lines()}")
        # The guard of a process's end notices that end a moment later.
        gone, _ = wait_until(lambda: not self.hosts.running("ptdp-run"), 5.0)
        if not gone:
            left = self.hosts.running("ptdp-run")
            self.kill()
            raise Failed(f"left {len(left)} processes of ptdp-run behind: {self.last_lines()}")
        return [process.started.returncode for process in self.processes]

    def kill(self):
        self.hosts.end("ptdp-run")
        for process in self.processes:
            process.end()

    def last_lines(self):
        return " | ".join(line for line in self.told().splitlines() if line.strip())[-600:]


def expect_statuses(job, statuses, expected):
    if any(status != expected for status in statuses):
        names = " and ".join(process.name for process in job.processes)
        raise Failed(f"expected status {expected} of {names}, got {statuses}: {job.last_lines()}")


def message_of(job, pattern, program="ptdp-run: "):
    found = re.search(rf"{program}(?:{pattern}).*", job.told())
    if not found:
        raise Failed(f"no message {program + pattern!r}: {job.last_lines()}")
    return found[0]


def expect_equal(what, expected, found):
    if expected != found:
        raise Failed(f"{what}: expected {expected} as by threads, got {found}")


def trains(launcher, plan):
    path = launcher.hosts.directory / f"{launcher.name}.json"
    job = Job(launcher, plan.words("--quiet", "--steps", STEPS, "-o", path))
    expect_statuses(job, job.wait(LONGEST), 0)
    report = json.loads(path.read_text())
    for key in EQUAL:
        expect_equal(key, plan.of_threads[key], report[key])
    hosts = sorted({host.split(":")[0] for host in report["execution"]["hosts"]})
    expect_equal("hosts", list(NAMES[:launcher.num_hosts]), hosts)
    expect_equal("transport", launcher.transport, report["execution"]["transport"])
    return f"losses, norms, bytes and memory of threads over {launcher.transport}"


def saving(launcher, plan, *flags, name="kept", steps=STEPS):
    kept = launcher.hosts.directory / f"{launcher.name}-{name}"
    return plan.words("--steps", steps, "--save", kept, "--resume", kept, "--save-every", 1,
                      *flags)


def rank_killed(launcher, plan):
    """By SIGKILL, on the second host."""
    job = Job(launcher, saving(launcher, plan, "--inject",
                               f"rank=3,kind=F,step={KILLED_IN},what=kill"))
    statuses = job.wait(LONGEST)
    if 0 in statuses:
        raise Failed(f"expected no status 0, got {statuses}: {job.last_lines()}")
    return message_of(job, "rank 3")


def resumed(launcher, plan):
    """The same command as that of the killed one."""
    path = launcher.hosts.directory / f"{launcher.name}-resumed.json"
    job = Job(launcher, saving(launcher, plan, "-o", path))
    expect_statuses(job, job.wait(LONGEST), 0)
    report = json.loads(path.read_text())
    first = report["execution"]["first_step"]
    if not 0 < first < STEPS:
        raise Failed(f"expected to go on between the steps 1 and {STEPS - 1}, got {first}")
    for key in ("losses", "gradient_norms"):
        expect_equal(key, plan.of_threads[key][first:], report[key][:STEPS - first])
    return f"from step {first} on, the losses and norms of threads"


def restarted(launcher, plan):
    """By the launcher itself, after one of its ranks was killed; from the last checkpoint on."""
    launcher.max_restarts = 1
    path = launcher.hosts.directory / f"{launcher.name}-restarted.json"
    job = Job(launcher, saving(launcher, plan, "-o", path, name="restarted", steps=40))
    job.wait_for(r"step +[2-9]\d*/")
    os.kill(launcher.hosts.running("ptdp-run")[-1], signal.SIGKILL)
    expect_statuses(job, job.wait(LONGEST), 0)
    first = json.loads(path.read_text())["execution"]["first_step"]
    if first == 0:
        raise Failed(f"expected to go on behind step 0: {job.last_lines()}")
    return f"went on from step {first}: {message_of(job, 'rank')}"


def link_cut(launcher, plan):
    """While it trains. The ranks end by themselves; their launcher may wait for the link."""
    job = Job(launcher, plan.words("--steps", 1000000, "--deadline", DEADLINE))
    job.wait_for(r"step +[1-9]\d*/")
    launcher.hosts.link("down")
    start = time.monotonic()
    try:
        limit = DEADLINE + ALLOWANCE
        ended, seconds = wait_until(lambda: not launcher.hosts.running("ptdp-run"), limit)
        if not ended:
            raise Failed(f"{len(launcher.hosts.running('ptdp-run'))} ranks run {limit:.0f} s after "
                         f"the link was cut: {job.last_lines()}")
        told = f"ranks ended after {seconds:.1f} s"
        for state, patience in OWN_SECONDS.items():
            launcher.hosts.link(state)
            if wait_until(job.has_ended, patience)[0]:
                told += f", all with the link {state} after {time.monotonic() - start:.1f} s"
                break
    finally:
        launcher.hosts.link("up")
        unended = [process.name for process in job.processes if process.started.poll() is None]
        job.kill()
    if unended:
        told += f", {' and '.join(unended)} not even with the link back"
    expect_statuses(job, [process.started.returncode for process in job.processes
                          if process.name not in unended], launcher.fault_status)
    return f"{told}: {message_of(job, 'rank')}"


def transport_tests(launcher, _):
    """The transport's own tests, over the link."""
    program = launcher.hosts.build.directory / "tests/mpi/mpi_transport_test"
    if not program.exists():
        return f"left out: no {program}"
    job = Job(launcher, [program, "--gtest_brief=1"])
    expect_statuses(job, job.wait(LONGEST), 0)
    return message_of(job, r".*PASSED", program="")


CASES = {"trains": trains, "rank killed": rank_killed, "resumed": resumed, "link cut": link_cut,
         "restarted": restarted, "transport": transport_tests}
