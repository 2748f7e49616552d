"""How tools/gpu-check finds a machine, runs and resumes sections, and packs; without a GPU."""

import contextlib
import io
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import check_machine
import gpu_check
import machine
import pack
from check import SECTION_SECONDS, Check, Failed, Skipped, Unfinished, read_json, write_json
from sections import Sections

SMI = """#!/bin/sh
case "$*" in
  *-q) echo "    CUDA Version                          : 13.0" ;;
  *"-l 2"*) echo "1980, 3201, 650.5, 55, 1000"; exec sleep 60 ;;
  *name*) echo "NVIDIA H200, 580.1, 143771" ;;
esac
"""


class Directory(unittest.TestCase):
    """A test with an empty directory."""

    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.directory = pathlib.Path(temporary.name)

    def script(self, path, text):
        path = self.directory / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
        return path

    def machine_with_gpu(self):
        self.script("smi/nvidia-smi", SMI)
        environment = {"PATH": f"{self.directory}/smi:{os.environ['PATH']}"}
        return machine.Machine(self.directory / "out", environment=environment,
                               build=self.directory / "build")

    def check(self, name="a", seconds=100.0):
        return Check(name, machine.Machine(self.directory, rehearses=True), self.directory, seconds)


class FindingTheMachine(Directory):
    def test_the_gpu_is_what_nvidia_smi_says(self):
        found = self.machine_with_gpu()
        self.assertEqual(found.gpu, {"gpu": "NVIDIA H200", "driver": "580.1", "memory_MiB": 143771,
                                     "cuda": "13.0"})
        self.assertEqual(found.cluster_flags(), ["--cluster", "hgx-h200", "--stack", "ptdp-cuda"])
        self.assertEqual(found.peak_flops(), 989.4e12)

    def test_a_measured_cluster_is_preferred(self):
        found = self.machine_with_gpu()
        found.measured_cluster().parent.mkdir()
        found.measured_cluster().write_text("{}")
        self.assertEqual(found.cluster_flags(), ["--cluster", self.directory / "out/cluster.json"])

    def test_no_gpu_is_visible_where_none_is_to_be(self):
        self.script("smi/nvidia-smi", SMI)
        environment = {"PATH": f"{self.directory}/smi:{os.environ['PATH']}"}
        for visible in ("", "-1"):
            self.assertEqual(machine.find_gpu(environment | {"CUDA_VISIBLE_DEVICES": visible}), {})
        self.assertIn("gpu", machine.find_gpu(environment | {"CUDA_VISIBLE_DEVICES": "0,1"}))

    def test_a_driver_that_fails_is_no_gpu(self):
        self.script("smi/nvidia-smi", "#!/bin/sh\necho failed\nexit 9\n")
        environment = {"PATH": f"{self.directory}/smi:{os.environ['PATH']}"}
        self.assertEqual(machine.find_gpu(environment), {})

    def test_names_are_matched_by_word(self):
        self.assertEqual(machine.word_of("NVIDIA A100-SXM4-80GB"), "a100")
        self.assertEqual(machine.word_of("NVIDIA GH200 480GB"), "")

    def test_libraries_are_of_the_first_place_that_has_all(self):
        toolkit = self.directory / "cuda" / "lib64"
        python = self.directory / "site" / "nvidia" / "cu13" / "lib"
        cudnn = self.directory / "site" / "nvidia" / "cudnn" / "lib"
        for folder in (toolkit, python, cudnn):
            folder.mkdir(parents=True)
        of_cudnn = "libcudnn.so.9"
        for name in machine.NEEDED_LIBRARIES:
            if name != of_cudnn:
                (toolkit / name).touch()
                (python / name).touch()
        (cudnn / of_cudnn).touch()
        roots = [str(self.directory / "site")]
        with mock.patch.object(machine, "toolkit_directories", return_value=[[toolkit]]):
            self.assertEqual(machine.find_libraries({}, roots), [python, cudnn])
            (toolkit / of_cudnn).touch()
            self.assertEqual(machine.find_libraries({}, roots), [toolkit])

    def test_nccl_is_found_where_pytorch_has_it(self):
        folder = self.directory / "site/nvidia/nccl/lib"
        folder.mkdir(parents=True)
        roots = [str(self.directory / "site")]
        with mock.patch.object(machine, "toolkit_directories", return_value=[]), \
                mock.patch.object(machine, "output_of", return_value=""):
            self.assertIsNone(machine.find_nccl({}, roots))
            (folder / machine.NCCL).touch()
            self.assertEqual(machine.find_nccl({}, roots), folder)
        # What ldconfig knows needs no folder.
        listing = "\tlibnccl.so.2 (libc6,x86-64) => /lib/libnccl.so.2\n"
        with mock.patch.object(machine, "output_of", return_value=listing):
            self.assertIsNone(machine.find_nccl({}, roots))

    def test_programs_find_nccl_behind_the_other_libraries(self):
        found = self.machine_with_gpu()
        found.libraries, found.nccl = ["/a"], pathlib.Path("/nccl")
        self.assertEqual(found.program_environment()["LD_LIBRARY_PATH"], "/a:/nccl")

    def test_results_tell_whose_libraries_were_used_but_not_where_they_lie(self):
        python = "/a/lib/python3/site-packages/nvidia/cu13/lib"
        with mock.patch.object(machine, "output_of", return_value=""):
            for directories, source in (([], "none"), (["/usr/local/cuda/lib64"], "toolkit"),
                                        ([python], "PyTorch's"), ([python, "/b"], "mixed")):
                self.assertEqual(machine.library_source(directories, {}), source)
        known = "".join(f"\t{name} (libc6,x86-64) => /lib/{name}\n"
                        for name in machine.NEEDED_LIBRARIES)
        with mock.patch.object(machine, "output_of", return_value=known):
            self.assertEqual(machine.library_source([], {}), "the system's")

    def test_libraries_are_found_wherever_programs_find_them(self):
        blas, blas_lt, cudnn, nvrtc = machine.NEEDED_LIBRARIES
        told, own = self.directory / "told", self.directory / "own"
        for folder, name in ((told, blas), (own, blas_lt)):
            folder.mkdir()
            (folder / name).touch()
        found = self.machine_with_gpu()
        found.libraries, found.nccl = [str(told)], None
        found.environment["LD_LIBRARY_PATH"] = f"/nowhere:{own}"
        listing = (f"2 libs found in cache\n\t{cudnn} (libc6,x86-64) => /usr/lib/{cudnn}\n"
                   f"\t{nvrtc} (libc6) => /usr/lib32/{nvrtc}\n")
        with mock.patch.object(machine, "output_of", return_value=listing):
            self.assertEqual(check_machine.libraries_of(found), [blas, blas_lt, cudnn])
        with mock.patch.object(machine, "output_of", return_value=""):  # ldconfig cannot be run
            self.assertEqual(check_machine.libraries_of(found), [blas, blas_lt])

    def test_a_toolkit_is_found_by_its_variable(self):
        places = machine.toolkit_directories({"CUDA_HOME": "/opt/cuda"})
        self.assertEqual(places[0][0], pathlib.Path("/opt/cuda/lib64"))

    def test_clocks_are_summed_up(self):
        text = "1000, 3201, 100.0, 40, 10\n1980, 3201, [N/A], 50, 30\n1500, 3201, 300.0, 45, 20\n19"
        self.assertEqual(machine.summarize_clocks(text), {
            "clocks.sm": [1000, 1500, 1980], "clocks.mem": [3201, 3201, 3201],
            "power.draw": [100, 200, 300], "temperature.gpu": [40, 45, 50],
            "memory.used": [10, 20, 30]})


