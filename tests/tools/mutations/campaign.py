#!/usr/bin/env python3
"""Mutated files and flags for every command, signals at random moments while they write, and runs
in little address space. Each run must end with a status of the table, soon, in little memory, without a word of a bug; what it
writes is the old file or a whole new one, and no temporary file stays.

usage: campaign.py BUILD_DIRECTORY [--trials N] [--seed S] [--signals N] [--limits N]

Prints what it found, with the command and a directory that keeps its files; exit status 1 if that
is anything."""

import argparse
import collections
import json
import os
import pathlib
import random
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

SOURCE = pathlib.Path(__file__).resolve().parents[3]
MODEL = {"schema": "ptdp.model/1", "name": "small", "source": "a test", "num_layers": 4,
         "hidden_size": 16, "num_attention_heads": 4, "vocab_size": 61, "seq_length": 8,
         "global_batch_size": 8}
CONFIG = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 64,
          "intermediate_size": 128, "num_attention_heads": 4, "num_key_value_heads": 2,
          "num_hidden_layers": 4, "vocab_size": 100, "max_position_embeddings": 64,
          "hidden_act": "silu", "rms_norm_eps": 1e-5, "tie_word_embeddings": False}
LAYERS = {"schema": "ptdp.layers/1", "name": "small", "source": "a test", "layers": [
    {"name": "block", "count": 4, "forward_s": 1e-3, "backward_s": 2e-3}]}
STATUSES = [0, 2, 3, 4, 5, 6]  # 6: a tolerance of ptdp-validate
MOST_CPU_SECONDS = 10.0
MOST_SECONDS = 120.0  # of a busy machine, too
MOST_KIBIBYTES = 500 * 1024
OLD = "what was there before\n"
BAD_WORDS = [b"bug of ours", b"terminate called", b"Sanitizer", b"runtime error:", b"Assertion"]
NUMBERS = ["0", "-1", "1", "2", "3", "7", "64", "1000000", "2147483648", "4294967296",
           "9223372036854775807", "9223372036854775808", "18446744073709551616", "1e30", "1e308",
           "1e400", "-1e30", "1e-30", "1e-320", "0.5", "nan", "inf", "-0", "0x10", "1_000", " 1"]
TEXTS = ["", " ", "-", "--", "none", "all", "off", "on", "x" * 5000, "\u202eabc", "\x1b[2J", "a\nb",
         "../../etc/passwd", "/dev/zero", "/dev/null", "/nowhere/x.json", "tp=8,pp=2", "1,2,3",
         "1:4", "8%", "caf\u00e9", "\udcff", ",", "=", "rank=0,factor=2", "450B", "true", "null"]
# Values that ask for much work are right, and take long.
LONG = {"steps", "seconds", "deadline", "top", "threads", "plans", "gpus", "pp", "microbatches",
        "global-batch-size", "batch-per-gpu", "tp", "seq-length", "rows", "columns", "warm-up"}
JSON_VALUES = [None, True, False, 0, -1, 1, 2, 3, 2**31, 2**53, 2**63, 2**64, 10**30, 0.5, 1e-30,
               1e30, 1e308, "", "x", "x" * 5000, "\u202e", "\u0000", [], {}, [[]], [1, 2], {"a": 1},
               "fp16", "1f1b", "gpt-tiny"]


