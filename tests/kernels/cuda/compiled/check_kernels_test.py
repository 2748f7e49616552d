"""How check_kernels.py reads compiled kernels and judges them, on small files made here."""

import contextlib
import io
import json
import pathlib
import struct
import sys
import tempfile
import unittest
from unittest import mock

import check_kernels
import fat_binary
import occupancy
import ptx

GPUS = occupancy.read_gpus(pathlib.Path(__file__).parent.parent / "gpus")
NAME = "_ZN4ptdp4cuda9norm_rowsIfLi2ELb1EEEvPf"  # norm_rows<float, 2, true>

# Architecture, threads, registers, bytes of shared memory, blocks: of 4320 combinations by
# cudaOccMaxActiveBlocksPerMultiprocessor of cuda_occupancy.h, CUDA 13.0, with the largest share of
# shared memory.
RESIDENT = """
80 32 32 0 32      80 256 64 0 4       80 256 65 0 3       80 1024 64 0 1     80 1024 65 0 0
80 256 32 34880 4  80 256 128 52224 2  80 128 40 98304 1   80 32 4 166912 1   80 32 4 166913 0
90 32 255 0 8      90 96 33 0 16       90 256 40 0 6       90 256 88 0 2      90 384 80 34880 2
90 256 32 52224 4  90 256 166 52224 1  90 1000 32 1024 2   90 256 228 0 1     90 512 48 8192 2
100 32 4 232448 1  100 32 4 232449 0   100 256 24 1 8      100 1024 33 0 1    100 96 16 4096 21
"""


def attribute(number, *words):
    return struct.pack(f"<BBH{len(words)}I", fat_binary.SIZED, number, 4 * len(words), *words)


def elf_of(registers=32, local=0, threads=256, shared=0, called=None, name=NAME):
    """An ELF file with one kernel, laid out as ptxas does, and a function that it may call."""
    strings = b"\0" + name.encode() + b"\0helper\0"
    symbols = bytes(24) + struct.pack("<I20x", 1) + struct.pack("<I20x", len(name) + 2)
    info = struct.pack("<BBH", 3, 0x1B, 255) if registers is None else attribute(0x2F, 1, registers)
    info += attribute(0x11, 1, local) + (b"" if called is None else attribute(0x11, 2, called))
    of_kernel = struct.pack("<BBH", 3, 0x1B, 255)
    of_kernel += attribute(0x05, threads, 1, 1) if threads else b""
    bodies = [("", 0, b"", 0), (".strtab", 3, strings, 0), (".symtab", 2, symbols, 0),
              (".nv.info", 0x70000000, info, 0), (f".nv.info.{name}", 0x70000000, of_kernel, 0),
              *([(f".nv.shared.{name}", 8, b"", shared)] if shared else [])]
    names = "\0".join(section[0] for section in bodies).encode() + b"\0.shstrtab\0"
    bodies.append((".shstrtab", 3, names, 0))
    content, headers = b"", b""
    for section, kind, body, size in bodies:
        at = names.index(section.encode() + b"\0") if section else 0
        headers += struct.pack("<IIQQQQIIQQ", at, kind, 0, 0, 64 + len(content), size or len(body),
                               0, 0, 1, 0)
        content += body
    header = b"\x7fELF\x02\x01\x01" + bytes(33) + struct.pack("<Q", 64 + len(content))
    header += bytes(10) + struct.pack("<HHH", 64, len(bodies), len(bodies) - 1)
    return header.ljust(64, b"\0") + content + headers


def fat_binary_of(*codes):
    """A fat binary with (kind, architecture, body)s."""
    entries = b""
    for kind, architecture, body in codes:
        header = struct.pack("<HHIQ", kind, 0x101, 64, len(body)).ljust(28, b"\0")
        entries += (header + struct.pack("<I", architecture)).ljust(64, b"\0") + body
    return fat_binary.MAGIC + struct.pack("<HHQ", 1, 16, len(entries)) + entries


def ptx_of(body, name=NAME):
    return (f".version 9.0\n.target sm_90\n.visible .entry {name}(\n.param .u64 p\n)\n"
            f"{{\n{body}\n}}\n")


VECTORS = """ld.global.nc.v4.u32 {%r1, %r2, %r3, %r4}, [%rd1];
    st.global.v2.b64 [%rd2+16], {%rd3, %rd4};"""
# What zstd's files begin with.
COMPRESSED = b"\x28\xb5\x2f\xfd"


