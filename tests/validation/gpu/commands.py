"""Runs the built programs for the sections: with a time limit, an end and a log each."""

import json
import os
import shutil
import signal
import subprocess
import time

from check import Failed, Unfinished

LONGEST = 400.0  # seconds of one program
LEAST = 1.0
MODEL_KEYS = {"layers": "num_layers", "hidden": "hidden_size", "heads": "num_attention_heads",
              "length": "seq_length", "vocabulary": "vocab_size", "batch": "global_batch_size",
              "positions": "position_embedding", "dropout": "dropout",
              "hidden_dropout": "hidden_dropout", "embedding_dropout": "embedding_dropout",
              "attention_dropout": "attention_dropout"}


def end_group(process, how=signal.SIGKILL):
    """Of a process that began a group of its own."""
    try:
        os.killpg(process.pid, how)
    except ProcessLookupError:
        pass


def note(check, text):
    check.log.parent.mkdir(parents=True, exist_ok=True)
    with open(check.log, "a", encoding="utf-8") as log:
        log.write(text if text.endswith("\n") else text + "\n")


def run_program(check, command, environment=None, longest=LONGEST):
    """The finished program, whatever its status. Failed where it takes longer than `longest`,
    Unfinished where the section has no more time."""
    command = [str(word) for word in command]
    name = os.path.basename(command[0])
    left = check.time_left()
    if left < LEAST:
        raise Unfinished(f"before {name}")
    start = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          start_new_session=True, errors="replace",
                          env=environment or check.machine.program_environment()) as process:
        try:
            stdout, stderr = process.communicate(timeout=min(longest, left))
        except subprocess.TimeoutExpired:
            end_group(process)
            stdout, stderr = process.communicate()
            note(check, f"$ {' '.join(command)}\n{stdout[-20000:]}{stderr[-20000:]}"
                        f"ended after {time.monotonic() - start:.0f} s\n")
            if left < longest:
                raise Unfinished(f"in {name}") from None
            raise Failed(f"{name} took over {longest:.0f} s") from None
        except BaseException:
            end_group(process)
            raise
    note(check, f"$ {' '.join(command)}\n{stdout[-20000:]}{stderr[-20000:]}"
                f"status {process.returncode} after {time.monotonic() - start:.1f} s\n")
    return subprocess.CompletedProcess(command, process.returncode, stdout, stderr)


def last_line(done):
    lines = [line for line in (done.stderr or done.stdout).splitlines() if line.strip()]
    return lines[-1].strip() if lines else "no message"


def succeeded(done):
    """The same program, if it ended well."""
    if done.returncode != 0:
        raise Failed(f"{os.path.basename(done.args[0])}: status {done.returncode}: "
                     f"{last_line(done)}")
    return done


def program(check, name):
    path = check.machine.find_program(name)
    if path is None:
        raise Failed(f"{name} is not built: cmake --preset gpu && cmake --build --preset gpu")
    return path


def write_model(path, shape):
    """A model file; `shape` has the keys of MODEL_KEYS."""
    model = {"schema": "ptdp.model/1", "name": path.stem, "source": "tools/gpu-check"}
    model.update({MODEL_KEYS[key]: value for key, value in shape.items()})
    path.write_text(json.dumps(model))
    return path


def make_plan(check, name, shape, flags, cluster=None):
    """A plan with `flags` of ptdp-plan; None where nothing fits."""
    model = write_model(check.scratch / f"{name}.model.json", shape)
    plan = check.scratch / f"{name}.plan.json"
    done = run_program(check, [
        program(check, "ptdp-plan"), *(cluster or check.machine.cluster_flags()),
        "--model", model, "--calibration", "none", "-o", plan, "--format", "csv", *flags])
    if done.returncode == 3:
        return None
    succeeded(done)
    return plan


def one_gpu(microbatch, recompute="none"):
    """Flags of ptdp-plan for a single GPU."""
    return ["--gpus", 1, "--tp", 1, "--pp", 1, "--dp", 1, "--schedule", "1f1b",
            "--micro-batch-size", microbatch, "--recompute", recompute]


def run_plan(check, plan, name, flags):
    """Status, report ({} where none was written) and messages of ptdp-run."""
    report = check.scratch / f"{name}.run.json"
    report.unlink(missing_ok=True)
    done = run_program(check, [program(check, "ptdp-run"), plan, "--quiet", "-o", report, *flags])
    return done, json.loads(report.read_text()) if report.exists() else {}


def train(check, plan, name, flags):
    """The report of a run that must succeed."""
    done, report = run_plan(check, plan, name, flags)
    succeeded(done)
    return report


def keep_run(check, name):
    """Puts the report of run_plan() where ptdp-validate and ptdp-calibrate find it, if the run was
    predicted from the profile of this GPU: fits of other predictions say nothing about it."""
    if check.machine.measured_cluster().exists():
        check.machine.runs().mkdir(parents=True, exist_ok=True)
        shutil.copy(check.scratch / f"{name}.run.json",
                    check.machine.runs() / f"{check.name}-{name}.json")
