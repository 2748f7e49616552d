#!/usr/bin/env python3
"""Checks that objects compiled for a larger instruction set define no function that other objects
may define too: the linker keeps one of them, and a smaller processor would run it.
usage: loop_symbols_test.py NM VARIANT OBJECT..."""

import subprocess
import sys


def shared_functions(nm, variant, objects):
    """Weak symbols outside the variant's namespace; none of the tables (V) that g++ makes."""
    listing = subprocess.run([nm, "-C", "--defined-only", *objects], check=True,
                             capture_output=True, text=True).stdout
    symbols = (line.split(maxsplit=2) for line in listing.splitlines())
    return sorted({symbol[2] for symbol in symbols
                   if len(symbol) == 3 and symbol[1] == "W" and f"ptdp::{variant}::" not in symbol[2]})


def main():
    nm, variant, *objects = sys.argv[1:]
    assert objects, "no objects"
    shared = shared_functions(nm, variant, objects)
    for name in shared:
        print(f"{variant}: {name} may be shared with objects for smaller processors")
    print(f"loop_symbols_test: {variant}, {len(objects)} objects, {len(shared)} shared functions")
    return 1 if shared else 0


if __name__ == "__main__":
    sys.exit(main())
