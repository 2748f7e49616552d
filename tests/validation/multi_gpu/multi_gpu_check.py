"""tools/multi-gpu-check: settles on a machine with several GPUs, or on two nodes, what needs them.
--help shows the rest."""

import argparse
import os
import pathlib
import shutil
import socket
import sys

# What it has in common with tools/gpu-check.
sys.path.insert(1, str(pathlib.Path(__file__).resolve().parents[1] / "gpu"))

from check import Failed  # noqa: E402
from check_curves import curves  # noqa: E402
from check_faults import faults  # noqa: E402
from check_layouts import layouts  # noqa: E402
from check_meeting import meeting  # noqa: E402
from check_overlap import overlap  # noqa: E402
from check_prediction import prediction  # noqa: E402
from check_sizes import sizes  # noqa: E402
from gpus import MEETINGS, GpuMachine  # noqa: E402
from machine import ROOT  # noqa: E402
from nodes import Node, address_of, join_others, serve  # noqa: E402
from report import write_report  # noqa: E402
from sections import BAD_USAGE, FAULT, Sections, add_flags, summary_rows, table  # noqa: E402

# In this order: `overlap` plans with what `prediction` profiled, else with the data sheet.
SECTIONS = {"layouts": layouts, "curves": curves, "sizes": sizes, "prediction": prediction,
            "overlap": overlap, "faults": faults, "meeting": meeting}
