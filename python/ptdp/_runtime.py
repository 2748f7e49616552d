"""Runs the command, and shows the documents that it answers with."""

from __future__ import annotations

import html
import json
import keyword
import os
import re
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, ClassVar

__all__ = ["BadInput", "CommandError", "InternalError", "Interrupted", "NothingFits", "NotWritten",
           "OutsideTolerance", "Result", "RuntimeFault", "View", "command", "load", "report"]

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "ptdp")
# Of all commands: flags without a value, and flags that may be repeated.
SWITCHES: set[str] = set()
REPEATED: set[str] = set()
# Flags that take a configuration, which may be a dict.
CONFIGURATIONS: set[str] = set()
SCHEMAS: dict[str, type[Result]] = {}


class CommandError(Exception):
    """The command failed: `status` is its exit status, or minus the signal that killed it,
    `message` what it said, `command` its arguments, `result` what it answered: a Result or text."""

    def __init__(self, message: str, status: int, command: list[str], result: Any) -> None:
        super().__init__(message, status, command, result)
        self.message, self.status, self.command, self.result = message, status, command, result

    def __str__(self) -> str:
        return f"{self.message or self.command} (exit status {self.status})"


class InternalError(CommandError):
    """A fault of ptdp itself (exit status 1)."""


class BadInput(CommandError):
    """A flag or a file is not as expected (exit status 2)."""


class NothingFits(CommandError):
    """No configuration can run, or not the one in question (exit status 3)."""


class RuntimeFault(CommandError):
    """The machine failed, or nothing was found in time (exit status 4)."""


class NotWritten(CommandError):
    """Output could not be written (exit status 5)."""


class OutsideTolerance(CommandError):
    """A prediction is further off than `max_mape` or `max_error` allows (exit status 6)."""


class Interrupted(CommandError):
    """A signal ended the command (exit status 130 or 143); `result` is the best so far."""


ERRORS = {1: InternalError, 2: BadInput, 3: NothingFits, 4: RuntimeFault, 5: NotWritten,
          6: OutsideTolerance, 130: Interrupted, 143: Interrupted}


class _Key:
    """The attribute of a key: `kind` is the class of the objects that it holds, by name."""

    def __init__(self, text: str, kind: str, name: str) -> None:
        self.__doc__, self.kind, self.name = text, kind, name

    def __set_name__(self, owner: type, name: str) -> None:
        self.name, self.owner = self.name or name, owner

    def __get__(self, view: Any, owner: type) -> Any:
        if view is None:
            return self
        module = sys.modules[self.owner.__module__]
        kind = dict if self.kind == "dict" else getattr(module, self.kind, View)
        return _viewed(view.json.get(self.name), kind)

    def __set__(self, view: Any, value: Any) -> None:
        raise AttributeError(f"{self.name} cannot be set: answers are read-only")


def _key(text: str, kind: str = "", name: str = "") -> Any:
    """Makes the attribute of a key; Any, for what it holds is annotated."""
    return _Key(text, kind, name)


class View:
    """An object of a document, the dict `json`: each key is an attribute, None if it is absent."""

    def __init__(self, json: dict[str, Any]) -> None:
        self.json = json

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Returns what a key holds that no description names."""
            for key, value in vars(self).get("json", {}).items():
                if identifier(key, type(self)) == name:
                    return _viewed(value, View)
            raise AttributeError(f"{type(self).__name__} has no {name!r}")

    def to_dict(self) -> dict[str, Any]:
        """Returns a copy of the JSON object."""
        copy: dict[str, Any] = json.loads(json.dumps(self.json))
        return copy

    def __eq__(self, other: object) -> bool:
        return isinstance(other, View) and self.json == other.json

    def __repr__(self) -> str:
        text = ", ".join(f"{key}={value!r}" for key, value in self.json.items())
        return f"{type(self).__name__}({text if len(text) < 300 else text[:300] + ' ...'})"


class Result(View):
    """A document that a command answers with. Text and page are asked of the command if needed."""

    _rows: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, schema: str = "", **others: Any) -> None:
        super().__init_subclass__(**others)
        SCHEMAS[schema] = cls

    def __init__(self, json: dict[str, Any], words: Any = (), flags: Any = None) -> None:
        super().__init__(json)
        self._words, self._flags = tuple(words), {**(flags or {}), "format": None}
        self._text: str | None = None
        self._page: str | None = None
        self._folder = os.getcwd() if words else ""  # where the paths of words and flags hold

    def _again(self, **flags: Any) -> str:
        """Runs the command again. Where another search might find something else, for the time that
        it has decides, the plan that was found is shown instead."""
        is_proven: bool = self.json.get("candidates", {}).get("proven", True)
        if self._is_plan() and not (self._words and is_proven):
            return self._shown(**flags)
        if not self._words:
            raise ValueError("read from a file: no command can be asked again")
        asked = {**self._flags, "output": None, "report": None, **flags}
        text: str = answer(self._words, asked, self._folder)
        return text

    def _is_plan(self) -> bool:
        """Whether commands take the document for a plan: it is one, or has the best one."""
        schema = self.json.get("schema")
        return schema == "ptdp.plan/1" or (schema == "ptdp.plans/1" and bool(self.json["plans"]))

    def _shown(self, **flags: Any) -> str:
        """Shows the plan, without a search."""
        budget = {flag: self._flags.get(flag) for flag in ("tokens", "price")}
        text: str = answer(("plan", "show", self), {**budget, **flags})
        return text

    @property
    def text(self) -> str:
        """The command's answer as text; the first use runs the command again."""
        if self._text is None:
            try:
                self._text = self._again()
            except CommandError as error:  # the text of what fails: nothing fits, say
                self._text = str(error.result or error.message)
        return self._text

    @property
    def page(self) -> str:
        """The answer as a page for a browser; the first use runs the command again."""
        import tempfile

        if self._page is None:
            with tempfile.TemporaryDirectory() as folder:
                text = self._again(report=os.path.join(folder, "page.html"))
                with open(os.path.join(folder, "page.html"), encoding="utf-8") as page:
                    self._page = page.read()
            self._text = self._text or text
        return self._page

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Its plans (runs, stacks ...), else itself, as flat dicts for `pandas.DataFrame(rows)`."""
        listed = next((self.json[key] for key in self._rows if key in self.json), [self.json])
        return [_flat(row) for row in listed]

    def report(self, path: str | os.PathLike[str]) -> None:
        """Writes `page` to a file."""
        text = self.page
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes what `--output` writes: of a search the best plan. Others run the command again."""
        ask = self._shown if self._is_plan() else self._again
        ask(output=os.path.abspath(path))

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        try:
            text = self._text or (self._shown() if self._is_plan() else self.text)
            return text.split("\n", 1)[0]
        except ValueError:
            return super().__repr__()

    def _repr_html_(self) -> str:
        """Returns the page in a frame, or the text where the command writes no page."""
        try:
            return ('<iframe sandbox="allow-scripts" style="width:100%;height:720px;border:0" '
                    f'srcdoc="{html.escape(self.page)}"></iframe>')
        except (CommandError, ValueError):
            return f"<pre>{html.escape(repr(self))}</pre>"


