"""The functions of commands: from the program's tables of flags, and from what FORMATS.md says of
who answers with which document."""

import collections
import json
import re
import subprocess

import _runtime
from document_classes import plain

# Name of the function, words of the command, operands.
FUNCTIONS = [
    ("plan", "plan", ""), ("simulate", "sim", "*plan"), ("validate", "validate", "*run"),
    ("calibrate", "calibrate", "*run"), ("show", "plan show", "plan"),
    ("compare", "plan compare", "first, second"), ("export", "plan export", "plan"),
    ("list", "plan list", "kind"), ("partition", "plan partition", "*layers"),
    ("new_cluster", "plan new-cluster", ""), ("pilot", "plan pilot", "*plan")]

# By the names of values in tables of flags; others are Value, or one of their choices.
TYPES = {"N": "int | str", "FILE": "File",
         **dict.fromkeys(["DIR", "MODEL", "CLUSTER", "STACK", "GPU", "CALIBRATION"], "Path"),
         **dict.fromkeys(["SECONDS", "FRACTION", "PERCENT", "RATIO", "GIB", "P"], "float | str")}

STUB_HEAD = '''import os
from collections.abc import Mapping, Sequence
from typing import Literal, Union, overload

from ptdp._runtime import Result
from ptdp.answers import *

Path = Union[str, os.PathLike[str]]
File = Union[Path, Result]
Scalar = Union[str, float]
Value = Union[Scalar, File, Sequence[Scalar], Mapping[str, Scalar]]

__version__: str
'''


def writers(formats):
    """Yields by rows of FORMATS.md's first table which function answers with a schema, with how
    many operands and which flags: `ptdp-plan --config X --format json` and `--from FILE`."""
    functions = {command: name for name, command, _ in FUNCTIONS}
    row = re.compile(r"^\| \[`([^`]+)`\]\([^)]*\) \| (.*?) \|", re.MULTILINE)
    for schema, cell in row.findall(formats):
        program = ""
        for text in re.findall("`([^`]+)`", cell):
            program, *words = (text if text.startswith("ptdp-") else f"{program} {text}").split()
            command = program[5:]
            if words and f"{command} {words[0]}" in functions:
                command = f"{command} {words.pop(0)}"
            flag = r" --?([\w-]+)(?: ([^-\s]\S*))?"
            line = "".join(f" {word}" for word in words)
            flags = dict(re.findall(flag, line))
            if command in functions and flags and "o" not in flags:
                flags.pop("format", None)
                yield functions[command], len(re.sub(flag, "", line).split()), flags, schema


def name_of(flag):
    return _runtime.identifier(flag["flag"], _runtime.View)


def type_of(flag):
    """Returns the annotation of a flag's parameter."""
    value, is_list, _ = flag["value"].partition(",...")
    if not value:
        return "bool"
    choices = f"Literal{flag['choices']!r}" if flag["choices"] else "Value"
    kind = TYPES.get(value, choices) + " | bool" * (value == "SWITCH")
    several = f" | Sequence[{kind}]" * bool(is_list or flag["repeats"])
    return kind + several + " | str" * bool(is_list and "str" not in kind)


