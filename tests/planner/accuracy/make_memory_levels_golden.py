"""Writes tests/golden/memory_levels_fit.csv with scipy from PyPI.

usage: ptdp-validate --format json | python3 make_memory_levels_golden.py

Fits the model of cost_model/measured/levels.h to what the published rows with measured memory have
beyond the formulas [GiB]: first how scopes scatter, by Fisher's distribution of their sample
variances, then all variances by restricted likelihood (REML). That is written with one covariance
matrix over all rows; the project passes messages from level to level instead.
"""
import csv
import json
import pathlib
import sys

import numpy
import scipy.linalg
import scipy.optimize
import scipy.stats

ROOT = pathlib.Path(__file__).parents[3]
LEAST, MOST = 1e-6, 1e3  # the range of fitted variances (level_fit.h)
LEAST_OF_CLUSTERS = 16.0
OF_EXPERTS = 4.0  # all rows are of dense models, which say nothing of it: where the search starts
LEVELS = ["program", "stack", "experts", "cluster"]


def published_rows():
    """Returns the rows of profiles/published by id."""
    rows = {}
    for path in sorted((ROOT / "profiles/published").glob("*.csv")):
        with open(path, newline="") as file:
            rows.update((row["id"], row) for row in csv.DictReader(file))
    return rows


def program_of(stack):
    """Returns the kind of program that a stack is."""
    return json.loads((ROOT / f"profiles/stacks/{stack}.json").read_text()).get("program", "other")


def read(report):
    """Returns the levels, the job and the memory beyond the formulas of each row."""
    published = published_rows()
    paths, jobs, values = [], [], []
    for row in report["memory"]["rows"]:
        source = published[row["id"]]
        experts = source.get("experts") or source.get("num_experts") or ""
        paths.append((program_of(row["stack"]), row["stack"], experts not in ("", "0", "1"),
                      source["cluster_key"]))
        shape = [source[key] for key in ("layers", "hidden", "ffn", "vocab", "seq", "gbs")]
        gpus = numpy.prod([int(source.get(key) or 1) for key in ("tp", "pp", "dp", "cp")])
        jobs.append((*shape, str(gpus)))
        values.append(row["measured_GiB"] - row["formulas_GiB"])
    return paths, jobs, numpy.array(values)


def fit_scatter(samples):
    """Returns w0² and v: sample variances over w0² follow Fisher's distribution."""
    best = scipy.optimize.minimize(
        lambda x: -sum(scipy.stats.f.logpdf(s / numpy.exp(x[0]), n, numpy.exp(x[1])) - x[0]
                       for n, s in samples), [numpy.log(4.0), 0.0], method="Nelder-Mead",
        options={"xatol": 1e-9, "fatol": 1e-12, "maxiter": 10000})
    return numpy.exp(best.x)


def alike(keys):
    """Returns the matrix that is 1 where two rows share a key."""
    return numpy.array([[float(a == b) for b in keys] for a in keys])


def restricted_log_likelihood(covariance, y):
    factor = scipy.linalg.cho_factor(covariance)
    ones = numpy.ones(len(y))
    weights = scipy.linalg.cho_solve(factor, ones)
    residual = y - (weights @ y) / weights.sum()
    logdet = 2.0 * numpy.log(numpy.diag(factor[0])).sum()
    return -0.5 * (logdet + numpy.log(weights.sum())
                   + residual @ scipy.linalg.cho_solve(factor, residual))


def fit(paths, jobs, y):
    of_scope = {path: [i for i, other in enumerate(paths) if other == path]
                for path in dict.fromkeys(paths)}
    squares = {path: float(((y[i] - y[i].mean()) ** 2).sum()) for path, i in of_scope.items()}
    w0_squared, v = fit_scatter([(len(i) - 1, max(1e-6, squares[path] / (len(i) - 1)))
                                 for path, i in of_scope.items() if len(i) > 1])
    scatter = numpy.array([(squares[path] + v * w0_squared) / (len(of_scope[path]) - 1 + v)
                           for path in paths])
    parts = [alike([path[:depth] for path in paths]) for depth in range(1, len(LEVELS) + 1)]
    parts.append(alike(list(zip(paths, jobs))) * scatter)
    parts.append(numpy.diag(scatter))

    def loss(logarithms):
        return -restricted_log_likelihood(
            sum(numpy.exp(x) * part for x, part in zip(logarithms, parts)), y)

    bounds = [(numpy.log(LEAST), numpy.log(MOST))] * len(parts)
    bounds[LEVELS.index("cluster")] = (numpy.log(LEAST_OF_CLUSTERS), numpy.log(MOST))
    bounds[LEVELS.index("experts")] = (numpy.log(OF_EXPERTS), numpy.log(OF_EXPERTS))
    starts = [[numpy.log(a)] * len(LEVELS) + [numpy.log(b)] * 2 for a in (0.1, 4.0, 50.0)
              for b in (0.1, 0.5)]
    best = min((scipy.optimize.minimize(loss, start, method="L-BFGS-B", bounds=bounds,
                                        options={"ftol": 1e-15, "gtol": 1e-8, "maxiter": 10000})
                for start in starts), key=lambda found: found.fun)
    names = [*LEVELS, "job", "noise"]
    return [("scatter", numpy.sqrt(w0_squared)), ("scatter_runs", v),
            *zip(names, numpy.exp(best.x))], best


def main():
    paths, jobs, values = read(json.load(sys.stdin))
    out, best = fit(paths, jobs, values)
    with open(ROOT / "tests/golden/memory_levels_fit.csv", "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["name", "value"])
        writer.writerows((name, f"{value:.6g}") for name, value in out)
    print(len(values), "rows, scipy", scipy.__version__, "converged", best.success, file=sys.stderr)


if __name__ == "__main__":
    main()
