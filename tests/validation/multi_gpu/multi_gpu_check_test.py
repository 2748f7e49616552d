"""What tools/multi-gpu-check makes of machines, of what programs print and of how they end; with
programs and GPUs that are none."""

import contextlib
import io
import os
import pathlib
import shutil
import socket
import sys
import tempfile
import threading
import time
import unittest
from unittest import mock

import multi_gpu_check  # finds what is shared with tools/gpu-check
import check_curves
import check_faults
import check_layouts
import check_overlap
import check_prediction
import gpus
import nodes
import ranks
import report
from check import Check, Failed, read_json
from machine import revision

FAKE = pathlib.Path(__file__).with_name("fake_programs.py")
PROGRAMS = ("ptdp-plan", "ptdp-run", "ptdp-profile", "nccl_benchmark")


class Directory(unittest.TestCase):
    """A test with an empty directory."""

    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.directory = pathlib.Path(temporary.name)

    def on_host(self, **how):
        return gpus.GpuMachine(self.directory / "out", True, **how)

    def with_gpus(self):
        """Two of them, and programs that know what to print."""
        for folder, names in (("bin", ("nvidia-smi", "all_reduce_perf")),
                              ("build/tools", PROGRAMS)):
            (self.directory / folder).mkdir(parents=True, exist_ok=True)
            for name in names:
                path = self.directory / folder / name
                path.write_text(f'#!/bin/sh\nexec {sys.executable} -BES {FAKE} "$0" "$@"\n')
                path.chmod(0o755)
        environment = {"PATH": f"{self.directory}/bin:{os.environ['PATH']}"}
        return gpus.GpuMachine(self.directory / "out", environment=environment,
                               build=self.directory / "build")

    def check(self, machine, name="a"):
        check = Check(name, machine, machine.directory, 300.0)
        check.scratch.mkdir(parents=True, exist_ok=True)
        return check


class FindingGpus(Directory):
    def test_all_that_programs_see_are_counted(self):
        environment = dict(self.with_gpus().environment)
        self.assertEqual([gpu["number"] for gpu in gpus.find_gpus(environment)], ["0", "1"])
        for listed, numbers in (("1", ["1"]), ("GPU-aaaa", ["0"]), ("", []), ("0, 1", ["0", "1"])):
            environment["CUDA_VISIBLE_DEVICES"] = listed
            self.assertEqual([gpu["number"] for gpu in gpus.find_gpus(environment)], numbers)

    def test_links_are_those_between_gpus(self):
        matrix = ("\tGPU0\tGPU1\tNIC0\tCPU\nGPU0\t X \tNV18\tPIX\t0-7\nGPU1\tNV18\t X \tSYS\t0-7\n"
                  "NIC0\tPIX\tSYS\t X \n")
        self.assertEqual(gpus.links_in(matrix), ["NV18"])

    def test_too_few_gpus_are_named(self):
        machine = self.with_gpus()
        self.assertEqual(machine.fault(), "")
        machine.gpus = machine.gpus[:1]
        self.assertIn("one GPU here", machine.fault())
        self.assertEqual(self.on_host().fault(), "")

    def test_sizes_are_powers_of_two_and_all(self):
        machine = self.on_host(ranks=6)
        self.assertEqual((machine.sizes(), machine.most_of_eight()), ([2, 4, 6], 4))
        machine.nodes = machine.nodes * 3
        self.assertEqual((machine.sizes(), machine.most_of_eight()), ([6], 0))
        machine = self.with_gpus()
        machine.use_nodes([machine.nodes[0], mock.Mock(description=lambda: {"num_gpus": 1})])
        self.assertEqual(machine.num_ranks(), 2)


