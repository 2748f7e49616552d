"""tools/gpu-check --pack: what a machine with GPUs and no compiler needs, in one directory; for
tools/multi-gpu-check too."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

from machine import BUILDS, ROOT, Machine, revision

PROGRAMS = ("ptdp-plan", "ptdp-run", "ptdp-profile", "ptdp-validate", "gpu_test",
            "gpu_training_test", "gpu_nccl_test", "gpu_benchmark", "nccl_benchmark")
TREES = ("profiles", "tests/validation/gpu", "tests/validation/multi_gpu")
FILES = ("tools/gpu-check", "tools/multi-gpu-check")
# Nine stripped programs take 65 MiB: kernels, compressed, are 4 of them; code of the host is the
# rest, with loops for three instruction sets in each of six. One more program fits. They do not fit
# unstripped, 79 MiB.
LARGEST = 76 << 20
# Of every Linux, of CUDA or of its driver: these are not taken along. NCCL is not linked: programs
# load it where it is found.
FOUND_THERE = re.compile(r"linux-vdso|ld-linux|lib(c|m|dl|rt|pthread|stdc\+\+|gcc_s)\.so"
                         r"|lib(cuda|cudart|cublas|cublasLt|cudnn\w*|nvrtc\w*|nvJitLink)\.so")
DONE, BAD_USAGE, CANNOT_WRITE = 0, 2, 5


def shared_libraries(program):
    """[name, path or ""] of what it loads, as ldd prints it."""
    printed = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
    return parse_ldd(printed)


def parse_ldd(printed):
    libraries = []
    for line in printed.splitlines():
        words = line.split()
        if len(words) >= 3 and words[1] == "=>":
            libraries.append((words[0], words[2] if words[2].startswith("/") else ""))
    return libraries


def copied_libraries(programs):
    """Name and path of the libraries that the programs need and other machines may lack."""
    needed = {}
    for program in programs:
        for name, path in shared_libraries(program):
            if not FOUND_THERE.match(name):
                needed[name] = path
    return needed


def size_of(directory):
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())


def copy_stripped(source, target):
    shutil.copy2(source, target)
    os.chmod(target, 0o755)
    subprocess.run(["strip", "--strip-unneeded", target], check=True)


def fill(directory, programs):
    for folder in ("bin", "lib", "tools"):
        (directory / folder).mkdir(parents=True)
    for program in programs:
        copy_stripped(program, directory / "bin" / program.name)
    libraries = copied_libraries(programs)
    for name, path in libraries.items():
        if not path:
            raise OSError(f"{name} is not found")
        copy_stripped(pathlib.Path(path).resolve(), directory / "lib" / name)
    for tree in TREES:
        shutil.copytree(ROOT / tree, directory / tree,
                        ignore=shutil.ignore_patterns("__pycache__", "*_test.py"))
    for file in FILES:
        shutil.copy2(ROOT / file, directory / file)
    (directory / "REVISION").write_text(revision() + "\n")
    return libraries


def pack(directory, build=None):
    """Exit status. What was packed there before is replaced; nothing else is."""
    build = build or ROOT / BUILDS[0]
    machine = Machine(directory, rehearses=True, build=build)
    programs = [machine.find_program(name) for name in PROGRAMS]
    missing = [name for name, program in zip(PROGRAMS, programs) if program is None]
    if missing:
        print(f"gpu-check: {build} has no {', '.join(missing)}: cmake --preset gpu && "
              "cmake --build --preset gpu", file=sys.stderr)
        return BAD_USAGE
    if directory.exists() and any(directory.iterdir()) and not (directory / "REVISION").exists():
        print(f"gpu-check: {directory} is not empty and holds no earlier pack", file=sys.stderr)
        return BAD_USAGE
    shutil.rmtree(directory, ignore_errors=True)
    try:
        libraries = fill(directory, programs)
    except (OSError, subprocess.CalledProcessError) as fault:
        print(f"gpu-check: {fault}", file=sys.stderr)
        return CANNOT_WRITE
    for program in programs:
        packed = directory / "bin" / program.name
        print(f"{packed.stat().st_size / 2**20:8.1f} MiB  bin/{program.name}")
    size = size_of(directory)
    print(f"{size / 2**20:8.1f} MiB  in all, with {' '.join(libraries) or 'no library'}")
    if size > LARGEST:
        print(f"gpu-check: expected at most {LARGEST >> 20} MiB", file=sys.stderr)
        return CANNOT_WRITE
    return DONE