class Commands:
    """The commands of a build and files that they take."""

    def __init__(self, build, directory):
        self.tools = build / "tools"
        self.environment = dict(os.environ, PTDP_PROFILES=str(SOURCE / "profiles"),
                                OPENBLAS_NUM_THREADS="1")
        self.seeds = directory / "seeds"
        self.seeds.mkdir()
        for name, content in [("model.json", MODEL), ("config.json", CONFIG),
                              ("layers.json", LAYERS)]:
            (self.seeds / name).write_text(json.dumps(content))
        profiles = SOURCE / "profiles"
        shutil.copy(profiles / "clusters/host.json", self.seeds / "cluster.json")
        shutil.copy(profiles / "stacks/ptdp-cpu.json", self.seeds / "stack.json")
        cluster = json.loads((profiles / "clusters/selene-a100.json").read_text())
        cluster["gpu"] = json.loads((profiles / f"gpus/{cluster['gpu']}.json").read_text())
        cluster["gpu"].pop("schema")
        (self.seeds / "gpu.json").write_text(json.dumps(cluster))
        shutil.copy(profiles / "published/sc21-t1.csv", self.seeds / "runs.csv")
        (self.seeds / "tokens.bin").write_bytes(bytes(i % 61 if i % 2 == 0 else 0
                                                      for i in range(4000)))
        search = ["--model", "model.json", "--gpus", "2", "--cluster", "host"]
        self.make("ptdp-plan", [*search, "--tp", "2", "-o", "plan.json"])
        (self.seeds / "plans.json").write_text(
            self.make("ptdp-plan", [*search, "--format", "json"]))
        search[1] = "gpt-tiny"
        self.make("ptdp-plan", [*search, "--tp", "2", "-o", "tensor.json"])
        self.make("ptdp-plan", [*search, "--pp", "2", "-o", "stages.json"])
        (self.seeds / "orders.csv").write_text(self.make(
            "ptdp-sim", ["--schedule", "interleaved", "--pp", "2", "--vpp", "2",
                         "--microbatches", "4", "--orders", "--format", "csv"]))
        self.make("ptdp-calibrate", ["--runs", "runs.csv", "-o", "."])
        (self.seeds / "selene-a100+megatron-lm-2021.json").rename(self.seeds / "calibration.json")
        self.make("ptdp-run", ["plan.json", "--steps", "2", "--quiet", "-o", "run.json"])
        self.flags = {tool: self.flags_of(tool) for tool in
                      ["ptdp-plan", "ptdp-sim", "ptdp-validate", "ptdp-calibrate", "ptdp-run",
                       "ptdp-profile"]}

    def make(self, tool, arguments):
        done = subprocess.run([str(self.tools / tool), *arguments], cwd=self.seeds, check=True,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              env=self.environment, text=True)
        return done.stdout

    def flags_of(self, tool):
        """Names of flags, and whether each takes a value."""
        flags = {}
        for line in self.make(tool, ["--help"]).splitlines():
            words = line.split()
            words = words[2:] if words[:1] and words[0].startswith("-") and "[" in line[:9] else words
            if words and words[0].startswith("--") and words[0] != "--help":
                flags[words[0][2:]] = len(words) > 1 and words[1] == "arg"
        return flags


# What reads a file: the seed, the command, and whether it writes out.json.
READERS = [
    ("plan.json", "ptdp-plan", ["show", "plan.json"]),
    ("plan.json", "ptdp-sim", ["plan.json", "--trace", "out.json"]),
    ("plan.json", "ptdp-run", ["plan.json", "--steps", "1", "--quiet", "-o", "out.json"]),
    ("plans.json", "ptdp-run", ["--tune", "plans.json", "-k", "1", "--steps", "1", "--warm-up", "0",
                                "--quiet", "-o", "out.json"]),
    ("model.json", "ptdp-plan", ["--model", "model.json", "--gpus", "4", "--cluster", "host", "-o",
                                 "out.json"]),
    ("config.json", "ptdp-plan", ["--model", "config.json", "--gpus", "4", "-o", "out.json"]),
    ("cluster.json", "ptdp-plan", ["--model", "model.json", "--gpus", "4", "--cluster",
                                   "cluster.json", "-o", "out.json"]),
    ("gpu.json", "ptdp-plan", ["--model", "model.json", "--gpus", "4", "--cluster", "gpu.json",
                               "-o", "out.json"]),
    ("stack.json", "ptdp-plan", ["--model", "model.json", "--gpus", "4", "--cluster", "host",
                                 "--stack", "stack.json", "-o", "out.json"]),
    ("layers.json", "ptdp-plan", ["partition", "layers.json", "--pp", "2"]),
    ("calibration.json", "ptdp-plan", ["--model", "1.7B", "--gpus", "32", "--tp", "1", "--pp", "1",
                                       "--calibration", "calibration.json", "-o", "out.json"]),
    ("orders.csv", "ptdp-sim", ["orders.csv", "--orders", "--durations", "1,1,1"]),
    ("runs.csv", "ptdp-validate", ["--runs", "runs.csv"]),
    ("runs.csv", "ptdp-calibrate", ["--runs", "runs.csv", "-o", "made"]),
    ("run.json", "ptdp-validate", ["run.json"]),
    ("run.json", "ptdp-calibrate", ["run.json", "--profile", "out.json"]),
    ("tokens.bin", "ptdp-run", ["plan.json", "--steps", "1", "--quiet", "--data", "tokens.bin",
                                "-o", "out.json"]),
]
# What flags are added to.
CALLS = [
    ("ptdp-plan", ["--model", "model.json", "--gpus", "4", "--cluster", "host"]),
    ("ptdp-plan", ["show", "plan.json"]),
    ("ptdp-plan", ["list", "models"]),
    ("ptdp-plan", ["partition", "layers.json", "--pp", "2"]),
    ("ptdp-sim", ["plan.json"]),
    ("ptdp-sim", ["--schedule", "1f1b", "--pp", "2", "--microbatches", "4", "--orders"]),
    ("ptdp-validate", ["--runs", "runs.csv"]),
    ("ptdp-validate", ["run.json"]),
    ("ptdp-calibrate", ["--runs", "runs.csv"]),
    ("ptdp-calibrate", ["run.json", "--profile", "out.json"]),
    ("ptdp-run", ["plan.json", "--steps", "1", "--quiet"]),
    ("ptdp-run", ["plan.json", "--shrink", "--quiet"]),
    ("ptdp-profile", ["--seconds", "0.1", "--cores", "1", "--types", "f32"]),
]