class Function:
    """A function: its command, its operands, its flags, and the answers that FORMATS.md names:
    number of operands, flags that must be given, name of the class."""

    def __init__(self, name, command, operands, table, answers):
        self.name, self.words = name, command.split()
        self.operands, self.answers = operands, answers
        self.summary, self.is_open = table["summary"], " " in command
        self.is_told_by_model = any("model" in required for _, required, _ in answers)
        self.has_format = bool(answers) and any(flag["flag"] == "format" for flag in table["flags"])
        subcommands = {words.partition(" ")[2] for _, words, _ in FUNCTIONS} - {""}

        def is_own(flag):
            """Of `plan export` flags are its own whose help begins with `export:`."""
            whose = flag["help"].partition(":")[0]
            if not self.is_open:
                return whose not in subcommands
            return whose == self.words[1] or flag["flag"] == "output" and not answers
        self.flags = [flag for flag in table["flags"]
                      if flag["flag"] not in ("format", "help", "version") and is_own(flag)]

    def definition(self):
        """Returns the function's source."""
        operands = [self.operands] * bool(self.operands)
        parameters = [*operands, *(["*"] if self.flags and self.operands[:1] != "*" else []),
                      *(f"{name_of(flag)}=None" for flag in self.flags),
                      *(["**flags"] * self.is_open)]
        words = ", ".join([*map(repr, self.words), *operands])
        # Operands are among local variables: as flags they are left out.
        given = ["**locals()", *(f"{name!r}: None" for name in re.findall(r"\w+", self.operands)),
                 *(['"flags": None', "**flags"] * self.is_open),
                 *(['"format": "json"'] * self.has_format)]
        return [f"def {self.name}({', '.join(parameters)}):",
                f'    """Runs `ptdp {" ".join(self.words)}`: {plain(self.summary)}.', "",
                *(f"    {name_of(flag)}: {plain(flag['help'])}" for flag in self.flags), '    """',
                f"    return answer(({words},), {{{', '.join(given)}}})"]

    def stubs(self):
        """Yields the function's types: an overload for each class of answers. What a model's file
        holds no type can tell: the answer is one of two then."""
        answers = [answer for answer in self.answers if "model" not in answer[1]]
        if self.is_told_by_model:
            kinds = [kind for _, required, kind in self.answers if not required.keys() - {"model"}]
            answers.append((0, {"model": "FILE"}, " | ".join(kinds)))
        if self.operands.startswith("*") and answers and min(count for count, _, _ in answers):
            answers.append((0, {}, "Result"))
        if all(required for _, required, _ in answers):
            answers.append((None, {}, "str"))
        # Flags that ask another question, each a function's only one.
        asking = {flag for _, required, _ in answers
                  for flag, word in required.items() if word not in ("all", "FILE")}
        # The first overload that matches counts: those that ask for more come first, what may be
        # one of two comes last.
        for count, required, kind in sorted(
                answers, key=lambda one: ("model" in one[1], not one[1], -(one[0] or 0))):
            operands = [f"__{name}: File" for name in self.operands.split(", ") if name]
            is_list = self.operands.startswith("*")
            any_number = is_list and (len(answers) == 1 or count is None or count > 1)
            if is_list:
                operands = [f"__{self.operands[1:]}{i}: File" for i in range(count or 0)]
                operands += [f"{self.operands}: File"] * any_number
            flags = [flag for flag in self.flags if flag["flag"] not in asking - required.keys()]
            keywords = [self.keyword(flag, required) for flag in
                        sorted(flags, key=lambda flag: flag["flag"] not in required)]
            parameters = [*operands, *(["*"] if keywords and not any_number else []), *keywords,
                          *(["**flags: Value"] * self.is_open)]
            yield ""
            yield from ["@overload"] * (len(answers) > 1)
            yield (f"def {self.name}({', '.join(parameters)}) -> {kind}: ..."
                   + "  # type: ignore[overload-overlap]" * ("all" in required.values()))

    def keyword(self, flag, required):
        """Returns a parameter. One that must be given may have a word of FORMATS.md alone."""
        if flag["flag"] not in required:
            is_told = flag["flag"] == "model" and not required and self.is_told_by_model
            return f"{name_of(flag)}: {'ShippedModel' if is_told else type_of(flag)} | None = None"
        if not flag["value"]:
            return f"{name_of(flag)}: Literal[True]"
        word = required[flag["flag"]]
        return f"{name_of(flag)}: {f'Literal[{word!r}]' if word == 'all' else type_of(flag)}"


class Commands:
    """All functions, with the flags of the program's own tables and the classes by schema."""

    def __init__(self, program, formats, classes):
        tables = {command: json.loads(subprocess.check_output([program, command, "--help", "json"]))
                  for _, command, _ in FUNCTIONS if " " not in command}
        answers = collections.defaultdict(list)
        for name, count, required, schema in writers(formats):
            answers[name].append((count, required, classes[schema]))
        models = subprocess.check_output([program, "plan", "list", "models", "--format", "json"])
        self.models = [model["name"] for model in json.loads(models)["models"]]
        self.version = tables["plan"]["tool_version"]
        self.flags = [flag for table in tables.values() for flag in table["flags"]]
        self.functions = [
            Function(name, command, operands, tables[command.split()[0]], answers[name])
            for name, command, operands in FUNCTIONS]

    def text(self):
        """Returns the source of the module."""
        switches = {flag["flag"] for flag in self.flags if not flag["value"]}
        assert not switches & {flag["flag"] for flag in self.flags if flag["value"]}, switches
        configurations = {flag["flag"] for flag in self.flags if flag["value"] in ("CONFIG", "SPEC")}
        repeated = {flag["flag"] for flag in self.flags if flag["repeats"]}
        lines = ['"""The commands, a function each. Made from their tables of flags."""', "",
                 "from ptdp import _runtime", "from ptdp._runtime import answer", "",
                 f"_runtime.SWITCHES |= set({sorted(switches)!r})",
                 f"_runtime.REPEATED |= set({sorted(repeated)!r})",
                 f"_runtime.CONFIGURATIONS |= set({sorted(configurations)!r})"]
        for function in self.functions:
            lines += ["", "", *function.definition()]
        lines += ["", "", f"__version__ = {self.version!r}"]
        return "\n".join([*lines, "", "", f"__all__ = {[name for name, _, _ in FUNCTIONS]!r}", ""])

    def stubs(self):
        """Returns the module's stubs."""
        stubs = [line for function in self.functions for line in function.stubs()]
        return "\n".join([STUB_HEAD, f"ShippedModel = Literal{self.models!r}", *stubs, ""])
