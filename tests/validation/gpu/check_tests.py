"""Sections `tests` and `sanitizer`: the tests of the GPU, and their kernels under
compute-sanitizer."""

import json
import re
import shutil
from concurrent.futures import ThreadPoolExecutor

from check import Failed, Skipped
from commands import program, run_program, succeeded

PROGRAMS = ("gpu_test", "gpu_training_test", "gpu_nccl_test")
# Its GPUs are emulated too. The shortest of its tests stands for all.
EMULATED_PROGRAMS = ("nccl_hardships_test",)
EMULATED_FILTER = "--gtest_filter=Hardships.EndWithoutTheWarmUp"
TOOLS = ("memcheck", "racecheck")
# The suites that launch small kernels; training is long under the sanitizer.
SANITIZED = "gpu_test"
LONGEST_SUITE = 150.0
PROBE = 60.0


def run_tests(check, name):
    """Counts of one test program, and the names of the tests that failed."""
    path = check.machine.find_program(name)
    if path is None:
        raise Failed(f"{name} is not built: cmake --preset gpu && cmake --build --preset gpu")
    output = check.scratch / f"{name}.json"
    output.unlink(missing_ok=True)
    chosen = [EMULATED_FILTER] if check.machine.emulates else []
    done = run_program(check, [path, "--gtest_brief=1", f"--gtest_output=json:{output}", *chosen])
    if not output.exists():
        succeeded(done)
        raise Failed(f"{name} wrote no results")
    return count_tests(json.loads(output.read_text()))


def run_side_by_side(check):
    """Counts of all programs, by name: one alone leaves most of the GPU idle."""
    programs = EMULATED_PROGRAMS if check.machine.emulates else PROGRAMS
    with ThreadPoolExecutor(len(programs)) as pool:
        return dict(zip(programs, pool.map(lambda name: run_tests(check, name), programs)))


def count_tests(report):
    tests = [test | {"suite": suite["name"]} for suite in report["testsuites"]
             for test in suite["testsuite"]]
    return {"tests": len(tests),
            "failed": [f"{test['suite']}.{test['name']}" for test in tests if "failures" in test],
            "skipped": sum(test.get("result") == "SKIPPED" for test in tests)}


def tests(check):
    if not check.machine.on_gpu:
        raise Skipped("a rehearsal has no GPU")
    results = check.remember("programs", lambda: run_side_by_side(check))
    check.values.update(results)
    failed = [test for result in results.values() for test in result["failed"]]
    skipped = sum(result["skipped"] for result in results.values())
    count = sum(result["tests"] for result in results.values())
    check.goal("GPU tests that fail", "0", f"{len(failed)} of {count}", not failed)
    check.goal("GPU tests that are skipped", "0", str(skipped), skipped == 0)


def suites_of(listing):
    """Of --gtest_list_tests."""
    return [line.split()[0] for line in listing.splitlines()
            if line.strip() and not line.startswith(" ") and line.split()[0].endswith(".")]


def find_sanitizer(environment):
    homes = [environment.get("CUDA_HOME", "/usr/local/cuda"), "/usr/local/cuda"]
    places = [environment.get("PATH", "")] + [f"{home}/{folder}" for home in homes
                                              for folder in ("bin", "compute-sanitizer")]
    return next(filter(None, (shutil.which("compute-sanitizer", path=place)
                              for place in places)), None)


def errors_found(output):
    """Of compute-sanitizer's summary; None where it did not come to one."""
    # memcheck: "ERROR SUMMARY: 0 errors"; racecheck: "RACECHECK SUMMARY: 0 hazards displayed".
    found = re.search(r"(?:ERROR|RACECHECK) SUMMARY: (\d+) (?:error|hazard)", output)
    return int(found.group(1)) if found else None


def sanitize(check, sanitizer, tool, tests_program, suite):
    """Errors in a suite; None where it takes too long."""
    try:
        done = run_program(check, [sanitizer, "--tool", tool, tests_program, "--gtest_brief=1",
                                   f"--gtest_filter={suite}*"], longest=LONGEST_SUITE)
    except Failed:
        return {"errors": None, "why": f"over {LONGEST_SUITE:.0f} s"}
    output = done.stdout + done.stderr
    return {"errors": errors_found(output), "why": "" if errors_found(output) is not None
            else f"status {done.returncode}"}


def sanitizer(check):
    if check.machine.rehearses:
        raise Skipped("a rehearsal has no GPU")
    command = find_sanitizer(check.machine.environment)
    if command is None:
        raise Skipped("compute-sanitizer is not installed")
    tests_program = program(check, SANITIZED)
    suites = suites_of(succeeded(run_program(check, [tests_program, "--gtest_list_tests"])).stdout)
    if not suites:
        raise Failed(f"{SANITIZED} lists no tests")
    for tool in TOOLS:
        results = {}
        for suite in suites:
            results[suite] = check.remember(
                f"{tool} {suite}",
                lambda tool=tool, suite=suite: sanitize(check, command, tool, tests_program, suite),
                seconds=PROBE)
            if len(results) == 1 and results[suite]["errors"] is None and \
                    results[suite]["why"].startswith("status"):
                check.parts.pop(f"{tool} {suite}")
                raise Skipped(f"compute-sanitizer does not work here: {results[suite]['why']}")
        check.values[tool] = results
        found = sum(result["errors"] or 0 for result in results.values())
        checked = sum(result["errors"] is not None for result in results.values())
        check.goal(f"{tool}: errors", "0", f"{found} in {checked} of {len(suites)} suites",
                   found == 0 and checked > 0)
