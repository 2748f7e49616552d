#!/usr/bin/env python3
"""The Python package in a build tree, beside the command that it runs.

usage: package_test.py FOLDER_OF_THE_PACKAGE [unittest's arguments | --benchmark]

--benchmark tells what the package adds to the command, and what 1,000 calls leave behind."""

import ast
import html
import inspect
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import warnings
from unittest import mock

PACKAGE = pathlib.Path(sys.argv.pop(1)).resolve()
sys.dont_write_bytecode = True
sys.path.insert(0, str(PACKAGE))
import ptdp  # noqa: E402
from ptdp import _runtime  # noqa: E402

PROGRAM = PACKAGE / "ptdp" / "bin" / "ptdp"
JOB = {"gpus": 16, "model": "1.7B"}
FLAGS = ["--gpus", "16", "--model", "1.7B"]


def run(*arguments, program=(PROGRAM,), **options):
    return subprocess.run([*program, *arguments], capture_output=True, text=True, check=False, **options)


def document(*arguments):
    return json.loads(run(*arguments, "--format", "json").stdout)


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def use_program(self, text):
        """Puts a script in the place of the command."""
        program = self.folder / "stand-in"
        program.write_text("#!/bin/sh\n" + text)
        program.chmod(0o755)
        patch = mock.patch.object(_runtime, "PROGRAM", str(program))
        patch.start()
        self.addCleanup(patch.stop)


