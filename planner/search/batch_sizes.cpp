// Checks every microbatch size of every number of replicas, once for each kind of configuration.
#include "planner/search/batch_sizes.h"

namespace ptdp {
namespace {

constexpr std::size_t kMostKept = 300'000;  // BatchSizes, one per number of replicas: 100 MB

void count(BatchSizes::Violations& violations, Constraint constraint, std::int64_t number) {
  for (auto& [known, counted] : violations) {
    if (known == constraint) {
      counted += number;
      return;
    }
  }
  violations.emplace_back(constraint, number);
}

/// Returns the configuration with two kinds of fields reset: those that no check of the batch looks
/// at, and those that only experts_divide_ranks() looks at. With offloading all fields but dp and
/// the microbatch size stay, because what a host holds depends on them.
ParallelConfig batch_key(const ParallelConfig& config) {
  ParallelConfig key = config;
  key.dp = key.micro_batch_size = 1;
  if (config.offload != Offload::kNone) {
    return key;
  }
  key.tp = key.cp = key.ep = key.etp = 1;
  key.recompute = Recompute{};
  key.recompute_modules = kCoreAttentionAlone;
  key.recompute_method = RecomputeMethod{};
  key.recompute_num_layers = 0;
  key.sequence_parallel = false;
  key.zero_stage = 0;
  key.rank_order = RankOrder{};
  key.layers_per_stage = std::vector<int>();  // frees its memory: keys are kept
  return key;
}

/// Returns what the sizes violate when ep·etp does not divide the GPUs of a stage: every size
/// violates a constraint.
BatchSizes::Violations without_experts(const BatchSizes& sizes) {
  BatchSizes::Violations result;
  count(result, Constraint::kRanksByExperts, static_cast<std::int64_t>(sizes.allowed.size()));
  for (const auto& [constraint, number] : sizes.violations) {
    count(result, comes_before_experts(constraint) ? constraint : Constraint::kRanksByExperts,
          number);
  }
  return result;
}

}  // namespace

const std::vector<BatchSizes>& BatchTable::find(const ParallelConfig& config) {
  ParallelConfig key = batch_key(config);
  const auto found = by_schedule_.find(key);
  if (found != by_schedule_.end()) {
    return found->second;
  }
  if (by_schedule_.size() * replicas_.size() > kMostKept) {
    by_schedule_.clear();
  }
  std::vector<BatchSizes> of_replicas;
  of_replicas.reserve(replicas_.size());
  ParallelConfig tried = key;
  for (const Replicas& replicas : replicas_) {
    BatchSizes sizes;
    tried.dp = replicas.dp;
    for (const int size : replicas.micro_batch_sizes) {
      tried.micro_batch_size = size;
      if (const auto violation = find_batch_violation({scenario_, tried})) {
        count(sizes.violations, *violation, 1);
      } else {
        sizes.allowed.push_back(size);
      }
    }
    sizes.without_experts = without_experts(sizes);
    of_replicas.push_back(std::move(sizes));
  }
  return by_schedule_.emplace(std::move(key), std::move(of_replicas)).first->second;
}

}  // namespace ptdp
