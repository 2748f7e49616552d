// Proves that a schedule can be executed, or shows where it cannot.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "cost_model/schedule/schedule.h"
#include "cost_model/schedule/validator/schedule_fault.h"

namespace ptdp {

/// Returns the first fault of a schedule, or nullopt when it can be executed. It checks, in this
/// order:
///
///   sizes       positive, an order per rank, stages as the placement has them;
///   place       every action on a stage and microbatch that its rank holds; pairs of two that
///               compute;
///   exactly once  one F, and one B or one I and one W, of every stage and microbatch; if any
///               action does not compute, every message and copy between stages;
///   order       on every rank F before B or I, I before W, R between them, a message behind what
///               makes it and before what takes it;
///   progress    no deadlock when every rank works through its list, for compute alone;
///   step        gathers before the first forward pass of their stage and reductions behind its
///               last weight gradient, buckets from 0 and as many of both; TIED, NORM and OPTIMIZER
///               last and on all their ranks, if there are any;
///   FIFO        from one rank to another, activations are used (or received) in the order in which
///               they are made (or sent), and so are gradients: the two travel apart;
///   lanes       no deadlock when a message takes both its ends at once, whether messages block
///               compute or overlap with it (lane.h), if there are messages;
///   memory      no rank holds more activations than its limit, if limits are given, one per rank.
///
/// A schedule does not say how many buckets a stage should have. So the last one may be missing if
/// there are reductions alone, or gathers alone.
[[nodiscard]] std::optional<ScheduleFault> find_fault(const Schedule& schedule,
                                                      std::span<const int> peak_limits = {});

/// Returns the activations that each rank holds at its worst, in virtual stages of one microbatch.
/// An activation is held from the forward pass to the backward pass, or to a weight gradient of its
/// own.
[[nodiscard]] std::vector<int> peak_activations(const Schedule& schedule);

}  // namespace ptdp
