#!/usr/bin/env python3
"""Draws models and layouts, and checks that ptdp trains every layout as it trains on one rank.

  check_layouts.py --programs DIR --count N --seed S
      For each model: DIR/ptdp-plan plans one rank and drawn layouts, and DIR/ptdp-run trains each for
      three steps in f64, from the same Hugging Face weights, and exports weights. Losses and exported
      weights must agree, and the bytes that ranks send must equal the prediction.

Exit status 0: all agree; 1: a difference or a failure; 77: transformers is missing."""

import argparse
import json
import random
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

SKIPPED = 77

try:
    import torch

    from cases import write_case
    from configurations import LIVE, TYPES, draw_case
    from files import Tensors, read_weights
    from generate import weights_seed
except ModuleNotFoundError as missing:
    if missing.name not in ("torch", "safetensors", "transformers"):
        raise
    print(f"check_layouts.py: skipped: {missing}")
    sys.exit(SKIPPED)

SIZES = replace(LIVE, layers=(4, 8), mlp=(48, 48), head_dims=[8, 12, 24],
                heads=[(4, 1), (6, 1), (6, 2), (8, 1), (8, 2), (8, 4), (8, 8),
                       (12, 2), (12, 3)])
"""Sizes that many layouts divide, with tensor-parallel sizes up to and beyond the key heads."""
MOST_RANKS = 16
DRAWS = 100
"""Layouts drawn until the planner takes one."""
NO_PLAN = 3
"""Exit status of ptdp-plan where nothing fits what was asked for."""
STEPS = 3
MOST_LOSS_DIFFERENCE = 1e-12
"""Relative, after at most STEPS steps."""
MOST_WEIGHT_DIFFERENCE = 1e-9
"""Absolute: Adam divides rounding errors of gradients that are nearly 0 by its epsilon of 1e-8."""


@dataclass(frozen=True)
class Trained:
    """What a run leaves."""

    losses: list[float]
    weights: Tensors


class Failure(Exception):
    """A program failed, or two runs disagree."""


def _call(words: list[str | Path]) -> tuple[int, str]:
    """Returns a program's exit status and what it says, errors last."""
    ended = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                           timeout=600, check=False)
    return ended.returncode, ended.stdout + ended.stderr


def draw_layout(drawn: random.Random) -> tuple[int, list[str]] | None:
    """Returns a number of ranks and the options that pin a layout, or None if too large."""
    tp, pp, dp = (drawn.choice(sizes) for sizes in ([1, 2, 3, 4, 6, 8], [1, 2, 2, 3, 4], [1, 2, 4]))
    schedule = ["--schedule", "1f1b"]
    if pp > 1:
        name = drawn.choice(["1f1b", "interleaved", "gpipe", "looped-bfs", "zb-h1", "zb-h2", "zb-v",
                             "zb-auto", "v-half", "v-min", "dualpipe", "dualpipev"])
        schedule = ["--schedule", name]
        if name in ("interleaved", "looped-bfs"):
            schedule += ["--vpp", str(drawn.choice([2, 3]))]
    options = ["--tp", str(tp), "--pp", str(pp), "--dp", str(dp), *schedule,
               "--micro-batch-size", str(drawn.choice([1, 2])),
               "--recompute", drawn.choice(["none", "selective", "full"]),
               "--zero-stage", str(drawn.choice([0, 1])),
               "--sequence-parallel", drawn.choice(["on", "off"])]
    ranks = tp * pp * dp
    return (ranks, options) if 1 < ranks <= MOST_RANKS else None


