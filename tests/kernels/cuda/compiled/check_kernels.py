#!/usr/bin/env python3
"""Checks what the compiler made of the kernels: no local memory, enough of them at once on a
multiprocessor, launches within a GPU's limits, and vectors of 16 bytes read and written at once.
rules.json has the limits, and the exceptions with their reasons. Prints a table of all kernels.
usage: check_kernels.py [--needs-ptx] FILE...
FILE is an object or an archive. Without --needs-ptx, files with compressed PTX or none are checked
for the rest. Exit status 77: no machine code can be read."""

import argparse
import collections
import json
import pathlib
import re
import subprocess
import sys

import fat_binary
import occupancy
import ptx

HERE = pathlib.Path(__file__).parent
SKIPPED = 77
# What a launch has unless it says otherwise (launch.h), and the most that it may have.
USUAL_THREADS, MOST_THREADS = 256, 1024
MOST_DECLARED_SHARED = 8 << 10  # kMostDeclaredShared there

# A kernel as compiled for an architecture: accesses are None where there is no PTX of it.
Kernel = collections.namedtuple(
    "Kernel", "name architecture registers local shared threads accesses")


def short_names(mangled):
    """Names as in the sources, without namespaces of this project and without parameters."""
    plain = subprocess.run(["c++filt"], input="\n".join(mangled), check=True, capture_output=True,
                           text=True).stdout.splitlines()
    found = {}
    for name, text in zip(mangled, plain):
        text = re.sub(r"\(anonymous namespace\)::|_GLOBAL__N__\w+::|\bptdp::(cuda::)?|^void ", "",
                      text)
        found[name] = text.split("(")[0]
    return found


def read_kernels(files):
    """The kernels of all files, and lines about what cannot be read or should not be there."""
    resources, found, notes = {}, {}, []
    for file in files:
        for code in fat_binary.codes(file.read_bytes()):
            if code.body is None:
                kind = "PTX" if code.kind == fat_binary.KIND_PTX else "machine code"
                notes.append(f"{file.name}: compressed {kind}, not read")
            elif code.kind == fat_binary.KIND_PTX:
                for name, accesses in ptx.entries(code.body.decode(errors="replace")).items():
                    found[name, code.architecture] = accesses
            elif code.kind == fat_binary.KIND_ELF:
                for name, of_one in fat_binary.kernels_of(code.body, code.architecture).items():
                    resources[name, code.architecture] = of_one
    names = short_names(sorted({name for name, _ in resources}))
    kernels = [Kernel(names[name], architecture, of_one["registers"], of_one["local"],
                      of_one.get("shared", 0), of_one.get("threads"),
                      found.get((name, architecture)))
               for (name, architecture), of_one in resources.items()]
    return sorted(kernels, key=lambda kernel: kernel[:2]), sorted(set(notes))


class Rules:
    """The rules of rules.json. Of a list the first row applies whose pattern is a kernel's name."""

    def __init__(self, rules):
        self.rules = rules
        self.used = set()

    def row(self, kind, name):
        for number, row in enumerate(self.rules[kind]):
            if re.fullmatch(row["kernel"], name):
                self.used.add((kind, number))
                return row
        return None

    def number(self, kind, key, name, otherwise):
        row = self.row(kind, name)
        return row.get(key, otherwise) if row else otherwise

    def unused(self):
        return [f"rules.json: {kind}: {row['kernel']} is no kernel's name"
                for kind, rows in self.rules.items() if isinstance(rows, list)
                for number, row in enumerate(rows) if (kind, number) not in self.used]


def residency(kernel, rules, gpu):
    """The blocks that are resident at once, their threads, and the shared memory of each."""
    threads = kernel.threads or USUAL_THREADS
    shared = kernel.shared + rules.number("dynamic_shared_bytes", "bytes", kernel.name, 0)
    return occupancy.blocks_at_once(gpu, threads, kernel.registers, shared), threads, shared


