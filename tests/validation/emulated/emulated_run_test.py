"""Runs ptdp-run on emulated GPUs: what it starts, and what it says of their memory.

usage: emulated_run_test.py BUILD"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

BUILD = pathlib.Path(sys.argv.pop()).resolve()
MODEL = {"schema": "ptdp.model/1", "name": "tiny", "source": "a test", "num_layers": 2,
         "hidden_size": 32, "num_attention_heads": 2, "vocab_size": 64, "seq_length": 16,
         "global_batch_size": 4}
ROOT = pathlib.Path(__file__).resolve().parents[3]
ENVIRONMENT = os.environ | {"PTDP_PROFILES": str(ROOT / "profiles"), "PTDP_EMULATED_GPUS": "2"}
MEMORY_MIB = 143771  # of emulated_gpus.cpp


class OnTwoGpus(unittest.TestCase):
    """A plan of two ranks, one on each GPU."""

    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(temporary.cleanup)
        cls.directory = pathlib.Path(temporary.name)
        (cls.directory / "tiny.json").write_text(json.dumps(MODEL))
        subprocess.run([BUILD / "tools/ptdp-plan", "--model", "tiny.json", "--gpus", "2",
                        "--cluster", "hgx-h200", "--stack", "ptdp-cuda", "--pp", "2",
                        "--calibration", "none", "-o", "plan.json"],
                       cwd=cls.directory, env=ENVIRONMENT, check=True, capture_output=True)
        plan = json.loads((cls.directory / "plan.json").read_text())
        cls.reserve = plan["memory"]["stages"][0]["reserve_GiB"]

    def run_plan(self, *words, **variables):
        return subprocess.run([BUILD / "tests/validation/emulated/ptdp-run", "plan.json",
                               "--device", "cuda", "--steps", "1", *words],
                              cwd=self.directory, env=ENVIRONMENT | variables, check=False,
                              capture_output=True, text=True)

    def run_threads(self, taken_mib):
        return self.run_plan("--transport", "nccl-threads",
                             PTDP_EMULATED_TAKEN_MIB=str(taken_mib))

    def test_each_rank_is_a_process(self):
        # The emulated NCCL does not join processes, so each gives up in time and says so.
        ended = self.run_plan("--deadline", "1", "--dump-actions", "actions")
        self.assertEqual(ended.returncode, 4, ended.stdout + ended.stderr)
        self.assertRegex(ended.stderr, "rank 0: its start: rank [01] on host .* to join NCCL")
        self.assertEqual(sorted(path.name for path in self.directory.glob("actions*")),
                         ["actions.rank0", "actions.rank1"])

    def test_nothing_is_said_of_memory_within_the_reserve(self):
        ended = self.run_threads(int(self.reserve * 1024) - 1)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertNotIn("taken at start-up", ended.stderr)

    def test_memory_beyond_the_reserve_is_told_before_the_first_step(self):
        taken = int(self.reserve * 1024) + 1024
        ended = self.run_threads(taken)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        told = re.search(r"ptdp-run: ([\d.]+) GiB of the GPU of rank \d were taken at start-up.*"
                         r"expected at most the ([\d.]+) GiB that the plan reserves .*2 ranks",
                         ended.stderr)
        self.assertIsNotNone(told, ended.stderr)
        self.assertAlmostEqual(float(told[1]), taken / 1024, delta=0.01)
        self.assertAlmostEqual(float(told[2]), self.reserve, delta=0.01)
        self.assertLess(told.start(), ended.stderr.index("step 1/1"))

    def test_a_peak_that_does_not_fit_any_more_is_refused(self):
        ended = self.run_threads(MEMORY_MIB)
        self.assertEqual(ended.returncode, 4, ended.stdout + ended.stderr)
        self.assertRegex(ended.stderr,
                         r"rank [01]: .*140\.[34]\d GiB of its GPU's 140\.40 GiB were taken at "
                         r"start-up.*expected at most 140\.[34]\d GiB")

    def test_tuning_refuses_ranks_with_a_gpu_each(self):
        ended = self.run_plan("--tune")
        self.assertEqual(ended.returncode, 2)
        self.assertIn("--tune: tp=1 pp=2 dp=1", ended.stderr)
        self.assertIn("expected plans of one rank here", ended.stderr)

    def test_a_number_that_makes_no_sense_is_refused(self):
        ended = self.run_threads("-1")
        self.assertEqual(ended.returncode, 2)
        self.assertIn('PTDP_EMULATED_TAKEN_MIB: expected a number from 0 to 143771, got "-1"',
                      ended.stderr)


if __name__ == "__main__":
    unittest.main()
