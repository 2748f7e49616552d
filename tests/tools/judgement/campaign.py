#!/usr/bin/env python3
"""Random searches of ptdp-plan held against ptdp-sim: the chosen plan, and the best of random pp x
vpp x schedule, simulated with all of their microbatches. The chosen plan must be the fastest by the
simulator, and as fast as planned.

usage: campaign.py BUILD_DIRECTORY [--queries N] [--others N] [--seed S] [--named] [--csv FILE]

Reports the regret, by how much the chosen plan's simulated step is longer than the shortest found,
and the difference of planned and simulated steps of chosen plans, with the worst queries. Exit
status 1 beyond the goals, or where a pinned search plans a faster plan than the one that is free to
choose it."""

import argparse
import json
import pathlib
import random
import shlex
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parents[3]
MOST_REGRET = 0.01
MOST_MEAN_DIFFERENCE = 0.015
MOST_DIFFERENCE = 0.06
ROUNDING = 1e-9
MOST_GPUS_LOG = 14
MOST_DRAWS_OF_OTHERS = 3  # for each one that is wanted; most shapes are of no plan that fits
MOST_ACTIONS = 6e6  # that are simulated of a plan
NUM_SHOWN = 8
V_SHAPED = ["zb-v", "v-half", "v-min", "dualpipev"]
STALE = ["pipedream", "pipedream-2bw"]
SCHEDULES = ["1f1b", "interleaved", "gpipe", "looped-bfs", "zb-h1", "zb-h2", "zb-auto", "dualpipe",
             *V_SHAPED]
# Where plans and simulations were far apart once: few microbatches of many chunks, and ends.
NAMED = [
    "--model 5.9B --gpus 1000 --cluster vtrain-a100-node",
    "--model qwen3-8b --gpus 1536 --cluster dgx-gb200",
    "--model gpt2-355m --gpus 2048 --cluster vtrain-a100-node",
    "--model 1.7B --gpus 16384 --cluster mosaicml-a100-80gb --seq-length 8192",
    "--model 18B --gpus 1000 --cluster mosaicml-a100-80gb",
    "--model 18B --gpus 1024 --cluster grand-teton-h100",
    "--model llama-2-7b --gpus 16384 --cluster vtrain-a100 --stack nemo-mlperf-v4.1",
    "--model 3.6B --gpus 1670 --cluster oci-h100 --batch-per-gpu 1 --tp 1 --schedule looped-bfs",
    "--model 18B --gpus 512 --cluster selene-a100 --schedule v-min",
    "--model 1.7B --gpus 1024 --cluster roce-a100 --batch-per-gpu 1 --offload none,optimizer",
    "--model 1.7B --gpus 64 --cluster selene-a100 --global-batch-size 16 --pp 4 --dp 16 "
    "--schedule pipedream --allow-stale-weights",
    "--model 162B --gpus 64 --cluster selene-a100 --schedule all --rank-order tp-cp-ep-dp-pp",
    "--model 162B --gpus 72 --cluster selene-a100 --schedule all --rank-order tp-cp-ep-dp-pp",
]


def profiles(kind):
    paths = sorted((SOURCE / "profiles" / kind).glob("*.json"))
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in paths}


def value_of(query, flag):
    return query[query.index(flag) + 1] if flag in query else None


class Judged:
    """A plan and its simulation."""

    def __init__(self, query, plan, step, is_proven):
        self.query = query
        self.is_proven = is_proven
        self.config = plan["config"]
        self.planned = plan["predicted"]["iteration_time_s"]
        self.step = step

    def difference(self):
        return self.step / self.planned - 1

    def __str__(self):
        return (f"planned {self.planned:.6g} s, simulated {self.step:.6g} s "
                f"({100 * self.difference():+.2f} %)\n    ptdp-plan {shlex.join(self.query)}")


