"""tools/check-launchers: starts ptdp-run with every launcher there is, on two hosts that are
network namespaces of this machine. --help shows the rest."""

import argparse
import pathlib
import shutil
import signal
import subprocess
import sys
import time

from cases import CASES, Plan
from hosts import SYSTEM_PATH, Failed, Hosts, Missing
from launchers import LAUNCHERS
from slurm import PROGRAMS

ROOT = pathlib.Path(__file__).resolve().parents[2]
DONE, MISSED, BAD_USAGE, SKIPPED = 0, 6, 2, 77
TORCH = ROOT / "build/torch"
PYTORCH = "torch==2.15.0"
NO_SERVICES = pathlib.Path("/usr/sbin/policy-rc.d")  # what Debian asks before it starts one


class Build:
    """The programs that are tried."""

    def __init__(self, directory):
        self.source = ROOT
        self.directory = directory

    def program(self, name):
        path = self.directory / "tools" / name
        if not path.exists():
            raise Failed(f"no {path}: cmake --preset release && cmake --build --preset release")
        return path

    @property
    def has_mpi(self):
        return "libmpi" in subprocess.run(["ldd", self.program("ptdp-run")], text=True,
                                          capture_output=True, check=False).stdout

    @staticmethod
    def torchrun():
        found = TORCH / "bin/torchrun"
        if found.exists():
            return found
        found = shutil.which("torchrun")
        # Before PyTorch 2 flags have underscores, and no ranks start on Python 3.11.
        is_current = found and "--nproc-per-node" in subprocess.run(
            [found, "--help"], capture_output=True, text=True, check=False).stdout
        return pathlib.Path(found) if is_current else None


def tell(text):
    print(f"check-launchers: {text}", flush=True)


def run(*command):
    tell("+ " + " ".join(map(str, command)))
    status = subprocess.run(command, check=False).returncode
    if status != 0:
        raise Failed(f"{command[0]}: status {status}")


def install():
    if not all(shutil.which(name, path=SYSTEM_PATH) for name in PROGRAMS):
        run("apt-get", "update", "-qq")
        # A machine with systemd would start munge.
        is_ours = not NO_SERVICES.exists()
        if is_ours:
            NO_SERVICES.write_text("#!/bin/sh\nexit 101\n")
            NO_SERVICES.chmod(0o755)
        try:
            run("apt-get", "install", "-y", "-qq", "--no-install-recommends",
                *sorted(set(PROGRAMS.values())))
        finally:
            if is_ours:
                NO_SERVICES.unlink()
    if not (TORCH / "bin/torchrun").exists():
        run(sys.executable, "-m", "venv", TORCH)
        run(TORCH / "bin/pip", "install", "--quiet", PYTORCH)


def check(name, hosts, plan, is_quick):
    """Whether the launcher does all that is demanded; None where it is not here."""
    try:
        launcher = LAUNCHERS[name](hosts)
        tell(f"{name}: {launcher.version() or 'ranks started one by one'}")
    except Missing as reason:
        tell(f"{name}: skipped: {reason}")
        return None
    except Failed as fault:
        tell(f"{name}: FAILED: {fault}")
        return False
    results = []
    for case in launcher.quick_cases if is_quick else launcher.cases:
        start = time.monotonic()
        try:
            told = "ok: " + CASES[case](launcher, plan)
        except Failed as fault:
            told = f"FAILED: {fault}"
        results.append(told.startswith("ok"))
        tell(f"{name}: {case} ({time.monotonic() - start:.1f} s): {told}")
    return all(results)


def parse(words):
    parser = argparse.ArgumentParser(
        prog="check-launchers", formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Runs a plan of four ranks on two hosts, network namespaces with a link, by\n"
                    f"each launcher: {' '.join(LAUNCHERS)}.\n"
                    "Demanded of each: losses and bytes of threads; a killed rank ends the job\n"
                    "and is named; the same command goes on from its checkpoint; a cut link\n"
                    "ends all ranks.\n"
                    "Needs root; says what else is missing. What it starts ends with it.",
        epilog="exit status: 0 all did; 6 some did not; 77 nothing could be tried; 2 bad usage")
    parser.add_argument("build", nargs="?", type=pathlib.Path, default=ROOT / "build/release",
                        help="the build to try (default: build/release)")
    parser.add_argument("--launcher", action="append", choices=list(LAUNCHERS), metavar="NAME",
                        help="only this one; can be given several times")
    parser.add_argument("--quick", action="store_true",
                        help="a sample of the cases, as in the suite")
    parser.add_argument("--install", action="store_true",
                        help="first install what is missing: Slurm and munge from Debian, "
                             f"{PYTORCH} from PyPI (6 GB) below build/torch")
    return parser.parse_args(words)


def main(words):
    try:
        arguments = parse(words)
    except SystemExit as end:
        return end.code and BAD_USAGE
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    try:
        if arguments.install:
            install()
        hosts = Hosts(Build(arguments.build.resolve()))
    except Missing as reason:
        tell(f"skipped: {reason}")
        return SKIPPED
    except (Failed, OSError) as fault:
        tell(str(fault))
        return MISSED
    try:
        plan = Plan(hosts)
        results = []
        for name in arguments.launcher or LAUNCHERS:
            results.append(check(name, hosts, plan, arguments.quick))
            hosts.end_all()
    except Failed as fault:
        tell(str(fault))
        return MISSED
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    finally:
        hosts.close()
    if False in results:
        return MISSED
    return DONE if True in results else SKIPPED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
