"""Reads the machine code and the PTX of kernels out of object files and archives.

NVIDIA documents none of this. A fat binary is a header (magic, version, size of the header, size of
what follows) and entries, each a header (kind, version, its size, size of what follows,
architecture) and a body: an ELF file or PTX, as open readers have it (vosen/ZLUDA: FatbinHeader,
FatbinFileHeader). A body may be compressed, and is then left unread. Of the ELF file the sections
.nv.info are read: attributes of a byte for the format and one for the number, and a value; their
names, EIATTR_*, are those that cuobjdump -elf prints. Registers, frames and shared memory so read
are what ptxas -v of CUDA 13.0 prints, for all 54 kernels of norm.cu, short_norms.cu and
attention_backward.cu."""

import collections
import struct

MAGIC = b"\x50\xed\x55\xba"
KIND_PTX, KIND_ELF = 1, 2
# The format of an attribute with a value of any size, and the attributes that are read.
SIZED = 4
MAX_THREADS, FRAME_SIZE, REGISTER_COUNT = 0x05, 0x11, 0x2F
# From this architecture on, the runtime has the first KiB of a block's shared memory, which
# .nv.shared then counts.
ARCHITECTURE_OF_RESERVED_SHARED, RESERVED_SHARED = 90, 1024

Code = collections.namedtuple("Code", "kind architecture body")


class Unreadable(Exception):
    """What is expected of an object, and what was found."""


def codes(data):
    """The code in the bytes of a file. Compressed code has the body None."""
    at = data.find(MAGIC)
    while at >= 0:
        _, _, header, size = struct.unpack_from("<IHHQ", data, at)
        entry, end = at + header, at + header + size
        if end > len(data):
            raise Unreadable(f"fat binary at {at}: {size} bytes, expected at most {len(data) - at}")
        while entry < end:
            kind, _, header, size = struct.unpack_from("<HHIQ", data, entry)
            if header < 32 or entry + header + size > end:
                raise Unreadable(f"entry at {entry}: header of {header} and {size} bytes, expected "
                                 f"at most {end - entry}")
            architecture, = struct.unpack_from("<I", data, entry + 28)
            body = data[entry + header:entry + header + size]
            plain = body.startswith(b"\x7fELF") if kind == KIND_ELF else b".version" in body[:256]
            yield Code(kind, architecture, body if plain else None)
            entry += header + size
        at = data.find(MAGIC, end)


def text_at(data, at):
    return data[at:data.index(b"\0", at)].decode()


def sections(elf):
    """The sections of a 64-bit ELF file as (name, bytes or None, size)."""
    first, = struct.unpack_from("<Q", elf, 40)
    size_of_one, count, of_names = struct.unpack_from("<HHH", elf, 58)
    headers = [struct.unpack_from("<IIQQQQ", elf, first + i * size_of_one) for i in range(count)]
    names = headers[of_names][4]
    for name, kind, _, _, offset, size in headers:
        without_bytes = kind in (0, 8)
        yield text_at(elf, names + name), None if without_bytes else elf[offset:offset + size], size


def attributes(info):
    """The attributes of a section .nv.info that have a value of any size, as (number, words)."""
    at = 0
    while at + 4 <= len(info):
        form, number, size = struct.unpack_from("<BBH", info, at)
        at += 4
        if form == SIZED:
            yield number, struct.unpack_from(f"<{size // 4}I", info, at)
            at += size


def kernels_of(elf, architecture):
    """The resources of each kernel of an ELF file, by mangled name."""
    all_sections = list(sections(elf))
    by_name = {name: body for name, body, _ in all_sections}
    resources = collections.defaultdict(dict)
    symbols, strings = by_name[".symtab"], by_name[".strtab"]
    for number, words in attributes(by_name.get(".nv.info") or b""):
        if number in (FRAME_SIZE, REGISTER_COUNT):
            symbol, value = words
            name = text_at(strings, struct.unpack_from("<I", symbols, 24 * symbol)[0])
            resources[name]["local" if number == FRAME_SIZE else "registers"] = value
    for name, body, size in all_sections:
        if name.startswith(".nv.info."):
            for number, words in attributes(body):
                if number == MAX_THREADS:
                    resources[name[len(".nv.info."):]]["threads"] = words[0] * words[1] * words[2]
        elif name.startswith(".nv.shared."):
            reserved = architecture >= ARCHITECTURE_OF_RESERVED_SHARED
            resources[name[len(".nv.shared."):]]["shared"] = size - reserved * RESERVED_SHARED
    kernels = {name: found for name, found in resources.items() if "registers" in found}
    for name, found in kernels.items():
        if "local" not in found:
            raise Unreadable(f"{name}: no EIATTR_FRAME_SIZE")
    # What a kernel calls has a frame, too, and no registers of its own.
    called = [found["local"] for name, found in resources.items() if name not in kernels
              and "local" in found]
    for found in kernels.values():
        found["local"] = max([found["local"], *called])
    return kernels
