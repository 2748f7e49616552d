#include "tools/run/measured_terms.h"

#include <algorithm>
#include <optional>

#include "cost_model/measured/quantile.h"

namespace ptdp {
namespace {

/// Returns the part of `span` outside of `others`, which do not overlap one another [s].
double length_beside(const Span& span, const std::vector<Span>& others) {
  double left = span.length().value();
  for (const Span& other : others) {
    const double start = std::max(span.start, other.start).value();
    const double end = std::min(span.end, other.end).value();
    left -= std::max(end - start, 0.0);
  }
  return left;
}

/// Returns the spans of the passes of a step, collectives included.
std::vector<Span> passes_of(const std::vector<Action>& order, const StepRecord& step) {
  std::vector<Span> passes;
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (is_compute(order[i].kind) && step.actions[i].length() > Seconds(0.0)) {
      passes.push_back(step.actions[i]);
    }
  }
  return passes;
}

double compute_of(const RunTerms& terms) {
  return (terms[RunTerm::kMatmul] + terms[RunTerm::kAttention] + terms[RunTerm::kMemoryBound])
      .value();
}

Seconds time_of(const std::vector<Action>& order, const StepRecord& step, ActionKind kind) {
  Seconds time;
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (order[i].kind == kind) {
      time += step.actions[i].length();
    }
  }
  return time;
}

/// The record of a run, with the schedule and the configuration that it ran.
struct Steps {
  const Schedule& schedule;
  const ParallelConfig& config;
  const RunRecord& record;

  [[nodiscard]] const std::vector<Action>& order(std::size_t rank) const {
    return schedule.orders[static_cast<std::size_t>(pipeline_rank(config, rank))];
  }
};

/// Returns the least time of any rank in actions of `kind`, at which all ranks wait for one
/// another. The last rank to arrive waits for no other, so this is the time of the operation alone.
Seconds rendezvous_time(const Steps& steps, std::size_t step, ActionKind kind) {
  std::optional<Seconds> least;
  for (std::size_t rank = 0; rank < steps.record.ranks.size(); ++rank) {
    const std::vector<Action>& order = steps.order(rank);
    const bool meets = std::any_of(order.begin(), order.end(),
                                   [kind](const Action& action) { return action.kind == kind; });
    if (meets) {
      const Seconds time = time_of(order, steps.record.ranks[rank].steps[step], kind);
      least = least ? std::min(*least, time) : time;
    }
  }
  return least.value_or(Seconds(0.0));
}

/// Returns the terms of the rank, among those of one pipeline rank, that computes longest in a
/// step; no bubble.
RunTerms terms_of_rank(const Steps& steps, int stage, std::size_t step) {
  std::optional<RunTerms> slowest;
  for (std::size_t rank = 0; rank < steps.record.ranks.size(); ++rank) {
    if (pipeline_rank(steps.config, rank) != stage) {
      continue;
    }
    const StepRecord& measured = steps.record.ranks[rank].steps[step];
    RunTerms terms = rank_terms(steps.order(rank), measured);
    if (!slowest || compute_of(terms) > compute_of(*slowest)) {
      terms[RunTerm::kOptimizer] = time_of(steps.order(rank), measured, ActionKind::kOptimizer);
      slowest = terms;
    }
  }
  RunTerms terms = slowest.value_or(RunTerms());
  terms[RunTerm::kOptimizer] += rendezvous_time(steps, step, ActionKind::kReduceNorm);
  terms[RunTerm::kEmbeddingAllReduce] = rendezvous_time(steps, step, ActionKind::kReduceTied);
  return terms;
}

/// Returns the steps from `first` on that timed operations, or those that did not; all steps where
/// none is such.
std::vector<std::size_t> steps_where(const RunRecord& record, std::size_t first,
                                     bool times_operations) {
  const std::vector<StepRecord>& steps = record.ranks.front().steps;
  std::vector<std::size_t> such;
  std::vector<std::size_t> others;
  for (std::size_t step = first; step < steps.size(); ++step) {
    (steps[step].operations.has_value() == times_operations ? such : others).push_back(step);
  }
  return such.empty() ? others : such;
}

}  // namespace

int pipeline_rank(const ParallelConfig& config, std::size_t rank) {
  return static_cast<int>(rank) / (config.tp * config.dp);
}

