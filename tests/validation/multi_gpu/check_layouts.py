"""Section `layouts`: every layout trains as one rank does, over what joins the GPUs."""

from check import Failed
from check_losses import F32, SIXTEEN_BITS, largest_difference, layout_flags, steps_of
from commands import make_plan
from gpus import WORDS_OF_MEETINGS
from ranks import train

SHAPE = {"layers": 8, "hidden": 256, "heads": 8, "length": 128, "vocabulary": 1024, "batch": 8}
# As many layers as four stages of two chunks need.
TINY_SHAPE = {"layers": 8, "hidden": 32, "heads": 4, "length": 16, "vocabulary": 64, "batch": 4}
RUN_SECONDS = 60.0
ZERO_1 = ["--zero-stage", 1]
ONE_F_ONE_B, ZERO_BUBBLE = ["--schedule", "1f1b"], ["--schedule", "zb-h1"]
INTERLEAVED = ["--schedule", "interleaved", "--vpp", 2]
SEQUENCE = ["--sequence-parallel", "on"]

# name: tp, pp, dp, and further flags of ptdp-plan.
LAYOUTS = {
    "tp=2": (2, 1, 1, []),
    "tp=2, sequence parallel": (2, 1, 1, SEQUENCE),
    "pp=2, 1f1b": (1, 2, 1, ONE_F_ONE_B),
    "pp=2, interleaved": (1, 2, 1, INTERLEAVED),
    "pp=2, zb-h1": (1, 2, 1, ZERO_BUBBLE),
    "dp=2": (1, 1, 2, ["--zero-stage", 0]),
    "dp=2, ZeRO-1": (1, 1, 2, ZERO_1),
    "tp=2 pp=2": (2, 2, 1, [*ONE_F_ONE_B, *SEQUENCE]),
    "tp=2 dp=2, ZeRO-1": (2, 1, 2, ZERO_1),
    "pp=2 dp=2, zb-h1, ZeRO-1": (1, 2, 2, [*ZERO_BUBBLE, *ZERO_1]),
    "pp=4, interleaved": (1, 4, 1, INTERLEAVED),
    "tp=2 pp=2 dp=2, ZeRO-1": (2, 2, 2, [*ONE_F_ONE_B, *ZERO_1]),
    "tp=4 pp=2, interleaved": (4, 2, 1, [*INTERLEAVED, *SEQUENCE]),
    "tp=8, sequence parallel": (8, 1, 1, SEQUENCE),
    "tp=8 pp=2": (8, 2, 1, ONE_F_ONE_B),
    "tp=4 pp=2 dp=2, ZeRO-1": (4, 2, 2, [*ONE_F_ONE_B, *ZERO_1]),
}
TINY_LAYOUTS = ("tp=2, sequence parallel", "pp=2, zb-h1", "dp=2, ZeRO-1")  # of a quick check
OVERLAPS = ("none", "all")


def layouts_of(machine):
    """Those that these nodes can run: tensor-parallel groups stay within a node."""
    nodes, most = len(machine.nodes), machine.num_ranks()
    heads = shape_of(machine)["heads"]
    found = {}
    for name, layout in LAYOUTS.items():
        tp, pp, dp, _ = layout
        ranks = tp * pp * dp
        fits = ranks <= most and ranks % nodes == 0 and ranks // nodes % tp == 0 and tp <= heads
        if fits and (not machine.is_quick or name in TINY_LAYOUTS):
            found[name] = layout
    return found


def shape_of(machine):
    return TINY_SHAPE if machine.on_host else SHAPE


def losses_of(check, name, layout, flags, meeting=None, variables=None, **how):
    tp, pp, dp, _ = layout
    plan = make_plan(check, name, shape_of(check.machine), layout_flags(*layout),
                     # The shipped host: its stack runs every layout, and nothing here is timed.
                     cluster=["--cluster", "host"])
    if plan is None:
        raise Failed(f"{name}: nothing fits")
    report = train(check, plan, name, tp * pp * dp,
                   ["--steps", steps_of(check.machine), "--warm-up", 1, *flags],
                   meeting=meeting, variables=variables, **how)
    return report["losses"]


def alone_on_host(check, dtype, dropout):
    """One rank on the host: what every layout is held against."""
    return check.remember(
        f"alone {dtype} dropout {dropout}",
        lambda: losses_of(check, f"alone-{dtype}", (1, 1, 1, []),
                          ["--dtype", dtype, "--dropout", dropout, "--device", "cpu"],
                          meeting="threads", transport=False), RUN_SECONDS)


def difference_of(check, name, layout, overlap, meeting, dtype="f32"):
    """The largest, of a layout's losses, from those of one rank."""
    dropout = 0.1 if dtype == "f32" else 0
    expected = alone_on_host(check, "f32", dropout)
    key = f"{name}, overlap {overlap}, {meeting}, {dtype}"
    found = check.remember(key, lambda: losses_of(
        check, "".join(c for c in key if c.isalnum()), layout,
        ["--dtype", dtype, "--dropout", dropout, "--overlap", overlap], meeting), RUN_SECONDS)
    return largest_difference(found, expected)


def meetings_of(machine):
    """How ranks meet in the runs of this section: as processes of a launcher and, where there is
    one node, as those that ptdp-run starts and as threads of one process too."""
    all_of_them = not machine.on_host and len(machine.nodes) == 1
    return ["tcp", "own processes", "threads"] if all_of_them else [machine.meeting]


def layouts(check):
    machine = check.machine
    rows = []
    chosen = layouts_of(machine)
    if not chosen:
        raise Failed("no layout of 2 ranks or more fits these nodes")
    for name, layout in chosen.items():
        for meeting in meetings_of(machine):
            for overlap in OVERLAPS[-1:] if machine.is_quick else OVERLAPS:
                difference = difference_of(check, name, layout, overlap, meeting)
                rows.append((f"f32, {name}, overlap {overlap}, {WORDS_OF_MEETINGS[meeting]}", F32,
                             difference))
    if not machine.on_host:
        name, layout = list(chosen.items())[-1]
        for dtype in ("bf16", "fp16"):
            rows.append((f"{dtype}, {name}, against f32", SIXTEEN_BITS,
                         difference_of(check, name, layout, "all", "tcp", dtype)))
    for what, tolerance, difference in rows:
        check.goal(f"{steps_of(check.machine)} losses: {what}", f"<= {tolerance:.0e}",
                   f"{difference:.1e}", difference <= tolerance)
