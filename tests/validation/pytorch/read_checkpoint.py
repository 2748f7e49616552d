#!/usr/bin/env python3
"""Reads a checkpoint (runtime/checkpoint/FORMATS.md) into NumPy arrays; as a command, lists what it holds.
usage: read_checkpoint.py DIR/step-00000010"""

import json
import pathlib
import sys

import numpy as np


def read_checkpoint(directory):
    """The manifest, and for every parameter its masters and both moments, [3, rows, columns] in
    f64."""
    directory = pathlib.Path(directory)
    manifest = json.loads((directory / "manifest.json").read_text())
    if manifest["schema"] != "ptdp.checkpoint/1":
        sys.exit(f'{directory}: schema {manifest["schema"]}, expected ptdp.checkpoint/1')
    states = {}
    for file in manifest["files"]:
        if not file["name"].endswith(".json"):
            continue
        index = json.loads((directory / file["name"]).read_text())
        numbers = np.fromfile(directory / index["data"]["name"],
                              {"f32": "<f4", "f64": "<f8"}[index["type"]])
        for entry in index["entries"]:
            state = states.setdefault(
                entry["parameter"],
                np.full((3, entry["total_rows"], entry["total_columns"]), np.nan))
            first = entry["offset"] // numbers.itemsize
            values = numbers[first:first + 3 * entry["count"]].reshape(3, entry["count"])
            places = np.arange(entry["first"], entry["first"] + entry["count"])
            state[:, entry["first_row"] + places // entry["columns"],
                  entry["first_column"] + places % entry["columns"]] = values
    return manifest, states


if __name__ == "__main__":
    manifest, states = read_checkpoint(sys.argv[1])
    print("step", manifest["step"])
    for name, (masters, _, _) in sorted(states.items()):
        print(f"{name:40} {str(masters.shape):16} |w| = {np.linalg.norm(masters):.6g}")
