"""Section `rehearsal`: one rank of a large plan at full size, as it is predicted from the profile
of this GPU."""

import json

from check import Failed
from commands import make_plan, program, run_program, succeeded

TIME, MEMORY = 0.05, 0.03
REHEARSAL_SECONDS = 150.0
# name: flags of ptdp-plan.
PLANS = {
    "1T": ["--model", "1T", "--gpus", 3072, "--tp", 8, "--pp", 64, "--schedule", "1f1b"],
    "175B": ["--model", "gpt3-175b", "--gpus", 64, "--tp", 8, "--pp", 8, "--schedule", "1f1b"],
}
TINY = {"layers": 4, "hidden": 64, "heads": 4, "length": 32, "vocabulary": 256, "batch": 16}
TINY_PLANS = {"tiny": ["--gpus", 8, "--tp", 2, "--pp", 4, "--micro-batch-size", 1]}


def plan_of(check, name, flags):
    if check.machine.rehearses:
        plan = make_plan(check, name, TINY, flags)
        if plan is None:
            raise Failed(f"{name}: nothing fits")
        return plan
    plan = check.scratch / f"{name}.plan.json"
    cluster = check.machine.cluster_flags()
    stack = [] if "--stack" in cluster else ["--stack", "ptdp-cuda"]
    succeeded(run_program(check, [program(check, "ptdp-plan"), *cluster, *stack, "--calibration",
                                  "none", "-o", plan, "--format", "csv", *flags]))
    return plan


def rehearse(check, name, flags):
    """What is kept of the report, which stays beside the section's file."""
    plan = plan_of(check, name, flags)
    target = check.machine.directory / f"rehearsal-{name}.json"
    device = check.machine.device_flags()
    done = succeeded(run_program(check, [program(check, "ptdp-run"), plan, "--rehearse", "--stage",
                                         "middle", "--quiet", "-o", target, *device]))
    return kept(json.loads(target.read_text())) | {"text": done.stdout[-6000:],
                                                   "planned_from": check.machine.planned_from()}


def kept(report):
    if len(report["ranks"]) != 1:
        raise Failed(f"expected one rehearsed rank, got {len(report['ranks'])}")
    rank = report["ranks"][0]
    memory = {row["category"]: row for row in rank["memory"]}
    return {"like_for_like": report["basis"]["like_for_like"], "rates": report["basis"]["rates"],
            "pipeline_rank": rank["pipeline_rank"],
            "compute_s": [rank["predicted_compute_s"], rank["measured_compute_s"]],
            "peak_bytes": [memory["peak"]["predicted_bytes"], memory["peak"]["measured_bytes"]],
            "actions": {action["kind"]: [action["predicted_s"], action["measured_s"]]
                        for action in rank["actions"]},
            "iteration_s": [report["predicted"]["iteration_time_s"],
                            report["composed"]["iteration_time_s"]]}


def error_of(pair):
    predicted, measured = pair
    return predicted / measured - 1


def judge(check, name, result):
    what = f"{name}, rank {result['pipeline_rank']} of its pipeline"
    is_estimate = check.machine.rehearses or result.get("planned_from") == "data sheet"
    if is_estimate:
        check.tell(f"{what}: predicted from", result.get("planned_from", "host"))
    else:
        check.goal(f"{what}: the plan is for this GPU", "yes", result["rates"],
                   result["like_for_like"])
    time, memory = error_of(result["compute_s"]), error_of(result["peak_bytes"])
    seconds, mebibytes = result["compute_s"][1], result["peak_bytes"][1] / 2**20
    value = f"{100 * time:+.1f} % of {seconds:.3f} s"
    if is_estimate:
        check.tell(f"{what}: compute of an iteration", value)
    else:
        check.goal(f"{what}: compute of an iteration", f"within {100 * TIME:.0f} %", value,
                   abs(time) <= TIME)
    check.goal(f"{what}: peak memory", f"within {100 * MEMORY:.0f} %",
               f"{100 * memory:+.1f} % of {mebibytes:.1f} MiB", abs(memory) <= MEMORY)
    check.tell(f"{what}: iteration of the cluster, predicted and composed",
               " s, ".join(f"{seconds:.4g}" for seconds in result["iteration_s"]) + " s")


def rehearsal(check):
    plans = TINY_PLANS if check.machine.rehearses else PLANS
    if not check.machine.is_full:
        plans = dict(list(plans.items())[:1])
    for name, flags in plans.items():
        result = check.remember(name, lambda name=name, flags=flags: rehearse(check, name, flags),
                                REHEARSAL_SECONDS if not check.machine.rehearses else 5.0)
        check.values[name] = result
        judge(check, name, result)
