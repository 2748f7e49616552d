"""tools/gpu-check: settles on a machine with a GPU what needs one. --help shows the rest."""

import argparse
import sys

import pack
from check_losses import losses
from check_machine import machine as machine_section
from check_memory import memory
from check_nccl import nccl
from check_operations import operations, profile
from check_overhead import overhead
from check_pytorch import pytorch
from check_rehearsal import rehearsal
from check_speed import speed
from check_step import dropout, step
from check_sweep import sweep
from check_tests import sanitizer, tests
from machine import Machine
from results import summary, write_results
from sections import FAULT, Sections, add_flags, exit_status

# In this order: what a new GPU is asked first comes first. Each runs alone too: one that plans
# takes the data sheet where `profile` has not run, and one that trains the stack of `speed` a fixed
# number of layers where that has not fitted them.
SECTIONS = {"machine": machine_section, "tests": tests, "step": step, "profile": profile,
            "dropout": dropout, "memory": memory, "speed": speed, "sweep": sweep,
            "losses": losses, "pytorch": pytorch, "nccl": nccl, "rehearsal": rehearsal,
            "sanitizer": sanitizer, "operations": operations, "overhead": overhead}
# Seconds of each section of a short check; the others are of a full one, or are named.
BUDGETS = {"machine": 10.0, "tests": 65.0, "step": 30.0, "profile": 50.0, "dropout": 25.0,
           "memory": 25.0, "speed": 50.0, "sweep": 45.0, "losses": 40.0, "pytorch": 80.0,
           "nccl": 20.0, "rehearsal": 40.0}
SHORT_SECONDS = 480.0  # of them all


def run_sections(arguments, machine):
    budgets = {} if machine.is_full else BUDGETS
    sections = Sections("gpu-check", SECTIONS, machine, budgets=budgets)
    chosen = arguments.section or [name for name in SECTIONS if machine.is_full or name in BUDGETS]
    seconds = arguments.seconds
    if seconds is None:
        seconds = float("inf") if machine.is_full else SHORT_SECONDS
    records = sections.run(chosen, arguments.again, seconds)
    write_results(machine, records)
    print(summary(machine, records))
    return exit_status(records)


def parse(words):
    parser = argparse.ArgumentParser(
        prog="gpu-check", formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="gpu-check DIRECTORY [--full] [--section NAME]... [--again] [--seconds S]\n"
              "       gpu-check --pack DIRECTORY [--build BUILD]",
        description="Checks what needs a GPU, section by section, in 8 minutes, and keeps what it\n"
                    "finds as DIRECTORY/<section>.json, results.json and table.txt, and the runs\n"
                    "for ptdp-validate and ptdp-calibrate as DIRECTORY/runs/*.json. What is done\n"
                    f"is not done again.\nsections: {' '.join(SECTIONS)}",
        epilog="exit status: 0 all ran and met their goals; 6 a goal is missed; 4 no GPU, a\n"
               "section failed or is not finished (run the same command again); 2 bad usage")
    add_flags(parser, SECTIONS)
    parser.add_argument("--full", action="store_true",
                        help="all sections, at length: hours. Give it a directory of its own")
    parser.add_argument("--pack", action="store_true",
                        help="collect in DIRECTORY what a machine without a compiler needs")
    parser.add_argument("--rehearse", action="store_true",
                        help="try the sections without a GPU: tiny models on this host")
    parser.add_argument("--emulated", action="store_true",
                        help="likewise, on an emulated GPU: the build's target emulated_programs")
    return parser.parse_args(words)


def main(words):
    arguments = parse(words)
    build = arguments.build.resolve() if arguments.build else None
    if arguments.pack:
        return pack.pack(arguments.directory, build)
    machine = Machine(arguments.directory.resolve(), arguments.rehearse, build,
                      emulates=arguments.emulated)
    machine.is_full = arguments.full
    if not machine.gpu and not machine.rehearses:
        print("gpu-check: no GPU here (nvidia-smi shows none)", file=sys.stderr)
        return FAULT
    return run_sections(arguments, machine)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