class Reader(unittest.TestCase):
    def test_reads_what_a_kernel_uses(self):
        data = b"archive" + fat_binary_of((2, 90, elf_of(40, 16, 512, 1024 + 4096)))
        code, = fat_binary.codes(data)
        self.assertEqual((code.kind, code.architecture), (2, 90))
        self.assertEqual(fat_binary.kernels_of(code.body, 90), {
            NAME: {"registers": 40, "local": 16, "threads": 512, "shared": 4096}})

    def test_counts_all_shared_memory_before_sm_90(self):
        found = fat_binary.kernels_of(elf_of(shared=4096), 80)
        self.assertEqual(found[NAME]["shared"], 4096)

    def test_counts_the_frames_of_called_functions(self):
        found = fat_binary.kernels_of(elf_of(local=8, called=48), 90)
        self.assertEqual(found[NAME]["local"], 48)
        self.assertEqual(list(found), [NAME])

    def test_finds_all_codes_of_all_fat_binaries(self):
        data = fat_binary_of((1, 90, ptx_of("").encode()), (2, 80, elf_of())) + b"x" * 5
        data += fat_binary_of((2, 100, COMPRESSED + b"more"), (1, 100, COMPRESSED))
        self.assertEqual([(code.kind, code.architecture, code.body is None)
                          for code in fat_binary.codes(data)],
                         [(1, 90, False), (2, 80, False), (2, 100, True), (1, 100, True)])

    def test_refuses_what_is_cut_off(self):
        data = fat_binary_of((2, 90, elf_of()))
        with self.assertRaisesRegex(fat_binary.Unreadable, "fat binary at 0: .* expected at most"):
            list(fat_binary.codes(data[:-1]))
        longer = bytearray(data)
        struct.pack_into("<Q", longer, 16 + 8, len(data))
        with self.assertRaisesRegex(fat_binary.Unreadable, "entry at 16: .* expected at most"):
            list(fat_binary.codes(bytes(longer)))


class Accesses(unittest.TestCase):
    def test_are_read_with_their_widths_and_addresses(self):
        body = """ld.param.u64 %rd1, [p];
            ld.global.nc.v4.u32 {%r1, %r2, %r3, %r4}, [%rd1+-32];
            @%p1 st.global.b16 [%rd2+2], %rs1;
            ld.volatile.global.f64 %fd1, [%rd2];
            ld.global.L1::no_allocate.v2.b64 {%rd5, %rd6}, [%rd7];
            st.shared.v4.f32 [%r9], {%f1, %f2, %f3, %f4};
            ld.local.u32 %r1, [%rd1]; ld.shared::cta.u32 %r1, [%r2];
            st.v2.f32 [%rd8], {%f1, %f2};"""
        self.assertEqual(ptx.entries(ptx_of(body))[NAME], [
            ("ld", 16, "%rd1", -32), ("st", 2, "%rd2", 2), ("ld", 8, "%rd2", 0),
            ("ld", 16, "%rd7", 0), ("st", 8, "%rd8", 0)])

    def test_belong_to_the_kernel_they_are_in(self):
        text = ptx_of(VECTORS) + ptx_of("ld.global.u8 %rs1, [%rd1];", "other")
        self.assertEqual({name: len(found) for name, found in ptx.entries(text).items()},
                         {NAME: 2, "other": 1})

    def test_of_a_vector_in_pieces_are_told(self):
        def found(size, offsets, base="%rd1"):
            return [ptx.Access("ld", size, base, offset) for offset in offsets]
        self.assertEqual(ptx.pieces(found(4, [0, 4, 8, 12])), ["4 ld of 4 bytes in a row"])
        self.assertEqual(ptx.pieces(found(8, [24, 16])), ["2 ld of 8 bytes in a row"])
        self.assertEqual(ptx.pieces(found(2, range(0, 32, 2))), 
                         ["2 times 8 ld of 2 bytes in a row"])
        # With a gap, from several registers, or too few: scalars.
        self.assertEqual(ptx.pieces(found(4, [0, 4, 8, 16])), [])
        self.assertEqual(ptx.pieces(found(4, [0, 4]) + found(4, [8, 12], "%rd2")), [])
        self.assertEqual(ptx.pieces(found(16, [0, 16, 32])), [])
        # Halves whose addresses are computed one by one.
        apart = [ptx.Access("st", 2, f"%rd{i}", 0) for i in range(8)]
        self.assertEqual(ptx.pieces(apart), ["8 st of 2 bytes"])
        self.assertEqual(ptx.pieces(apart[1:]), [])