class PlacingNodes(unittest.TestCase):
    def place(self, words, environment=None):
        with mock.patch.dict(os.environ, environment or {}, clear=True), \
                contextlib.redirect_stderr(io.StringIO()):
            try:
                arguments = multi_gpu_check.parse(["out", *words])
            except SystemExit:
                return None
        return arguments.node, arguments.nodes

    def test_the_launcher_says_which_node_this_is(self):
        master = ["--master", "a:29571"]
        self.assertEqual(self.place([]), (0, 1))
        for number, count in multi_gpu_check.NODE_VARIABLES:
            self.assertEqual(self.place(master, {number: "1", count: "2"}), (1, 2))
        self.assertEqual(self.place([*master, "--nodes", "2", "--node", "0"]), (0, 2))

    def test_what_makes_no_sense_is_refused(self):
        for words in (["--master", "a"], ["--master", "a:0"], ["--master", "a:1"],
                      ["--nodes", "2"], ["--master", "a:1", "--nodes", "2", "--node", "2"],
                      ["--ranks", "2"], ["--host", "--ranks", "1"],
                      ["--host", "--transport", "mpi", "--master", "a:1", "--nodes", "2",
                       "--node", "1"]):
            self.assertIsNone(self.place(words), words)
        with contextlib.redirect_stderr(io.StringIO()):
            self.assertEqual(multi_gpu_check.main(["--section", "none"]), 2)


class Launching(Directory):
    def test_processes_get_torchruns_variables_in_blocks(self):
        found = [ranks.variables_of(rank, 4, 2, "a", 5, "r") for rank in range(4)]
        self.assertEqual([row["LOCAL_RANK"] for row in found], ["0", "1", "0", "1"])
        self.assertEqual({row["LOCAL_WORLD_SIZE"] for row in found}, {"2"})
        self.assertEqual({row["WORLD_SIZE"] for row in found}, {"4"})

    def test_a_launchers_own_variables_are_not_handed_on(self):
        left = nodes.without_launcher({"SLURM_PROCID": "1", "OMPI_COMM_WORLD_RANK": "1",
                                       "RANK": "1", "PATH": "p", "RANKED": "r"})
        self.assertEqual(left, {"PATH": "p", "RANKED": "r"})

    def test_what_does_not_end_is_ended_and_found_while_it_runs(self):
        machine = self.on_host(ranks=2)
        check = self.check(machine)
        job = ranks.Job(check, ["sleep", "60"], 2)
        # The kernel shows a program's variables only some time after Popen knows that it runs.
        end = time.monotonic() + 20.0
        while len(machine.nodes[0].processes_left()) < 2 and time.monotonic() < end:
            time.sleep(0.01)
        self.assertEqual(len(machine.nodes[0].processes_left()), 2)
        ended = job.wait(0.2)
        self.assertEqual([process.status for process in ended], [None, None])
        self.assertEqual(ranks.processes_left(machine), [])

    def test_the_rank_that_speaks_says_why_a_run_failed(self):
        def ended(rank, status, stderr):
            return ranks.Ended(rank, {"status": status, "output": "", "errors": stderr,
                                      "seconds": 1.0})
        self.assertEqual(ranks.fault_of([ended(0, 0, "")]), "")
        self.assertEqual(ranks.fault_of([ended(0, 4, ""), ended(1, 4, "x\nptdp-run: no\n")]),
                         "rank 1: status 4: ptdp-run: no")
        self.assertIn("did not end", ranks.fault_of([ended(0, None, "")]))


