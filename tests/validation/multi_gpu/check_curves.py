"""Section `curves`: how long collectives and messages take, beside nccl-tests, NCCL's own estimate
and the cost model."""

import csv
import io
import shutil
import statistics

from check import Failed, Skipped
from commands import run_program
from ranks import run_all

PROGRAM = "nccl_benchmark"
SIZES = [8, 64, 512, 4 << 10, 32 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20, 256 << 20]
HOST_SIZES = [8, 4 << 10, 256 << 10, 4 << 20]
LARGE = 1 << 20  # from here on bandwidth counts
OF_NCCL_TESTS = {"all-reduce": "all_reduce_perf", "reduce-scatter": "reduce_scatter_perf",
                 "all-gather": "all_gather_perf"}
COLUMNS = ["kind", "bytes", "ranks", "measured_us", "nccl_us", "model_us"]
SLOWER = 1.10  # than nccl-tests, which calls the same functions in the same library
MODEL = 0.15   # mean error, as on the published curves (tests/validation/collectives_test.cpp)
MEASURE_SECONDS = 90.0


def parse_rows(text):
    """Of nccl_benchmark: [kind, bytes, ranks, measured, NCCL's estimate, the model's] in us; None
    where there is no number."""
    reader = csv.DictReader(io.StringIO(text))
    if reader.fieldnames != COLUMNS:
        raise Failed(f"{PROGRAM} printed {reader.fieldnames}, expected {COLUMNS}")
    rows = []
    for row in reader:
        numbers = [float(row[column]) if row[column] else None for column in COLUMNS[3:]]
        rows.append([row["kind"], int(row["bytes"]), int(row["ranks"]), *numbers])
    return rows


def parse_nccl_tests(text):
    """{bytes: us, in place}. Its rows end in time, two bandwidths and wrong elements, out of place
    and then in place (nccl-tests/doc/PERFORMANCE.md)."""
    times = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) >= 12 and words[0].isdigit():
            times[int(words[0])] = float(words[-4])
    return times


def bus_factor(kind, ranks):
    """Of bus bandwidth over bytes through time, as nccl-tests defines it."""
    if kind == "send":
        return 1.0
    return (2.0 if kind == "all-reduce" else 1.0) * (ranks - 1) / ranks


def measure(check, ranks):
    machine = check.machine
    meeting = machine.meeting
    sizes = HOST_SIZES if machine.on_host else SIZES
    words = [PROGRAM, "--bytes", ",".join(map(str, sizes)), *machine.benchmark_flags(meeting)]
    files = {}
    if meeting == "threads":
        words += ["--ranks", ranks]
    if machine.measured_cluster().exists():
        files["cluster.json"] = machine.measured_cluster().read_text()
        words += ["--cluster", "cluster.json"]
    else:
        words += machine.cluster_flags()[:2]
    ended = run_all(check, words, ranks, meeting=meeting, files=files)
    rows = parse_rows(ended[0].stdout)
    if not rows:
        raise Failed(f"{PROGRAM} measured nothing")
    return rows


def find_nccl_tests(machine, name):
    places = [str(machine.nccl_tests)] if machine.nccl_tests else []
    places.append(machine.environment.get("PATH", ""))
    return next(filter(None, (shutil.which(name, path=place) for place in places)), None)


def measure_nccl_tests(check, program, ranks):
    """Over the GPUs of this machine, or started on all nodes by the first --launch."""
    machine = check.machine
    command = [program, "-b", min(SIZES), "-e", max(SIZES), "-f", 2, "-w", 5, "-n", 20]
    if len(machine.nodes) > 1:
        words = [word.format(ranks=ranks) for word in machine.launches[0]]
        done = run_program(check, [*words, *command, "-g", 1], environment=machine.environment)
    else:
        done = run_program(check, [*command, "-g", ranks])
    if done.returncode != 0:
        raise Failed(f"{program}: status {done.returncode}")
    return parse_nccl_tests(done.stdout)


def compare_nccl_tests(check, ranks, rows):
    if check.machine.on_host:
        return
    for kind, name in OF_NCCL_TESTS.items():
        program = find_nccl_tests(check.machine, name)
        what = f"{kind} on {ranks}, from 1 MiB on, beside nccl-tests"
        if program is None:
            check.skip(what, f"no {name} on the PATH or in --nccl-tests")
        elif len(check.machine.nodes) > 1 and not check.machine.launches:
            check.skip(what, "several nodes: --launch says how to start it")
        else:
            theirs = check.remember(f"{name} {ranks}", lambda program=program: list(
                measure_nccl_tests(check, program, ranks).items()), MEASURE_SECONDS)
            judge_nccl_tests(check, what, kind, rows, dict(theirs))


def judge_nccl_tests(check, what, kind, rows, theirs):
    ratios = [row[3] / theirs[row[1]] for row in rows
              if row[0] == kind and row[1] >= LARGE and row[1] in theirs]
    if not ratios:
        raise Failed(f"nccl-tests printed no size of {kind} that we measured")
    ratio = statistics.median(ratios)
    check.goal(what, f"<= {SLOWER:.2f}x its time", f"{ratio:.3f}x", ratio <= SLOWER)


def judge(check, ranks, rows):
    for kind in dict.fromkeys(row[0] for row in rows):
        large = [row for row in rows if row[0] == kind and row[1] >= LARGE]
        if not large:
            continue
        _, size, _, measured, _, _ = large[-1]
        bandwidth = bus_factor(kind, ranks) * size / measured / 1e3
        what = f"{kind} on {ranks}, from 1 MiB on"
        text = f"{bandwidth:.1f} GB/s of bus at {size / 2**20:.0f} MiB"
        for column, name in ((4, "NCCL's estimate"), (5, "the cost model")):
            errors = [abs(row[column] / row[3] - 1) for row in large if row[column]]
            if not errors:
                continue
            mean = statistics.mean(errors)
            if name == "the cost model" and not check.machine.on_host:
                check.goal(f"{what}: {name}, mean error", f"<= {100 * MODEL:.0f} %",
                           f"{100 * mean:.1f} % ({text})", mean <= MODEL)
            else:
                check.tell(f"{what}: {name}, mean error", f"{100 * mean:.1f} % ({text})")


def curves(check):
    if check.machine.find_program(PROGRAM) is None:
        why = f"{PROGRAM} is not built: cmake --build --preset cuda --target {PROGRAM}"
        raise Skipped(why) if check.machine.on_host else Failed(why)
    for ranks in check.machine.sizes():
        rows = check.remember(f"{ranks} ranks", lambda ranks=ranks: measure(check, ranks),
                              MEASURE_SECONDS)
        check.values[f"{ranks} ranks"] = [COLUMNS, *rows]
        judge(check, ranks, rows)
        compare_nccl_tests(check, ranks, rows)
