#!/usr/bin/env python3
"""The wheel, built by pip of a program that is there already, in a fresh virtual environment.

usage: wheel_test.py SOURCE_DIRECTORY PROGRAM

Exit status 77: skipped, for PyPI can't be reached."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import venv

SKIPPED = 77
PROGRAM_OF_A_USER = """import ptdp
found = ptdp.plan(gpus=16, model="1.7B")
print(found.best and found.best.config.tp, ptdp.simulate(found).step_s, ptdp.show("plan.json").config.pp)
"""
# What may list layers answers otherwise.
PROGRAM_OF_FILES = """import ptdp
found = ptdp.plan(gpus=16, model="layers.json", global_batch_size=64)
print(found.best.config.tp, found.page)
if isinstance(found, ptdp.LayerPlans):
    print(found.best.num_microbatches)
else:
    print(found.best.memory.peak_GiB)
"""
WRONG = """import ptdp
print(ptdp.show("plan.json").config.tpp)
ptdp.plan(gpu=16, model="1.7B")
print(ptdp.plan(gpus=16, model="layers.json").best.memory)
"""


def run(*command, status=0, **options):
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    if done.returncode != status:
        sys.exit(f"wheel_test.py: {command}: exit status {done.returncode}, expected {status}:\n"
                 f"{done.stdout}\n{done.stderr}")
    return done.stdout


def expect(actual, expected, what):
    if actual != expected:
        sys.exit(f"wheel_test.py: {what}: got {actual!r}, expected {expected!r}")


def main():
    source, program = sys.argv[1], sys.argv[2]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        venv.create(folder / "venv", with_pip=True)
        python = str(folder / "venv" / "bin" / "python")
        pip = [python, "-m", "pip", "--disable-pip-version-check", "--retries", "1"]
        tools = subprocess.run([*pip, "install", "scikit-build-core", "mypy"], capture_output=True, text=True,
                               check=False)
        if tools.returncode != 0:
            print(f"wheel_test.py: skipped: no tools from PyPI: {tools.stderr.strip().splitlines()[-1:]}")
            return SKIPPED
        run(*pip, "wheel", source, "--no-build-isolation", "--no-deps", "-w", name, "-C",
            f"build-dir={name}/build", "-C", f"cmake.define.PTDP_PROGRAM={program}", env=environment, cwd=name)
        (wheel,) = folder.glob("*.whl")
        version = run(program, "--version").split()[1]
        expect(wheel.name, f"ptdp-{version}-py3-none-linux_{os.uname().machine}.whl", "name of the wheel")
        run(*pip, "install", "--no-index", str(wheel))
        arguments = ["plan", "--gpus", "16", "--model", "1.7B", "--format", "json"]
        found = run(program, *arguments, "-o", "plan.json", cwd=name)
        (folder / "user.py").write_text(PROGRAM_OF_A_USER)
        (folder / "files.py").write_text(PROGRAM_OF_FILES)
        (folder / "wrong.py").write_text(WRONG)
        config = json.loads(found)["plans"][0]["config"]
        told = run(python, "user.py", cwd=name, env=environment).split()
        expect((told[0], told[2]), (str(config["tp"]), str(config["pp"])), "what three lines print")
        script = str(folder / "venv" / "bin" / "ptdp")
        for command in ([script], [python, "-m", "ptdp"]):
            expect(run(*command, *arguments, cwd=name, env=environment), found, f"answer of {command}")
        mypy = [python, "-m", "mypy", "--strict", "--cache-dir", str(folder / "cache")]
        run(*mypy, "user.py", "files.py", cwd=name, env=environment)
        wrong = run(*mypy, "wrong.py", cwd=name, env=environment, status=1)
        for word in ('"gpu"', '"tpp"', '"LayerPlansPlan"'):
            expect(word in wrong, True, f"whether mypy finds {word}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
