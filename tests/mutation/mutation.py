#!/usr/bin/env python3
"""Puts small faults into the code, one at a time, and says which of them no test notices.

Every fault of mutants.json is built into a copy of the tree at once, behind a switch that is read when
a program starts: PTDP_MUTANT=<number> turns one of them on. Its test programs must then fail.

A fault has the keys "file", "what", "find" (an expression, or whole statements: once in the file, or in
the text of "in"), "replace", "tests" (the programs that should notice) and, where nobody could, "harmless".

usage: tests/mutation/mutation.py DIRECTORY [--only NUMBERS] [--wide] [--jobs N]
       tests/mutation/mutation.py --check
  DIRECTORY  where the copy is made and built; can be used again
  --check    says whether the code still has the text of every fault, and builds nothing
  --only     numbers of faults, as 3,7,10-20
  --wide     what its own programs do not notice is tried on all others, too
Exit status: 0, or 1 where a fault goes unnoticed or has no place in the code."""

import argparse
import concurrent.futures
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
LONGEST_S = 300  # a test program; beyond it the fault is noticed by a hang

SWITCH = """// Written by tests/mutation/mutation.py.
#pragma once
#if __cplusplus >= 202002L  // not where CMake tries the compiler
#include <cstdlib>
#include <type_traits>
inline const int ptdp_mutant_chosen = [] {
  const char* chosen = std::getenv("PTDP_MUTANT");
  return chosen == nullptr ? -1 : std::atoi(chosen);
}();
constexpr bool ptdp_mutant(int number) {
  if (std::is_constant_evaluated()) {
    return false;
  }
  return ptdp_mutant_chosen == number;
}
#endif
"""


def numbers(text):
    chosen = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        chosen |= set(range(int(first), int(last or first) + 1))
    return chosen


def switched(number, right, wrong):
    """Both versions of an expression or of whole statements, behind the switch."""
    if right.rstrip().endswith((";", "}")):
        return f"if (ptdp_mutant({number})) {{ {wrong} }} else {{ {right} }}"
    return f"(ptdp_mutant({number}) ? ({wrong}) : ({right}))"


def edited(text, mutants, path):
    """The text of a file with all its faults built in."""
    places = []
    for number, mutant in mutants:
        around = mutant.get("in", mutant["find"])
        for wanted, where in ((around, text), (mutant["find"], around)):
            if where.count(wanted) != 1:
                sys.exit(f"mutant {number}: {path}: expected its text once, "
                         f"found it {where.count(wanted)} times: {wanted}")
        begin = text.index(around) + around.index(mutant["find"])
        places.append((begin, begin + len(mutant["find"]), number, mutant))
    places.sort()
    for (_, end, number, _), (begin, _, other, _) in zip(places, places[1:]):
        if begin < end:
            sys.exit(f"mutants {number} and {other}: {path}: their texts overlap")
    for begin, end, number, mutant in reversed(places):
        text = text[:begin] + switched(number, mutant["find"], mutant["replace"]) + text[end:]
    return text


def write_if_other(path, text):
    """Keeps the time of what is as it was, so that little is built again."""
    if not path.is_file() or path.read_bytes() != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text)


def by_file(mutants):
    """The faults of each file with their numbers. Ends the program where a file is missing."""
    of_file = {}
    for number, mutant in enumerate(mutants):
        of_file.setdefault(mutant["file"], []).append((number, mutant))
    for path in of_file:
        if not (ROOT / path).is_file():
            sys.exit(f"mutants.json: no file {path}")
    return of_file


def check(mutants):
    """Ends the program where a fault has no place in the code."""
    for path, faults in by_file(mutants).items():
        edited((ROOT / path).read_text(), faults, path)
    print(f"{len(mutants)} faults have their place")


def copy_tree(source, mutants):
    listing = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"],
                             cwd=ROOT, check=True, capture_output=True, text=True)
    of_file = by_file(mutants)
    paths = [path for path in listing.stdout.splitlines() if (ROOT / path).is_file()]
    for path in paths:
        if path in of_file:
            text = edited((ROOT / path).read_text(), of_file[path], path).encode()
        else:
            text = (ROOT / path).read_bytes()
        write_if_other(source / path, text)
        shutil.copymode(ROOT / path, source / path)
    write_if_other(source / "mutant_switch.h", SWITCH.encode())


def build(source, binaries, targets):
    flags = f"-include {source}/mutant_switch.h -Wno-parentheses -Wno-duplicated-branches"
    subprocess.run(["cmake", "--preset", "release", "-S", source, "-B", binaries,
                    "-DPTDP_BENCHMARKS=OFF", f"-DCMAKE_CXX_FLAGS={flags}"],
                   check=True, cwd=source, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", binaries, "--target", *targets], check=True)


def programs_of(binaries):
    return {path.name: path for path in (binaries / "tests").rglob("*_test")
            if path.is_file() and os.access(path, os.X_OK)}


def fails(program, number):
    """How a test program fails with a fault turned on; None where it passes."""
    environment = dict(os.environ, PTDP_MUTANT=str(number), OMPI_ALLOW_RUN_AS_ROOT="1",
                       OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    with tempfile.TemporaryDirectory() as directory:
        try:
            run = subprocess.run([program, "--gtest_brief=1", "--gtest_fail_fast"], cwd=directory,
                                 env=environment, capture_output=True, timeout=LONGEST_S,
                                 check=False)
        except subprocess.TimeoutExpired:
            return "a hang"
    if run.returncode == 0:
        return None
    failed = [line.split("]", 1)[1].split("(")[0].strip() for line in
              run.stdout.decode(errors="replace").splitlines() if line.startswith("[  FAILED  ]")]
    return failed[0] if failed else f"status {run.returncode}"


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=pathlib.Path, nargs="?")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--only", type=numbers)
    parser.add_argument("--wide", action="store_true")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()
    if options.check == (options.directory is not None):
        parser.error("expected a directory or --check")
    mutants = json.loads((ROOT / "tests/mutation/mutants.json").read_text())
    if options.check:
        check(mutants)
        return 0
    chosen = sorted(options.only or (number for number, mutant in enumerate(mutants)
                                     if not mutant.get("harmless")))
    source = options.directory.resolve() / "source"
    binaries = options.directory.resolve() / "build"
    copy_tree(source, mutants)
    named = sorted({test for number in chosen for test in mutants[number]["tests"]})
    build(source, binaries, ["all"] if options.wide else named)
    programs = programs_of(binaries)
    for test in named:
        if test not in programs:
            sys.exit(f"mutants.json: no test program {test}")

    # Unmutated, all must pass: what fails then notices nothing.
    tried = sorted(programs) if options.wide else named
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        found = dict(zip(tried, pool.map(lambda test: fails(programs[test], -1), tried)))
        for test in sorted(test for test in tried if found[test]):
            print(f"left out: {test} fails by itself: {found[test]}", flush=True)
        able = [test for test in tried if not found[test]]

        def notice(number):
            own = [test for test in mutants[number]["tests"] if test in able]
            rest = [test for test in able if test not in own] if options.wide else []
            for test in own + rest:
                if failure := fails(programs[test], number):
                    return f"{test}: {failure}"
            return None

        survivors = []
        for number, noticed in zip(chosen, pool.map(notice, chosen)):
            mutant = mutants[number]
            print(f"{number:4} {mutant['file']}: {mutant['what']}: {noticed or 'NOT NOTICED'}",
                  flush=True)
            if not noticed:
                survivors.append(number)
    print(f"{len(chosen) - len(survivors)} of {len(chosen)} noticed")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
