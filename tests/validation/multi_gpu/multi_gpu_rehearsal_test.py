"""Runs tools/multi-gpu-check with tiny models on the host: on this machine, and as two nodes.

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
SECTIONS = ("layouts", "faults", "meeting")
ENVIRONMENT = os.environ | {"ASAN_OPTIONS": "detect_leaks=0"}  # Open MPI leaves memory behind


def command_of(directory, *words):
    return [sys.executable, "-B", SCRIPT, directory, "--host", "--quick", "--ranks", "2", "--build",
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
