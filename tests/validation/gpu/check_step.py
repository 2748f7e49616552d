"""Sections `step` and `dropout`: a step of two wide layers, term by term beside its prediction;
and what dropout of attention's probabilities adds to it."""

from check import Failed
from commands import keep_run, make_plan, one_gpu, train
from shapes import TINY_STACKS, VOCABULARY

LAYERS = 2
SHAPE = {"layers": LAYERS, "hidden": 4096, "heads": 32, "length": 4096, "vocabulary": VOCABULARY,
         "batch": 4}
STEPS, WARM_UP = 8, 3
RUN_SECONDS = 30.0
WORST = 0.08  # goal: error of a step's time, as in section `sweep`
LEAST_SHARE = 0.01  # of a step, for a term that is shown
RATE = 0.1


def shape_of(check):
    """Without positions, and so without dropout."""
    shape = SHAPE
    if check.machine.rehearses:
        stack = next(iter(TINY_STACKS.values()))
        shape = {"layers": 1, **{key: stack[key] for key in SHAPE if key in stack}}
    return shape | {"positions": "none"}


def run_step(check, name, shape):
    """Times of a step and of its terms [s], predicted and measured."""
    plan = make_plan(check, name, shape, one_gpu(1))
    if plan is None:
        raise Failed(f"{name}: does not fit")
    report = train(check, plan, name, [*check.machine.device_flags(), "--steps", STEPS,
                                       "--warm-up", WARM_UP])
    keep_run(check, name)
    memory = report["memory"][0]
    return {"planned_from": check.machine.planned_from(),
            "seconds": [report["predicted"]["iteration_time_s"],
                        report["measured"]["iteration_time_s"]],
            "terms": {term["term"]: [term["predicted_s"], term["measured_s"]]
                      for term in report["terms"]},
            "intervals": {term["term"]: [term["low_s"], term["high_s"]]
                          for term in report["terms"] if "low_s" in term},
            "peak_bytes": [memory["predicted_bytes"], memory["measured_bytes"]]}


def error_of(pair):
    predicted, measured = pair
    return predicted / measured - 1


def judge_time(check, what, result):
    """Against a goal where the prediction is from this GPU's profile."""
    value = (f"{100 * error_of(result['seconds']):+.1f} % of "
             f"{1e3 * result['seconds'][1]:.4g} ms")
    what = f"{what}: predicted from the {result['planned_from']}"
    if result["planned_from"] != "profile" or check.machine.rehearses:
        check.tell(what, value)
    else:
        check.goal(what, f"within {100 * WORST:.0f} %", value,
                   abs(error_of(result["seconds"])) <= WORST)


def judge_term(check, what, pair, interval):
    """Against the 90 % interval of its prediction, where there is one."""
    error = f"{100 * error_of(pair):+.1f} % of " if pair[1] > 0 else ""
    value = f"{error}{1e3 * pair[1]:.4g} ms"
    if interval is None or check.machine.rehearses:
        check.tell(what, value)
    else:
        low, high = interval
        check.goal(what, f"{1e3 * low:.4g} to {1e3 * high:.4g} ms", value,
                   low <= pair[1] <= high)


def step(check):
    shape = shape_of(check)
    found = check.remember("step", lambda: run_step(check, "step", shape), RUN_SECONDS)
    check.values |= found
    what = f"step of {shape['layers']} layers, hidden {shape['hidden']}"
    judge_time(check, what, found)
    for name, pair in found["terms"].items():
        if max(pair) >= LEAST_SHARE * found["seconds"][1]:
            judge_term(check, f"{what}: {name}", pair, found["intervals"].get(name))


def dropout(check):
    """Dropout of attention's probabilities, which cuDNN's kernel of ours does not compute."""
    shape = shape_of(check) | {"positions": "learned"}
    rates = {"without": {"dropout": False},
             "with": {"hidden_dropout": 0, "embedding_dropout": 0, "attention_dropout": RATE}}
    without, with_it = (check.remember(
        name, lambda name=name, rates=rates: run_step(check, name, shape | rates),
        RUN_SECONDS) for name, rates in rates.items())
    costs = [with_it["seconds"][side] / without["seconds"][side] for side in (0, 1)]
    check.values |= {"without": without, "with": with_it, "cost": costs}
    what = f"step with attention dropout {RATE}"
    judge_time(check, what, with_it)
    check.tell(f"{what}, times one without: predicted and measured",
               f"{costs[0]:.2f}, {costs[1]:.2f}")
