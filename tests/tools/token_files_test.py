#!/usr/bin/env python3
"""ptdp-run --data on files of every kind, written here: the same tokens give the same losses whatever
holds them, with vocabularies below and above 65,536; and what is no such file is refused.

usage: token_files_test.py BUILD_DIRECTORY"""

import json
import os
import pathlib
import random
import struct
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parents[2]
ENVIRONMENT = dict(os.environ, PTDP_PROFILES=str(SOURCE / "profiles"))
CODES = {"H": 8, "i": 4, "q": 5}  # Megatron-LM's, of struct's types


def raw(tokens, kind):
    return struct.pack(f"<{len(tokens)}{kind}", *tokens)


def llm_c(tokens, kind):
    magic, version = {"H": (20240520, 1), "I": (20240801, 7)}[kind]
    return struct.pack("<256i", magic, version, len(tokens), *[0] * 253) + raw(tokens, kind)


def numpy(tokens, kind):
    name = {"H": "<u2", "I": "<u4", "i": "<i4", "q": "<i8"}[kind]
    text = f"{{'descr': '{name}', 'fortran_order': False, 'shape': ({len(tokens)},), }}"
    text += " " * (-(11 + len(text)) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode() + raw(tokens, kind)


def megatron(tokens, kind):
    """.bin and .idx of documents of 100 tokens, in sequences of 50."""
    lengths = [len(tokens[first:first + 50]) for first in range(0, len(tokens), 50)]
    places = [50 * struct.calcsize(kind) * i for i in range(len(lengths))]
    documents = [*range(0, len(lengths), 2), len(lengths)]
    index = (b"MMIDIDX\x00\x00" + struct.pack("<QBQQ", 1, CODES[kind], len(lengths), len(documents))
             + raw(lengths, "i") + raw(places, "q") + raw(documents, "q"))
    return raw(tokens, kind), index


class Test:
    def __init__(self, build, directory):
        self.build = build
        self.directory = directory
        self.num_failed = 0

    def fail(self, text):
        self.num_failed += 1
        print("FAILED: " + text, flush=True)

    def file(self, name, content):
        path = self.directory / name
        path.write_bytes(content)
        return str(path)

    def plan(self, vocab_size, flags):
        model = self.file("model.json", json.dumps({
            "schema": "ptdp.model/1", "name": "small", "source": "a test", "num_layers": 2,
            "hidden_size": 16, "num_attention_heads": 4, "vocab_size": vocab_size, "seq_length": 8,
            "global_batch_size": 8}).encode())
        path = str(self.directory / "plan.json")
        subprocess.run([self.build / "tools/ptdp-plan", "--model", model, "--cluster", "host",
                        "--gpus", "2", "--micro-batch-size", "1", *flags, "-o", path], check=True,
                       env=ENVIRONMENT, stdout=subprocess.DEVNULL)
        return path

    def run(self, plan, flags):
        return subprocess.run([self.build / "tools/ptdp-run", plan, "--steps", "3", "--format",
                               "json", *flags], capture_output=True, env=ENVIRONMENT, text=True,
                              timeout=60)

    def same_losses(self, plan, files):
        """`files`: what is said of each file when it is read -> its flags."""
        expected = None
        for said, flags in files.items():
            run = self.run(plan, flags)
            if run.returncode != 0:
                self.fail(f"{flags}: status {run.returncode}: {run.stderr}")
                continue
            if f"{flags[1]}: {said}\n" not in run.stderr:
                self.fail(f"{flags}: expected \"{said}\" in {run.stderr}")
            losses = json.loads(run.stdout)["losses"]
            expected = expected or losses
            if losses != expected:
                self.fail(f"{flags}: losses {losses}, expected {expected}")

    def refused(self, plan, flags, words):
        output = self.directory / "run.json"
        run = self.run(plan, [*flags, "-o", str(output)])
        if run.returncode != 2 or run.stdout or output.exists() or run.stderr.count("\n") != 1 or \
                not run.stderr.startswith("ptdp-run: ") or words not in run.stderr:
            self.fail(f"{flags}: expected a refusal with \"{words}\", got status {run.returncode}: "
                      f"{run.stdout}{run.stderr}")


def small_vocabulary(test, tokens):
    plan = test.plan(5000, ["--tp", "1", "--pp", "2", "--dp", "1"])
    data, index = megatron(tokens, "H")
    test.file("gpt.idx", index)
    test.same_losses(plan, {
        "1000 tokens of uint16 (raw)": ["--data", test.file("raw.bin", raw(tokens, "H"))],
        "1000 tokens of uint16 (llm.c)": ["--data", test.file("llmc.bin", llm_c(tokens, "H"))],
        "1000 tokens of uint16 (NumPy)": ["--data", test.file("a.npy", numpy(tokens, "H"))],
        "1000 tokens of uint16 (Megatron-LM)": ["--data", test.file("gpt.bin", data)],
        "1000 tokens of uint32 (raw)": ["--data", test.file("raw32.bin", raw(tokens, "I")),
                                        "--data-type", "uint32"]})
    test.refused(plan, ["--data", str(test.directory / "raw32.bin")],
                 "raw32.bin: has no header, and every second 16-bit number is at most 0")
    test.file("gpt.idx", index[:-8])
    test.refused(plan, ["--data", str(test.directory / "gpt.bin")], "gpt.idx: ")
    test.refused(plan, ["--data-type", "uint16"], "--data-type: expected together with --data")
    beyond = tokens[:700] + [5000] + tokens[701:]
    test.refused(plan, ["--data", test.file("beyond.bin", raw(beyond, "H"))],
                 "beyond.bin: token 5000 at position 700 (byte 1400, raw tokens of uint16), expected "
                 "tokens below the vocabulary's 5000")


def large_vocabulary(test, tokens):
    for flags in [["--tp", "2", "--pp", "1", "--dp", "1"],
                  ["--tp", "1", "--pp", "1", "--dp", "2", "--zero-stage", "1"]]:
        plan = test.plan(70001, flags)
        data, index = megatron(tokens, "i")
        test.file("llama.idx", index)
        wide = str(test.directory / "wide.bin")
        test.same_losses(plan, {
            "1000 tokens of uint32 (raw)": ["--data", test.file("wide.bin", raw(tokens, "I")),
                                            "--data-type", "uint32"],
            "1000 tokens of uint32 (llm.c)": ["--data", test.file("l.bin", llm_c(tokens, "I"))],
            "1000 tokens of int32 (NumPy)": ["--data", test.file("i.npy", numpy(tokens, "i"))],
            "1000 tokens of int64 (NumPy)": ["--data", test.file("q.npy", numpy(tokens, "q"))],
            "1000 tokens of int32 (Megatron-LM)": ["--data", test.file("llama.bin", data)]})
        test.refused(plan, ["--data", wide], "expected --data-type uint16 or uint32")
    run = test.run(plan, ["--data", wide, "--data-type", "uint32", "--dtype", "bf16"])
    losses = json.loads(run.stdout)["losses"] if run.returncode == 0 else []
    if len(losses) != 3 or not 10.5 < losses[0] < 12.5:  # ln 70001 = 11.2
        test.fail(f"bf16: status {run.returncode}, losses {losses}: {run.stderr}")


def main():
    chance = random.Random(3)
    with tempfile.TemporaryDirectory() as directory:
        test = Test(pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(directory))
        small_vocabulary(test, [chance.randrange(5000) for _ in range(1000)])
        large_vocabulary(test, [70000, *(chance.randrange(70001) for _ in range(999))])
    print(f"{test.num_failed} failed")
    return 1 if test.num_failed else 0


if __name__ == "__main__":
    sys.exit(main())
