"""Finds what accesses of global memory the PTX of a kernel has, and how wide they are.

PTX ISA 9.0, instructions ld and st: `ld.global.nc.v4.u32 {…}, [register+offset]`. An access
without a state space may be to any memory."""

import collections
import re

ENTRY = re.compile(r"^[ \t]*(?:\.visible\s+|\.weak\s+)*\.entry\s+(\w+)\s*\(", re.MULTILINE)
ACCESS = re.compile(r"\b(ld|st)((?:\.[\w:]+)+)\s+([^;]*);")
ADDRESS = re.compile(r"\[\s*([%\w]+)\s*(?:\+\s*(-?\d+))?\s*\]")
ELSEWHERE = {"shared", "local", "const", "param"}
WIDEST = 16  # Bytes that a thread reads or writes at once.

Access = collections.namedtuple("Access", "operation bytes base offset")


def accesses(body):
    """The loads and stores of a kernel's body, without those of shared and other memory."""
    found = []
    for operation, suffixes, operands in ACCESS.findall(body):
        parts = suffixes[1:].split(".")
        if ELSEWHERE & {part.split("::")[0] for part in parts}:
            continue
        bits = re.fullmatch(r"[busf](\d+)", parts[-1])
        address = ADDRESS.search(operands)
        if not bits or not address:
            continue
        count = next((int(part[1:]) for part in parts if re.fullmatch(r"v[248]", part)), 1)
        found.append(Access(operation, int(bits[1]) // 8 * count, address[1], int(address[2] or 0)))
    return found


def entries(text):
    """The kernels of a PTX file: accesses by mangled name."""
    starts = list(ENTRY.finditer(text))
    ends = [start.start() for start in starts[1:]] + [len(text)]
    return {start[1]: accesses(text[start.end():end]) for start, end in zip(starts, ends)}


def pieces(found):
    """Vectors that are read or written piece by piece, as texts: narrow accesses that follow each
    other from one register on, or as many accesses below 4 bytes as a vector has elements."""
    by_base = collections.defaultdict(set)
    for access in found:
        if access.bytes < WIDEST:
            by_base[access.operation, access.base, access.bytes].add(access.offset)
    texts = collections.Counter()
    for (operation, _, size), offsets in by_base.items():
        length = 0
        for offset in sorted(offsets):
            length = length + 1 if length and offset - size in offsets else 1
            if length * size % WIDEST == 0:
                texts[f"{WIDEST // size} {operation} of {size} bytes in a row"] += 1
    small = collections.Counter((access.operation, access.bytes) for access in found
                                if access.bytes < 4)
    for (operation, size), count in small.items():
        text = f"{WIDEST // size} {operation} of {size} bytes"
        if count >= WIDEST // size and f"{text} in a row" not in texts:
            texts[text] += 1
    return sorted(f"{count} times {text}" if count > 1 else text for text, count in texts.items())
