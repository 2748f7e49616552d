"""What the sections of tools/gpu-check make of what programs print and measure; without a GPU."""

import contextlib
import io
import math
import sys
import unittest
from unittest import mock

import check_losses
import check_memory
import check_nccl
import check_operations
import check_overhead
import check_pytorch
import check_rehearsal
import check_speed
import check_step
import check_sweep
import check_tests
import gpu_check
import results
import shapes
from check import Check, Failed, read_json
from gpu_check_test import Directory
from sections import Sections


class RunningPrograms(Directory):
    """Sections with programs that print what the real ones print."""

    def run_section(self, name, clocks=False):
        found = self.machine_with_gpu()
        found.directory.mkdir(exist_ok=True)
        if clocks:
            with contextlib.redirect_stderr(io.StringIO()):
                Sections("gpu-check", gpu_check.SECTIONS, found).run_one(name, 100.0)
            return read_json(found.directory / f"{name}.json")
        return Check(name, found, found.directory, 100.0).run(gpu_check.SECTIONS[name])

    def test_failed_and_skipped_tests_are_counted(self):
        report = ('{"testsuites": [{"name": "Gelu", "testsuite": ['
                  '{"name": "A", "result": "COMPLETED"},'
                  '{"name": "B", "result": "COMPLETED", "failures": [{"failure": "x"}]},'
                  '{"name": "C", "result": "SKIPPED"}]}]}')
        program = f"#!/bin/sh\nfor a; do case $a in --gtest_output=json:*) echo '{report}' " \
                  ">${a#--gtest_output=json:};; esac; done\nexit 1\n"
        self.script("build/tests/kernels/cuda/gpu_test", program)
        self.script("build/tests/runtime/cuda/gpu_training_test", program)
        self.script("build/tests/runtime/cuda/gpu_nccl_test", program)
        record = self.run_section("tests", clocks=True)
        self.assertEqual([goal["value"] for goal in record["goals"]], ["3 of 9", "3"])
        self.assertFalse(any(goal["met"] for goal in record["goals"]))
        self.assertEqual(record["values"]["gpu_test"]["failed"], ["Gelu.B"])
        self.assertEqual(record["machine"]["gpu"], "NVIDIA H200")

    def test_a_program_that_crashes_fails_its_section(self):
        self.script("build/tests/kernels/cuda/gpu_test", "#!/bin/sh\necho bad driver >&2\nexit 3\n")
        record = self.run_section("tests")
        self.assertEqual(record["status"], "failed")
        self.assertEqual(record["message"], "gpu_test: status 3: bad driver")

    def test_a_program_that_is_missing_fails_its_section(self):
        self.assertIn("ptdp-profile is not built", self.run_section("profile")["message"])

    def test_a_profile_is_kept_and_its_operations_are_judged(self):
        cluster = ('{"gpu": {"measured_operations": ['
                   '{"operation": "copy", "precision": "bf16", "rows": [1, 1],'
                   ' "width": [10, 67108864], "time_us": [1, 100]},'
                   '{"operation": "bias", "precision": "bf16", "rows": [64], "width": [64],'
                   ' "time_us": [4]},'
                   '{"operation": "bias-gelu", "precision": "bf16", "rows": [2, 8192],'
                   ' "width": [2, 8192], "time_us": [1, 200]}]}}')
        self.script("build/tools/ptdp-profile",
                    f"#!/bin/sh\necho \"$@\"\necho '{cluster}' >$2\n")
        record = self.run_section("profile")
        self.assertRegex(record["values"]["summary"], "--device cuda")
        # A copy moves 4 bytes for each of 2^26 elements in 100 us: 2684 GB/s; GELU 6 in 200 us.
        # A bias of 16 KiB stays in the cache and is not judged.
        self.assertEqual(record["values"]["GBps"], {"bias": None, "bias-gelu": mock.ANY})
        self.assertAlmostEqual(record["values"]["GBps"]["bias-gelu"], 2013.26592)
        self.assertEqual([goal["value"] for goal in record["goals"]], [
            "no program tells the times of those that lost", "no case of 128 MiB", "75 %"])
        self.assertTrue((self.directory / "out/cluster.json").exists())

    def test_a_section_that_takes_too_long_goes_on_later(self):
        self.script("build/tools/ptdp-profile", "#!/bin/sh\nexec sleep 60\n")
        found = self.machine_with_gpu()
        found.directory.mkdir()
        check = Check("profile", found, found.directory, 2.0)
        with mock.patch.object(check_operations, "PROFILE_SECONDS", 0.0):
            record = check.run(gpu_check.SECTIONS["profile"])
        self.assertEqual(record["status"], "unfinished")

    def test_suites_run_under_both_tools_of_the_sanitizer(self):
        self.script("build/tests/kernels/cuda/gpu_test", "#!/bin/sh\nprintf 'Gelu.\\n  A\\n'\n")
        self.script("smi/compute-sanitizer", "#!/bin/sh\ncase $2 in\n"
                    "memcheck) echo '========= ERROR SUMMARY: 2 errors' ;;\n"
                    "racecheck) echo '========= RACECHECK SUMMARY: 0 hazards displayed' ;;\nesac\n")
        record = self.run_section("sanitizer")
        self.assertEqual([(goal["value"], goal["met"]) for goal in record["goals"]], [
            ("2 in 1 of 1 suites", False), ("0 in 1 of 1 suites", True)])

    def test_a_sanitizer_that_does_not_work_is_passed_over(self):
        self.script("build/tests/kernels/cuda/gpu_test", "#!/bin/sh\nprintf 'Gelu.\\n  A\\n'\n")
        self.script("smi/compute-sanitizer", "#!/bin/sh\necho Device not supported\nexit 1\n")
        record = self.run_section("sanitizer")
        self.assertEqual((record["status"], record["parts"]), ("skipped", {}))
        self.assertIn("does not work here", record["message"])

    def runs_over_nccl(self, loss):
        """Section `nccl`; a run over NCCL has this loss first, one without it 3."""
        rows = "\n".join(f"{kind},{size},1,2.5,3.5," for kind in check_nccl.KINDS
                         for size in check_nccl.SIZES)
        self.script("build/tests/benchmarks/nccl_benchmark", "#!/bin/sh\ncat <<EOF\n"
                    f"kind,bytes,ranks,measured_us,nccl_us,model_us\n{rows}\nEOF\n")
        self.script("build/tools/ptdp-plan", "#!/bin/sh\nexit 0\n")
        report = ('{"losses": [$loss], "gradient_norms": [1], "measured": {"iteration_time_s": 1},'
                  ' "execution": {"transport": "$over"}}')
        self.script("build/tools/ptdp-run", "#!/bin/sh\nloss=3 over=threads file=\n"
                    f"for a; do [ \"$a\" = nccl ] && loss={loss} over=nccl\n"
                    "case $a in *.run.json) file=$a ;; esac; done\n"
                    f"cat >$file <<EOF\n{report}\nEOF\n")
        return self.run_section("nccl")

    def test_a_run_over_nccl_must_have_the_bits_of_one_without(self):
        record = self.runs_over_nccl(3)
        self.assertEqual([goal["met"] for goal in record["goals"]], [True] * 4, record)
        self.assertEqual(record["values"]["kind, bytes, us, estimated us"][0],
                         ["all-reduce", 8, 2.5, 3.5])

    def test_a_run_over_nccl_with_other_bits_is_told(self):
        record = self.runs_over_nccl(3.0001)
        self.assertEqual([goal["met"] for goal in record["goals"]], [True, False, False, True])

    def test_benchmarks_become_rows(self):
        report = {"benchmarks": [
            {"name": "linear/forward/1x2x3/manual_time", "real_time": 12.34567, "TFLOPs": 700.0,
             "error": -0.1},
            {"name": "copy/8/manual_time", "real_time": 2.0, "GBps": 4000.0}]}
        self.assertEqual(check_operations.benchmark_rows(report), [
            ["linear/forward/1x2x3", 12.346, 700.0, -0.1], ["copy/8", 2.0, 4000.0, None]])

    def test_the_sanitizer_is_read(self):
        self.assertEqual(check_tests.errors_found("x\n========= ERROR SUMMARY: 3 errors\n"), 3)
        self.assertEqual(check_tests.errors_found(
            "========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)"), 1)
        self.assertIsNone(check_tests.errors_found("Device not supported"))
        listing = "Running main() from gmock_main.cc\nGelu.\n  IsSmooth\nLayerNorm.\n  A\n  B\n"
        self.assertEqual(check_tests.suites_of(listing), ["Gelu.", "LayerNorm."])


