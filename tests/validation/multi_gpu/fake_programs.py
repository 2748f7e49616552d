"""Stands in for the built programs and for nvidia-smi on a machine with two GPUs: prints and writes
what they would, and dies, stops and throws as it is told. A test calls it by their names."""

import json
import os
import pathlib
import re
import signal
import socket
import sys
import time

LOSSES = [3.0 - 0.1 * step for step in range(20)]
WAIT = 10.0


def value_of(words, flag, missing=None):
    return words[words.index(flag) + 1] if flag in words else missing


def nvidia_smi(words):
    asked = " ".join(words)
    if "topo" in asked:
        print("\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNV18\t0-7\nGPU1\tNV18\t X \t0-7")
    elif "index" in asked:
        print("0, GPU-aaaa, NVIDIA H200\n1, GPU-bbbb, NVIDIA H200")
    elif "memory.used" in asked and "-l" not in words:
        print("10\n10")
    elif "name" in asked:
        print("NVIDIA H200, 580.1, 143771")
    elif words[-1] == "-q":
        print("    CUDA Version                          : 13.0")


def ptdp_plan(words):
    overlaps = value_of(words, "--overlap", "none") != "none"
    pathlib.Path(value_of(words, "-o")).write_text(json.dumps(
        {"predicted": {"iteration_time_s": 0.9 if overlaps else 1.0}}))


def ptdp_profile(words):
    pathlib.Path(value_of(words, "-o")).write_text("{}")
    print("profiled")


def nccl_benchmark(words):
    sizes = [int(size) for size in value_of(words, "--bytes").split(",")]
    print("kind,bytes,ranks,measured_us,nccl_us,model_us")
    if os.environ.get("RANK", "0") == "0":
        for kind in ("all-reduce", "reduce-scatter", "all-gather", "send"):
            for size in sizes:
                print(f"{kind},{size},2,{size / 1e5:.3f},{size / 1.1e5:.3f},{size / 0.9e5:.3f}")


def all_reduce_perf(_):
    print("#       size  count  type redop root  time algbw busbw #wrong time algbw busbw #wrong")
    for size in (1 << 20, 4 << 20):
        print(f"{size} {size // 4} float sum -1 {size / 1e5} 1 1 0 {size / 0.98e5} 1 1 0")


def report_of(overlaps):
    seconds = 0.88 if overlaps else 0.98
    return {"losses": LOSSES, "gradient_norms": LOSSES, "execution": {"basis": "", "transport": "nccl"},
            "predicted": {"iteration_time_s": 1.0}, "measured": {"iteration_time_s": seconds},
            "memory": [{"predicted_bytes": 100, "measured_bytes": 101}],
            "terms": [{"term": "data_parallel", "predicted_s": 0.1, "measured_s": 0.1}],
            "traffic": [{"group": "data", "collective": "all-gather", "measured_bytes": 100.0}],
            "calls": [{"group": "data", "collective": "all-reduce", "size_bytes": 8.0,
                       "predicted_s": 1.0, "estimated_s": 1.0, "measured_s": 1.0}]}


def say(rank, text, status=4):
    print(f"ptdp-run: rank {rank}: {text}", file=sys.stderr, flush=True)
    sys.exit(status)


def wait_for(condition):
    end = time.monotonic() + WAIT
    while not condition():
        if time.monotonic() > end:
            sys.exit(99)
        time.sleep(0.01)


def is_gone(pid):
    """Or stopped."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZXTt"
    except OSError:
        return True


def faulty(fault, rank, threads):
    """A run with --inject rank=1,kind=F,step=3,what=throw."""
    told = dict(part.split("=") for part in fault.split(","))
    victim, what = int(told["rank"]), told["what"]
    pid = pathlib.Path(f"victim-{os.environ.get('MASTER_PORT', '0')}")
    if rank == victim and not threads:
        part = pid.with_suffix(".part")
        part.write_text(str(os.getpid()))
        os.replace(part, pid)
        if what in ("kill", "stop"):
            os.kill(os.getpid(), signal.SIGKILL if what == "kill" else signal.SIGSTOP)
        sys.exit({"exit": 3}.get(what, 4))
    if not threads:
        wait_for(pid.exists)
        wait_for(lambda: is_gone(int(pid.read_text())))
    say(victim, f"0{told['kind']}0 of step 3: {what}")


def endless(rank):
    """Trains until the other one is gone."""
    mine = pathlib.Path(f"endless-{os.environ['MASTER_PORT']}-{rank}")
    part = mine.with_suffix(".part")
    part.write_text(str(os.getpid()))
    os.replace(part, mine)
    other = pathlib.Path(f"endless-{os.environ['MASTER_PORT']}-{1 - rank}")
    wait_for(other.exists)
    print("step       1/1000000  loss 4", file=sys.stderr, flush=True)
    wait_for(lambda: is_gone(int(other.read_text())))
    say(rank, f"rank {1 - rank} has ended")


def meet(rank, size, wanted):
    """As far as the section `meeting` asks for it."""
    port = int(os.environ["MASTER_PORT"])
    if os.environ.get("CUDA_VISIBLE_DEVICES") == "0":
        say(rank, "two ranks on one GPU: expected --transport mpi", 2)
    if size > wanted:
        say(rank, f"the plan has {wanted} ranks, but {size} processes were started", 2)
    if "PTDP_MEETING_TIMEOUT" not in os.environ:
        return
    if rank == 0:
        try:
            socket.create_server(("", port)).close()
        except OSError:
            say(rank, f"cannot listen on port {port}")
        time.sleep(0.2)
    say(rank, "1 of 2 processes did not come: rank 1; a job of 3")


def ptdp_run(words):
    rank, size = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    threads = "RANK" not in os.environ
    alone = "cpu" in words
    nccl = "nccl-threads" if words[-1] == "nccl-threads" and threads else "nccl"
    if not alone and words[-4:] != ["--device", "cuda", "--transport", nccl]:
        print("ptdp-run: expected NCCL", file=sys.stderr)
        sys.exit(2)
    if "--inject" in words:
        faulty(value_of(words, "--inject"), rank, threads)
    if value_of(words, "--steps") == "1000000":
        endless(rank)
    if not threads and re.match("meeting", words[0]):
        meet(rank, size, 2)
    if rank == 0:
        report = report_of(value_of(words, "--overlap", "none") != "none")
        pathlib.Path(value_of(words, "-o")).write_text(json.dumps(report))


PROGRAMS = {"nvidia-smi": nvidia_smi, "ptdp-plan": ptdp_plan, "ptdp-run": ptdp_run,
            "ptdp-profile": ptdp_profile, "nccl_benchmark": nccl_benchmark,
            "all_reduce_perf": all_reduce_perf}

if __name__ == "__main__":
    PROGRAMS[pathlib.Path(sys.argv[1]).name](sys.argv[2:])
