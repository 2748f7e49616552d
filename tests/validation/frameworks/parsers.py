"""Reads the exports of many plans with one framework's own parser, in a process of its own.

usage: parsers.py FRAMEWORK DIRECTORY. Prints a line of JSON for each export: {"plan", "fault"}. The
framework's file in readers/, such as megatron.py, has check(directory), which raises what is
wrong."""

import contextlib
import importlib
import json
import logging
import os
import pathlib
import sys
import traceback
import warnings


def main(framework, directory):
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    module = importlib.import_module("readers." + framework.replace("-", "_"))
    for path in sorted(pathlib.Path(directory).resolve().glob(f"*/exports/{framework}")):
        fault = ""
        with open(os.devnull, "w", encoding="utf-8") as nowhere, \
                contextlib.redirect_stdout(nowhere):
            try:
                module.check(path)
            except (Exception, SystemExit) as error:  # whatever a parser refuses with
                place = traceback.extract_tb(error.__traceback__)[-1]
                fault = f"{type(error).__name__}: {error} ({place.name}:{place.lineno})"
        print(json.dumps({"plan": path.parents[1].name, "fault": fault[:600]}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