class RunningASection(Directory):
    def test_what_is_remembered_is_not_computed_again(self):
        computed = []

        def interrupted(check):
            check.remember("one", lambda: computed.append(1) or 5)
            raise Unfinished("no time")

        def whole(check):
            check.goal("sum", "7", "7", check.remember("one", lambda: 0) + 2 == 7)

        self.assertEqual(self.check().run(interrupted)["status"], "unfinished")
        record = self.check().run(whole)
        self.assertEqual(record["status"], "done")
        self.assertTrue(record["goals"][0]["met"])
        self.assertEqual(computed, [1])

    def test_a_part_is_not_begun_without_time_for_it(self):
        record = self.check(seconds=10.0).run(lambda check: check.remember("a", lambda: 1, 60.0))
        self.assertEqual((record["status"], record["parts"]), ("unfinished", {}))

    def test_a_section_that_never_gets_on_has_failed(self):
        def stuck(_):
            raise Unfinished("in a")
        self.assertEqual(self.check(seconds=SECTION_SECONDS).run(stuck)["status"],
                         "failed")

    def test_faults_are_kept_with_their_message(self):
        for fault, status in ((Failed("why"), "failed"), (Skipped("why"), "skipped"),
                              (KeyError("why"), "failed")):
            def function(_, fault=fault):
                raise fault
            record = self.check().run(function)
            self.assertEqual(record["status"], status)
            self.assertIn("why", record["message"])
            self.assertEqual(read_json(self.directory / "a.json")["status"], status)

    def test_rows_of_numbers_are_lines_and_come_back(self):
        value = {"rows": [["a [ b", 1.5], ["c", 2]], "empty": [], "text": "x\n]"}
        write_json(self.directory / "x.json", value)
        self.assertEqual(read_json(self.directory / "x.json"), value)
        self.assertIn('["c", 2]', (self.directory / "x.json").read_text())

    def test_half_a_file_is_none(self):
        (self.directory / "x.json").write_text('{"a": ')
        self.assertEqual(read_json(self.directory / "x.json"), {})


