"""Reads exported orders as torch.distributed.pipelining reads them, with all three of its checks: one
alone passes orders that deadlock across ranks."""

import csv
import json
import pathlib
from unittest import mock


def _actions(file):
    from torch.distributed.pipelining.schedules import _Action

    with open(file, newline="", encoding="utf-8") as text:
        return {rank: [_Action.from_str(cell) for cell in row]
                for rank, row in enumerate(csv.reader(text))}


def _single(actions):
    """Returns orders whose overlapped pairs are two actions: torch simulates no pairs."""
    return {rank: [part for action in order if action is not None
                   for part in (action.sub_actions or (action,))]
            for rank, order in actions.items()}


def check_schedule(file):
    """Raises where torch refuses the orders, finds no place for a message, or runs into a wait.
    Returns how many ranks, stages and microbatches the orders have."""
    from torch.distributed.pipelining import schedules

    actions = _actions(file)
    num_ranks = len(actions)  # torch empties the orders while it adds messages
    singles = _single(actions)
    stages = 1 + max(action.stage_index for order in singles.values() for action in order)
    microbatches = 1 + max(
        action.microbatch_index for order in singles.values() for action in order)
    ranks = schedules._validate_schedule(actions, num_ranks, stages, microbatches)
    with_messages = schedules._add_send_recv(actions, ranks.__getitem__, stages)
    schedules._simulate_comms_compute(_single(with_messages), ranks.__getitem__, stages)
    return num_ranks, stages, microbatches


def check_same_orders(name, num_ranks, stages_per_rank, file):
    """Raises where torch's schedule of a name refuses these numbers, or has other orders than the
    file. Schedules of one stage per rank write no orders down: these are only constructed."""
    from torch.distributed.pipelining import schedules

    expected = _single(_actions(file))
    microbatches = 1 + max(action.microbatch_index for action in expected[0])
    schedule_class = schedules.get_schedule_class(name)
    stages = [mock.MagicMock(group_size=num_ranks, group_rank=0, stage_index=index * num_ranks,
                             num_stages=num_ranks * stages_per_rank)
              for index in range(stages_per_rank)]
    if issubclass(schedule_class, schedules.PipelineScheduleSingle):
        schedule_class(stages[0], microbatches)
        return
    with mock.patch.object(schedule_class, "_prepare_schedule_with_comms"):
        schedule = schedule_class(stages, microbatches)
    found = _single(schedule.pipeline_order)
    for rank, order in expected.items():
        if found[rank] != order:
            raise ValueError(f"{name}, rank {rank}: torch runs {' '.join(map(str, found[rank]))}, "
                             f"the plan {' '.join(map(str, order))}")


def check(directory):
    """Raises where torch refuses an export of `ptdp-plan export --to schedule-csv`, or where its
    orders are for other ranks, stages or microbatches than the plan's."""
    directory = pathlib.Path(directory)
    plan = json.loads((directory.parents[1] / "plan.json").read_text(encoding="utf-8"))
    config = plan["config"]
    expected = (config["pp"], config["pp"] * config["vpp"], plan["schedule"]["num_microbatches"])
    found = check_schedule(directory / "schedule.csv")
    if found != expected:
        raise ValueError(f"{found} ranks, stages and microbatches: expected {expected}")
