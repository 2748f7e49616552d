"""Section `machine`: what nvidia-smi says of the GPU, and which libraries and programs are here."""

import importlib.metadata

from commands import program, run_program, succeeded
from machine import (NCCL, NEEDED_LIBRARIES, find_smi, is_loaded_unaided, output_of,
                     smi_selection)

# Of nvidia-smi --query-gpu.
FIELDS = ("clocks.max.sm", "clocks.max.mem", "power.limit", "ecc.mode.current", "mig.mode.current",
          "pcie.link.gen.max", "compute_cap")
MOST_USED = 1024.0  # MiB that the driver may hold of an idle GPU
PROGRAMS = ("ptdp-plan", "ptdp-run", "ptdp-profile")
# Whose versions tell what a Python installation computes with.
DISTRIBUTIONS = ("torch", "nvidia-cublas", "nvidia-cudnn-cu13", "nvidia-nccl-cu13", "triton")


def queried(machine, fields):
    """{field: word} of nvidia-smi, without those that this driver does not know."""
    smi = find_smi(machine.environment)
    found = {}
    for field in fields if smi else ():
        word = output_of([smi, *smi_selection(machine.environment), f"--query-gpu={field}",
                          "--format=csv,noheader,nounits"], machine.environment).strip()
        if word and "\n" not in word:
            found[field] = word
    return found


def versions():
    """Of Python's distributions, where they are installed."""
    found = {}
    for name in DISTRIBUTIONS:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            pass
    return found


def libraries_of(machine):
    """The needed libraries that programs find, where they are told to look or by themselves."""
    return [name for name in (*NEEDED_LIBRARIES, NCCL)
            if any((folder / name).exists() for folder in machine.library_folders())
            or is_loaded_unaided(name, machine.environment)]


def machine(check):
    found = {name: succeeded(run_program(check, [program(check, name), "--version"])).stdout.strip()
             for name in PROGRAMS}
    check.values |= {"programs": found, "python": versions()}
    check.tell("programs", ", ".join(sorted(set(found.values()))))
    if not check.machine.gpu:
        check.skip("GPU", "a rehearsal has none")
        return
    fields = queried(check.machine, FIELDS)
    check.values |= {"nvidia-smi": fields, "libraries": libraries_of(check.machine)}
    for name, word in fields.items():
        check.tell(name, word)
    missing = [name for name in NEEDED_LIBRARIES if name not in check.values["libraries"]]
    if not check.machine.emulates:
        check.goal("CUDA's libraries", "all found", ", ".join(missing) or "all", not missing)
    used = float(queried(check.machine, ["memory.used"]).get("memory.used", 0.0))
    check.values["used_MiB"] = used
    check.goal("GPU memory that others use", f"< {MOST_USED:.0f} MiB", f"{used:.0f} MiB",
               used < MOST_USED)