class RunningAll(Directory):
    """With sections of our own."""

    def run_all(self, sections, *words):
        output, errors = io.StringIO(), io.StringIO()
        budgets = {name: 100.0 for name in sections}
        with mock.patch.object(gpu_check, "SECTIONS", sections), \
                mock.patch.object(gpu_check, "BUDGETS", budgets), \
                contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
            status = gpu_check.main([str(self.directory), "--rehearse", *words])
        return status, output.getvalue(), errors.getvalue()

    @staticmethod
    def met(check):
        check.goal("speed", ">= 1", "2", True)

    @staticmethod
    def missed(check):
        check.goal("size", "<= 1", "2", False)

    @staticmethod
    def broken(_):
        raise Failed("it broke")

    def test_statuses_say_what_became_of_it(self):
        self.assertEqual(self.run_all({"a": self.met})[0], 0)
        self.assertEqual(self.run_all({"a": self.met, "b": self.missed})[0], 6)
        self.assertEqual(self.run_all({"c": self.broken, "b": self.missed})[0], 4)

    def test_a_failure_does_not_stop_the_others_and_is_tried_again(self):
        _, output, errors = self.run_all({"a": self.broken, "b": self.met})
        self.assertRegex((self.directory / "table.txt").read_text(),
                         r"a +it broke +failed\nb +speed +>= 1 +2 +yes\n")
        self.assertIn("not done: a (failed)", output)
        self.assertIn("b done", errors)
        status, output, errors = self.run_all({"a": self.met, "b": self.broken})
        self.assertEqual(status, 0)
        self.assertIn("a done", errors)
        self.assertNotIn("gpu-check: b", errors)

    def test_what_is_done_is_run_again_when_told(self):
        self.run_all({"a": self.met})
        self.assertEqual(self.run_all({"a": self.missed})[0], 0)
        self.assertEqual(self.run_all({"a": self.missed}, "--again")[0], 6)

    def test_only_chosen_sections_are_run_and_judged(self):
        status, output, _ = self.run_all({"a": self.met, "b": self.missed}, "--section", "a")
        self.assertEqual(status, 0)
        self.assertNotIn("size", (self.directory / "table.txt").read_text())
        self.assertRegex(output, r"missed +nothing\n")

    def test_nothing_is_begun_without_time(self):
        status, output, errors = self.run_all({"a": self.met}, "--seconds", "1")
        self.assertEqual(status, 4)
        self.assertIn("not run", output)
        self.assertIn("not run", (self.directory / "table.txt").read_text())
        self.assertIn("no time left", errors)

    def test_what_a_section_leaves_of_its_time_the_next_ones_may_take(self):
        given = []

        def note(check):
            given.append(check.seconds)
            check.goal("a", "", "", True)

        found = machine.Machine(self.directory, rehearses=True)
        with contextlib.redirect_stderr(io.StringIO()):
            Sections("t", {"a": note, "b": note, "c": note}, found,
                     budgets={"a": 10.0, "b": 30.0, "c": 60.0}).run(seconds=100.0)
        for seconds, expected in zip(given, (10.0, 40.0, 100.0)):
            self.assertAlmostEqual(seconds, expected, delta=2.0)

    def test_a_section_alone_has_all_the_time(self):
        given = []
        found = machine.Machine(self.directory, rehearses=True)
        with contextlib.redirect_stderr(io.StringIO()):
            Sections("t", {"a": lambda check: given.append(check.seconds)}, found,
                     budgets={"a": 10.0}).run(["a"], seconds=100.0)
        self.assertAlmostEqual(given[0], 100.0, delta=2.0)

    def test_the_budgets_of_a_short_check_are_eight_minutes(self):
        self.assertEqual(sum(gpu_check.BUDGETS.values()), gpu_check.SHORT_SECONDS)
        self.assertLessEqual(gpu_check.SHORT_SECONDS, 480.0)
        self.assertLessEqual(set(gpu_check.BUDGETS), set(gpu_check.SECTIONS))

    def test_results_are_one_document(self):
        self.run_all({"a": self.met, "b": self.missed})
        document = read_json(self.directory / "results.json")
        self.assertEqual((document["status"], document["runs"]), (6, []))
        self.assertEqual(document["sections"]["b"]["goals"][0]["met"], False)

    def test_without_a_gpu_it_says_so(self):
        command = [pathlib.Path(__file__).parents[3] / "tools/gpu-check", self.directory]
        done = subprocess.run(command, capture_output=True, text=True, check=False,
                              env=os.environ | {"CUDA_VISIBLE_DEVICES": ""})
        self.assertEqual((done.returncode, done.stdout), (4, ""))
        self.assertIn("no GPU here", done.stderr)


