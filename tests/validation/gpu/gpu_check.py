"""tools/gpu-check: settles on a machine with a GPU what needs one. --help shows the rest."""

import argparse
import sys

import pack
from check_losses import losses
from check_memory import memory
from check_nccl import nccl
from check_operations import operations, profile
from check_overhead import overhead
from check_pytorch import pytorch
from check_rehearsal import rehearsal
from check_speed import speed
from check_sweep import sweep
from check_tests import sanitizer, tests
from machine import Machine
from sections import FAULT, Sections, add_flags, exit_status, summary_rows, table

# In this order; the later ones plan with what `profile` measured and train what `speed` fitted.
SECTIONS = {"tests": tests, "sanitizer": sanitizer, "operations": operations, "profile": profile,
            "speed": speed, "pytorch": pytorch, "sweep": sweep, "losses": losses,
            "overhead": overhead, "memory": memory, "nccl": nccl, "rehearsal": rehearsal}


def run_sections(arguments, machine):
    sections = Sections("gpu-check", SECTIONS, machine)
    records = sections.run(arguments.section, arguments.again, arguments.seconds)
    print(table(summary_rows(records)))
    return exit_status(records)


def parse(words):
    parser = argparse.ArgumentParser(
        prog="gpu-check", formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="gpu-check DIRECTORY [--section NAME]... [--again] [--seconds S]\n"
              "       gpu-check --pack DIRECTORY [--build BUILD]",
        description="Checks what needs a GPU, section by section, and keeps what it finds as\n"
                    "DIRECTORY/<section>.json. What is done is not done again.\n"
                    f"sections: {' '.join(SECTIONS)}",
        epilog="exit status: 0 all ran and met their goals; 6 a goal is missed; 4 no GPU, a\n"
               "section failed or is not finished (run the same command again); 2 bad usage")
    add_flags(parser, SECTIONS)
    parser.add_argument("--pack", action="store_true",
                        help="collect in DIRECTORY what a machine without a compiler needs")
    parser.add_argument("--rehearse", action="store_true",
                        help="try the sections without a GPU: tiny models on this host")
    return parser.parse_args(words)


def main(words):
    arguments = parse(words)
    build = arguments.build.resolve() if arguments.build else None
    if arguments.pack:
        return pack.pack(arguments.directory, build)
    machine = Machine(arguments.directory.resolve(), arguments.rehearse, build)
    if not machine.gpu and not machine.rehearses:
        print("gpu-check: no GPU here (nvidia-smi shows none)", file=sys.stderr)
        return FAULT
    return run_sections(arguments, machine)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
