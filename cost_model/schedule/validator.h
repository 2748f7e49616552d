// Proves that a schedule can be executed, or shows where it cannot.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "cost_model/schedule/schedule.h"
#include "cost_model/schedule/schedule_fault.h"

namespace ptdp {

/// The first fault, or nothing. What is checked, in this order:
///
///   sizes       positive, an order per rank, stages as the placement has them;
///   place       every action on a stage and microbatch that its rank holds; pairs of two;
///   exactly once  one F, and one B or one I and one W, of every stage and microbatch;
///   order       F before B or I, I before W;
///   progress    no deadlock where every rank works through its list;
///   FIFO        from one rank to another, activations are used in the order in which they are
///               made, and so are gradients (the two travel apart);
///   memory      no rank holds more activations than its limit, where limits are given, one per
///               rank.
[[nodiscard]] std::optional<ScheduleFault> find_fault(const Schedule& schedule,
                                                      std::span<const int> peak_limits = {});

/// Activations that each rank holds at its worst, in virtual stages of one microbatch: from the
/// forward pass to the backward pass, or to the weight gradient where that is apart.
[[nodiscard]] std::vector<int> peak_activations(const Schedule& schedule);

}  // namespace ptdp
