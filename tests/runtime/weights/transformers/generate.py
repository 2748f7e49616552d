#!/usr/bin/env python3
"""Writes the golden cases: tiny models of all types, their tokens and transformers' results.

  generate.py            writes golden/TYPE-TURN/ beside this script
  generate.py --check    writes them elsewhere and compares; exit status 1 if they differ"""

import argparse
import json
import random
import sys
import tempfile
from pathlib import Path

import torch
from safetensors.torch import load_file

from cases import write_case
from configurations import GOLDEN, GOLDEN_PARTIAL, draw_case
from files import write_results
from oracle import PROOF_TOLERANCE, proved_results, relative_difference

HERE = Path(__file__).resolve().parent
LARGEST_TOTAL = 340_000
"""Bytes that all golden files together may have."""
GOLDEN_CASES = [("llama", 3), ("mistral", 5), ("qwen2", 4), ("qwen3", 9), ("gemma2", 0),
                ("gpt_neox", 8), ("phi3", 12), ("olmo2", 1), ("gpt2", 2), ("nemotron", 2),
                ("granite", 1), ("phi3", 32)]
"""Types and turns, chosen so that together they show most variants; check_live.py shows all."""


def weights_seed(model_type: str, seed: str, turn: int) -> int:
    """Returns the seed of a case's weights and tokens."""
    return random.Random(f"weights of {seed}:{model_type}:{turn}").getrandbits(62)


def write_golden(root: Path) -> None:
    """Writes all golden cases below a folder."""
    for model_type, turn in GOLDEN_CASES:
        sizes = GOLDEN_PARTIAL if model_type in ("gpt_neox", "phi3") else GOLDEN
        case = draw_case(model_type, "golden", turn, sizes)
        directory = root / f"{model_type}-{turn}"
        write_case(directory, case, weights_seed(model_type, "golden", turn))
        results, worst = proved_results(directory)
        write_results(directory / "expected.safetensors", results)
        size = sum(path.stat().st_size for path in directory.iterdir())
        print(f"{directory.name}: {size} bytes; two implementations in f64 differ by {worst:.1e}")


def _total(root: Path) -> int:
    """Returns the bytes of all files below a folder."""
    return sum(path.stat().st_size for path in root.rglob("*") if path.is_file())


def _config(directory: Path) -> dict[str, object]:
    """Reads a config.json without the version that wrote it."""
    config = json.loads((directory / "config.json").read_text())
    config.pop("transformers_version", None)
    return config


def _differences(found: Path, committed: Path) -> list[str]:
    """Returns what differs between two directories of a case."""
    differing = [] if _config(found) == _config(committed) else ["config.json"]
    for file in ("model.safetensors", "tokens.safetensors", "expected.safetensors"):
        ours, theirs = load_file(found / file), load_file(committed / file)
        if ours.keys() != theirs.keys():
            differing.append(f"{file}: names")
            continue
        for name, value in ours.items():
            # Inputs are the same bits; results follow the order of sums of a version and machine.
            limit = 0.0 if file != "expected.safetensors" else (
                1e-5 if name.endswith("_f32") else PROOF_TOLERANCE)
            difference = (torch.inf if value.shape != theirs[name].shape
                          else relative_difference(value, theirs[name]))
            if not difference <= limit:
                differing.append(f"{file}: {name}: {difference:.1e}")
    return differing


def check_golden(root: Path) -> int:
    """Returns 1 if the golden cases are not what this script writes, else 0."""
    status = 0
    with tempfile.TemporaryDirectory() as folder:
        write_golden(Path(folder))
        for written in sorted(Path(folder).iterdir()):
            for text in _differences(written, root / written.name):
                print(f"{written.name}: differs from the committed case: {text}", file=sys.stderr)
                status = 1
    return status


def main() -> int:
    """Writes or checks the golden cases."""
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=HERE / "golden", help="the folder of the cases")
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.check:
        return check_golden(arguments.out)
    write_golden(arguments.out)
    total = _total(arguments.out)
    print(f"together: {total} bytes")
    if total > LARGEST_TOTAL:
        print(f"expected at most {LARGEST_TOTAL} bytes", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
