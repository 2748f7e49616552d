"""Section `meeting`: ranks that cannot come together say why, and end; and every launcher that is
here starts them."""

import re
import shutil
import socket
import subprocess
import time

from check_faults import CASE_SECONDS
from check_layouts import alone_on_host, losses_of, shape_of
from check_losses import F32, layout_flags, largest_difference
from check import Failed
from commands import make_plan
from ranks import Job, processes_left

TIMEOUT, QUICK_TIMEOUT = 4, 1  # for ranks to come, where one does not [s]
LONGEST = 60.0
LAYOUT = (1, 2, 1, ["--schedule", "1f1b"])


def short_wait(machine):
    return {"PTDP_MEETING_TIMEOUT": str(QUICK_TIMEOUT if machine.is_quick else TIMEOUT)}


def command_of(check):
    plan = make_plan(check, "meeting", shape_of(check.machine), layout_flags(*LAYOUT),
                     cluster=["--cluster", "host"])
    if plan is None:
        raise Failed("nothing fits")
    words = ["ptdp-run", plan.name, "--quiet", "--steps", 2,
             *check.machine.transport_flags("tcp")]
    return words, {plan.name: plan.read_text()}


def judged(check, job, statuses, named, start):
    """`statuses` that its processes may end with; `named`: what one of them must say."""
    ended = job.wait(LONGEST)
    seconds = max(process.seconds for process in ended)
    told = "\n".join(process.stderr for process in ended)
    problems = [f"rank {process.rank}: status {process.status}, expected "
                f"{' or '.join(map(str, statuses))}"
                for process in ended if process.status not in statuses]
    if not re.search(named, told):
        problems.append(f"no line has {named!r}: {told[-300:]}")
    left = processes_left(check.machine)
    if left:
        problems.append(f"processes left behind: {left}")
    said = next((line for line in told.splitlines() if re.search(named, line)), "")
    return {"seconds": round(min(seconds, time.monotonic() - start), 1), "problems": problems,
            "said": said[:300]}


def port_in_use(check):
    """Somebody else listens where rank 0 is to."""
    words, files = command_of(check)
    start = time.monotonic()
    with socket.create_server(("", 0)) as server:
        port = server.getsockname()[1]
        job = Job(check, words, 2, meeting="tcp", files=files, port=port,
                  variables=short_wait(check.machine))
        return judged(check, job, (4,), rf"\b{port}\b", start)


def rank_that_does_not_come(check):
    words, files = command_of(check)
    start = time.monotonic()
    job = Job(check, words, 2, meeting="tcp", files=files, only=[0],
              variables=short_wait(check.machine))
    return judged(check, job, (4,), r"rank 1\b", start)


def wrong_number(check):
    """As many processes as nodes allow beyond those of the plan."""
    words, files = command_of(check)
    start = time.monotonic()
    number = 2 + len(check.machine.nodes)
    job = Job(check, words, number, meeting="tcp", files=files)
    # Where they are more than the GPUs, that is seen first.
    return judged(check, job, (2,), rf"2 ranks, but {number} processes|"
                  rf"{number} ranks on this machine and \d+ GPUs", start)


def two_sizes(check):
    """Rank 1 was told that there are three."""
    words, files = command_of(check)
    start = time.monotonic()
    job = Job(check, words, 2, meeting="tcp", files=files, variables=lambda rank: {
        "WORLD_SIZE": str(2 + rank), **short_wait(check.machine)})
    return judged(check, job, (2, 4), r"\b3\b", start)


def one_gpu(check):
    """Two ranks that both see the same GPU alone."""
    words, files = command_of(check)
    start = time.monotonic()
    number = check.machine.gpus[0]["number"]
    job = Job(check, words, 2, meeting="tcp", files=files,
              variables={"CUDA_VISIBLE_DEVICES": number})
    return judged(check, job, (2,), r"--transport (mpi|tcp|threads)", start)


def is_current_torchrun(program):
    """Whether there is one of PyTorch 2, which takes flags with hyphens. Before, it starts no ranks
    on Python 3.11."""
    return program is not None and "--nproc-per-node" in subprocess.run(
        [program, "--help"], capture_output=True, text=True, check=False).stdout


def launchers_of(machine):
    """name: what stands before ptdp-run to start two ranks on this node with it."""
    found = {}
    if machine.emulates:  # its NCCL joins threads, not processes
        return found
    path = machine.environment.get("PATH", "")
    if is_current_torchrun(shutil.which("torchrun", path=path)):
        found["torchrun"] = ["torchrun", "--nnodes", 1, "--nproc-per-node", 2, "--master-port",
                             29611, "--no-python"]
    if machine.mpirun:
        found["mpirun"] = [machine.mpirun, "-n", 2]
    if shutil.which("srun", path=path) and "SLURM_JOB_ID" in machine.environment:
        found["srun"] = ["srun", "--overlap", "-N", 1, "-n", 2]
    return found


def launched(check, name, words, ranks=2):
    """The largest difference of the losses from those of one rank."""
    alone = alone_on_host(check, "f32", 0)
    layout = (1, 2, ranks // 2, ["--schedule", "1f1b"])
    found = losses_of(check, f"launched-{re.sub('[^a-z0-9]', '', name)}", layout,
                      ["--dtype", "f32", "--dropout", 0], meeting="launched", prefix=words,
                      variables=launcher_variables(check.machine, name))
    return largest_difference(found, alone)


def launcher_variables(machine, name):
    """srun finds its job by variables, which other processes of ours must not see."""
    if name in ("mpirun", "torchrun"):
        return {}
    return {key: value for key, value in machine.environment.items() if key.startswith("SLURM_")}


CASES = {"port in use": port_in_use, "a rank that does not come": rank_that_does_not_come,
         "more processes than ranks": wrong_number, "ranks that disagree about their number":
         two_sizes}


def meeting(check):
    machine = check.machine
    if len(machine.nodes) > 2:
        check.skip("meeting", "more than two nodes: one or two are tried")
        return
    cases = dict(CASES)
    if not machine.on_host and len(machine.nodes) == 1:
        cases["two ranks on one GPU"] = one_gpu
    for name, run in cases.items():
        result = check.remember(name, lambda run=run: run(check),
                                5.0 if machine.is_quick else CASE_SECONDS)
        check.goal(name, "all end and say why",
                   f"{result['seconds']:.1f} s: {'; '.join(result['problems']) or result['said']}",
                   not result["problems"])
    for name, words in launchers_of(machine).items():
        judge_launched(check, name, words, 2)
    for words in machine.launches:
        ranks = machine.sizes()[-1]
        judge_launched(check, " ".join(words), [word.format(ranks=ranks) for word in words], ranks)
    for name in ("mpirun", "srun", "torchrun"):
        if name not in launchers_of(machine):
            check.skip(f"started by {name}", reason_without(machine, name))


def reason_without(machine, name):
    if machine.emulates:
        return "an emulated NCCL joins threads, not processes"
    return "not found here" if name != "srun" else "no srun, or outside a job of Slurm's"


def judge_launched(check, name, words, ranks):
    what = f"started by {name}: 20 losses against one rank"
    try:
        difference = check.remember(what, lambda: launched(check, name, words, ranks),
                                    5.0 if check.machine.is_quick else CASE_SECONDS)
    except Failed as fault:
        if "built without MPI" in str(fault):
            check.skip(what, "the programs were built without MPI")
        else:
            check.goal(what, f"<= {F32:.0e}", str(fault), False)
        return
    check.goal(what, f"<= {F32:.0e}", f"{difference:.1e}", difference <= F32)
