"""Section `pytorch`: the same stack in PyTorch on the same machine, in turn with ptdp-run."""

import importlib.util
import json
import pathlib
import statistics
import sys

from check import Failed, Skipped, read_json
from check_speed import run_stack, stacks
from commands import run_program, succeeded
from shapes import model_of

MODES = ("max-autotune", "max-autotune-no-cudagraphs")
SHORT_MODES = ("default",)  # compiles in half the time
SHORT_MICROBATCH = 2  # more may end PyTorch's memory, and each attempt compiles anew
STEPS, WARM_UP = 5, 3
RUN_SECONDS = 60.0
FEWER = 0.85  # layers, of those that ptdp-run fits, and again while PyTorch runs out of memory
TRIES = 4
GOAL, STRETCH = 1.0, 1.05
LAYERS = 12  # where section `speed` has not said how many fit


def python_environment(check):
    """Compiled code is kept, so that it is made once. No library path of ours."""
    cache = check.scratch / "cache"
    return {**check.machine.environment,
            "TORCHINDUCTOR_CACHE_DIR": str(cache / "inductor"),
            "TRITON_CACHE_DIR": str(cache / "triton"),
            "TORCHINDUCTOR_FX_GRAPH_CACHE": "1", "TORCHINDUCTOR_AUTOGRAD_CACHE": "1",
            "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}


def run_pytorch(check, stack, layers, microbatch, mode):
    """Its times, or None where memory ended."""
    shape = model_of(stack, layers)
    del shape["dropout"]  # it has none
    script = pathlib.Path(__file__).with_name("torch_step.py")
    command = [sys.executable, script, "--mode", mode, "--steps", STEPS, "--warm-up", WARM_UP,
               "--microbatch", microbatch, "--microbatches", shape.pop("batch") // microbatch]
    for key, value in shape.items():
        command += [f"--{key}", value]
    if check.machine.rehearses:
        command += ["--device", "cpu"]
    # Compiling may take all the time there is.
    done = succeeded(run_program(check, command, python_environment(check), check.seconds))
    result = json.loads(done.stdout.splitlines()[-1])
    return None if "out_of_memory" in result else result


def fit(check, stack, layers, microbatch, mode):
    """With as many layers as PyTorch has memory for, at most `layers`."""
    tried = []
    for _ in range(TRIES):
        tried.append(layers)
        # Each attempt is remembered: they take minutes.
        result = check.remember(f"{mode}, {layers} layers", lambda layers=layers: run_pytorch(
            check, stack, layers, microbatch, mode), RUN_SECONDS)
        if result is not None:
            return layers, result
        layers = max(int(layers * FEWER), 1)
    raise Failed(f"PyTorch runs out of memory with {' and '.join(map(str, tried))} layers")


def pytorch(check):
    if check.machine.emulates:
        raise Skipped("PyTorch knows no emulated GPU")
    if importlib.util.find_spec("torch") is None:
        raise Skipped(f"{sys.executable} has no PyTorch")
    modes = ("eager",) if check.machine.rehearses else \
        MODES if check.machine.is_full else SHORT_MODES
    name, stack = next(iter(stacks(check.machine).items()))
    fitted = read_json(check.machine.directory / "speed.json").get("values", {})
    fitted = fitted.get(name, {})
    layers = max(int(fitted.get("layers", LAYERS) * FEWER), 1)
    microbatch = fitted.get("micro_batch_size", 1)
    if not check.machine.is_full:
        microbatch = min(microbatch, SHORT_MICROBATCH)
    check.values["layers are"] = "those that speed fitted" if fitted else "a default"
    compiled = {}
    for mode in modes:
        layers, compiled[mode] = fit(check, stack, layers, microbatch, mode)
    for mode in modes:  # both with the layers that both have memory for
        layers, compiled[mode] = fit(check, stack, layers, microbatch, mode)
    best = min(compiled, key=lambda mode: compiled[mode]["seconds"])
    turns = {"ptdp": [], "pytorch": [compiled[best]["seconds"]]}
    for turn in (1, 2) if check.machine.is_full else (1,):
        ours = check.remember(f"ptdp, turn {turn}", lambda: run_stack(
            check, name, stack, layers, microbatch), RUN_SECONDS)
        if ours is None:
            raise Failed(f"ptdp-run is out of memory with {layers} layers, PyTorch is not")
        turns["ptdp"].append(ours["seconds"])
        if check.machine.is_full:
            theirs = check.remember(f"PyTorch, turn {turn}", lambda: run_pytorch(
                check, stack, layers, microbatch, best), RUN_SECONDS)
            turns["pytorch"].append(theirs["seconds"])
    judge(check, {"stack": name, "layers": layers, "micro_batch_size": microbatch, "mode": best,
                  "modes": compiled, "turns": turns})


def judge(check, values):
    turns = values["turns"]
    ratio = statistics.median(turns["pytorch"]) / statistics.median(turns["ptdp"])
    check.values.update(values | {"ratio": ratio})
    check.goal(f"speed against PyTorch ({values['mode']}), {values['stack']}, "
               f"{values['layers']} layers", f">= {GOAL:.2f}x (stretch {STRETCH:.2f})",
               f"{ratio:.3f}x", ratio >= GOAL)
