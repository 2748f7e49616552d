#!/usr/bin/env python3
"""Reads weights that ptdp wrote with the package safetensors: each file must be what the package
itself writes for the same tensors, and element i of all tensors, in the order of their names, must be
(i − 5)/8. Prints the number of files and tensors; exit status 1 if anything differs.

usage: read_written.py DIRECTORY"""

import ctypes
import json
import pathlib
import struct
import sys

import safetensors

# Types as deserialize() spells them: how serialize() does, and the format of an element.
TYPES = {"F64": ("float64", "d"), "F32": ("float32", "f"), "F16": ("float16", "e"),
         "BF16": ("bfloat16", None)}


def values_of(tensor):
    form = TYPES[tensor["dtype"]][1]
    raw = bytes(tensor["data"])
    if form is None:  # the upper halves of f32
        raw = b"".join(b"\0\0" + raw[i:i + 2] for i in range(0, len(raw), 2))
        form = "f"
    return [value for (value,) in struct.iter_unpack("<" + form, raw)]


def written_by_package(tensors):
    """The file that the package writes for what deserialize() found."""
    specs = {}
    kept = []  # buffers, alive until the package has read them
    for name, tensor in tensors:
        content = bytes(tensor["data"])
        fields = {"dtype": TYPES[tensor["dtype"]][0], "shape": tensor["shape"]}
        if hasattr(safetensors, "TensorSpec"):  # since 0.8
            kept.append(ctypes.create_string_buffer(content, max(len(content), 1)))
            specs[name] = safetensors.TensorSpec(
                **fields, data_ptr=ctypes.addressof(kept[-1]), data_len=len(content))
        else:
            specs[name] = {**fields, "data": content}
    return bytes(safetensors.serialize(specs, metadata={"format": "pt"}))


def main():
    directory = pathlib.Path(sys.argv[1])
    index = directory / "model.safetensors.index.json"
    files = sorted(directory.glob("*.safetensors"))
    tensors = {}
    places = {}
    for file in files:
        content = file.read_bytes()
        found = safetensors.deserialize(content)
        if written_by_package(found) != content:
            sys.exit(f"{file.name}: other bytes than the package writes")
        tensors.update(found)
        places.update({name: file.name for name, _ in found})
    if index.exists() and json.loads(index.read_text())["weight_map"] != places:
        sys.exit(f"{index.name}: expected {places}")
    first = 0
    for name, tensor in sorted(tensors.items()):
        values = values_of(tensor)
        expected = [(i - 5) / 8 for i in range(first, first + len(values))]
        if values != expected:
            sys.exit(f"{name}: {values}, expected {expected}")
        first += len(values)
    print(f"{len(files)} files, {len(tensors)} tensors")


if __name__ == "__main__":
    main()
