"""Runs a whole tools/gpu-check with tiny models on an emulated GPU, and what reads its results.

usage: gpu_check_rehearsal_test.py BUILD"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

BUILD = pathlib.Path(sys.argv.pop())
SCRIPT = pathlib.Path(__file__).with_name("gpu_check.py")
PROFILES = pathlib.Path(__file__).parents[3] / "profiles"
SECTIONS = ("machine", "tests", "step", "profile", "dropout", "memory", "speed", "sweep", "losses",
            "nccl", "rehearsal")
MISSED = 6  # nobody expects an emulation to reach a GPU's goals


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, check=False,
                          env=os.environ | {"PTDP_PROFILES": str(PROFILES)})


def check(results, *words):
    return run(sys.executable, "-B", SCRIPT, results, "--build", BUILD, *words)


class OnAnEmulatedGpu(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory()
        cls.results = pathlib.Path(cls.directory.name)
        cls.first = check(cls.results, "--emulated")
        cls.second = check(cls.results, "--emulated")
        cls.runs = sorted((cls.results / "runs").glob("*.json"))

    @classmethod
    def tearDownClass(cls):
        cls.directory.cleanup()

    def record(self, name):
        return json.loads((self.results / f"{name}.json").read_text())

    def test_every_section_comes_to_its_end(self):
        self.assertEqual(self.first.returncode, MISSED, self.first.stderr)
        for name in SECTIONS:
            self.assertEqual(self.record(name)["status"], "done", self.record(name))
        self.assertEqual(self.record("pytorch")["status"], "skipped")

    def test_what_is_done_is_not_run_again(self):
        self.assertEqual(self.second.stderr, "")
        self.assertEqual(self.second.stdout, self.first.stdout)
        self.assertEqual(self.second.returncode, MISSED)

    def test_the_summary_has_ten_lines_at_most(self):
        lines = self.first.stdout.splitlines()
        self.assertLessEqual(len(lines), 10)
        for number, words in ((0, "emulated NVIDIA H200"), (1, "tests, 0 failed"),
                              (2, "predicted from the data sheet"), (3, "MFU hidden 64"),
                              (4, "3 runs, time"), (-1, "results.json")):
            self.assertIn(words, lines[number])

    def test_runs_are_on_the_emulated_gpu(self):
        self.assertEqual(len(self.runs), 6)
        for path in self.runs:
            report = json.loads(path.read_text())
            self.assertEqual(report["execution"]["device"], "cuda: emulated NVIDIA H200")
            self.assertIn("measured on that machine", report["execution"]["basis"])

    def test_runs_are_validated(self):
        done = run(BUILD / "tools/ptdp-validate", *self.runs, "--format", "json")
        self.assertEqual(done.returncode, 0, done.stderr)
        compared = json.loads(done.stdout)["runs"]
        self.assertEqual([row["run"] for row in compared], list(map(str, self.runs)))
        sweep = self.record("sweep")["values"]
        for row in compared:
            name = pathlib.Path(row["run"]).stem.removeprefix("sweep-")
            if name in sweep:
                self.assertAlmostEqual(row["error_pct"], 100 * sweep[name]["time_error"], places=3)

    def test_a_profile_is_corrected_by_the_runs(self):
        corrected = self.results / "corrected.json"
        done = run(BUILD / "tools/ptdp-calibrate", *self.runs, "--profile", corrected)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"products +takes .* \(6 runs\)")
        self.assertEqual(json.loads(corrected.read_text())["gpu"]["num_multiprocessors"], 132)

    def test_every_layout_has_the_losses_of_the_host(self):
        goals = self.record("losses")["goals"]
        self.assertEqual(len(goals), 9)
        self.assertEqual([goal for goal in goals if not goal["met"]], [])

    def test_a_run_out_of_memory_ends_as_it_should(self):
        goals = self.record("memory")["goals"][1:]
        self.assertTrue(goals and all(goal["met"] for goal in goals), goals)

    def test_a_world_of_one_over_nccl_is_right(self):
        self.assertEqual([goal["met"] for goal in self.record("nccl")["goals"]], [True, True])

    def test_operations_have_rates(self):
        rates = self.record("profile")["values"]["TFLOPs"]
        self.assertLessEqual({"forward-product", "attention", "attention-backward"}, set(rates))
        self.assertTrue(all(rate > 0 for rate in rates.values()))

    def test_as_many_layers_as_fit_are_trained(self):
        for values in self.record("speed")["values"].values():
            self.assertEqual(values["layers"], 3)
            self.assertGreater(values["mfu_full"], values["mfu_causal"])


class OnTheHost(unittest.TestCase):
    def test_a_section_runs_alone_from_what_is_shipped(self):
        with tempfile.TemporaryDirectory() as name:
            done = check(name, "--rehearse", "--section", "step")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("predicted from the shipped host", done.stdout)
            self.assertFalse((pathlib.Path(name) / "runs").exists())


if __name__ == "__main__":
    unittest.main()