std::vector<double> measured_step_times(const RunRecord& record) {
  std::vector<double> times;
  double before = 0.0;
  for (std::size_t step = 0; step < record.ranks.front().steps.size(); ++step) {
    const StepRecord& of_first = record.ranks.front().steps[step];
    double start = of_first.step.start.value();
    double end = 0.0;
    for (const RankRecord& rank : record.ranks) {
      start = std::min(start, rank.steps[step].step.start.value());
      end = std::max(end, rank.steps[step].step.end.value());
    }
    const bool is_after_pause = step == 0 || of_first.is_after_pause;
    times.push_back(end - (is_after_pause ? start : before));
    before = end;
  }
  return times;
}

std::vector<std::size_t> undisturbed_steps(const RunRecord& record, std::size_t first) {
  return steps_where(record, first, /*times_operations=*/false);
}

std::vector<double> undisturbed_step_times(const RunRecord& record, std::size_t first) {
  const std::vector<double> times = measured_step_times(record);
  std::vector<double> undisturbed;
  for (const std::size_t step : undisturbed_steps(record, first)) {
    undisturbed.push_back(times[step]);
  }
  return undisturbed;
}

std::size_t first_detailed_step(const RunRecord& record, std::size_t warm_up) {
  const std::size_t steps = record.ranks.front().steps.size();
  const auto kept = static_cast<std::size_t>(kDetailedSteps);
  return std::max(warm_up, steps - std::min(steps, kept));
}

RunTerms rank_terms(const std::vector<Action>& order, const StepRecord& step) {
  const std::vector<Span> passes = passes_of(order, step);
  double compute = 0.0;
  for (const Span& pass : passes) {
    compute += pass.length().value();
  }
  RunTerms terms;
  for (const SubSpan& sub : step.sub_spans) {
    // The collective that gathers a message sent in parts ends before the pass that takes it
    // begins.
    const bool is_message = sub.span.start < step.actions[sub.action].start;
    const RunTerm term = is_message                      ? RunTerm::kPipelineMessages
                         : sub.group == CallGroup::kData ? RunTerm::kDataParallel
                                                         : RunTerm::kTensorParallel;
    terms[term] += sub.exposed();
  }
  if (step.operations) {
    const auto& [matmul, attention] = *step.operations;
    terms[RunTerm::kMatmul] = Seconds(matmul);
    terms[RunTerm::kAttention] = Seconds(attention);
  }
  terms[RunTerm::kMemoryBound] =
      std::max(Seconds(compute) - terms[RunTerm::kTensorParallel] - terms[RunTerm::kDataParallel] -
                   terms[RunTerm::kMatmul] - terms[RunTerm::kAttention],
               Seconds(0.0));
  for (std::size_t i = 0; i < order.size(); ++i) {
    const ActionKind kind = order[i].kind;
    if (kind == ActionKind::kSendForward || kind == ActionKind::kSendBackward) {
      terms[RunTerm::kPipelineMessages] += Seconds(length_beside(step.actions[i], passes));
    }
    if (kind == ActionKind::kReduceGradients || kind == ActionKind::kGatherParameters) {
      terms[RunTerm::kDataParallel] += Seconds(length_beside(step.actions[i], passes));
    }
  }
  terms[RunTerm::kEmbeddingAllReduce] = time_of(order, step, ActionKind::kReduceTied);
  terms[RunTerm::kOptimizer] =
      time_of(order, step, ActionKind::kReduceNorm) + time_of(order, step, ActionKind::kOptimizer);
  return terms;
}

RunTerms medians(const std::vector<RunTerms>& steps) {
  RunTerms result;
  for (int term = 0; term < kNumRunTerms; ++term) {
    std::vector<double> values;
    values.reserve(steps.size());
    for (const RunTerms& terms : steps) {
      values.push_back(terms[RunTerm(term)].value());
    }
    result[RunTerm(term)] = Seconds(values.empty() ? 0.0 : median(std::move(values)));
  }
  return result;
}

MeasuredTerms measure_terms(const Schedule& schedule, const ParallelConfig& config,
                            const RunRecord& record, std::size_t first_step) {
  const Steps steps{schedule, config, record};
  const std::vector<double> times = measured_step_times(record);
  const std::vector<std::size_t> timed = steps_where(record, first_step, /*times_operations=*/true);
  MeasuredTerms longest{.stage = -1};
  for (int stage = 0; stage < config.pp; ++stage) {
    std::vector<RunTerms> terms;
    for (const std::size_t step : timed) {
      terms.push_back(terms_of_rank(steps, stage, step));
      terms.back()[RunTerm::kBubble] =
          std::max(Seconds(times[step]) - terms.back().own(), Seconds(0.0));
    }
    const RunTerms typical = medians(terms);
    if (longest.stage < 0 || compute_of(typical) > compute_of(longest.terms)) {
      longest = {.stage = stage, .terms = typical};
    }
  }
  return longest;
}

}  // namespace ptdp
