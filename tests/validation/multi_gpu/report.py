"""What tools/multi-gpu-check leaves: report.json and report.md beside the sections' files."""

import os

from check import write_json
from sections import DONE, FAULT, MISSED, exit_status

VERDICTS = {True: "PASS", False: "FAIL"}


def verdict_of(record):
    """PASS, FAIL or SKIP of a section, and why."""
    if record.get("status") == "skipped":
        return "SKIP", record.get("message", "")
    if record.get("status") != "done":
        status, why = record.get("status", "not run"), record.get("message", "")
        return "FAIL", f"{status}: {why}" if why else status
    goals = record.get("goals", [])
    missed = [goal["what"] for goal in goals if goal["met"] is False]
    if missed:
        return "FAIL", f"missed: {', '.join(missed)}"
    met = sum(goal["met"] is True for goal in goals)
    skipped = sum(goal["met"] is None and not goal["goal"] for goal in goals)
    if not met:
        return "SKIP", ("numbers without a goal: there is none for this machine"
                        if len(goals) > skipped else "nothing of it could be tried here")
    return "PASS", f"{met} goals met" + (f", {skipped} skipped" if skipped else "")


def verdict_of_goal(goal):
    if goal["met"] is None:
        return "noted" if goal["goal"] else "SKIP"
    return VERDICTS[goal["met"]]


def cell(text):
    return str(text).replace("|", "\\|").replace("\n", " ")


def markdown(description, records):
    status = exit_status(records)
    meaning = {DONE: "all ran and met their goals", MISSED: "a goal is missed",
               FAULT: "a section failed or is not finished"}[status]
    lines = ["# multi-gpu-check", "", f"Status {status}: {meaning}.", ""]
    lines += [f"- {name}: {cell(value)}" for name, value in description.items()]
    lines += ["", "| section | verdict | why | date | seconds |", "|---|---|---|---|---|"]
    for name, record in records.items():
        verdict, why = verdict_of(record)
        lines.append(f"| {name} | {verdict} | {cell(why)} | {record.get('date', '')} | "
                     f"{record.get('seconds', '')} |")
    for name, record in records.items():
        if not record.get("goals"):
            continue
        lines += ["", f"## {name}", "", "| what | goal | value | verdict |", "|---|---|---|---|"]
        lines += [f"| {cell(goal['what'])} | {cell(goal['goal'])} | {cell(goal['value'])} | "
                  f"{verdict_of_goal(goal)} |" for goal in record["goals"]]
    return "\n".join(lines) + "\n"


def write_report(machine, records):
    """Both files; returns the exit status."""
    description = machine.description()
    status = exit_status(records)
    sections = {name: {"verdict": verdict_of(record)[0], "why": verdict_of(record)[1],
                       **{key: value for key, value in record.items() if key != "parts"}}
                for name, record in records.items()}
    write_json(machine.directory / "report.json",
               {"schema": "ptdp.multi-gpu-check/1", "status": status, "machine": description,
                "sections": sections})
    part = machine.directory / "report.md.part"
    part.write_text(markdown(description, records))
    os.replace(part, machine.directory / "report.md")
    return status
