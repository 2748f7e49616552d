"""One section of tools/gpu-check: what it found, what it remembers, and how it is kept."""

import datetime
import json
import os
import re
import time

SECTION_SECONDS = 460.0  # one run of a section; what is left over is done by the next one
# What a part needs is said for a full check; a short one trains a few steps of it.
SHORT_SHARE = 0.25
STATUSES = ("done", "skipped", "unfinished", "failed")


class Failed(Exception):
    """The section cannot go on."""


class Skipped(Exception):
    """There is nothing to check on this machine; no fault."""


class Unfinished(Exception):
    """Out of time: the next run goes on where this one ended."""


def write_json(path, value):
    """Replaces the file at once, so that a reader finds the old or the new one."""
    part = path.with_name(path.name + ".part")
    text = json.dumps(value, indent=1)
    # Rows of numbers on a line each; a string holds no line break of its own.
    text = re.sub(r"\[\n\s*([^\[\]{}]*?)\n\s*\]",
                  lambda row: "[" + re.sub(r"\n\s*", " ", row.group(1)) + "]", text)
    part.write_text(text + "\n")
    os.replace(part, path)


def read_json(path):
    """The object in the file, or {} where there is none or half of one."""
    try:
        value = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


class Check:
    """What a section may use while it runs: its machine, its directory, its time, its memory."""

    def __init__(self, name, machine, directory, seconds=SECTION_SECONDS):
        self.name = name
        self.machine = machine
        self.file = directory / f"{name}.json"
        self.scratch = directory / "scratch" / name
        self.log = directory / "logs" / f"{name}.log"
        self.seconds = seconds
        self.values = {}
        self.goals = []
        self.parts = read_json(self.file).get("parts", {})
        self.num_computed = 0
        self._end = time.monotonic() + seconds

    def time_left(self):
        return self._end - time.monotonic()

    def remember(self, part, compute, seconds=5.0):
        """What `compute` returned for this part, in this run of the section or in an earlier one.
        Not begun with fewer than `seconds` left, as a full check needs them."""
        if part not in self.parts:
            seconds *= 1.0 if self.machine.is_full else SHORT_SHARE
            if self.time_left() < seconds:
                raise Unfinished(f"{part} needs {seconds:.0f} s")
            self.parts[part] = compute()
            self.num_computed += 1
            self.save("unfinished")
        return self.parts[part]

    def goal(self, what, wanted, value, met):
        """`wanted` and `value` as they are shown; `met` decides the exit status."""
        self.goals.append({"what": what, "goal": wanted, "value": value, "met": bool(met)})

    def skip(self, what, why):
        """A part of the section for which this machine has not what it takes."""
        self.goals.append({"what": what, "goal": "", "value": why, "met": None})

    def tell(self, what, value):
        """A number without a goal."""
        self.goals.append({"what": what, "goal": "-", "value": value, "met": None})

    def save(self, status, message=""):
        record = {"section": self.name, "status": status,
                  "date": datetime.datetime.now(datetime.timezone.utc).isoformat("T", "seconds"),
                  "machine": self.machine.description(), "goals": self.goals,
                  "values": self.values, "parts": self.parts}
        if message:
            record["message"] = message
        write_json(self.file, record)
        return record

    def run(self, function):
        """Runs the section, whatever becomes of it; returns its record."""
        for directory in (self.scratch, self.log.parent):
            directory.mkdir(parents=True, exist_ok=True)
        start = time.monotonic()
        message = ""
        status = "done"
        try:
            function(self)
        except Skipped as reason:
            status, message = "skipped", str(reason)
        except Unfinished as reason:
            status, message = "unfinished", str(reason)
            # Whoever runs it again and again must learn that it leads nowhere.
            if self.num_computed == 0 and self.seconds >= SECTION_SECONDS:
                status, message = "failed", f"too slow for {self.seconds:.0f} s: {reason}"
        except Failed as fault:
            status, message = "failed", str(fault)
        except (OSError, ValueError, KeyError, IndexError, TypeError, ZeroDivisionError) as fault:
            # Output of a program that is not what was expected.
            status, message = "failed", f"{type(fault).__name__}: {fault}"
        record = self.save(status, message)
        record["seconds"] = round(time.monotonic() - start, 1)
        write_json(self.file, record)
        return record
