#!/usr/bin/env python3
"""check_live.py must agree with a right program, and notice every way of being wrong."""

import contextlib
import io
import json
import shutil
import sys
import tempfile
import unittest
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import check_live
from check_live import compare, load_file, torch
from files import write_results

HERE = Path(__file__).resolve().parent
PROGRAM = """#!{python}
import sys
sys.path.insert(0, {here!r})
from pathlib import Path
import reference
from files import write_results
directory = Path(sys.argv[1])
results = reference.results(directory)
results |= {{"logits_f32": results["logits"].float(), "loss_f32": results["loss"].float()}}
write_results(directory / "results.safetensors", results)
"""
NORM = "grad.model.norm.weight"


def run(*words: str) -> tuple[int, str]:
    """Returns check_live's exit status and what it prints."""
    said = io.StringIO()
    with mock.patch.object(sys, "argv", ["check_live.py", *words]), \
            contextlib.redirect_stdout(said):
        return check_live.main(), said.getvalue()


class CheckLive(unittest.TestCase):
    """Calls check_live with programs of its own."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def check(self, program: str, *words: str) -> tuple[int, str]:
        """Runs check_live with a program of this text."""
        path = self.folder / "program"
        path.write_text(program)
        path.chmod(0o755)
        return run("--program", str(path), "--seed", "3", *words)

    def test_agrees_with_a_right_program(self) -> None:
        program = PROGRAM.format(python=sys.executable, here=str(HERE))
        status, said = self.check(program, "--only", "gemma2-1", "--stored-dtype", "bfloat16",
                                  "--largest-shard", "10KB")
        self.assertEqual((status, said.splitlines()[-1]), (0, "1 of 1 cases agree"), said)

    def test_notices_a_program_that_fails(self) -> None:
        for words, expected in [("exit 3", "exit status 3: without a word"),
                                ("echo no such type; exit 1", "exit status 1: no such type"),
                                ("exit 0", "results.safetensors: ")]:
            with self.subTest(words):
                status, said = self.check(f"#!/bin/sh\n{words}\n", "--only", "qwen3-0")
                self.assertEqual(status, 1)
                self.assertIn(expected, said)

    def test_notices_wrong_results(self) -> None:
        def spoiled(name: str, change: Callable[[torch.Tensor], torch.Tensor]) -> list[str]:
            found = dict(expected)
            found[name] = change(found[name].clone())
            return compare(found, expected)[1]

        expected = load_file(HERE / "golden" / "qwen2-4" / "expected.safetensors")
        self.assertEqual(compare(expected, expected)[1], [])
        rows: list[tuple[str, Callable[[torch.Tensor], torch.Tensor], str]] = [
            (NORM, lambda x: x + 1e-8 * x.abs().max(), "differs by 1.00e-08, expected at most"),
            ("logits", lambda x: x + 1e-9 * x.abs().max(), "differs by 1.00e-09, expected at most"),
            ("logits", lambda x: torch.where(x == x.max(), torch.nan, x), "differs by nan"),
            ("loss", lambda x: x * (1.0 + 1e-9), "differs by 1.00e-09, expected at most 1e-10"),
            ("logits_f32", lambda x: x * 1.001, "differs by 1.00e-03, expected at most 1e-04"),
            ("loss_f32", lambda x: x * 1.001, "differs by 1.00e-03, expected at most 1e-05"),
            (NORM, lambda x: x[1:], "shape [7], expected [8]"),
            (NORM, lambda x: x.float(), "torch.float32, expected torch.float64")]
        for name, change, text in rows:
            with self.subTest(text):
                faults = spoiled(name, change)
                self.assertEqual(len(faults), 1)
                self.assertIn(f"{name}: {text}", faults[0])

    def test_notices_missing_and_unknown_results(self) -> None:
        expected = load_file(HERE / "golden" / "qwen2-4" / "expected.safetensors")
        found = {"more" if name == NORM else name: value for name, value in expected.items()}
        self.assertEqual(compare(found, expected)[1],
                         [f"{NORM}: missing from the results",
                          "more: in the results, expected no such name"])

    def export(self) -> tuple[Path, Path]:
        """Returns a golden case and a copy of it."""
        original = HERE / "golden" / "qwen2-4"
        return original, Path(shutil.copytree(original, self.folder / "export"))

    def test_takes_an_export_of_equal_bits(self) -> None:
        original, export = self.export()
        self.assertEqual(run("--check-export", str(export), str(original))[0], 0)

    def test_notices_a_changed_export(self) -> None:
        name = "model.layers.1.mlp.up_proj.weight"

        def flipped(weights: dict[str, torch.Tensor]) -> None:
            weights[name].view(-1).view(torch.int32)[3] ^= 1

        def renamed(weights: dict[str, torch.Tensor]) -> None:
            weights["more"] = weights.pop(name)
        for change, expected in [(flipped, f"{name}: 1 of 40 values differ"),
                                 (renamed, "missing_keys"), (renamed, "unexpected_keys")]:
            original, export = self.export()
            weights = load_file(export / "model.safetensors")
            change(weights)
            write_results(export / "model.safetensors", weights)
            status, said = run("--check-export", str(export), str(original))
            self.assertEqual(status, 1)
            self.assertIn(expected, said)
            shutil.rmtree(export)

    def test_notices_a_changed_configuration(self) -> None:
        original, export = self.export()
        config = json.loads((export / "config.json").read_text()) | {"rms_norm_eps": 0.5}
        (export / "config.json").write_text(json.dumps(config))
        status, said = run("--check-export", str(export), str(original))
        self.assertEqual((status, said), (1, "config.json: equal weights have other logits\n"))


if __name__ == "__main__":
    unittest.main()
