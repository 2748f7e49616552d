"""What the frameworks say of plans that we refuse: their exports are written all the same."""

import collections
import shutil
import subprocess

MOST = 150  # plans that are tried


def fields_of(refusal):
    """Returns the fields of a refusal's text. Values differ from plan to plan."""
    return {part.split(" ")[0] for part in refusal.split("; ")}


def write_refused(build, framework, beside, directory):
    """Writes exports of the plans below directory/refused; returns how many could be written."""
    program = build / "tests/validation/frameworks/refused_export"
    if not program.exists():
        return 0
    if (directory / "refused").exists():
        shutil.copy(directory / "parameters.json", directory / "refused")
    written = 0
    for kept in sorted((directory / "refused").glob("*"))[:MOST]:
        for name in [framework, *beside]:
            done = subprocess.run([program, kept / "plan.json", name, kept / "exports" / name],
                                  capture_output=True, check=False)
            written += name == framework and done.returncode == 0
    return written


def compare(results, directory):
    """Returns sentences: which of our refusals the framework shares, by their fields."""
    shared, alone = collections.Counter(), collections.Counter()
    for result in results:
        kept = directory / "refused" / result["plan"]
        fields = fields_of((kept / "refusal.txt").read_text(encoding="utf-8"))
        if len(fields) == 1:  # otherwise any of them may be what the framework refuses
            (shared if result["fault"] else alone).update(fields)
    return [f"{field} alone refused in {shared[field] + alone[field]} plans, of which the "
            f"framework's reader refuses {shared[field]}, too"
            for field in sorted(shared | alone)]