def resource_failures(kernel, rules, gpu):
    """What is wrong with a kernel's use of a multiprocessor."""
    most_local = rules.number("local_bytes", "bytes", kernel.name, 0)
    if kernel.local > most_local:
        yield f"{kernel.local} bytes of local memory a thread, expected at most {most_local}"
    if (rules.row("dynamic_shared_bytes", kernel.name) and
            kernel.shared > MOST_DECLARED_SHARED):
        yield (f"declares {kernel.shared} bytes of shared memory beside dynamic memory, expected "
               f"at most {MOST_DECLARED_SHARED}")
    blocks, threads, shared = residency(kernel, rules, gpu)
    uses = (f"{kernel.registers} registers, {shared} bytes of shared memory, {threads} threads a "
            "block")
    if blocks == 0:
        yield f"cannot be launched on {gpu['deviceName']}: {uses}"
        return
    if kernel.threads is None and not occupancy.blocks_at_once(gpu, MOST_THREADS,
                                                               kernel.registers, 0):
        yield (f"{kernel.registers} registers and no __launch_bounds__: cannot be launched with "
               f"{MOST_THREADS} threads")
    warps = blocks * -(-threads // occupancy.WARP)
    least = rules.number("least_warps", str(kernel.architecture), kernel.name,
                         rules.rules["least_warps_otherwise"])
    if warps < least:
        yield f"{warps} resident warps ({uses}), expected at least {least}"


def access_failures(kernel, rules):
    """What is wrong with how wide a kernel's accesses of global memory are."""
    if not kernel.accesses or rules.row("narrow", kernel.name):
        return
    wide = {access.operation for access in kernel.accesses if access.bytes >= ptx.WIDEST}
    if rules.row("both", kernel.name):
        for operation in sorted({"ld", "st"} - wide):
            yield f"no {operation} of {ptx.WIDEST} bytes, expected some beside those of elements"
        return
    excepted = rules.row("scalar", kernel.name)
    if excepted and "accesses" not in excepted:
        return
    if not wide:
        counts = collections.Counter((access.operation, access.bytes) for access in kernel.accesses)
        yield (f"no access of {ptx.WIDEST} bytes, but " +
               ", ".join(f"{count} {operation} of {size}"
                         for (operation, size), count in sorted(counts.items())) + " bytes")
    for run in ptx.pieces(kernel.accesses):
        if not (excepted and excepted["accesses"] in run):
            yield f"{run}, expected one of {ptx.WIDEST} bytes"


def table(kernels, rules, gpus):
    yield (f"{'kernel':72} {'sm':>3} {'registers':>9} {'local B':>7} {'shared B':>8} "
           f"{'threads':>7} {'blocks':>6} {'warps':>5} {'16 B':>4} {'less':>4}")
    for kernel in kernels:
        if kernel.architecture in gpus:
            blocks, threads, shared = residency(kernel, rules, gpus[kernel.architecture])
            wide = [access for access in kernel.accesses or [] if access.bytes >= ptx.WIDEST]
            counts = ("-", "-") if kernel.accesses is None else (
                len(wide), len(kernel.accesses) - len(wide))
            yield (f"{kernel.name[:72]:72} {kernel.architecture:3} {kernel.registers:9} "
                   f"{kernel.local:7} {shared:8} {threads:7} {blocks:6} "
                   f"{blocks * -(-threads // occupancy.WARP):5} {counts[0]:>4} {counts[1]:>4}")


def failures(kernels, rules, gpus):
    """Lines about what is wrong with the kernels of architectures that are described."""
    for kernel in kernels:
        gpu = gpus.get(kernel.architecture)
        if gpu is None:
            continue
        for text in [*resource_failures(kernel, rules, gpu), *access_failures(kernel, rules)]:
            yield f"{kernel.name}, sm_{kernel.architecture}: {text}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--needs-ptx", action="store_true")
    parser.add_argument("files", nargs="+", type=pathlib.Path)
    arguments = parser.parse_args()
    rules = Rules(json.loads((HERE / "rules.json").read_text()))
    gpus = occupancy.read_gpus(HERE.parent / "gpus")
    kernels, notes = read_kernels(arguments.files)
    print("\n".join([*table(kernels, rules, gpus), *notes]))
    if not kernels and not arguments.needs_ptx:
        print("check_kernels: skipped: no machine code that can be read; configure with "
              "-DCMAKE_CUDA_FLAGS=--compress-mode=none")
        return SKIPPED
    found = list(failures(kernels, rules, gpus))
    known = sorted({kernel.architecture for kernel in kernels})
    found += [f"sm_{architecture}: no GPU of gpus/ has it" for architecture in known
              if architecture not in gpus]
    with_ptx = sum(kernel.accesses is not None for kernel in kernels)
    if arguments.needs_ptx and not with_ptx:
        found.append(f"{len(kernels)} kernels and PTX of none, expected an architecture without "
                     "-real")
    print("\n".join([*rules.unused(), *found]))
    print(f"check_kernels: {len(kernels)} kernels of sm {', '.join(map(str, known))}, {with_ptx} "
          f"with PTX: {len(found)} failures")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
