#!/usr/bin/env python3
"""Writes the modules of the package that follow from tables: `answers`, a class for each document
of FORMATS.md, and `commands`, a function for each command, with the flags of its `--help json`.

usage: generate.py PROGRAM SOURCE_DIRECTORY PACKAGE_DIRECTORY

What FORMATS.md calls a key is its docstring. Its type is that of the documents that PROGRAM answers
SAMPLES with; a key that is in none of them has the type Any."""

import json
import pathlib
import shlex
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).parent / "ptdp"))
from command_functions import Commands  # noqa: E402
from document_classes import Classes, described  # noqa: E402

# @ stands for the source tree. What -o writes is a sample, too.
SAMPLES = """
plan --gpus 3072 --model 1T -o plan.json
plan --gpus 64 --model 7.5B --tokens 10B --price 2 -v -o seven.json --time-limit 60
plan --gpus 16 --model 1.7B -v --time-limit 60
plan --gpus 16 --model mixtral-8x7b --cluster dgx-h100 --global-batch-size 256 -o experts.json
plan --gpus 2 --model gpt-tiny --cluster host --top 1 -o small.json
plan --gpus 1 --model 1T
plan --gpus 64 --model 7.5B --explain tp=4,pp=2
plan --gpus 64 --model llama-3-70b --cluster dgx-h100 --config tp=8,pp=2,recompute=full
plan --gpus 32 --model 1.7B --config dp=32,b=16,recompute=full --measured 5s -o log.json
plan --gpus 8 --model 18B --config tp=4
plan --gpus 64 --model 7.5B --compare-strategies
plan --gpus 64 --model llama-3-8b --cluster dgx-h100 --stack all
plan --gpus 16 --model @/tests/golden/transcripts/layers.json --global-batch-size 64
plan compare plan.json seven.json
plan compare seven.json small.json
plan show plan.json
plan list models
plan list clusters
plan list gpus
plan list stacks
plan partition @/tests/golden/transcripts/layers.json --pp 2 --memory 20
sim seven.json
sim seven.json --schedule all
validate --group sc21-t1 --ranking
validate --group korthikanti --calibration leave-one-out
validate --log @/tests/golden/transcripts/train.log --plan log.json
validate --trace @/tests/golden/transcripts/trace.json
calibrate --levels
calibrate --log @/tests/golden/transcripts/train.log --plan log.json -o calibration
"""


def run_samples(program, source, schemas):
    """Adds the documents that the program answers with."""
    documents = []
    with tempfile.TemporaryDirectory() as folder:
        for line in SAMPLES.strip().splitlines():
            words = shlex.split(line.replace("@", str(source)))
            has_format = words[0] != "calibrate"
            done = subprocess.run([program, *words, *["--format", "json"] * has_format], cwd=folder,
                                  capture_output=True, check=False)
            if done.returncode not in (0, 3):
                sys.exit(f"generate.py: {line}: status {done.returncode}: {done.stderr.decode()}")
            written = [path.read_bytes() for path in sorted(pathlib.Path(folder).rglob("*.json"))]
            documents += [done.stdout] * done.stdout.startswith(b"{")
    for document in map(json.loads, [*documents, *written]):
        if document.get("schema") in schemas:
            schemas[document["schema"]].add(document)


def main():
    program, source, package = (pathlib.Path(argument).resolve() for argument in sys.argv[1:])
    formats = (source / "FORMATS.md").read_text(encoding="utf-8")
    profiles = (source / "profiles" / "README.md").read_text(encoding="utf-8")
    schemas = {**described(formats), **described(profiles)}
    run_samples(program, source, schemas)
    classes = Classes(schemas)
    commands = Commands(program, formats, {schema: root.name for schema, root in schemas.items()})
    for name, text in (("answers.py", classes.text()), ("commands.py", commands.text()),
                       ("commands.pyi", commands.stubs())):
        (package / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
