#!/usr/bin/env python3
"""check_layouts.py must notice every way in which two runs differ, and programs that fail."""

import contextlib
import io
import math
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import check_layouts
from check_layouts import Trained, difference, torch


def trained(losses: list[float], **weights: list) -> Trained:
    """Returns a run with these weights."""
    return Trained(losses, {name: torch.tensor(values) for name, values in weights.items()})


class CheckLayouts(unittest.TestCase):
    """Compares runs, and calls check_layouts with programs of its own."""

    def test_notices_what_differs(self) -> None:
        losses = [2.0, 1.0, 0.5]
        expected = trained(losses, a=[1.0, 2.0])
        for found, amiss in [
                (trained(losses, a=[1.0, 2.0]), ""),
                (trained([2.0 + 1e-13, 1.0, 0.5], a=[1.0, 2.0]), ""),
                (trained([2.0, 1.0 + 1e-11, 0.5], a=[1.0, 2.0]), "loss of step 1: "),
                (trained([math.nan, 1.0, 0.5], a=[1.0, 2.0]), "loss of step 0: nan, expected 2.0"),
                (trained([2.0], a=[1.0, 2.0]), "1 losses, 1 tensors, expected 3 and some"),
                (trained(losses), "3 losses, 0 tensors, expected 3 and some"),
                (trained(losses, a=[1.0, 2.0 + 1e-6]), "a: 9.54e-07 apart"),
                (trained(losses, a=[1.0, math.nan]), "a: nan apart"),
                (trained(losses, a=[[1.0, 2.0]]), "a: shape [1, 2], expected [2]"),
                (trained(losses, a=[1.0, 2.0], b=[1.0]), "b: in one of two exports")]:
            with self.subTest(amiss):
                self.assertTrue(difference(found, expected).startswith(amiss))
                self.assertEqual(difference(found, expected) == "", amiss == "")

    def check(self, plan: str, run: str) -> str:
        """Returns what check_layouts says of programs with these words, which it must not accept."""
        said = io.StringIO()
        with tempfile.TemporaryDirectory() as folder:
            for name, words in [("ptdp-plan", plan), ("ptdp-run", run)]:
                program = Path(folder) / name
                program.write_text(f"#!/bin/sh\n{words}\n")
                program.chmod(0o755)
            words = ["check_layouts.py", "--programs", folder, "--count", "1"]
            with mock.patch.object(sys, "argv", words), contextlib.redirect_stdout(said):
                self.assertEqual(check_layouts.main(), 1)
        return said.getvalue()

    def test_notices_programs_that_fail(self) -> None:
        for plan, run, expected in [("exit 1", "exit 0", "ptdp-plan: exit status 1: "),
                                    ("exit 3", "exit 0", "one rank has no plan"),
                                    ("exit 0", "echo no; exit 4", "ptdp-run: exit status 4: no")]:
            with self.subTest(expected):
                self.assertIn(f"llama-0: one rank: {expected}", self.check(plan, run))

    def test_notices_bytes_that_were_not_predicted(self) -> None:
        run = """while [ "$1" != -o ]; do shift; done
echo '{"losses": [], "traffic": [{"predicted_bytes": 1, "measured_bytes": 2}]}' >"$2"
"""
        self.assertIn("llama-0: one rank: bytes sent: ", self.check("exit 0", run))


if __name__ == "__main__":
    unittest.main()