class JoiningNodes(Directory):
    def setUp(self):
        super().setUp()
        self.master = f"127.0.0.1:{ranks.free_port()}"

    def serve(self, number=1, count=2):
        """A second node in a thread, and what becomes of it."""
        machine = gpus.GpuMachine(self.directory / f"node-{number}", True)
        results = []

        def run():
            try:
                results.append(nodes.serve(nodes.Node(machine, number), count, self.master, 20.0))
            except Failed as fault:
                results.append(str(fault))
        thread = threading.Thread(target=run)
        thread.start()
        return thread, results

    def test_a_node_does_what_the_first_one_asks_for(self):
        thread, results = self.serve()
        told = []
        other, = nodes.join_others(2, self.master, told.append, 20.0)
        self.assertEqual(other.description()["host"], socket.gethostname())
        other.start("job", "section", {"file": "text"}, [
            {"words": ["cat", "file"], "environment": {}}, {"words": ["sleep", "60"],
                                                            "environment": {}}])
        self.assertTrue(other.is_running("job", 1))
        other.send_signal("job", 1, 9)
        first, second = other.wait("job", 20.0)
        self.assertEqual((first["status"], first["output"], second["status"]), (0, "text", -9))
        with self.assertRaisesRegex(Failed, "KeyError"):
            other.wait("none", 1.0)
        with self.assertRaisesRegex(Failed, "no such request"):
            other._call("end_all", [])
        with self.assertRaises(AttributeError):
            other.remove()
        other.end(6)
        thread.join()
        self.assertEqual(results, [6])

    def test_a_node_of_another_count_or_revision_is_refused_by_name(self):
        hello = {"node": 1, "nodes": 2, "host": "a", "revision": revision()}
        self.assertEqual(nodes.fault_of(hello, 2, [1]), "")
        for wrong, named in (({"nodes": 3}, "--nodes 2"), ({"revision": "x"}, "revision"),
                             ({"node": 0}, "there is one already")):
            self.assertIn(named, nodes.fault_of(hello | wrong, 2, [1]))
        self.assertIn("no multi-gpu-check", nodes.fault_of([], 2, [1]))

    def test_a_node_that_does_not_come_is_named(self):
        told = []
        with mock.patch.object(nodes, "TELL_EVERY", 0.1), \
                self.assertRaisesRegex(Failed, f"no word from node 1.*{self.master}"):
            nodes.join_others(2, self.master, told.append, 0.3)
        self.assertIn("for node 1", told[0])

    def test_a_first_node_that_is_not_there_is_named(self):
        with self.assertRaisesRegex(Failed, f"nobody answers at {self.master}"):
            nodes.connect(self.master, 0.0)

    def test_a_node_whose_first_one_goes_ends_what_it_runs(self):
        thread, results = self.serve()
        other, = nodes.join_others(2, self.master, lambda _: None, 20.0)
        other.start("job", "section", {}, [{"words": ["sleep", "60"], "environment": {}}])
        other.lines.file.close()
        other.lines.close()
        thread.join()
        self.assertEqual(results, ["node 0 is gone"])


