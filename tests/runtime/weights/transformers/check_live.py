#!/usr/bin/env python3
"""Draws models of Hugging Face's types, has a program compute them, and compares with transformers.

  check_live.py --program PATH --count N --seed S
      For each case calls PATH DIR. It reads DIR/config.json, model.safetensors (or shards and their
      index) and tokens.safetensors with `tokens` [batch, sequence + 1], I64. It writes
      DIR/results.safetensors with `logits` [batch, sequence, vocabulary], or a matrix of these rows, `loss` [1] and
      `grad.<parameter>` of every parameter of the file in F64, `logits_f32` and `loss_f32` in F32.
  check_live.py --check-export DIR ORIGINAL
      Loads both with transformers, and compares weights and logits bit for bit.

Exit status 0: all agree; 1: a difference; 77: transformers is missing."""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SKIPPED = 77

try:
    import torch
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    from cases import Storage, write_case
    from configurations import LIVE, TYPES, draw_case
    from exported import export_faults
    from files import Tensors, write_results
    from generate import weights_seed
    from oracle import proved_results, relative_difference
except ModuleNotFoundError as missing:
    if missing.name not in ("torch", "safetensors", "transformers"):
        raise
    print(f"check_live.py: skipped: {missing}")
    sys.exit(SKIPPED)

TOLERANCES = {"logits": 1e-10, "loss": 1e-10, "grad": 1e-9, "logits_f32": 1e-4, "loss_f32": 1e-5}
"""Relative to the largest absolute value of a tensor; the last two for sums in f32."""
PROGRAM_LIMIT_S = 600


def _kind(name: str) -> str:
    """Returns the kind of a result, which has a tolerance."""
    return "grad" if name.startswith("grad.") else name


def compare(found: Tensors, expected: Tensors) -> tuple[dict[str, float], list[str]]:
    """Returns the largest difference of each kind, and what is amiss."""
    largest: dict[str, float] = {}
    faults = [f"{name}: missing from the results" for name in sorted(expected.keys() - found)]
    faults += [f"{name}: in the results, expected no such name"
               for name in sorted(found.keys() - expected)]
    for name in sorted(expected.keys() & found.keys()):
        ours, theirs, kind = found[name], expected[name], _kind(name)
        if ours.numel() != theirs.numel() or (theirs.ndim > 0 and ours.shape[-1] != theirs.shape[-1]):
            faults.append(f"{name}: shape {list(ours.shape)}, expected {list(theirs.shape)}")
            continue
        if ours.dtype != theirs.dtype:
            faults.append(f"{name}: {ours.dtype}, expected {theirs.dtype}")
            continue
        difference = relative_difference(ours.reshape(theirs.shape), theirs)
        # A NaN compares as false, and must stay the largest.
        if not difference <= largest.get(kind, 0.0):
            largest[kind] = difference
        if not difference <= TOLERANCES[kind]:
            faults.append(f"{name}: differs by {difference:.2e}, "
                          f"expected at most {TOLERANCES[kind]:.0e}")
    return {kind: largest.get(kind, 0.0) for kind in TOLERANCES
            if any(_kind(name) == kind for name in expected)}, faults