class Judging(Directory):
    def test_operations_are_counted_by_hand(self):
        # T = 3, h = 2, s = 3, V = 5: 3 * 3 * (24 * 4 + 4 * 3 * 2 + 2 * 2 * 5) = 1260
        shape = {"layers": 1, "hidden": 2, "length": 3, "vocabulary": 5, "batch": 1}
        self.assertEqual(shapes.step_flops(shape, causal=False), 1260)
        self.assertEqual(shapes.step_flops(shape, causal=True), 1152)

    def test_the_sweep_covers_what_is_asked_for(self):
        self.assertGreaterEqual(len(shapes.SWEEP), 20)
        hidden, _, length, microbatch, _, recompute = zip(*shapes.SWEEP)
        self.assertEqual((min(hidden), max(hidden)), (1024, 12288))
        self.assertEqual((min(length), max(length)), (1024, 16384))
        self.assertEqual(set(recompute), {"none", "full"})
        self.assertGreater(len(set(microbatch)), 2)
        self.assertEqual(len(set(shapes.SWEEP)), len(shapes.SWEEP))

    def test_a_step_has_the_tokens_that_are_asked_for(self):
        for stack in shapes.STACKS.values():
            self.assertGreaterEqual(stack["batch"] * stack["length"], 65536)

    def test_the_most_layers_are_found(self):
        for limit in range(12):
            self.assertEqual(check_speed.most_layers(lambda n, limit=limit: n <= limit, 10),
                             min(limit, 10))

    def test_idle_time_is_what_no_lane_fills(self):
        # Busy 0-10, 12-20 and, on another lane, 11-13 and 15-16: idle 10-11 of 20.
        spans = [(0, 10), (12, 8), (11, 2), (15, 1)]
        events = [{"ph": "X", "pid": 0, "ts": start, "dur": length} for start, length in spans]
        events += [{"ph": "M", "pid": 0}, {"ph": "X", "pid": 1, "ts": 10, "dur": 1}]
        self.assertAlmostEqual(check_overhead.idle_share(events), 0.05)

    def test_losses_are_compared_by_the_worst(self):
        difference = check_losses.largest_difference
        self.assertAlmostEqual(difference([2.0, 4.4], [2.0, 4.0]), 0.1)
        self.assertEqual(difference([2.0], [2.0, 4.0]), math.inf)
        self.assertEqual(difference([2.0, math.nan], [2.0, 4.0]), math.inf)
        self.assertEqual(difference([], []), math.inf)

    def test_a_sweep_is_judged_by_mean_and_worst(self):
        def result(time, memory):
            return {"predicted_s": time, "measured_s": 1.0, "predicted_bytes": memory,
                    "measured_bytes": 100.0}
        check = self.check()
        check_sweep.judge(check, {"a": result(1.02, 100), "b": result(0.95, 104),
                                  "c": {"failed": "no"}, "d": {"layers": 0}}, 4)
        self.assertEqual([(goal["value"], goal["met"]) for goal in check.goals], [
            ("2, 1 failed: c", False), ("3.5 %", False), ("5.0 % (b)", True),
            ("4.0 % (b)", False)])

    def test_a_rehearsed_rank_is_judged_by_compute_and_peak(self):
        report = {"basis": {"like_for_like": True, "rates": "this GPU"},
                  "ranks": [{"pipeline_rank": 32, "predicted_compute_s": 1.04,
                             "measured_compute_s": 1.0, "actions": [],
                             "memory": [{"category": "peak", "predicted_bytes": 96,
                                         "measured_bytes": 100}]}],
                  "predicted": {"iteration_time_s": 9.0}, "composed": {"iteration_time_s": 8.0}}
        check = self.check()
        check.machine.rehearses = False
        check_rehearsal.judge(check, "1T", check_rehearsal.kept(report))
        self.assertEqual([goal["met"] for goal in check.goals], [True, True, False, None])
        self.assertIn("+4.0 % of 1.000 s", check.goals[1]["value"])
        report["basis"]["like_for_like"] = False
        check_rehearsal.judge(check, "1T", check_rehearsal.kept(report))
        self.assertFalse(check.goals[4]["met"])
        report["ranks"] *= 2
        with self.assertRaisesRegex(Failed, "expected one rehearsed rank, got 2"):
            check_rehearsal.kept(report)

    def test_a_rehearsal_without_a_profile_is_judged_by_memory_alone(self):
        check = self.check()
        check.machine.rehearses = False
        check_rehearsal.judge(check, "1T", {
            "planned_from": "data sheet", "pipeline_rank": 32, "rates": "of another GPU",
            "like_for_like": False, "compute_s": [2.0, 1.0], "peak_bytes": [96, 100],
            "iteration_s": [9.0, 8.0]})
        self.assertEqual([goal["met"] for goal in check.goals], [None, None, False, None])
        self.assertEqual(check.goals[0]["value"], "data sheet")

    def test_a_step_is_judged_where_it_was_predicted_from_the_profile(self):
        for source, met in (("profile", False), ("data sheet", None)):
            check = self.check()
            check.machine.rehearses = False
            check_step.judge_time(check, "step", {"planned_from": source, "seconds": [1.1, 1.0]})
            self.assertEqual((check.goals[0]["met"], check.goals[0]["value"]),
                             (met, "+10.0 % of 1000 ms"))

    def test_a_term_is_judged_where_its_prediction_has_an_interval(self):
        check = self.check()
        check.machine.rehearses = False
        for interval in ([0.9, 1.2], [1.1, 1.3], None):
            check_step.judge_term(check, "step: matmul", [1.1, 1.0], interval)
        self.assertEqual([(goal["goal"], goal["value"], goal["met"]) for goal in check.goals],
                         [("900 to 1200 ms", "+10.0 % of 1000 ms", True),
                          ("1100 to 1300 ms", "+10.0 % of 1000 ms", False),
                          ("-", "+10.0 % of 1000 ms", None)])

    def test_memory_in_use_is_held_against_the_plan(self):
        check = self.check()
        check_memory.judge_use(check, {"before": 500, "most": 2600, "peak": 2000, "reserve": 150,
                                       "allocated": 1800})
        self.assertEqual([(goal["value"], goal["met"]) for goal in check.goals],
                         [("2100 MiB", False), ("300 of 150 MiB", None)])

    def test_rates_of_products_and_attention_are_counted_by_hand(self):
        # 2*2*3*5 FLOPs in 1 us. Of 2 heads 2 products of 2 * 3^2 * 4 FLOPs, halved by the mask, in
        # 2 us.
        cluster = {"gpu": {"measured_operations": [
            {"operation": "forward-product", "precision": "bf16", "m": [2, 1], "n": [3, 1],
             "k": [5, 1], "time_us": [1, 1]},
            {"operation": "attention", "precision": "bf16", "heads": [2], "seq_length": [3],
             "head_size": [4], "time_us": [2]},
            {"operation": "copy", "precision": "bf16", "rows": [1], "width": [1],
             "time_us": [1]}]}}
        rates = check_operations.operation_tflops(cluster, "bf16")
        self.assertEqual(set(rates), {"forward-product", "attention"})
        self.assertAlmostEqual(rates["forward-product"], 60e-6)
        self.assertAlmostEqual(rates["attention"], 72e-6)

    def test_the_summary_has_ten_lines_at_most(self):
        step = {"planned_from": "profile", "seconds": [0.011, 0.010]}
        tested = {"tests": 50, "failed": ["A.b"], "skipped": 0}
        values = {
            "tests": {"gpu_test": tested, "gpu_nccl_test": tested},
            "step": step,
            "dropout": {"cost": [1.9, 2.0]},
            "profile": {"copy_GBps": 4000.0, "GBps": {"adamw": 3600.0, "bias-gelu": None},
                        "TFLOPs": {"forward-product": 712.3}},
            "memory": {"use": {"before": 500, "most": 12500, "peak": 14000, "reserve": 2400,
                               "allocated": 11000}},
            "speed": {"hidden 4096": {"mfu_causal": 0.601, "layers": 12}},
            "pytorch": {"ratio": 1.061},
            "sweep": {"a": {"time_error": -0.05, "memory_error": 0.0,
                            "worst_term": ["matmul", -0.07]},
                      "b": {"time_error": 0.01, "memory_error": 0.002, "worst_term": None}}}
        records = {name: {"status": "done", "values": found} for name, found in values.items()}
        records["losses"] = {"status": "failed", "goals": []}
        lines = results.summary(self.check().machine, records).splitlines()
        self.assertEqual(len(lines), 10)
        for line, words in zip(lines, (
                "GPU", "100 tests, 2 failed", "10 ms, +10.0 % predicted from the profile",
                "60.1 % (12 layers); 1.061x PyTorch", "3.0 % off on average, 5.0 % at worst (a: "
                "matmul -7.0 %)", "AdamW 90 % of it", "forward-product 712", "12000 MiB in use of "
                "14000 planned; 1000 beside allocations of 2400", "not done: losses (failed)",
                "results.json")):
            self.assertIn(words, line)

    def test_the_worst_term_is_that_of_most_time(self):
        terms = {"matmul": [1.1, 1.0], "optimizer": [0.02, 0.01], "bubble": [0.0, 0.0]}
        self.assertEqual(check_sweep.worst_term(terms)[0], "matmul")
        self.assertAlmostEqual(check_sweep.worst_term(terms)[1], 0.1)
        self.assertIsNone(check_sweep.worst_term({"bubble": [0.0, 0.0]}))

    def test_a_configuration_that_fails_is_a_result(self):
        with mock.patch.object(check_sweep, "run_configuration", side_effect=Failed("status 4")):
            self.assertEqual(check_sweep.attempt(None, "a", ()), {"failed": "status 4"})

    def test_memory_is_told_by_category(self):
        message = ("rank 0 had allocated 2.1 GB at most: weights 0.5 GB, gradients 0.5 GB, "
                   "optimizer 1 GB, the rest 0.1 GB; predicted 3.5 GB: weights 0.5 GB, gradients "
                   "0.5 GB, optimizer 1 GB, activations 1.4 GB, buffers 0 B\nptdp-run: rank 0: out "
                   "of memory")
        judged = check_memory.judged(4, message, 2.0)
        self.assertEqual(judged["actual"], ["weights", "gradients", "optimizer"])
        self.assertEqual(judged["predicted"], list(check_memory.CATEGORIES))
        self.assertTrue(judged["out_of_memory"])

    def test_pytorch_is_compared_by_medians(self):
        check = self.check()
        check_pytorch.judge(check, {"stack": "s", "layers": 3, "mode": "m", "turns": {
            "ptdp": [2.0, 4.0], "pytorch": [3.0, 9.0, 3.3]}})
        self.assertEqual((check.goals[0]["value"], check.goals[0]["met"]), ("1.100x", True))

    def test_pytorch_gets_fewer_layers_until_it_fits(self):
        check = self.check()
        run = mock.Mock(side_effect=lambda _1, _2, layers, _3, _4:
                        {"seconds": layers} if layers <= 15 else None)
        with mock.patch.object(check_pytorch, "run_pytorch", run):
            self.assertEqual(check_pytorch.fit(check, None, 20, 1, "m"), (14, {"seconds": 14}))
            self.assertEqual(check_pytorch.fit(check, None, 14, 1, "m")[0], 14)
        self.assertEqual(run.call_count, 3)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