class Judging(Directory):
    def verdicts(self, check):
        return [goal["met"] for goal in check.goals]

    def test_rows_of_nccl_tests_are_read(self):
        text = ("# nThread 1 nGpus 2\n"
                " 1048576 262144 float sum -1 40.11 26.1 26.1 0 39.02 26.8 26.8 0\n"
                "# Avg bus bandwidth : 26\n")
        self.assertEqual(check_curves.parse_nccl_tests(text), {1048576: 39.02})

    def test_rows_of_the_benchmark_are_read(self):
        header = ",".join(check_curves.COLUMNS)
        self.assertEqual(check_curves.parse_rows(f"{header}\nsend,8,2,1.5,,2.0\n"),
                         [["send", 8, 2, 1.5, None, 2.0]])
        with self.assertRaises(Failed):
            check_curves.parse_rows("nothing\n")

    def test_bus_bandwidth_is_that_of_nccl_tests(self):
        # doc/PERFORMANCE.md: 2(n-1)/n for an all-reduce, (n-1)/n for its halves, 1 for a message.
        self.assertEqual([check_curves.bus_factor(kind, 4) for kind in
                          ("all-reduce", "all-gather", "reduce-scatter", "send")],
                         [1.5, 0.75, 0.75, 1.0])

    def test_curves_are_judged_from_a_mebibyte_on(self):
        check = self.check(self.with_gpus())
        # Small ones are off by a factor; large ones by 10 % of the model, and 5 and 20 % of theirs.
        rows = [["all-reduce", 8, 2, 1.0, None, 9.0], ["all-reduce", 1 << 20, 2, 10.0, 11.0, 11.0],
                ["all-reduce", 4 << 20, 2, 40.0, 44.0, 36.0]]
        check_curves.judge(check, 2, rows)
        self.assertEqual(self.verdicts(check), [None, True])
        self.assertIn("10.0 % (104.9 GB/s of bus at 4 MiB)", check.goals[1]["value"])
        check_curves.judge_nccl_tests(check, "x", "all-reduce", rows,
                                      {1 << 20: 10 / 1.05, 4 << 20: 40 / 1.2})
        self.assertEqual((check.goals[2]["value"], check.goals[2]["met"]), ("1.125x", False))

    def test_gains_are_shares_of_the_step_without_overlap(self):
        check = self.check(self.with_gpus())
        check_overlap.judge(check, "case", {"none": [[1.0, 2.0]], "all": [[0.9, 1.7], [0.9, 1.9]],
                                            "messages": [[0.9, 2.1]]})
        self.assertEqual([goal["value"] for goal in check.goals], [
            "10.0 %, predicted 10.0 %", "+0.0 points", "-5.0 %, predicted 10.0 %",
            "-15.0 points"])
        self.assertEqual(self.verdicts(check), [True, True, False, False])

    def test_predictions_are_judged_by_mean_and_worst(self):
        def result(time, memory):
            return {"fits": True, "predicted_s": time, "measured_s": 1.0,
                    "predicted_bytes": [100, memory], "measured_bytes": [100, 100]}
        check = self.check(self.with_gpus())
        check_prediction.judge(check, {"a": result(1.02, 101), "b": result(0.88, 96),
                                       "c": {"fits": False}})
        self.assertEqual([(goal["value"], goal["met"]) for goal in check.goals], [
            ("2 of 3", True), ("7.0 %", False), ("-12.0 % (b)", False), ("-4.0 % (b)", False)])

    def test_only_layouts_that_nodes_can_hold_are_run(self):
        machine = self.on_host(ranks=2)
        self.assertTrue(all(tp * pp * dp == 2 for tp, pp, dp, _ in
                            check_layouts.layouts_of(machine).values()))
        machine.host_ranks = 4
        machine.nodes = machine.nodes * 2
        found = check_layouts.layouts_of(machine)
        self.assertNotIn("tp=2", found)  # it would lie on two nodes
        self.assertIn("tp=2 pp=2", found)
        machine.nodes = machine.nodes[:1]
        machine.host_ranks = 16
        # tp=8 needs eight heads, and the tiny model has four.
        self.assertEqual(set(check_layouts.LAYOUTS) - set(check_layouts.layouts_of(machine)),
                         {"tp=8, sequence parallel", "tp=8 pp=2"})

    def test_processes_must_end_as_their_fault_says(self):
        def ended(*statuses):
            return [ranks.Ended(rank, {"status": status, "output": "", "seconds": 1.0,
                                       "errors": "ptdp-run: rank 1: named"})
                    for rank, status in enumerate(statuses)]

        def problems(statuses, fault, named="rank 1: named"):
            return len(check_faults.problems_of(ended(*statuses), 1, fault, named))
        for statuses, fault in (((4, 4), "throw"), ((4, -9), "kill"), ((4, 3), "exit"),
                                ((4, None), "stop"), ((4,), "hang"), ((137,), "kill")):
            self.assertEqual(problems(statuses, fault), 0, (statuses, fault))
        for statuses, fault in (((0, -9), "kill"), ((4, 4), "kill"), ((None, 4), "throw"),
                                ((4, None), "hang"), ((0, None), "stop"), ((1, 3), "exit")):
            self.assertEqual(problems(statuses, fault), 1, (statuses, fault))
        self.assertEqual(problems((4, 4), "throw", "rank 2"), 1)

    def test_threads_do_not_die_alone(self):
        for meeting, whats in (("threads", {"throw", "hang"}),
                               ("tcp", {"throw", "hang", "exit", "kill", "stop"})):
            cases = check_faults.cases_of(self.on_host(ranks=2, meeting=meeting))
            self.assertEqual({case[3] for case in cases}, whats)
            self.assertEqual({case[4] for case in cases}, {meeting})

    def test_memory_that_is_not_given_back_is_told(self):
        machine = self.with_gpus()  # which have 10 MiB in use
        with mock.patch.object(check_faults, "MEMORY_BACK_SECONDS", 0.0):
            self.assertEqual(check_faults.memory_problems(machine, [[10.0, 10.0]]), [])
            with mock.patch.object(check_faults, "MEMORY_BACK_MIB", 5.0):
                self.assertIn("GPU 1 of node 0: 8 MiB",
                              check_faults.memory_problems(machine, [[10.0, 2.0]])[0])


