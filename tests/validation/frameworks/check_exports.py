"""tools/check-exports: random plans, exported, through the frameworks' own parsers. --help shows the
rest."""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

from environment import PACKAGES, Missing, make_environment
from plans import BESIDE, Lottery, NoProgram
from refusals import compare, write_refused

ROOT = pathlib.Path(__file__).resolve().parents[3]
DONE, BAD_USAGE, FAULTS = 0, 2, 6
HERE = pathlib.Path(__file__).resolve().parent
FRAMEWORKS = list(PACKAGES)


def tell(text):
    print(f"check-exports: {text}", flush=True)


def parse(words):
    parser = argparse.ArgumentParser(
        prog="check-exports", formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Makes random plans with ptdp-plan, exports them, and reads the files with the\n"
                    f"frameworks' own parsers: {' '.join(FRAMEWORKS)}.\n"
                    "Demanded of each: what we write is accepted, and says what the plan says.\n"
                    "Plans are drawn for each framework, so that it can run most of them; what we\n"
                    "refuse of the others is counted by the plan's field.\n"
                    "Skipped where there is no Python 3.12 (PTDP_PYTHON names another one).",
        epilog="exit status: 0 all right, or skipped; 6 a parser disagrees; 2 bad usage")
    parser.add_argument("build", nargs="?", type=pathlib.Path, default=ROOT / "build/release",
                        help="the build to try (default: build/release)")
    parser.add_argument("--framework", action="append", choices=FRAMEWORKS, metavar="NAME",
                        help="only this one; can be given several times")
    parser.add_argument("--plans", type=int, default=100, metavar="N",
                        help="how many exports to each framework (default: 100)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--environment", type=pathlib.Path, metavar="DIR",
                        help="a virtual environment that has the packages, and torchtitan 0.2.2 in\n"
                             "DIR/torchtitan-0.2.2")
    parser.add_argument("--keep", type=pathlib.Path, metavar="DIR",
                        help="leave plans and exports here")
    return parser.parse_args(words)


def draw(arguments, framework, directory):
    """Draws plans that the framework can run, and exports them; tells what was refused."""
    start = time.monotonic()
    lottery = Lottery(ROOT, arguments.build.resolve(), arguments.seed, framework, directory)
    for number in range(arguments.plans):
        lottery.draw(number)
    tell(f"{framework}: {arguments.plans} plans exported, {lottery.num_refused} refused, of "
         f"{lottery.num_asked} searches ({time.monotonic() - start:.0f} s)")
    for field, count in sorted(lottery.refusals.items()):
        tell(f"{framework}: {field} refused in {count} plans")


def read(framework, environment, directory):
    """Starts the framework's parser on every export; returns its results and exit status."""
    done = subprocess.run([environment.python, "-B", HERE / "parsers.py", framework, directory],
                          stdout=subprocess.PIPE, text=True, check=False,
                          env=os.environ | environment.variables(framework))
    lines = [line for line in done.stdout.splitlines() if line.startswith('{"plan"')]
    return [json.loads(line) for line in lines], done.returncode


def check(framework, environment, directory):
    """Has the framework read every export; returns the number of faults."""
    start = time.monotonic()
    results, status = read(framework, environment, directory)
    faults = [result for result in results if result["fault"]]
    tell(f"{framework}: {len(results) - len(faults)} of {len(results)} exports right "
         f"({time.monotonic() - start:.0f} s)")
    if status != 0:
        tell(f"{framework}: the process ended with status {status}")
    for fault in faults:
        tell(f"{framework}: {fault['plan']}: {fault['fault']}")
    return len(faults) + (status != 0) + (not results)


def check_refusals(build, framework, environment, directory):
    """Has the framework read what we refuse, and tells which refusals it shares. That it accepts
    one is no fault: parsers accept much that training fails of, or does otherwise."""
    if write_refused(build, framework, BESIDE.get(framework, []), directory) > 0:
        results, _ = read(framework, environment, directory / "refused")
        for sentence in compare(results, directory):
            tell(f"{framework}: {sentence}")


def main(words):
    arguments = parse(words)
    chosen = arguments.framework or FRAMEWORKS
    try:
        environment = make_environment(ROOT, arguments.environment, chosen, tell)
    except Missing as reason:
        tell(f"skipped: {reason}")
        return DONE
    directory = arguments.keep or pathlib.Path(tempfile.mkdtemp(prefix="check-exports-"))
    build = arguments.build.resolve()
    faults = 0
    try:
        for framework in chosen:
            draw(arguments, framework, directory / framework)
            faults += check(framework, environment, directory / framework)
            check_refusals(build, framework, environment, directory / framework)
        return FAULTS if faults else DONE
    except NoProgram as missing:
        tell(str(missing))
        return BAD_USAGE
    finally:
        if not arguments.keep:
            shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
