#include "cost_model/simulation/turn_taking.h"

#include <algorithm>

namespace ptdp {
namespace {

/// Time of all buckets of a rank, those of all its virtual stages.
Seconds buckets_of(std::size_t rank, std::size_t pp, const std::vector<TransferTime>& bucket,
                   const std::vector<int>& counts) {
  Seconds sum;
  for (std::size_t stage = rank; stage < bucket.size(); stage += pp) {
    sum += counts[stage] * bucket[stage].total();
  }
  return sum;
}

}  // namespace

std::vector<StageDurations> durations_with_sends(const StepTimes& times, int pp) {
  std::vector<StageDurations> durations = times.stages;
  const auto ranks = static_cast<std::size_t>(pp);
  for (std::size_t stage = 0; pp > 1 && stage + 1 < durations.size(); ++stage) {
    const Seconds message = message_between(times, static_cast<int>(stage % ranks),
                                            static_cast<int>((stage + 1) % ranks))
                                .total();
    durations[stage].forward += message;
    durations[stage + 1].backward += message;
    durations[stage + 1].input_gradient += message;
  }
  return durations;
}

std::optional<SimulatedTimes> passes_paced_by_last_rank(
    const std::vector<StageDurations>& durations, std::int64_t num_microbatches) {
  const auto pair_of = [](const StageDurations& of) { return of.forward + of.backward; };
  const StageDurations& last = durations.back();
  const Seconds least_pair = pair_of(std::ranges::min(durations, {}, pair_of));
  SimulatedTimes times;
  Seconds begin;
  Seconds backward;
  for (const StageDurations& of : durations) {
    if (pair_of(of) > pair_of(last) || of.forward > least_pair) {
      return std::nullopt;
    }
    times.ranks.push_back(
        {.start = begin, .work = static_cast<double>(num_microbatches) * pair_of(of)});
    begin += of.forward;
    backward += of.backward;
  }
  Seconds end = times.ranks.back().start + times.ranks.back().work + backward - last.backward;
  for (std::size_t rank = 0; rank < durations.size(); ++rank) {
    times.ranks[rank].end = times.ranks[rank].compute_end = end;
    end = end - durations[rank].backward;
  }
  return times;
}

SimulatedTimes with_ends(SimulatedTimes passes, const StepTimes& times,
                         const StepActions& actions) {
  std::vector<RankTimes>& ranks = passes.ranks;
  Seconds shift;
  for (std::size_t rank = 0; actions.gathers_parameters && rank < ranks.size(); ++rank) {
    ranks[rank].gathers = buckets_of(rank, ranks.size(), times.gathers, actions.gradient_buckets);
    shift = std::max(shift, ranks[rank].gathers - ranks[rank].start);
  }
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    ranks[rank].start += shift;
    ranks[rank].end += shift;
    ranks[rank].compute_end += shift;
    if (actions.reduces_gradients) {
      ranks[rank].end += buckets_of(rank, ranks.size(), times.reductions, actions.gradient_buckets);
    }
  }
  if (actions.ties_embeddings && ranks.size() > 1) {
    if (times.ranks_meet) {
      ranks.front().end = ranks.back().end = std::max(ranks.front().end, ranks.back().end);
    }
    ranks.front().end += times.tied.total();
    ranks.back().end += times.tied.total();
  }
  const Seconds last = std::ranges::max(ranks, {}, &RankTimes::end).end;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    ranks[rank].end =
        (times.ranks_meet ? last : ranks[rank].end) + times.norm + times.optimizer[rank];
  }
  return passes;
}

}  // namespace ptdp