def _run(program: Path, directory: Path) -> tuple[Tensors, list[str]]:
    """Returns a program's results of a directory, and what is amiss."""
    path = directory / "results.safetensors"
    path.unlink(missing_ok=True)
    try:
        ended = subprocess.run([program, directory], stdin=subprocess.DEVNULL, text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               timeout=PROGRAM_LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        return {}, [f"{program}: ran for more than {PROGRAM_LIMIT_S} s"]
    if ended.returncode != 0:
        said = ended.stdout.strip().splitlines()[-1:] or ["without a word"]
        return {}, [f"{program}: exit status {ended.returncode}: {said[0]}"]
    try:
        return load_file(path), []
    except (OSError, SafetensorError) as error:
        return {}, [f"{path}: {error}"]


def _without_f32(results: Tensors) -> Tensors:
    """Returns the results in f64."""
    return {name: value for name, value in results.items() if not name.endswith("_f32")}


def check_case(arguments: argparse.Namespace, root: Path, model_type: str, turn: int) -> bool:
    """Draws a case, has it computed, prints a line and returns whether all agrees."""
    name = f"{model_type}-{turn}"
    directory = root / name
    storage = Storage(getattr(torch, arguments.stored_dtype), arguments.largest_shard)
    write_case(directory, draw_case(model_type, str(arguments.seed), turn, LIVE),
               weights_seed(model_type, str(arguments.seed), turn), storage)
    expected, _ = proved_results(directory)
    found, faults = _run(arguments.program, directory)
    write_results(directory / "expected.safetensors", expected)
    if arguments.f64_only:
        found, expected = _without_f32(found), _without_f32(expected)
    if faults:
        print(f"{name}: {faults[0]}", flush=True)
        return False
    largest, faults = compare(found, expected)
    told = ", ".join(f"{kind} {difference:.1e}" for kind, difference in largest.items())
    more = f" ({len(faults) - 1} more)" if len(faults) > 1 else ""
    print(f"{name}: {faults[0] + more if faults else told}", flush=True)
    return not faults


def _chosen(arguments: argparse.Namespace) -> list[tuple[str, int]]:
    """Returns types and turns: all types in turn, or the one case that --only names."""
    if arguments.only:
        model_type, _, turn = arguments.only.rpartition("-")
        return [(model_type, int(turn))]
    types = arguments.types
    return [(types[i % len(types)], i // len(types)) for i in range(arguments.count)]


@contextmanager
def _folder(kept: Path | None) -> Iterator[Path]:
    """Yields the folder of the cases, which is removed unless it is to be kept."""
    if kept is not None:
        yield kept
        return
    with tempfile.TemporaryDirectory(prefix="check_live.") as folder:
        yield Path(folder)


def _known_type(text: str) -> str:
    """Returns a name of a type, or of a case of it."""
    if text not in TYPES:
        raise argparse.ArgumentTypeError(f"expected one of {', '.join(TYPES)}, got {text}")
    return text


def _case_name(text: str) -> str:
    """Returns a case's name as a line of output has it."""
    model_type, _, turn = text.rpartition("-")
    if model_type not in TYPES or not turn.isdecimal():
        raise argparse.ArgumentTypeError(f"expected TYPE-TURN, got {text}")
    return text


def _count(text: str) -> int:
    """Returns a number of cases, 1 or more."""
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"expected a number from 1, got {text}")
    return int(text)


def parse(words: list[str]) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    mode = parser.add_mutually_exclusive_group(required=True)
    mode.add_argument("--program", type=Path, help="what computes a directory's results")
    mode.add_argument("--check-export", nargs=2, type=Path, metavar=("DIR", "ORIGINAL"))
    add("--count", type=_count, default=2 * len(TYPES), help="cases, over the types in turn")
    add("--seed", type=int, default=1)
    add("--types", type=_known_type, nargs="+", default=TYPES, help="default: all")
    add("--only", type=_case_name, metavar="TYPE-TURN", help="the one case of this name")
    add("--keep", type=Path, metavar="DIR", help="keep the cases, results and expected results")
    add("--f64-only", action="store_true", help="do not expect logits_f32 and loss_f32")
    add("--stored-dtype", choices=["float32", "bfloat16"], default="float32",
        help="of the weights in the file, which both hold exactly")
    add("--largest-shard", default="1GB", help="of the weights, as in save_pretrained: 20KB")
    return parser.parse_args(words)


def main() -> int:
    """Compares and returns the exit status."""
    arguments = parse(sys.argv[1:])
    torch.set_num_threads(1)
    if arguments.check_export:
        faults = export_faults(*arguments.check_export)
        print("\n".join(faults) or f"{arguments.check_export[0]}: the same weights and logits")
        return 1 if faults else 0
    arguments.program = arguments.program.resolve()
    with _folder(arguments.keep) as root:
        agrees = [check_case(arguments, root, *case) for case in _chosen(arguments)]
    print(f"{agrees.count(True)} of {len(agrees)} cases agree")
    return 0 if all(agrees) else 1


if __name__ == "__main__":
    sys.exit(main())