def mutated_bytes(chance, content):
    data = bytearray(content)
    for _ in range(chance.choice([1, 1, 2, 10])):
        at = chance.randrange(len(data) + 1)
        kind = chance.randrange(6)
        if kind == 0:
            del data[at:]
        elif kind == 1:
            data[at:at] = bytes(chance.randrange(256) for _ in range(chance.choice([1, 3, 50])))
        elif kind == 2:
            del data[at:at + chance.choice([1, 2, 20, 1000])]
        elif kind == 3:
            data[at:at] = data[at:at + chance.choice([5, 100])]
        elif at < len(data):
            data[at] = data[at] ^ (1 << chance.randrange(8)) if kind == 4 else chance.choice(
                b"0-9,.:{}[]\"\n\x00\xff\\e")
    return bytes(data)


def places_in(value):
    """(container, key) of everything in a document."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(
        value, list) else []
    for key, inner in items:
        yield value, key
        yield from places_in(inner)


def mutated_document(chance, content):
    document = json.loads(content)
    for _ in range(chance.choice([1, 1, 1, 2, 4])):
        places = list(places_in(document))
        if not places:
            break
        container, key = chance.choice(places)
        kind = chance.randrange(8)
        value = container[key]
        if kind == 0:
            del container[key]
        elif kind == 1 and isinstance(container, dict):
            container[chance.choice(["x", "", "\u202e", str(key) + "s"])] = value
        elif kind == 2 and isinstance(container, list):
            container.extend([value] * chance.choice([1, 3, 1000]))
        elif kind <= 4 and isinstance(value, (int, float)) and not isinstance(value, bool):
            container[key] = chance.choice([value * 2, value + 1, -value, value / 3, value * 1e6,
                                            value // 2])
        else:
            container[key] = chance.choice(JSON_VALUES)
    text = json.dumps(document)
    if chance.randrange(10) == 0:
        text = text.replace("{", '{"schema": "x",', 1)  # twice
    return text.encode()


def mutated_table(chance, content):
    rows = [line.split(",") for line in content.decode().split("\n")]
    for _ in range(chance.choice([1, 2, 5])):
        row = chance.choice(rows)
        row[chance.randrange(len(row))] = chance.choice(NUMBERS + TEXTS)
    return "\n".join(",".join(row) for row in rows).encode(errors="surrogateescape")


def mutated(chance, name, content):
    if name.endswith(".json") and chance.randrange(3) > 0:
        return mutated_document(chance, content)
    if name.endswith(".csv") and chance.randrange(3) > 0:
        return mutated_table(chance, content)
    return mutated_bytes(chance, content)


class Campaign:
    def __init__(self, commands, directory, seed):
        self.commands = commands
        self.directory = directory
        self.chance = random.Random(seed)
        self.statuses = collections.Counter()
        self.most_cpu = 0.0
        self.most_memory = 0
        self.findings = []

    def fresh(self):
        place = pathlib.Path(tempfile.mkdtemp(dir=self.directory))
        for seed in self.commands.seeds.iterdir():
            os.link(seed, place / seed.name)
        (place / "out.json").write_text(OLD)
        return place

    def run(self, place, tool, arguments, limit=None):
        """Status, usage, what it said; `limit`: bytes of address space."""
        command = [str(self.commands.tools / tool), *arguments]
        with open(place / "stdout", "wb") as output, open(place / "stderr", "wb") as errors:
            process = subprocess.Popen(command, cwd=place, stdin=subprocess.DEVNULL, stdout=output,
                                       stderr=errors, env=self.commands.environment,
                                       preexec_fn=limit and (lambda: resource.setrlimit(
                                           resource.RLIMIT_AS, (limit, limit))))
            timer = threading.Timer(MOST_SECONDS, process.kill)
            timer.start()
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            timer.cancel()
        return process.returncode, usage, (place / "stderr").read_bytes()

    def judge(self, place, status, usage, errors):
        problems = []
        cpu = usage.ru_utime + usage.ru_stime
        self.most_cpu = max(self.most_cpu, cpu)
        self.most_memory = max(self.most_memory, usage.ru_maxrss)
        if status not in STATUSES:
            problems.append(f"status {status}")
        if status in (2, 4, 5) and not errors:
            problems.append(f"status {status} without a word")
        problems += [f"says {word.decode()!r}" for word in BAD_WORDS if word in errors]
        if cpu > MOST_CPU_SECONDS:
            problems.append(f"took {cpu:.1f} s")
        if usage.ru_maxrss > MOST_KIBIBYTES:
            problems.append(f"held {usage.ru_maxrss // 1024} MiB")
        if len(errors) > 20_000:
            problems.append(f"{len(errors)} bytes on standard error")
        return problems + self.damage(place)

    def damage(self, place):
        """What is half written or left."""
        problems = []
        out = (place / "out.json").read_text()
        if out != OLD:
            try:
                json.loads(out)
            except ValueError:
                problems.append("out.json is half a file")
        left = [path.name for path in place.rglob(".ptdp*")]
        return problems + [f"left {name}" for name in left]

    def check(self, place, tool, arguments, problems):
        if problems:
            command = shlex.join([tool, *arguments])
            print(f"{'; '.join(problems)}: cd {place}; {command[:500]!a}", flush=True)
            self.findings.append(problems)
        else:
            shutil.rmtree(place)

    def change_nothing(self):
        """Without a mutation every command does its work: mutations are of what is right."""
        for _, tool, arguments in READERS:
            place = self.fresh()
            status, usage, errors = self.run(place, tool, arguments)
            problems = self.judge(place, status, usage, errors)
            if status != 0:
                problems.append(f"status {status} of right input: {errors[-300:]}")
            self.check(place, tool, arguments, problems)

    def mutate_file(self):
        name, tool, arguments = self.chance.choice(READERS)
        place = self.fresh()
        content = (place / name).read_bytes()
        (place / name).unlink()  # a link to the seed
        (place / name).write_bytes(mutated(self.chance, name, content))
        if tool in ("ptdp-sim", "ptdp-plan") and self.chance.randrange(4) == 0:
            arguments = [*arguments, "--format", "json"]
        self.end(place, tool, arguments)

    def mutate_flags(self):
        tool, arguments = self.chance.choice(CALLS)
        place = self.fresh()
        flags = self.commands.flags[tool]
        for _ in range(self.chance.choice([1, 1, 2, 3, 30])):
            flag = self.chance.choice(sorted(flags))
            written = flag if self.chance.randrange(20) else self.chance.choice(
                [flag[:-1], flag + "x", flag.upper(), "\u202e" + flag])
            arguments = [*arguments, f"--{written}"]
            if flags[flag] and self.chance.randrange(30):
                arguments.append(self.value_of(flag))
        if self.chance.randrange(20) == 0:
            arguments.append(self.chance.choice(TEXTS))
        self.end(place, tool, arguments)

    def value_of(self, flag):
        files = sorted(path.name for path in self.commands.seeds.iterdir())
        if flag in LONG:
            return self.chance.choice(["0", "-1", "1", "2", "x", "", "1e400", "2,1", "1:2", "nan"])
        kind = self.chance.randrange(4)
        return self.chance.choice([NUMBERS, TEXTS, files, ["out.json", "made", "."]][kind])

    def end(self, place, tool, arguments):
        status, usage, errors = self.run(place, tool, arguments)
        self.statuses[status] += 1
        self.check(place, tool, arguments, self.judge(place, status, usage, errors))

    def send_signal(self):
        """A signal while a large file is being written; a later run takes away what KILL leaves."""
        number = self.chance.choice([signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
        place = self.fresh()
        self.run(place, "ptdp-plan", ["--model", "1T", "--gpus", "3072", "--tp", "8", "--pp", "64",
                                      "-o", "large.json"])
        (place / "writer").mkdir()
        arguments = ["large.json", "--trace", "writer/trace.json"]
        command = [str(self.commands.tools / "ptdp-sim"), *arguments]
        process = subprocess.Popen(command, cwd=place, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL, env=self.commands.environment)
        begun = time.monotonic()
        while not list((place / "writer").iterdir()) and process.poll() is None and \
                time.monotonic() - begun < MOST_SECONDS:
            time.sleep(0.001)
        time.sleep(self.chance.uniform(0.0, 0.05))
        process.send_signal(number)
        status = process.wait()
        problems = [] if status in (-number, 0) else [f"status {status} of {number.name}"]
        if number == signal.SIGKILL:
            self.run(place, "ptdp-sim", ["plan.json", "--trace", "writer/other.json"])
        self.statuses[f"{number.name} -> {status}"] += 1
        self.check(place, "ptdp-sim", arguments, problems + self.damage(place))

    def shorten_memory(self, limits):
        """Runs in from 100 to 420 MB of address space: each trains, or tells which rank lacked it."""
        for i in range(limits):
            limit = 100_000_000 + 320_000_000 * i // max(limits - 1, 1)
            place = self.fresh()
            arguments = [["tensor.json", "stages.json"][i % 2], "--steps", "2", "--quiet", "-o",
                         "out.json"]
            status, usage, errors = self.run(place, "ptdp-run", arguments, limit)
            # The loader of programs had no room for CUDA's libraries: nothing of ours ran.
            is_loaded = b"error while loading shared libraries" not in errors
            problems = self.judge(place, status, usage, errors) if is_loaded else self.damage(place)
            if is_loaded and status not in (0, 4):
                problems.append(f"status {status} in {limit} bytes of address space")
            self.statuses[f"short memory -> {status}"] += 1
            self.check(place, "ptdp-run", arguments, problems)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--trials", type=int, default=150)
    parser.add_argument("--signals", type=int, default=4)
    parser.add_argument("--limits", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    directory = pathlib.Path(tempfile.mkdtemp(prefix="ptdp-mutations-"))
    campaign = Campaign(Commands(arguments.build.resolve(), directory), directory, arguments.seed)
    campaign.change_nothing()
    for trial in range(arguments.trials):
        campaign.mutate_file() if trial % 3 else campaign.mutate_flags()
    for _ in range(arguments.signals):
        campaign.send_signal()
    campaign.shorten_memory(arguments.limits)
    print(f"{arguments.trials} mutations, {arguments.signals} signals; statuses " +
          ", ".join(f"{key}: {count}" for key, count in campaign.statuses.most_common()) +
          f"; at most {campaign.most_cpu:.1f} s and {campaign.most_memory // 1024} MiB; "
          f"{len(campaign.findings)} findings")
    if not campaign.findings:
        shutil.rmtree(directory)
    return 1 if campaign.findings else 0


if __name__ == "__main__":
    sys.exit(main())