def identifier(key: str, owner: type) -> str:
    """Returns the attribute of `owner` for a key of a document, or the parameter for a flag."""
    name = re.sub(r"\W", "_", key)
    taken = owner is not View and hasattr(Result if issubclass(owner, Result) else View, name)
    return name + "_" if keyword.iskeyword(name) or taken or name == "json" else name


def _viewed(value: Any, kind: Any) -> Any:
    if isinstance(value, list):
        return [_viewed(item, kind) for item in value]
    return kind(value) if isinstance(value, dict) else value


def _flat(row: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in row.items():
        flat.update(_flat(value, f"{prefix}{key}.") if isinstance(value, dict)
                    else {prefix + key: value})
    return flat


def _text(value: Any, files: ExitStack) -> str:
    """Returns a value as the command reads it. Answers become files: those that hold plans as they
    are, others by what they save."""
    if isinstance(value, Result):
        from tempfile import NamedTemporaryFile

        file = files.enter_context(NamedTemporaryFile("w", suffix=".json", encoding="utf-8"))
        if value._is_plan():
            json.dump(value.json, file)
            file.flush()
        else:
            value.save(file.name)
        return file.name
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, dict):
        return ",".join(f"{key}={_text(item, files)}" for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return ",".join(_text(item, files) for item in value)
    if value is None or isinstance(value, View):
        raise TypeError(f"expected a path, a name, a number or a whole answer, got {type(value).__name__}")
    return str(os.fspath(value)) if isinstance(value, os.PathLike) else str(value)


def _arguments(words: Any, flags: dict[str, Any], files: ExitStack) -> list[str]:
    arguments = [_text(word, files) for word in words]
    for name, value in flags.items():
        flag = name.rstrip("_").replace("_", "-")
        if value is None or (flag in SWITCHES and value is False):
            continue
        if isinstance(value, dict) and flag not in CONFIGURATIONS:
            raise TypeError(f"{name}: expected a path, a name or a number, got a dict")
        if flag in SWITCHES and value is True:
            arguments.append(f"--{flag}")
            continue
        several = flag in REPEATED and isinstance(value, (list, tuple))
        for text in (_text(item, files) for item in (value if several else [value])):
            arguments += [f"--{flag}={text}"] if text.startswith("-") else [f"--{flag}", text]
    return arguments


def answer(words: Any, flags: dict[str, Any], folder: str | None = None) -> Any:
    """Runs `ptdp WORDS --flags` in a folder. Returns a Result if it prints a document, else what it prints."""
    import subprocess
    import warnings

    with ExitStack() as files:
        command = [PROGRAM, *_arguments(words, flags, files)]
        # Python's own descriptors are not inherited: none need be closed, and posix_spawn serves.
        done = subprocess.run(command, capture_output=True, close_fds=False, check=False, cwd=folder)
    text, said = done.stdout.decode(), done.stderr.decode(errors="replace").strip()
    result: Any = text
    if text.startswith("{"):
        document = json.loads(text)
        result = SCHEMAS.get(document.get("schema"), Result)(document, words, flags)
    if done.returncode != 0:
        kind = ERRORS.get(done.returncode, CommandError)
        raise kind(said, done.returncode, command, result)
    if said:
        warnings.warn(said, stacklevel=3)
    return result


def command(*words: Any, **flags: Any) -> Any:
    """Runs any command: `command("plan", "show", "plan.json", format="csv")`. Returns a Result if
    it prints a document (`format="json"`), else its text."""
    return answer(words, flags)


def load(path: str | os.PathLike[str]) -> Any:
    """Reads a document that a command wrote (`plan.json`, `run.json` ...), as its schema's class."""
    with open(path, encoding="utf-8") as file:
        try:
            document = json.load(file)
        except json.JSONDecodeError as error:
            raise ValueError(f"{os.fspath(path)}: expected a JSON document: {error}") from error
    return SCHEMAS.get(document.get("schema"), Result)(document)


def report(answer: Result | str | os.PathLike[str], path: str | os.PathLike[str]) -> None:
    """Writes an answer, or the plan in a file, to `path` as a page for a browser."""
    if isinstance(answer, Result):
        answer.report(path)
    else:
        command("plan", "show", answer, report=path)
