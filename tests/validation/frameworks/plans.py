"""Random plans of ptdp-plan, drawn for one framework and exported to it."""

import collections
import json
import pathlib
import random
import re
import shutil
import subprocess

from recipes import CLUSTERS, EXPERT_FLAGS, EXPERT_MODELS, NOT_GIVEN, PINS, RECIPES, write_stacks
from refusals import fields_of

RELAXED = 0.3  # how often one demand of a recipe is dropped, so that refusals occur
MOST_REFUSED = 40  # refused plans in a row after which a recipe is taken to be wrong
# What readers compare with what a framework makes of its export: groups, orders.
BESIDE = {"megatron": ["rank-map"], "torchtitan": ["schedule-csv"],
          "torchtitan-toml": ["schedule-csv"]}


class NoProgram(Exception):
    """ptdp-plan is missing, or does not do what it is for."""


class Lottery:
    """Draws questions until ptdp-plan has a plan that the framework can run."""

    def __init__(self, root, build, seed, framework, directory):
        self.chance = random.Random(f"{framework} {seed}")
        self.framework = framework
        self.recipe = RECIPES[framework]
        self.program = build / "tools/ptdp-plan"
        self.directory = directory
        self.num_asked = 0
        self.num_refused = 0
        self.refusals = collections.Counter()
        if not self.program.exists():
            raise NoProgram(f"no {self.program}: cmake --build --preset release")
        told = subprocess.run([self.program, "--help"], capture_output=True, text=True, check=False)
        self.flags = set(re.findall(r"--[a-z0-9-]+", told.stdout))
        self.stacks = write_stacks(root / "profiles", directory / "stacks")
        self._write_parameters()

    def _write_parameters(self):
        """Writes parameters.json: how many each shipped model has, by its name."""
        told = subprocess.run([self.program, "list", "models", "--format", "json"],
                              capture_output=True, text=True, check=True)
        counts = {model["name"]: model["parameters"] for model in json.loads(told.stdout)["models"]}
        (self.directory / "parameters.json").write_text(json.dumps(counts), encoding="utf-8")

    def _pins(self):
        """Returns flags with values: what the recipe demands, one demand perhaps dropped."""
        demands = dict(self.recipe.demands)
        if demands and self.chance.random() < RELAXED:
            del demands[self.chance.choice(sorted(demands))]
        pins = {}
        for flag, values, percent in PINS:
            if flag in demands:
                pins[flag] = self.chance.choice(demands[flag])
            elif self.chance.random() * 100 < percent:
                pins[flag] = self.chance.choice(values)
        return {flag: str(value) for flag, value in pins.items()
                if flag in self.flags and value is not NOT_GIVEN}

    def question(self):
        pins = self._pins()
        model = self.chance.choice(self.recipe.models)
        if model not in EXPERT_MODELS:
            pins = {flag: value for flag, value in pins.items() if flag not in EXPERT_FLAGS}
        recompute = pins.get("--recompute")
        if recompute == "full" and self.chance.random() < 0.3:
            pins["--recompute-method"] = self.chance.choice(self.recipe.methods)
            pins["--recompute-num-layers"] = str(self.chance.choice([1, 2, 3, 8]))
        if recompute == "selective" and (len(self.recipe.modules) == 1 or
                                         self.chance.random() < 0.6):
            most = min(3, len(self.recipe.modules))
            drawn = self.chance.sample(self.recipe.modules, self.chance.randint(1, most))
            pins["--recompute-modules"] = "+".join(drawn)
        stack = self.chance.choice(self.recipe.stacks)
        words = ["--model", model,
                 "--cluster", self.chance.choice(CLUSTERS),
                 "--stack", str(self.stacks.get(stack, stack)),
                 "--gpus", str(self.chance.choice(self.recipe.gpus))]
        return words + [word for pin in pins.items() for word in pin]

    def _ask(self, plan):
        """Draws until there is a plan; returns the question that it answers."""
        plan.unlink(missing_ok=True)
        while True:
            words = self.question()
            self.num_asked += 1
            done = subprocess.run(
                [self.program, *words, "--time-limit", "2", "--threads", "1", "-o", plan],
                capture_output=True, text=True, check=False)
            is_stack_wrong = str(self.directory / "stacks") in done.stderr and done.returncode == 2
            if done.returncode not in (0, 2, 3, 4) or is_stack_wrong:
                raise NoProgram(f"{' '.join(words)}: status {done.returncode}: {done.stderr}")
            if plan.exists():
                return words

    def draw(self, number):
        """Writes plan.json, question.txt and an export below `number`; counts what is refused."""
        drawn = self.directory / f"{number:04}"
        drawn.mkdir(parents=True, exist_ok=True)
        for _ in range(MOST_REFUSED):
            words = self._ask(drawn / "plan.json")
            (drawn / "question.txt").write_text(" ".join(words) + "\n", encoding="utf-8")
            shutil.rmtree(drawn / "exports", ignore_errors=True)
            refusal = self._export(drawn, self.framework)
            if refusal is None:
                for name in BESIDE.get(self.framework, []):
                    self._export(drawn, name)
                return
            self._keep_refused(drawn, refusal)
        raise NoProgram(f"{self.framework}: {MOST_REFUSED} plans in a row refused: {refusal}")

    def _export(self, drawn, name):
        """Exports a plan; returns what is refused of it, or None."""
        words = [self.program, "export", drawn / "plan.json", "--to", name, "-o",
                 drawn / "exports" / name]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return None
        found = re.search(rf"--to {name}: the plan has (.*)$", done.stderr, re.MULTILINE)
        if done.returncode != 2 or not found:
            raise NoProgram(f"{' '.join(map(str, words))}: status {done.returncode}: {done.stderr}")
        return found[1]

    def _keep_refused(self, drawn, refusal):
        """Counts a refused plan by its fields, and leaves it below refused/."""
        self.refusals.update(fields_of(refusal))
        kept = self.directory / "refused" / f"{self.num_refused:04}"
        self.num_refused += 1
        kept.mkdir(parents=True, exist_ok=True)
        for name in ("plan.json", "question.txt"):
            pathlib.Path(drawn / name).replace(kept / name)
        (kept / "refusal.txt").write_text(refusal + "\n", encoding="utf-8")