class Occupancy(unittest.TestCase):
    def test_is_that_of_cuda(self):
        numbers = [int(word) for word in RESIDENT.split()]
        for architecture, *uses, blocks in zip(*[iter(numbers)] * 5):
            self.assertEqual(occupancy.blocks_at_once(GPUS[architecture], *uses), blocks,
                             (architecture, uses))


def read_rules():
    return json.loads((check_kernels.HERE / "rules.json").read_text())


def rules_of(**changed):
    lists = ["narrow", "both", "scalar", "dynamic_shared_bytes", "local_bytes", "least_warps"]
    return check_kernels.Rules(
        {**{name: [] for name in lists}, "least_warps_otherwise": 16, **changed})


def kernel_of(accesses=(), **changed):
    kernel = check_kernels.Kernel("k<float, 4>", 90, 32, 0, 0, 256,
                                  [ptx.Access(*access) for access in accesses])
    return kernel._replace(**changed)


def failures(kernel, **rules):
    return list(check_kernels.failures([kernel], rules_of(**rules), GPUS))


class Judgement(unittest.TestCase):
    def test_passes_a_kernel_of_vectors_with_all_warps(self):
        vectors = [("ld", 16, "%rd1", 0), ("st", 16, "%rd2", 0), ("ld", 4, "%rd3", 0)]
        self.assertEqual(failures(kernel_of(vectors)), [])

    def test_fails_local_memory(self):
        self.assertEqual(failures(kernel_of(local=24)), [
            "k<float, 4>, sm_90: 24 bytes of local memory a thread, expected at most 0"])
        allowed = [{"kernel": "k<.*", "bytes": 24}]
        self.assertEqual(failures(kernel_of(local=24), local_bytes=allowed), [])

    def test_fails_too_few_warps(self):
        least = [{"kernel": "k<float, \\d>", "90": 32}]
        self.assertEqual(failures(kernel_of(registers=66), least_warps=least), [
            "k<float, 4>, sm_90: 24 resident warps (66 registers, 0 bytes of shared memory, "
            "256 threads a block), expected at least 32"])
        self.assertEqual(failures(kernel_of(registers=66)), [])
        self.assertEqual(len(failures(kernel_of(registers=128, architecture=80),
                                      least_warps_otherwise=17)), 1)

    def test_counts_dynamic_shared_memory(self):
        dynamic = [{"kernel": "k<.*", "bytes": 200000}]
        self.assertIn("8 resident warps", failures(kernel_of(), dynamic_shared_bytes=dynamic)[0])
        self.assertIn("cannot be launched on NVIDIA A100", failures(
            kernel_of(architecture=80), dynamic_shared_bytes=dynamic)[0])

    def test_fails_a_kernel_that_declares_more_beside_dynamic_memory_than_launches_expect(self):
        dynamic = [{"kernel": "k<.*", "bytes": 4096}]
        self.assertEqual(failures(kernel_of(shared=8192), dynamic_shared_bytes=dynamic), [])
        self.assertEqual(failures(kernel_of(shared=8193)), [])
        self.assertIn("declares 8193 bytes", failures(
            kernel_of(shared=8193), dynamic_shared_bytes=dynamic)[0])

    def test_fails_what_no_launch_of_a_full_block_can_have(self):
        self.assertIn("cannot be launched with 1024 threads", failures(
            kernel_of(registers=65, threads=None))[0])
        self.assertIn("cannot be launched on", failures(kernel_of(registers=65, threads=1024))[0])

    def test_fails_scalar_accesses_in_place_of_vectors(self):
        scalars = [("ld", 2, "%rd1", 2 * i) for i in range(8)]
        self.assertEqual(failures(kernel_of(scalars)), [
            "k<float, 4>, sm_90: no access of 16 bytes, but 8 ld of 2 bytes",
            "k<float, 4>, sm_90: 8 ld of 2 bytes in a row, expected one of 16 bytes"])
        partly = scalars + [("st", 16, "%rd2", 0)]
        self.assertEqual(failures(kernel_of(partly)), [
            "k<float, 4>, sm_90: 8 ld of 2 bytes in a row, expected one of 16 bytes"])

    def test_lets_exceptions_pass_as_far_as_they_go(self):
        scalars = [("ld", 4, "%rd1", 4 * i) for i in range(4)]
        row = [{"kernel": "k<.*"}]
        self.assertEqual(failures(kernel_of(scalars), narrow=row), [])
        self.assertEqual(failures(kernel_of(scalars), scalar=row), [])
        self.assertEqual(failures(kernel_of(scalars), both=row), [
            f"k<float, 4>, sm_90: no {operation} of 16 bytes, expected some beside those of "
            "elements" for operation in ("ld", "st")])
        some = [{"kernel": "k<.*", "accesses": "st of 4 bytes"}]
        mixed = [("st", 16, "%rd2", 0)] + scalars
        self.assertEqual(len(failures(kernel_of(mixed), scalar=some)), 1)
        self.assertEqual(len(failures(kernel_of(scalars, name="other"), narrow=row)), 2)


