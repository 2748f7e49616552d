"""Runs tools/multi-gpu-check with tiny models: on two emulated GPUs, on the host, and there as two
nodes.

usage: multi_gpu_rehearsal_test.py BUILD"""

import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import unittest

BUILD = pathlib.Path(sys.argv.pop())
SCRIPT = pathlib.Path(__file__).with_name("multi_gpu_check.py")
# Of the host, whose ranks are processes; layouts are those of two nodes below.
SECTIONS = ("faults", "meeting")
ENVIRONMENT = os.environ | {"ASAN_OPTIONS": "detect_leaks=0"}  # Open MPI leaves memory behind


def command_of(directory, *words, where="--host"):
    return [sys.executable, "-B", SCRIPT, directory, where, "--quick", "--ranks", "2", "--build",
            BUILD, *words]


def chosen(*names):
    return [word for name in names for word in ("--section", name)]


class OneNode(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.results = pathlib.Path(cls.temporary.name)
        cls.first = cls.run_check()
        cls.second = cls.run_check()
        cls.report = json.loads((cls.results / "report.json").read_text())

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    @classmethod
    def run_check(cls):
        return subprocess.run(command_of(cls.results, *chosen(*SECTIONS)), capture_output=True,
                              text=True, check=False, env=ENVIRONMENT)

    def test_all_goals_are_met(self):
        self.assertEqual(self.first.returncode, 0, self.first.stdout + self.first.stderr)
        for name in SECTIONS:
            self.assertEqual(self.report["sections"][name]["verdict"], "PASS", name)

    def test_what_is_done_is_not_run_again(self):
        self.assertEqual(self.second.returncode, 0)
        self.assertEqual(self.second.stdout, self.first.stdout)
        self.assertNotIn("...", self.second.stderr)

    def test_what_a_rank_that_is_lost_costs_is_told(self):
        goals = self.report["sections"]["faults"]["goals"]
        self.assertIn("tcp pipeline kill -KILL from outside", [goal["what"] for goal in goals])
        self.assertTrue(all(goal["met"] for goal in goals))

    def test_ranks_that_do_not_meet_say_why(self):
        said = {goal["what"]: goal["value"] for goal in self.report["sections"]["meeting"]["goals"]}
        self.assertIn("rank 1", said["a rank that does not come"])
        self.assertIn("3 processes", said["more processes than ranks"])


class OnEmulatedGpus(unittest.TestCase):
    """All sections, over an emulated NCCL that joins threads of one process."""

    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.results = pathlib.Path(cls.temporary.name)
        cls.done = subprocess.run(command_of(cls.results, where="--emulated"), capture_output=True,
                                  text=True, check=False, env=ENVIRONMENT)
        cls.report = json.loads((cls.results / "report.json").read_text())

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def goals(self, section):
        return {goal["what"]: goal for goal in self.report["sections"][section]["goals"]}

    def test_all_goals_are_met(self):
        self.assertEqual(self.done.returncode, 0, self.done.stdout + self.done.stderr)
        self.assertEqual(set(self.report["sections"]), {
            "layouts", "curves", "sizes", "prediction", "overlap", "faults", "meeting"})
        self.assertEqual(self.report["machine"]["gpus"], 2 * ["emulated NVIDIA H200"])

    def test_rows_say_how_ranks_met(self):
        layouts = self.goals("layouts")
        self.assertEqual(len(layouts), 3)
        for what in layouts:
            self.assertIn("threads of one process", what)
        self.assertIn("threads, not processes", self.goals("meeting")["started by mpirun"]["value"])

    def test_tensors_travel_over_the_emulated_nccl(self):
        for name in ("dp-even", "dp-odd", "pp-blocks-4"):
            run = json.loads((self.results / f"scratch/sizes/{name}.run.json").read_text())
            self.assertEqual((run["execution"]["transport"], run["execution"]["device"]),
                             ("nccl", "cuda: emulated NVIDIA H200"))

    def test_wider_layers_send_more(self):
        values = self.report["sections"]["sizes"]["values"]
        self.assertGreater(values["odd"]["bytes"], values["even"]["bytes"])
        self.assertEqual(set(values["step_s by NCCL_MAX_CTAS"]), {"4", "None"})


class TwoNodes(unittest.TestCase):
    """Of which one machine plays both."""

    def test_ranks_of_both_train_together(self):
        with socket.create_server(("", 0)) as server:
            master = f"127.0.0.1:{server.getsockname()[1]}"
        with tempfile.TemporaryDirectory() as name:
            nodes = ["--master", master, "--nodes", "2", "--node"]
            words = chosen("layouts")
            with subprocess.Popen(command_of(name, *nodes, "1", *words), stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True) as second:
                first = subprocess.run(command_of(name, *nodes, "0", *words), capture_output=True,
                                       text=True, check=False)
                told, _ = second.communicate()
            self.assertEqual((first.returncode, second.returncode), (0, 0), first.stderr + told)
            self.assertIn("pp=2, zb-h1", first.stdout)
            self.assertNotIn("tp=2", first.stdout)  # it would lie on both
            self.assertTrue(list((pathlib.Path(name) / "node-1/scratch/layouts").iterdir()))


if __name__ == "__main__":
    unittest.main()