class Campaign:
    def __init__(self, build, arguments, directory):
        self.tools = build / "tools"
        self.arguments = arguments
        self.plan = pathlib.Path(directory) / "plan.json"
        self.chance = random.Random(arguments.seed)
        self.kinds = {kind: profiles(kind) for kind in ("models", "clusters", "stacks")}
        self.problems = []
        self.rows = []  # of each query: the chosen plan, and the fastest by simulation
        self.num_unsimulated = 0

    def fail(self, problem, query):
        self.problems.append(f"{problem}\n    ptdp-plan {shlex.join(query)}")

    def call(self, tool, arguments):
        return subprocess.run([self.tools / tool, *arguments], capture_output=True, text=True,
                              check=False)

    def draw(self):
        pick = self.chance.choice
        gpus = int(2 ** self.chance.uniform(0, MOST_GPUS_LOG))
        query = ["--gpus", str(pick([gpus, 2 ** round(gpus.bit_length() - 1), -(-gpus // 8) * 8])),
                 "--model", pick(list(self.kinds["models"])),
                 "--cluster", pick(list(self.kinds["clusters"]))]
        if self.chance.random() < 0.5:
            query += ["--stack", pick(list(self.kinds["stacks"]))]
        batch = self.chance.random()
        if batch < 0.3:
            query += ["--batch-per-gpu", str(pick([1, 1, 2, 3, 4, 8]))]
        elif batch < 0.5:
            query += ["--global-batch-size", str(int(2 ** self.chance.uniform(4, 13)))]
        if self.chance.random() < 0.25:
            query += ["--seq-length", str(pick([512, 1024, 2048, 4096, 8192, 16384]))]
        if self.chance.random() < 0.3:
            query += ["--schedule", pick(["all", "all", *SCHEDULES])]
        if self.chance.random() < 0.2:
            query += ["--recompute", pick(["none", "selective", "full", "none,full"])]
        if self.chance.random() < 0.15:
            query += ["--offload", pick(["optimizer", "none,optimizer", "none,activations"])]
        if self.chance.random() < 0.1:
            query += ["--rank-order", pick(["tp-cp-ep-dp-pp", "tp-cp-ep-pp-dp"])]
        return query

    def judge(self, query):
        """Returns the plan of a query, simulated; none where there is none."""
        self.plan.unlink(missing_ok=True)
        made = self.call("ptdp-plan", [*query, "-o", str(self.plan)])
        if made.returncode in (2, 3):
            return None  # a stack that cannot train the model or a shape that it does not run
        if made.returncode not in (0, 4) or (made.returncode == 0) != self.plan.exists():
            self.fail(f"status {made.returncode}: {made.stderr}", query)
        if not self.plan.exists():
            return None
        plan = json.loads(self.plan.read_text(encoding="utf-8"))
        config = plan["config"]
        actions = 7 * config["pp"] * config["vpp"] * plan["schedule"]["num_microbatches"]
        if actions > MOST_ACTIONS:
            self.num_unsimulated += 1
            return None
        simulated = self.call("ptdp-sim", [str(self.plan), "--format", "json"])
        if simulated.returncode != 0:
            self.fail(f"ptdp-sim, status {simulated.returncode}: {simulated.stderr}", query)
            return None
        return Judged(query, plan, json.loads(simulated.stdout)["step_s"],
                      "Not proven" not in made.stdout)

    def schedules_of(self, query):
        schedule = value_of(query, "--schedule")
        if schedule is not None:
            return SCHEDULES if schedule == "all" else [schedule]
        cluster = self.kinds["clusters"][value_of(query, "--cluster")]
        stack = self.kinds["stacks"][value_of(query, "--stack") or cluster["default_stack"]]
        return stack["can_run"]["schedules"]

    def shapes(self, query):
        """All pp x vpp x schedule that may be of a plan, in random order."""
        layers = self.kinds["models"][value_of(query, "--model")].get("num_layers", 64)
        gpus = int(value_of(query, "--gpus"))
        stages = [n for n in range(1, min(layers, gpus) + 1)
                  if n & (n - 1) == 0 or layers % n == 0 or n <= 6]
        shapes = []
        for schedule in self.schedules_of(query):
            for pp in stages:
                chunks = [1]
                if schedule in V_SHAPED:
                    chunks = [2]
                elif schedule in ("interleaved", "looped-bfs"):
                    chunks = [v for v in range(2, layers // pp + 2)
                              if layers % (pp * v) == 0 or (layers + 2) % (pp * v) == 0 or v <= 3]
                if pp > 1 or schedule == "1f1b":
                    shapes += [(schedule, pp, vpp) for vpp in chunks]
        self.chance.shuffle(shapes)
        # Shallow pipelines are those that fit and compete.
        return sorted(shapes, key=lambda shape: self.chance.random() * shape[1] ** 0.5)

    def others(self, query):
        """The best of random shapes that the query leaves open."""
        pinned = [flag for flag in ("--pp", "--vpp") if flag in query]
        bare = list(query)
        if "--schedule" in bare:
            del bare[bare.index("--schedule"):bare.index("--schedule") + 2]
        found = []
        for schedule, pp, vpp in self.shapes(query)[:MOST_DRAWS_OF_OTHERS * self.arguments.others]:
            pins = ["--schedule", schedule]
            pins += ["--pp", str(pp)] if "--pp" not in pinned else []
            pins += ["--vpp", str(vpp)] if "--vpp" not in pinned else []
            if self.chance.random() < 0.3:  # a search of less is bounded by other bounds
                flag = self.chance.choice(["--tp", "--micro-batch-size"])
                pins += [flag, str(2 ** self.chance.randint(0, 3))] if flag not in query else []
            other = self.judge(bare + pins)
            if other is not None:
                found.append(other)
            if len(found) == self.arguments.others:
                break
        return found

    def ask(self, query):
        """Returns whether the query has a plan to hold against others."""
        chosen = self.judge(query)
        if chosen is None:
            return False
        others = [] if any(name in query for name in STALE) else self.others(query)
        for other in others:
            if chosen.is_proven and other.planned < chosen.planned * (1 - ROUNDING):
                self.fail(f"{chosen.planned} s planned, {other.planned} s by "
                          f"{shlex.join(other.query)}", query)
        fastest = min([chosen, *others], key=lambda judged: judged.step)
        self.rows.append((chosen, fastest))
        if self.arguments.csv:
            with open(self.arguments.csv, "a", encoding="utf-8") as file:
                file.write(f"{chosen.step / fastest.step - 1:.6f},{chosen.difference():.6f},"
                           f"{len(others)},{max([abs(o.difference()) for o in others] + [0]):.6f},"
                           f"{shlex.join(query)},{shlex.join(fastest.query)}\n")
        return True

    def run(self):
        if self.arguments.named:
            for query in NAMED:
                if not self.ask(shlex.split(query)):
                    self.fail("no plan", shlex.split(query))
        answered = 0
        while answered < self.arguments.queries:
            answered += self.ask(self.draw())

    def report(self):
        regrets = [chosen.step / fastest.step - 1 for chosen, fastest in self.rows]
        differences = [abs(chosen.difference()) for chosen, _ in self.rows]
        mean = sum(differences) / len(differences)
        print(f"{len(self.rows)} chosen plans simulated; of {self.num_unsimulated} plans more the "
              f"steps have more than {MOST_ACTIONS:.0e} actions\n"
              f"regret: {sum(regret > 0 for regret in regrets)} of them, worst "
              f"{100 * max(regrets):.2f} %\n"
              f"planned against simulated: mean {100 * mean:.2f} %, worst "
              f"{100 * max(differences):.2f} %, "
              f"{sum(difference > 0.02 for difference in differences)} over 2 %")
        for chosen, fastest in sorted(self.rows, key=lambda row: row[1].step / row[0].step):
            regret = chosen.step / fastest.step - 1
            if regret > MOST_REGRET:
                self.problems.append(f"a regret of {100 * regret:.2f} %: {chosen}\n  {fastest}")
        shown = sorted(self.rows, key=lambda row: -abs(row[0].difference()))[:NUM_SHOWN]
        print("farthest apart:")
        for chosen, _ in shown:
            print(f"  {chosen}")
        if mean > MOST_MEAN_DIFFERENCE or max(differences) > MOST_DIFFERENCE:
            self.problems.append("plans and simulations are farther apart than "
                                 f"{MOST_MEAN_DIFFERENCE} on average or {MOST_DIFFERENCE}")
        for problem in self.problems:
            print(problem)
        return 1 if self.problems else 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--queries", type=int, default=8)
    parser.add_argument("--others", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--named", action="store_true")
    parser.add_argument("--csv")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        campaign = Campaign(arguments.build.resolve(), arguments, directory)
        campaign.run()
        return campaign.report()


if __name__ == "__main__":
    sys.exit(main())