class Answers(Case):
    def test_is_the_document_of_the_command(self):
        found, expected = ptdp.plan(**JOB, tokens="10B"), document("plan", *FLAGS, "--tokens", "10B")
        self.assertEqual(found.json, expected)
        self.assertEqual([type(view) for view in (found, found.best, found.best.config)],
                         [ptdp.Plans, ptdp.answers.PlansPlan, ptdp.answers.Config])
        first = expected["plans"][0]
        self.assertEqual(found.best.config.tp, first["config"]["tp"])
        self.assertEqual(found.plans[0].predicted.iteration_time_s, first["predicted"]["iteration_time_s"])
        self.assertEqual(found.best.predicted.breakdown_s, first["predicted"]["breakdown_s"])
        self.assertIsNone(found.explanation)
        copy = found.to_dict()
        copy["plans"].clear()
        self.assertEqual(found.json, expected)

    def test_has_an_attribute_for_each_key(self):
        def check(view):
            if isinstance(view, list):
                for item in view:
                    check(item)
            elif isinstance(view, ptdp.View):
                for key, value in view.json.items():
                    name = _runtime.identifier(key, type(view))
                    held = getattr(view, name)
                    if not isinstance(value, (dict, list)):
                        self.assertEqual(held, value)
                    check(held)

        for answer in (ptdp.plan(**JOB, verbose=True), ptdp.validate(group="sc21-t1"), ptdp.list("stacks"),
                       ptdp.plan(**JOB, config="tp=8")):
            check(answer)
        with self.assertRaisesRegex(AttributeError, "Plans has no 'plan'"):
            ptdp.plan(**JOB).plan  # noqa: B018
        with self.assertRaises(AttributeError):
            ptdp.plan(**JOB).best.config.tp = 3

    def test_is_named_where_a_key_is_taken(self):
        answer = ptdp.validate(group="sc21-t1")
        self.assertEqual(answer.rows_[0].id, answer.json["rows"][0]["id"])
        self.assertEqual(answer.rows[0]["id"], answer.json["rows"][0]["id"])

    def test_is_shown_as_the_text_of_the_command(self):
        text = run("plan", *FLAGS).stdout
        found = ptdp.plan(**JOB)
        self.assertEqual(str(found), text)
        self.assertEqual(repr(found), text.splitlines()[0])
        found = ptdp.plan(**JOB, output=self.folder / "plan.json")
        (self.folder / "plan.json").unlink()
        self.assertEqual(str(found), text)
        self.assertFalse((self.folder / "plan.json").exists())

    def test_has_flat_rows(self):
        found = ptdp.plan(**JOB)
        self.assertEqual(len(found.rows), len(found.plans))
        for row, plan in zip(found.rows, found.plans):
            self.assertEqual(row["config.tp"], plan.config.tp)
            self.assertEqual(row["predicted.breakdown_s.bubble"], plan.predicted.breakdown_s["bubble"])
            self.assertFalse(any(isinstance(value, dict) for value in row.values()))
        self.assertEqual(ptdp.plan(**JOB, explain="tp=8").rows[0]["best.config.tp"], found.best.config.tp)

    def test_shows_the_page_in_a_frame(self):
        found = ptdp.plan(**JOB)
        found.report(self.folder / "page.html")
        page = (self.folder / "page.html").read_text()
        self.assertIn('id="report"', page)
        found.save(self.folder / "plan.json")
        ptdp.report(self.folder / "plan.json", self.folder / "of_file.html")
        self.assertIn('id="report"', (self.folder / "of_file.html").read_text())
        frame = found._repr_html_()
        self.assertEqual(frame.count("<"), 2)
        shown = html.unescape(frame.split('srcdoc="')[1].split('"')[0])
        self.assertIn("&quot;ptdp.report/1&quot;", frame)
        self.assertEqual(shown, page)
        self.assertIn("<pre>", ptdp.list("models")._repr_html_())

    def log_commands(self):
        """Returns a function that returns and forgets the commands that ran since."""
        log = self.folder / "log"
        self.use_program(f'echo "$@" >> {log}; exec {PROGRAM} "$@"\n')

        def commands():
            lines = log.read_text().splitlines() if log.exists() else []
            log.unlink(missing_ok=True)
            return lines
        return commands

    def test_searches_once_and_for_its_page_again(self):
        commands = self.log_commands()
        found = ptdp.plan(**JOB)
        self.assertEqual(len(commands()), 1)
        repr(found)
        ptdp.simulate(found)
        found.save(self.folder / "plan.json")
        self.assertEqual([line.split(" /")[0] for line in commands()], ["plan show", "sim", "plan show"])
        found._repr_html_()
        self.assertEqual(len(commands()), 1)
        found._repr_html_()
        found.report(self.folder / "page.html")
        self.assertEqual(str(found), run("plan", *FLAGS).stdout)
        self.assertEqual(commands(), [])
        self.assertEqual((self.folder / "plan.json").read_text(), run("plan", "show", self.folder / "plan.json",
                                                                      "--format", "json").stdout)

    def test_shows_the_plan_that_was_found_where_time_was_short(self):
        commands = self.log_commands()
        # As a search whose time limit came first, with its second plan.
        document = dict(ptdp.plan(**JOB).json)
        document["plans"] = document["plans"][1:]
        document["candidates"] = {**document["candidates"], "proven": False}
        found = ptdp.Plans(document, ("plan",), JOB)
        commands()
        self.assertIn(f"tp={found.best.config.tp} pp={found.best.config.pp} ", str(found).splitlines()[0])
        self.assertNotEqual(str(found), run("plan", *FLAGS).stdout)
        self.assertIn('id="report"', found.page)
        found.save(self.folder / "plan.json")
        self.assertEqual(ptdp.load(self.folder / "plan.json").config, found.best.config)
        self.assertEqual({line.split(" /")[0] for line in commands()}, {"plan show"})

    def test_that_was_read_from_a_file_is_shown(self):
        found = ptdp.plan(**JOB)
        found.save(self.folder / "plan.json")
        (self.folder / "plans.json").write_text(json.dumps(found.json))
        shown = run("plan", "show", self.folder / "plan.json").stdout
        for name in ("plan.json", "plans.json"):
            self.assertEqual(str(ptdp.load(self.folder / name)), shown)
            self.assertIn('id="report"', ptdp.load(self.folder / name).page)
        with self.assertRaisesRegex(ValueError, "read from a file"):
            str(ptdp.Result({}))

    def test_hands_answers_on(self):
        found = ptdp.plan(**JOB)
        found.save(self.folder / "plan.json")
        simulated = ptdp.simulate(found)
        self.assertEqual(simulated.json, document("sim", self.folder / "plan.json"))
        plan = ptdp.show(self.folder / "plan.json")
        self.assertEqual(plan.json, json.loads((self.folder / "plan.json").read_text()))
        self.assertEqual(plan, ptdp.load(self.folder / "plan.json"))
        self.assertTrue(ptdp.compare(plan, found).one_job)
        text = ptdp.export(plan, to="rank-map", output=self.folder / "files")
        self.assertIn("rank_map.csv", text)
        self.assertTrue((self.folder / "files" / "rank_map.csv").is_file())
        self.assertTrue(all(schedule.schedule for schedule in ptdp.simulate(plan, schedule="all").schedules))

    def test_asks_other_questions(self):
        self.assertIsInstance(ptdp.plan(**JOB, config={"tp": 8, "pp": 2}), ptdp.Given)
        self.assertEqual(ptdp.plan(**JOB, tp=[4, 8], sequence_parallel=False).json,
                         document("plan", *FLAGS, "--tp", "4,8", "--sequence-parallel", "off"))
        self.assertIsInstance(ptdp.plan(**JOB, compare_strategies=True), ptdp.Strategies)
        self.assertEqual(ptdp.command("plan", "list", "gpus"), run("plan", "list", "gpus").stdout)


