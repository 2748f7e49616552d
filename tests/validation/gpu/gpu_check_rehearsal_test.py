"""Runs the sections of tools/gpu-check with tiny models on the host.

usage: gpu_check_rehearsal_test.py BUILD"""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

BUILD = pathlib.Path(sys.argv.pop())
SCRIPT = pathlib.Path(__file__).with_name("gpu_check.py")
SECTIONS = ("speed", "sweep", "losses", "overhead", "memory", "nccl", "rehearsal")
MISSED = 6  # nobody expects a host to reach a GPU's goals


class Rehearsal(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory()
        cls.results = pathlib.Path(cls.directory.name)
        cls.first = cls.run_check()
        cls.second = cls.run_check()

    @classmethod
    def tearDownClass(cls):
        cls.directory.cleanup()

    @classmethod
    def run_check(cls):
        chosen = [word for name in SECTIONS for word in ("--section", name)]
        return subprocess.run([sys.executable, "-B", SCRIPT, cls.results, "--rehearse", "--build",
                               BUILD, *chosen], capture_output=True, text=True, check=False)

    def record(self, name):
        return json.loads((self.results / f"{name}.json").read_text())

    def test_every_section_comes_to_its_end(self):
        self.assertEqual(self.first.returncode, MISSED, self.first.stderr)
        for name in SECTIONS:
            self.assertEqual(self.record(name)["status"], "done", self.record(name))

    def test_what_is_done_is_not_run_again(self):
        self.assertEqual(self.second.stderr, "")
        self.assertEqual(self.second.stdout, self.first.stdout)
        self.assertEqual(self.second.returncode, MISSED)

    def test_every_layout_has_the_losses_of_one_rank(self):
        self.assertEqual([goal for goal in self.record("losses")["goals"] if not goal["met"]], [])

    def test_a_run_out_of_memory_ends_as_it_should(self):
        goals = self.record("memory")["goals"][1:]
        self.assertTrue(goals and all(goal["met"] for goal in goals), goals)

    def test_every_configuration_is_compared(self):
        values = self.record("sweep")["values"]
        self.assertEqual(len(values), 3)
        for errors in values.values():
            self.assertLess(abs(errors["memory_error"]), 0.2)

    def test_as_many_layers_as_fit_are_trained(self):
        for values in self.record("speed")["values"].values():
            self.assertEqual(values["on"]["layers"], 3)
            self.assertGreater(values["on"]["mfu_full"], values["on"]["mfu_causal"])


if __name__ == "__main__":
    unittest.main()
