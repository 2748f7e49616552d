"""The virtual environment with the frameworks' packages, made once below build/frameworks."""

import os
import pathlib
import shutil
import subprocess

# The release that reads TOML, in a folder of the environment, since another one is installed.
OLD_TORCHTITAN = "torchtitan-0.2.2"
# Packages of PyPI by framework, each list an installation of its own. Megatron-Core's wheel has its
# parser (megatron.training) for Python 3.12 and above only: pip takes an older one without a word.
PACKAGES = {
    "megatron": [["torch"], ["megatron-core==0.19.2"]],
    "megatron-bridge": [["torch"], ["megatron-core==0.19.2"],
                        ["--no-deps", "megatron-bridge==0.6.2"],
                        ["omegaconf", "hydra-core", "transformers"]],
    "torchtitan": [["torch"], ["torchtitan==0.3.0"]],
    "torchtitan-toml": [["torch"], ["torchtitan==0.3.0"],  # with what both releases import
                        ["--no-deps", "--target", OLD_TORCHTITAN, "torchtitan==0.2.2"]],
    "nanotron": [["torch"], ["nanotron==0.4"]],
    "accelerate": [["torch"], ["accelerate==1.15.0", "transformers"]],
    "deepspeed": [["torch"], ["deepspeed==0.19.8", "--no-build-isolation"]],
    "schedule-csv": [["torch"]],
}


class Missing(Exception):
    """Why nothing can be checked here."""


class Environment:
    """A virtual environment's Python, and what a framework's process needs beside it."""

    def __init__(self, directory):
        self.directory = directory
        self.python = directory / "bin/python"

    def variables(self, framework):
        """Returns the variables of a process that imports the framework."""
        result = {"PYTHONWARNINGS": "ignore"}
        if framework == "torchtitan-toml":
            result["PYTHONPATH"] = str(self.directory / OLD_TORCHTITAN)
        return result


def find_python():
    name = os.environ.get("PTDP_PYTHON", "python3.12")
    found = shutil.which(name)
    probe = [found or name, "-c", "import sys; print(sys.version_info[:2] == (3, 12))"]
    try:
        is_right = found and "True" in subprocess.run(probe, capture_output=True, text=True,
                                                      check=False).stdout
    except OSError:
        is_right = False
    if not is_right:
        raise Missing(f"no Python 3.12 as {name}: set PTDP_PYTHON to one")
    return found


def make_environment(root, given, frameworks, tell):
    """Returns an environment that has the packages of all `frameworks`."""
    if given:
        environment = Environment(given.resolve())
        if not environment.python.exists():
            raise Missing(f"no {environment.python}")
        if "torchtitan-toml" in frameworks and not (environment.directory / OLD_TORCHTITAN).exists():
            raise Missing(f"no {environment.directory / OLD_TORCHTITAN}")
        return environment
    directory = root / "build/frameworks"
    python = directory / "bin/python"
    wanted = [packages for name in frameworks for packages in PACKAGES[name]]
    done = directory / "installed.txt"
    installed = done.read_text(encoding="utf-8").splitlines() if done.exists() else []
    if not python.exists():
        subprocess.run([find_python(), "-m", "venv", directory], check=True)
        subprocess.run([directory / "bin/pip", "install", "--quiet", "uv"], check=True)
    for packages in wanted:
        line = " ".join(packages)
        if line in installed:
            continue
        tell(f"installs {line} below {directory}")
        status = subprocess.run(
            [directory / "bin/uv", "pip", "install", "--quiet", "--python", python, *packages],
            check=False, cwd=directory, env=os.environ | {"UV_LINK_MODE": "copy"}).returncode
        if status != 0:
            raise Missing(f"cannot install {line}")
        installed.append(line)
        pathlib.Path(done).write_text("\n".join(installed) + "\n", encoding="utf-8")
    return Environment(directory)