class Failures(Case):
    def test_say_what_the_command_says(self):
        for error, status, arguments, call in (
                (ptdp.BadInput, 2, ["plan", "--gpus=8", "--model=none"],
                 lambda: ptdp.plan(gpus=8, model="none")),
                (ptdp.NothingFits, 3, ["plan", "--gpus=1", "--model=1T"],
                 lambda: ptdp.plan(gpus=1, model="1T")),
                (ptdp.OutsideTolerance, 6, ["validate", "--group=sc21-t1", "--max-mape=0.1"],
                 lambda: ptdp.validate(group="sc21-t1", max_mape=0.1))):
            with self.subTest(arguments), self.assertRaises(error) as caught:
                call()
            done = run(*arguments, "--format", "json")
            self.assertEqual((done.returncode, done.stderr.strip()), (status, caught.exception.message))
            self.assertEqual(caught.exception.status, status)
            self.assertIn(done.stderr.strip(), str(caught.exception))
            if done.stdout:
                self.assertEqual(caught.exception.result.json, json.loads(done.stdout))

    def test_have_a_class_for_each_exit_status(self):
        for status, error in ((1, ptdp.InternalError), (2, ptdp.BadInput), (3, ptdp.NothingFits),
                              (4, ptdp.RuntimeFault), (5, ptdp.NotWritten), (6, ptdp.OutsideTolerance),
                              (130, ptdp.Interrupted), (143, ptdp.Interrupted), (9, ptdp.CommandError)):
            self.use_program(f"echo no >&2; exit {status}\n")
            with self.subTest(status), self.assertRaises(ptdp.CommandError) as caught:
                ptdp.plan(**JOB)
            self.assertIs(type(caught.exception), error)
        self.use_program("kill -KILL $$\n")
        with self.assertRaises(ptdp.CommandError) as caught:
            ptdp.plan(**JOB)
        self.assertEqual(caught.exception.status, -9)

    def test_are_none_where_the_command_only_warns(self):
        self.use_program("echo careful >&2; echo '{}'\n")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            self.assertEqual(ptdp.plan(**JOB).json, {})
        self.assertEqual([str(warning.message) for warning in caught], ["careful"])

    def test_name_unknown_flags(self):
        with self.assertRaisesRegex(TypeError, "modell"):
            ptdp.plan(gpus=8, modell="1.7B")


class Command(Case):
    def module(self, *arguments, **options):
        return run(*arguments, program=(sys.executable, "-B", "-m", "ptdp"), cwd=self.folder,
                   env={**os.environ, "PYTHONPATH": str(PACKAGE)}, **options)

    def test_is_the_command_itself(self):
        for arguments in (["plan", *FLAGS], ["plan", "--gpus", "8", "--model", "none"], ["nonsense"], []):
            here, there = self.module(*arguments), run(*arguments)
            self.assertEqual((here.returncode, here.stdout, here.stderr),
                             (there.returncode, there.stdout, there.stderr), arguments)

    def test_takes_the_place_of_python(self):
        with subprocess.Popen([sys.executable, "-B", "-m", "ptdp", "validate"], stdout=subprocess.DEVNULL,
                              env={**os.environ, "PYTHONPATH": str(PACKAGE)}) as process:
            end = time.monotonic() + 60
            while os.readlink(f"/proc/{process.pid}/exe") != str(PROGRAM.resolve()):
                self.assertLess(time.monotonic(), end)
                time.sleep(0.01)
            process.terminate()
            self.assertEqual(process.wait(timeout=60), -signal.SIGTERM)