class Model:
    """A drawn model, which is planned and trained in a folder."""

    def __init__(self, programs: Path, folder: Path, name: str, seed: int) -> None:
        model_type, _, turn = name.rpartition("-")
        self._programs, self._folder, self._weights = programs, folder, folder / "model"
        case = draw_case(model_type, str(seed), int(turn), SIZES)
        write_case(self._weights, case, weights_seed(model_type, str(seed), int(turn)))
        self._drawn = random.Random(f"{seed} {name}")
        self._shape = ["--seq-length", "8", "--global-batch-size",
                       str(self._drawn.choice([4, 8]))]

    def _plan(self, ranks: int, options: list[str]) -> bool:
        """Writes plan.json, and returns whether there is a plan."""
        status, said = _call([self._programs / "ptdp-plan", "--gpus", str(ranks),
                              "--model", self._weights / "config.json", "--cluster", "host",
                              "--precision", "fp64", *self._shape, *options,
                              "-o", self._folder / "plan.json"])
        if status not in (0, NO_PLAN):
            raise Failure(f"ptdp-plan: exit status {status}: {said.strip()[-300:]}")
        return status == 0

    def _train(self, *options: str) -> Trained:
        """Trains plan.json."""
        export, report = self._folder / "export", self._folder / "run.json"
        shutil.rmtree(export, ignore_errors=True)
        status, said = _call([self._programs / "ptdp-run", self._folder / "plan.json",
                              "--steps", str(STEPS), "--lr", "0.01", "--clip", "0.5",
                              "--dropout", "0", "--load", self._weights, "--export", export,
                              "-o", report, *options])
        if status != 0:
            raise Failure(f"ptdp-run: exit status {status}: {said.strip()[-300:]}")
        document = json.loads(report.read_text())
        for sent in document["traffic"]:
            if sent["measured_bytes"] != sent["predicted_bytes"]:
                raise Failure(f"bytes sent: {sent}")
        return Trained(document["losses"], read_weights(export))

    def train_alone(self) -> Trained:
        """Trains on one rank."""
        if not self._plan(1, ["--micro-batch-size", "1", "--recompute", "none"]):
            raise Failure("one rank has no plan")
        return self._train()

    def train_drawn(self) -> tuple[str, Trained]:
        """Draws a layout that the planner takes, and trains in it."""
        for _ in range(DRAWS):
            layout = draw_layout(self._drawn)
            if layout is not None and self._plan(*layout):
                overlap = self._drawn.choice(["none", "all", "messages,reductions"])
                return " ".join(layout[1]), self._train("--overlap", overlap)
        raise Failure(f"none of {DRAWS} drawn layouts has a plan")


def difference(found: Trained, expected: Trained) -> str:
    """Returns what differs, or nothing."""
    for trained in (found, expected):
        if len(trained.losses) != STEPS or not trained.weights:
            return f"{len(trained.losses)} losses, {len(trained.weights)} tensors, expected {STEPS} " \
                   "and some"
    for step, (ours, theirs) in enumerate(zip(found.losses, expected.losses)):
        if not abs(ours - theirs) <= MOST_LOSS_DIFFERENCE * abs(theirs):
            return f"loss of step {step}: {ours!r}, expected {theirs!r}"
    names = found.weights.keys() ^ expected.weights.keys()
    if names:
        return f"{min(names)}: in one of two exports"
    for name, theirs in expected.weights.items():
        ours = found.weights[name]
        if ours.shape != theirs.shape:
            return f"{name}: shape {list(ours.shape)}, expected {list(theirs.shape)}"
        apart = (ours.double() - theirs.double()).abs().max().item()
        if not apart <= MOST_WEIGHT_DIFFERENCE:
            return f"{name}: {apart:.2e} apart"
    return ""


def check_model(arguments: argparse.Namespace, name: str) -> list[bool]:
    """Trains a model alone and in drawn layouts, prints a line each, returns which agree."""
    agrees = []
    with tempfile.TemporaryDirectory(prefix="check_layouts.") as folder:
        layout = "one rank"
        try:
            model = Model(arguments.programs, Path(folder), name, arguments.seed)
            alone = model.train_alone()
            for _ in range(arguments.layouts):
                layout = "drawn layout"
                layout, trained = model.train_drawn()
                amiss = difference(trained, alone)
                print(f"{name}: {layout}: {amiss or 'equal'}", flush=True)
                agrees.append(not amiss)
        except Failure as failure:
            print(f"{name}: {layout}: {failure}", flush=True)
            agrees.append(False)
    return agrees


def main() -> int:
    """Compares and returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--programs", type=Path, required=True, help="folder of ptdp-plan and ptdp-run")
    add("--count", type=int, default=len(TYPES), help="models, over the types in turn")
    add("--layouts", type=int, default=3, help="layouts of each model")
    add("--seed", type=int, default=1)
    add("--types", nargs="+", choices=TYPES, default=TYPES, help="default: all")
    arguments = parser.parse_args()
    arguments.programs = arguments.programs.resolve()
    torch.set_num_threads(1)
    agrees: list[bool] = []
    for i in range(arguments.count):
        types = arguments.types
        agrees += check_model(arguments, f"{types[i % len(types)]}-{i // len(types)}")
    print(f"{agrees.count(True)} of {len(agrees)} layouts agree")
    return 0 if agrees and all(agrees) else 1


if __name__ == "__main__":
    sys.exit(main())