class Packing(Directory):
    """With a program of the system's in place of ours."""

    def build(self):
        for name in pack.PROGRAMS:
            folder = self.directory / "build" / "tools"
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copy(shutil.which("true"), folder / name)

    def pack(self, directory):
        output, errors = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
            status = gpu_check.main(["--pack", str(directory), "--build",
                                     str(self.directory / "build")])
        return status, output.getvalue(), errors.getvalue()

    def test_what_is_packed_runs_where_it_is_unpacked(self):
        self.build()
        packed = self.directory / "packed"
        for _ in range(2):  # the second one replaces the first
            status, output, errors = self.pack(packed)
            self.assertEqual((status, errors), (0, ""))
        self.assertIn("bin/ptdp-run", output)
        self.assertTrue((packed / "profiles/gpus/h200-141gb-sxm.json").exists())
        for tool in ("gpu-check", "multi-gpu-check"):
            done = subprocess.run([packed / "tools" / tool, self.directory / "out"],
                                  capture_output=True, text=True, check=False,
                                  env=os.environ | {"CUDA_VISIBLE_DEVICES": ""})
            self.assertEqual(done.returncode, 4, done.stderr)
            self.assertIn("no GPU here", done.stderr)

    def test_too_much_is_refused(self):
        self.build()
        with mock.patch.object(pack, "LARGEST", 1 << 10):
            status, _, errors = self.pack(self.directory / "packed")
        self.assertEqual(status, 5)
        self.assertIn("expected at most", errors)

    def test_a_build_that_lacks_a_program_is_refused(self):
        status, _, errors = self.pack(self.directory / "packed")
        self.assertEqual(status, 2)
        self.assertIn("gpu_test", errors)

    def test_a_directory_with_something_else_is_left_alone(self):
        self.build()
        (self.directory / "mine").mkdir()
        (self.directory / "mine/file").touch()
        self.assertEqual(self.pack(self.directory / "mine")[0], 2)
        self.assertTrue((self.directory / "mine/file").exists())

    def test_libraries_of_the_system_and_of_cuda_stay(self):
        printed = ("\tlinux-vdso.so.1 (0x1)\n\tlibm.so.6 => /lib/libm.so.6 (0x2)\n"
                   "\tlibcublasLt.so.13 => not found\n\tlibbenchmark.so.1debian => /l/b (0x3)\n")
        libraries = pack.parse_ldd(printed)
        self.assertEqual(libraries, [("libm.so.6", "/lib/libm.so.6"), ("libcublasLt.so.13", ""),
                                     ("libbenchmark.so.1debian", "/l/b")])
        self.assertEqual([name for name, _ in libraries if not pack.FOUND_THERE.match(name)],
                         ["libbenchmark.so.1debian"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