PORT = 29571
LONGEST_SECTION = 3600.0  # seconds
# Whose variables say which of the nodes this is: number, count.
NODE_VARIABLES = (("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), ("PMI_RANK", "PMI_SIZE"),
                  ("RANK", "WORLD_SIZE"), ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
                  ("SLURM_PROCID", "SLURM_NTASKS"))


def parse(words):
    parser = argparse.ArgumentParser(
        prog="multi-gpu-check", formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="multi-gpu-check DIRECTORY [--section NAME]... [--again] [--seconds S]\n"
              "       multi-gpu-check DIRECTORY --commands",
        description="Checks what needs several GPUs, section by section, and keeps what it finds\n"
                    "as DIRECTORY/<section>.json, report.json and report.md. What is done is not\n"
                    f"done again.\nsections: {' '.join(SECTIONS)}",
        epilog="exit status: 0 all ran and met their goals; 6 a goal is missed; 4 too few GPUs, a\n"
               "section failed or is not finished (run the same command again); 2 bad usage")
    add_flags(parser, SECTIONS)
    parser.add_argument("--quick", action="store_true", help="a sample of layouts and faults")
    parser.add_argument("--nccl-tests", type=pathlib.Path, metavar="FOLDER",
                        help="where all_reduce_perf is (default: on the PATH)")
    parser.add_argument("--commands", action="store_true",
                        help="how to start it here and on two nodes, with each launcher")
    nodes = parser.add_argument_group("several nodes")
    nodes.add_argument("--master", metavar="HOST:PORT", help="where the checks of all nodes meet")
    nodes.add_argument("--nodes", type=int, help="how many (default: as the launcher says)")
    nodes.add_argument("--node", type=int, help="which of them this is, from 0 (likewise)")
    nodes.add_argument("--launch", action="append", default=[], metavar="WORDS",
                       help="what stands before a program to start {ranks} of it on all nodes, "
                            "such as 'mpirun -n {ranks} --host a:8,b:8'; tried too")
    host = parser.add_argument_group("without a GPU")
    host.add_argument("--host", action="store_true",
                      help="tiny models on the cores of this host, to try all of it")
    host.add_argument("--emulated", action="store_true",
                      help="likewise, on emulated GPUs and an emulated NCCL, which join threads: "
                           "the build's target emulated_programs")
    host.add_argument("--ranks", type=int, choices=range(2, 17), metavar="N",
                      help="of 2 to 16 (default: 4)")
    host.add_argument("--transport", choices=MEETINGS, help="between them (default: tcp)")
    arguments = parser.parse_args(words)
    if not arguments.host and arguments.transport:
        parser.error("--transport: expected together with --host")
    if not (arguments.host or arguments.emulated) and arguments.ranks:
        parser.error("--ranks: expected together with --host or --emulated")
    if arguments.emulated and (arguments.host or arguments.master):
        parser.error("--emulated: expected without --host and --master")
    place_among_nodes(parser, arguments)
    return arguments


def place_among_nodes(parser, arguments):
    """Fills in --node and --nodes by what a launcher says."""
    if arguments.master is None:
        if arguments.nodes or arguments.node is not None:
            parser.error(f"--nodes, --node: expected together with --master HOST:{PORT}")
        arguments.nodes, arguments.node = 1, 0
        return
    try:
        address_of(arguments.master)
    except ValueError as fault:
        parser.error(str(fault))
    number, count = next(((os.environ[number], os.environ[count])
                          for number, count in NODE_VARIABLES
                          if number in os.environ and count in os.environ), ("", ""))
    if arguments.node is None and number.isdigit():
        arguments.node = int(number)
    if arguments.nodes is None and count.isdigit():
        arguments.nodes = int(count)
    if arguments.nodes is None or arguments.node is None:
        parser.error("--master: expected mpirun, srun or torchrun with a task on each node, or "
                     "--nodes and --node")
    if not 0 <= arguments.node < arguments.nodes or arguments.nodes < 2:
        parser.error(f"--node, --nodes: expected a node from 0 on of two or more, got "
                     f"{arguments.node} of {arguments.nodes}")
    if arguments.transport not in (None, "tcp"):
        parser.error("--transport: expected tcp between nodes")


def commands(machine, directory):
    """How to start it, word for word; the second node's name is to be put in."""
    tool = f"{ROOT / 'tools/multi-gpu-check'} {directory}"
    here, gpus = socket.gethostname(), max(len(machine.gpus), 1)
    master = f"--master {here}:{PORT}"
    run = f"{machine.find_program('ptdp-run') or 'ptdp-run'} plan.json"
    found = {name: "" if shutil.which(name) else "  (not found here)"
             for name in ("mpirun", "srun", "torchrun")}
    torchrun = ("torchrun --nnodes 2 --node-rank 0 --nproc-per-node 1 "
                f"--master-addr {here} --no-python")
    ranks = 2 * gpus
    return f"""\
This machine, with {len(machine.gpus)} GPUs:
  {tool}

Two nodes, this one and OTHER, each with this folder at the same place (one task on each node; ranks
are started by it; port {PORT} and those that the system gives must be open between them):
  mpirun{found['mpirun']}
    mpirun -n 2 --host {here},OTHER {tool} {master}
  srun{found['srun']}
    srun -N 2 --ntasks-per-node 1 --gpus-per-node {gpus} {tool} {master}
  torchrun{found['torchrun']}, on this node and, with --node-rank 1, on the other
    {torchrun} {tool} {master}
  by hand, on this node and, with --node 1, on the other
    {tool} {master} --nodes 2 --node 0
With nccl-tests built for MPI, and to try a launcher of ranks on both nodes, add
  --nccl-tests FOLDER --launch 'mpirun -n {{ranks}} --host {here}:{gpus},OTHER:{gpus}'

A plan of your own, on this machine and on two nodes:
  {run}
  mpirun -n {ranks} --host {here}:{gpus},OTHER:{gpus} --map-by slot {run}
  srun -N 2 --ntasks-per-node {gpus} --gpus-per-node {gpus} --distribution=block {run}
  torchrun --nnodes 2 --node-rank 0 --nproc-per-node {gpus} --master-addr {here} --no-python {run}
"""


def check_nodes(arguments, machine):
    """Node 0's part: all sections, and the report. Returns the status."""
    sections = Sections("multi-gpu-check", SECTIONS, machine, LONGEST_SECTION)
    fault = machine.fault()
    if fault:
        sections.tell(fault)
        return FAULT
    machine.directory.mkdir(parents=True, exist_ok=True)
    status = FAULT
    others = []
    try:
        if arguments.nodes > 1:
            machine.address = address_of(arguments.master)[0]
            others = join_others(arguments.nodes, arguments.master, sections.tell)
            machine.use_nodes([machine.nodes[0], *others])
        records = sections.run(arguments.section, arguments.again,
                               arguments.seconds or float("inf"))
        print(table(summary_rows(records)))
        status = write_report(machine, records)
        sections.tell(f"{machine.directory / 'report.md'}: status {status}")
    except (Failed, OSError) as reason:
        sections.tell(str(reason))
    finally:
        machine.nodes[0].end_all()
        for node in others:
            node.end(status)
    return status


def serve_node(arguments, machine):
    """Another node's part."""
    machine.directory = machine.directory / f"node-{arguments.node}"
    machine.directory.mkdir(parents=True, exist_ok=True)
    try:
        return serve(Node(machine, arguments.node), arguments.nodes, arguments.master)
    except (Failed, OSError) as reason:
        print(f"multi-gpu-check: node {arguments.node}: {reason}", file=sys.stderr)
        return FAULT


def main(words):
    try:
        arguments = parse(words)
    except SystemExit as end:
        return end.code and BAD_USAGE
    machine = GpuMachine(arguments.directory.resolve(), arguments.host,
                         arguments.build.resolve() if arguments.build else None,
                         meeting=arguments.transport, ranks=arguments.ranks,
                         emulates=arguments.emulated)
    machine.is_quick = arguments.quick
    machine.nccl_tests = arguments.nccl_tests
    machine.launches = [words.split() for words in arguments.launch]
    if arguments.commands:
        print(commands(machine, arguments.directory.resolve()), end="")
        return 0
    return serve_node(arguments, machine) if arguments.node > 0 else check_nodes(arguments, machine)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
