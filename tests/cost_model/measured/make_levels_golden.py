"""Writes tests/golden/levels_runs.csv and levels_fit.csv with statsmodels and scipy from PyPI.

The runs are drawn from the model itself, with a fixed seed. `weight` is 1 over the scatter of a run's
scope, so that the weighted rows have one variance: statsmodels then fits the model of
cost_model/measured/levels.h, variance components and best linear unbiased predictions of scopes.
"""
import csv
import pathlib
import sys

import numpy
import scipy.optimize
import scipy.stats
import statsmodels
from statsmodels.regression.mixed_linear_model import MixedLM, MixedLMParams, VCSpec

SCATTER, SCATTER_RUNS = 0.05, 2.0
TRUTH = {"program": 0.12, "stack": 0.08, "experts": 0.06, "cluster": 0.07, "job": 0.6, "noise": 0.8}


def draw():
    random = numpy.random.default_rng(20261127)
    rows = []
    for program in range(4):
        u_program = random.normal(0, TRUTH["program"])
        for stack in range(random.integers(2, 6)):
            u_stack = random.normal(0, TRUTH["stack"])
            for experts in range(random.integers(1, 3)):
                u_experts = random.normal(0, TRUTH["experts"])
                for cluster in range(random.integers(1, 4)):
                    mean = 0.1 + u_program + u_stack + u_experts + random.normal(0, TRUTH["cluster"])
                    width = SCATTER * numpy.sqrt(SCATTER_RUNS / random.chisquare(SCATTER_RUNS))
                    for job in range(random.integers(1, 5)):
                        u_job = random.normal(0, TRUTH["job"] * width)
                        for _ in range(random.integers(1, 5)):
                            y = mean + u_job + random.normal(0, TRUTH["noise"] * width)
                            rows.append((f"p{program}", f"p{program}s{stack}", experts, f"c{cluster}",
                                         f"j{job}", round(float(y), 6)))
    return rows


def fit(rows):
    y = numpy.array([row[5] for row in rows])
    scopes = ["/".join(map(str, row[:4])) for row in rows]
    scatter = {}
    samples = []
    for scope in dict.fromkeys(scopes):
        of_scope = y[[s == scope for s in scopes]]
        squares = float(((of_scope - of_scope.mean()) ** 2).sum())
        scatter[scope] = (squares + SCATTER_RUNS * SCATTER**2) / (len(of_scope) - 1 + SCATTER_RUNS)
        if len(of_scope) > 1:
            samples.append((len(of_scope) - 1, squares / (len(of_scope) - 1)))
    weight = numpy.array([scatter[s] ** -0.5 for s in scopes])
    names, columns, matrices = [], [], []
    for depth, name in enumerate(["program", "stack", "experts", "cluster", "job"], 1):
        keys = ["/".join(map(str, row[:depth])) for row in rows]
        distinct = list(dict.fromkeys(keys))
        matrix = numpy.array([[float(k == d) for d in distinct] for k in keys])
        names.append(name)
        columns.append([distinct])
        matrices.append([matrix if name == "job" else matrix * weight[:, None]])
    model = MixedLM(y * weight, weight[:, None], groups=numpy.zeros(len(rows)),
                    exog_vc=VCSpec(names, columns, matrices))
    # From the truth that the runs were drawn with: from elsewhere it stops at lower likelihoods.
    start = MixedLMParams.from_components(
        fe_params=numpy.array([0.1]), cov_re=numpy.zeros((0, 0)),
        vcomp=numpy.array([(TRUTH[name] / TRUTH["noise"]) ** 2 for name in names]))
    result = model.fit(start_params=start, reml=True, method=["powell", "bfgs"], maxiter=2000)
    effects = result.random_effects[0.0]
    mean = float(result.fe_params[0])

    def effect(name, key):
        return float(effects[f"{name}[{key}]"])

    out = [("variance", name, variance) for name, variance in zip(names, result.vcomp)]
    out.append(("variance", "noise", result.scale))
    out.append(("mean", "all", mean))
    for scope in scatter:
        parts = scope.split("/")
        total = mean + sum(effect(name, "/".join(parts[:depth]))
                           for depth, name in enumerate(["program", "stack", "experts", "cluster"], 1))
        out.append(("scope", scope, total))
    # The scatter's prior: sample variances over w0² follow Fisher's distribution.
    best = scipy.optimize.minimize(
        lambda x: -sum(scipy.stats.f.logpdf(s / numpy.exp(x[0]), n, numpy.exp(x[1])) - x[0]
                       for n, s in samples), [numpy.log(SCATTER**2), 0.7], method="Nelder-Mead",
        options={"xatol": 1e-8, "fatol": 1e-12, "maxiter": 10000})
    out.append(("scatter", "w0", float(numpy.exp(best.x[0] / 2))))
    out.append(("scatter", "v", float(numpy.exp(best.x[1]))))
    return out, result


def main():
    folder = pathlib.Path(__file__).parents[2] / "golden"
    rows = draw()
    out, result = fit(rows)
    with open(folder / "levels_runs.csv", "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["program", "stack", "experts", "cluster", "job", "log_ratio"])
        writer.writerows(rows)
    with open(folder / "levels_fit.csv", "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["what", "name", "value"])
        writer.writerows((what, name, f"{value:.9g}") for what, name, value in out)
    print(len(rows), "runs, statsmodels", statsmodels.__version__, "converged", result.converged,
          file=sys.stderr)


if __name__ == "__main__":
    main()