class Reporting(Directory):
    def test_sections_pass_fail_or_are_skipped(self):
        def record(status, *met):
            return {"status": status, "goals": [
                {"what": f"g{i}", "goal": "" if one is None else "x", "value": "v", "met": one}
                for i, one in enumerate(met)]}
        told = {"status": "done", "goals": [{"what": "g", "goal": "-", "value": "1", "met": None}]}
        self.assertIn("without a goal", report.verdict_of(told)[1])
        for given, verdict in ((record("done", True, None), ("PASS", "1 goals met, 1 skipped")),
                               (record("done", True, False), ("FAIL", "missed: g1")),
                               (record("done", None),
                                ("SKIP", "nothing of it could be tried here")),
                               (record("skipped"), ("SKIP", "")),
                               (record("failed") | {"message": "why"}, ("FAIL", "failed: why")),
                               ({}, ("FAIL", "not run"))):
            self.assertEqual(report.verdict_of(given), verdict)

    def test_both_files_are_written(self):
        machine = self.on_host()
        machine.directory.mkdir()
        goals = [{"what": "a | b", "goal": "1", "value": "2", "met": False},
                 {"what": "c", "goal": "", "value": "why", "met": None}]
        status = report.write_report(machine, {"faults": {"status": "done", "goals": goals,
                                                          "parts": {"x": 1}}})
        self.assertEqual(status, 6)
        written = read_json(machine.directory / "report.json")
        self.assertEqual((written["status"], written["sections"]["faults"]["verdict"]), (6, "FAIL"))
        self.assertNotIn("parts", written["sections"]["faults"])
        text = (machine.directory / "report.md").read_text()
        self.assertIn("| a \\| b | 1 | 2 | FAIL |\n| c |  | why | SKIP |", text)


class RunningOnTwoGpus(Directory):
    """All sections, with programs that are none: how they are started on GPUs and judged."""

    def run_all(self, *words):
        machine = self.with_gpus()
        output, errors = io.StringIO(), io.StringIO()
        with mock.patch.dict(os.environ, machine.environment), \
                contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
            status = multi_gpu_check.main([str(self.directory / "out"), "--build",
                                           str(self.directory / "build"), *words])
        return status, output.getvalue(), errors.getvalue()

    def test_every_section_runs_over_nccl_and_is_judged(self):
        hidden = [name for name in ("mpirun", "srun", "torchrun") if shutil.which(name)]
        # What a quick check leaves out for its time: here nobody waits for a deadline.
        sample = check_faults.QUICK | {("pipeline", "F", "stop"), ("pipeline", "F", "exit")}
        with mock.patch.object(shutil, "which", which_without(hidden)), \
                mock.patch.object(check_faults, "QUICK", sample):
            status, output, errors = self.run_all("--quick")
        records = {name: read_json(self.directory / "out" / f"{name}.json")
                   for name in multi_gpu_check.SECTIONS}
        for name, record in records.items():
            self.assertEqual(record["status"], "done", f"{name}: {record.get('message')} {errors}")
            missed = [goal for goal in record["goals"] if goal["met"] is False]
            self.assertEqual(missed, [], name)
        self.assertEqual(status, 0, output + errors)
        self.check_goals(records)

    def check_goals(self, records):
        def goals(name, word):
            return [goal for goal in records[name]["goals"] if word in goal["what"]]
        for meeting in ("processes of a launcher", "ptdp-run's own processes",
                        "threads of one process"):
            self.assertTrue(goals("layouts", meeting), meeting)
        self.assertTrue(goals("sizes", "at odd places"))
        self.assertTrue(goals("sizes", "NCCL_MAX_CTAS"))
        self.assertTrue(goals("layouts", "bf16"))
        self.assertEqual(goals("curves", "all-reduce on 2, from 1 MiB on, beside nccl-tests")[0]
                         ["value"], "0.980x")
        self.assertIsNone(goals("curves", "all-gather on 2, from 1 MiB on, beside nccl-tests")[0]
                          ["met"])
        self.assertTrue(goals("overlap", "tensor parallel, overlap tensor"))
        self.assertTrue(goals("faults", "kill -KILL from outside"))
        self.assertTrue(goals("faults", "tcp pipeline F stop"))
        self.assertTrue(goals("faults", "own processes data REDUCE_GRAD throw"))
        self.assertTrue(goals("faults", "threads data REDUCE_GRAD throw"))
        self.assertTrue(goals("meeting", "two ranks on one GPU"))
        self.assertEqual(records["layouts"]["machine"]["links"], ["NV18"])
        self.assertEqual(records["prediction"]["machine"]["gpus"], ["NVIDIA H200", "NVIDIA H200"])

    def test_how_to_start_it_is_shown(self):
        status, output, _ = self.run_all("--commands")
        self.assertEqual(status, 0)
        for word in ("mpirun -n 2", "srun -N 2", "torchrun --nnodes 2", "--nodes 2 --node 0",
                     "with 2 GPUs"):
            self.assertIn(word, output)


def which_without(hidden):
    real = shutil.which
    return lambda name, *how, **more: None if name in hidden else real(name, *how, **more)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