class Program(unittest.TestCase):
    def run_on(self, data, *flags):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "kernels.a")
            file.write_bytes(data)
            out = io.StringIO()
            with contextlib.redirect_stdout(out), mock.patch.object(
                    sys, "argv", ["check_kernels.py", *flags, str(file)]):
                return check_kernels.main(), out.getvalue()

    def test_passes_with_a_table(self):
        data = fat_binary_of((1, 90, ptx_of(VECTORS).encode()), (2, 90, elf_of(40, shared=2048)))
        status, text = self.run_on(data, "--needs-ptx")
        self.assertEqual(status, 0, text)
        self.assertRegex(
            text, r"(?m)^norm_rows<float, 2, true> +90 +40 +0 +1024 +256 +6 +48 +2 +0$")
        self.assertIn("1 kernels of sm 90, 1 with PTX: 0 failures", text)

    def test_fails_a_spill_by_name(self):
        status, text = self.run_on(fat_binary_of((2, 90, elf_of(local=8))))
        self.assertEqual(status, 1)
        self.assertIn("norm_rows<float, 2, true>, sm_90: 8 bytes of local memory", text)

    def test_is_skipped_where_nothing_can_be_read(self):
        data = fat_binary_of((2, 90, COMPRESSED))
        status, text = self.run_on(data)
        self.assertEqual(status, check_kernels.SKIPPED)
        self.assertIn("kernels.a: compressed machine code, not read", text)
        self.assertEqual(self.run_on(data, "--needs-ptx")[0], 1)

    def test_fails_without_ptx_only_where_it_is_needed(self):
        data = fat_binary_of((2, 90, elf_of()))
        self.assertEqual(self.run_on(data)[0], 0)
        status, text = self.run_on(data, "--needs-ptx")
        self.assertEqual(status, 1)
        self.assertIn("1 kernels and PTX of none", text)

    def test_names_an_architecture_that_it_does_not_know(self):
        status, text = self.run_on(fat_binary_of((2, 120, elf_of())))
        self.assertEqual(status, 1)
        self.assertIn("sm_120: no GPU of gpus/ has it", text)

    def test_rules_tell_unaligned_kernels_by_their_names(self):
        rules = check_kernels.Rules(read_rules())
        for name, is_narrow in [
                ("matrix_kernel<DropoutBody<BFloat16, 8, false> >", False),
                ("matrix_kernel<DropoutBody<BFloat16, 1, true> >", True),
                ("matrix_kernel<ActivationBody<TanhGelu, float, 1, true> >", True),
                ("map_kernel<8, SumOfTwo<BFloat16>, BFloat16, BFloat16, BFloat16>", False),
                ("map_kernel<1, Constant<int>, int>", True),
                ("norm_short_vectors<float, 1, true>", False),
                ("norm_short_vectors<float, 1, false>", True),
                ("sum_and_norm_rows<Float16, 4, true, false>", False),
                ("sum_and_norm_rows<Float16, 0, false, true>", True),
                ("maxima_of_rows<float, true>", False), ("maxima_of_rows<float, false>", True),
                ("chunk_sums_kernel<Float16, 8>", False), ("add_pieces_kernel<1>", True),
                ("step_slices<float>", False)]:
            self.assertEqual(rules.row("narrow", name) is not None, is_narrow, name)

    def test_rules_have_reasons(self):
        rules = read_rules()
        for kind, rows in rules.items():
            for row in rows if isinstance(rows, list) else []:
                self.assertTrue(row.get("why"), (kind, row))


if __name__ == "__main__":
    unittest.main()