class Tables(Case):
    def test_are_all_in_the_functions_and_their_stubs(self):
        stubs = ast.parse((PACKAGE / "ptdp" / "commands.pyi").read_text())
        typed = {}
        for function in (node for node in stubs.body if isinstance(node, ast.FunctionDef)):
            typed.setdefault(function.name, set()).update(one.arg for one in function.args.kwonlyargs)
        for command, names in {"plan": ["plan", "export", "partition", "new_cluster", "pilot"],
                               "sim": ["simulate"], "validate": ["validate"],
                               "calibrate": ["calibrate"]}.items():
            table = json.loads(run(command, "--help", "json").stdout)
            flags = {_runtime.identifier(flag["flag"], ptdp.View): flag["help"] for flag in table["flags"]
                     if flag["flag"] not in ("format", "help", "version")}
            self.assertGreater(len(flags), 10)
            taken = set()
            for name in names:
                function = getattr(ptdp, name)
                keywords = {parameter.name for parameter in inspect.signature(function).parameters.values()
                            if parameter.kind is parameter.KEYWORD_ONLY}
                self.assertEqual(keywords, typed[name], name)
                taken |= keywords
                lines = [line.strip() for line in function.__doc__.splitlines()]
                for keyword in keywords:
                    self.assertIn(f"{keyword}: {flags[keyword]}", lines)
            self.assertEqual(taken, flags.keys())

    def test_describe_keys_with_units(self):
        self.assertIn("90 % interval [s]", ptdp.answers.Predicted.iteration_time_s.__doc__)
        self.assertIn("[GiB]", ptdp.answers.Memory.peak_GiB.__doc__)
        answers = ast.parse((PACKAGE / "ptdp" / "answers.py").read_text())
        types = {(one.name, field.target.id): ast.unparse(field.annotation)
                 for one in answers.body if isinstance(one, ast.ClassDef)
                 for field in one.body if isinstance(field, ast.AnnAssign)}
        self.assertEqual(types["Predicted", "iteration_time_s"], "float")
        self.assertEqual(types["Predicted", "interval_s"], "list[float]")
        self.assertEqual(types["Config", "tp"], "int")
        self.assertEqual(types["Plans", "explanation"], "PlansExplanation | None")


def left_behind():
    """Returns the descriptors, threads and temporary files that there are, and the memory in use [KiB]."""
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[1])
    return ({"descriptors": len(os.listdir("/proc/self/fd")), "threads": threading.active_count(),
             "files": sum(name.startswith("tmp") for name in os.listdir(tempfile.gettempdir()))},
            pages * os.sysconf("SC_PAGE_SIZE") // 1024)


def call_often(times):
    """Returns what was left behind before and after so many calls. Some fail, some hand plans on."""
    found = ptdp.plan(**JOB)
    def calls(count):
        for index in range(count):
            if index % 10 == 0:
                ptdp.simulate(found)
            elif index % 10 == 1:
                try:
                    ptdp.plan(gpus=8, model="none")
                except ptdp.BadInput:
                    pass
            else:
                ptdp.plan(gpus=2, model="gpt-tiny", cluster="host")
    calls(20)  # what grows once
    before = left_behind()
    calls(times)
    return before, left_behind()


class Calls(Case):
    def test_leave_nothing_behind(self):
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(tempfile, "tempdir", folder):
            (before, memory), (after, more) = call_often(20)
        self.assertEqual(before, after)
        self.assertLess(more - memory, 4096)


def benchmark():
    imports = [run("-X", "importtime", "-c", "import ptdp", program=(sys.executable,),
                   env={**os.environ, "PYTHONPATH": str(PACKAGE)}).stderr for _ in range(5)]
    print("import ptdp:", *(text.splitlines()[-1].split("|")[1].strip() for text in imports), "us")
    large = {"gpus": 3072, "model": "1T"}
    for name, flags, job in (("1.7B on 16", FLAGS, JOB),
                             ("1T on 3072", ["--gpus", "3072", "--model", "1T"], large)):
        times = {"command": [], "package": []}
        for _ in range(30):
            begin = time.perf_counter()
            subprocess.run([PROGRAM, "plan", *flags, "--format", "json"], capture_output=True, check=True)
            middle = time.perf_counter()
            ptdp.plan(**job)
            times["command"].append(middle - begin)
            times["package"].append(time.perf_counter() - middle)
        command, package = (1e3 * statistics.median(values) for values in times.values())
        print(f"{name}: command {command:.1f} ms, ptdp.plan {package:.1f} ms: {package - command:+.1f} ms")
    (before, memory), (after, more) = call_often(1000)
    print(f"1,000 calls: {before} before, {after} after, {more - memory:+d} KiB of {more} KiB")


if __name__ == "__main__":
    if "--benchmark" in sys.argv:
        benchmark()
    else:
        unittest.main()
