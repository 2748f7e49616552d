// Proves that a schedule can be executed, or shows where it cannot.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "cost_model/schedule/schedule.h"
#include "cost_model/schedule/validator/schedule_fault.h"

namespace ptdp {

/// The first fault, or nothing. What is checked, in this order:
///
///   sizes       positive, an order per rank, stages as the placement has them;
///   place       every action on a stage and microbatch that its rank holds; pairs of two that
///               compute;
///   exactly once  one F, and one B or one I and one W, of every stage and microbatch; where any
///               action does not compute, every message and copy between stages;
///   order       on every rank F before B or I, I before W, R between them, a message behind what
///               makes it and before what takes it;
///   progress    no deadlock where every rank works through its list, of compute alone;
///   step        gathers before the first forward pass of their stage and reductions behind its
///               last weight gradient, buckets from 0 and as many of both, TIED, NORM and OPTIMIZER
///               last and on all their ranks, where there are any;
///   FIFO        from one rank to another, activations are used (or received) in the order in which
///               they are made (or sent), and so are gradients: the two travel apart;
///   lanes       no deadlock where a message takes both its ends at once, whether messages block
///               compute or overlap with it (lane.h), if there are messages;
///   memory      no rank holds more activations than its limit, where limits are given, one per
///               rank.
///
/// How many buckets a stage should have a schedule does not say: the last one may be missing where
/// there are reductions alone, or gathers alone.
[[nodiscard]] std::optional<ScheduleFault> find_fault(const Schedule& schedule,
                                                      std::span<const int> peak_limits = {});

/// Activations that each rank holds at its worst, in virtual stages of one microbatch: from the
/// forward pass to the backward pass, or to the weight gradient where that is apart.
[[nodiscard]] std::vector<int> peak_activations(const Schedule& schedule);

}  // namespace ptdp
