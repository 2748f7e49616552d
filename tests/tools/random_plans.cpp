#include "tests/tools/random_plans.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "cost_model/error.h"
#include "cost_model/inputs/catalog/catalog.h"
#include "planner/constraints/constraint.h"
#include "planner/search/enumerate.h"

namespace ptdp::testing {
namespace {

constexpr double kHeadroom = 0.0;

/// Returns a cluster whose GPUs train as the stack does; each stack has one among these.
ClusterSpec cluster_of(const StackSpec& stack, const TrainingJob& job) {
  static std::map<std::string, ClusterSpec> known;
  const auto found = known.find(stack.name);
  if (found != known.end()) {
    return found->second;
  }
  for (const char* name :
       {"selene-a100", "dgx-h100", "hgx-h200", "dgx-b200", "dgx1-v100-16gb", "8x-mi355x", "host"}) {
    const ClusterSpec cluster = find_cluster(name);
    try {
      check({.job = job, .cluster = cluster, .stack = stack});
      return known.emplace(stack.name, cluster).first->second;
    } catch (const Error&) {
      continue;
    }
  }
  throw Error(stack.name + ": no cluster for it");
}

}  // namespace

std::int64_t PlanLottery::below(std::int64_t count) {
  return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(count));
}

DrawnPlan PlanLottery::draw() {
  static const std::vector<std::string> stacks = list_profiles(ProfileKind::kStack);
  const StackSpec stack = find_stack(stacks[turn_++ % stacks.size()]);
  while (true) {
    if (std::optional<DrawnPlan> plan = try_draw(stack)) {
      return *std::move(plan);
    }
  }
}

TransformerConfig PlanLottery::draw_model(bool is_gpt) {
  TransformerConfig model{
      .num_layers = one_of(std::vector{2, 4, 6, 8}),
      .hidden_size = 24,
      .num_attention_heads = 4,
      .kv_channels = happens(20) ? 4 : 6,
      .vocab_size = 100,
      .seq_length = 8,
      .add_bias_linear = !happens(20),
      .untied_embeddings = happens(30),
      .position_embedding = happens(20) ? PositionEmbedding::kNone : PositionEmbedding::kLearned};
  if (!is_gpt) {
    model.gated_linear_unit = happens(50);
    model.num_query_groups = happens(50) ? 2 : 4;
    model.position_embedding = PositionEmbedding::kRope;
    model.normalization = Normalization::kRmsNorm;
    model.qk_layernorm = happens(30);
    model.window_size = happens(30) ? 4 : 0;
    if (happens(30)) {
      model.num_experts = 4;
      model.moe_router_topk = 2;
    }
  }
  return resolved(model, "drawn");
}

SearchSpace PlanLottery::draw_pins() {
  SearchSpace space;
  // Half of the plans say what a schedule would bring that their stack does not run.
  space.ignores_stack_support = happens(50);
  if (space.ignores_stack_support) {
    space.schedules = {one_of(kScheduleNames).value};
    space.allow_stale_weights = true;
  }
  space.recompute = {Recompute::kNone, Recompute::kSelective, Recompute::kFull};
  if (happens(10)) {
    space.recompute_method =
        one_of(std::vector{RecomputeMethod::kBlock, RecomputeMethod::kUniform});
    space.recompute_num_layers = 1;
  }
  if (happens(5)) {
    space.offload = {Offload::kNone, Offload::kOptimizer};
  }
  if (happens(5)) {
    space.rank_orders = {RankOrder::kTpCpEpDpPp, RankOrder::kTpCpEpPpDp};
  }
  return space;
}

std::optional<DrawnPlan> PlanLottery::try_draw(const StackSpec& stack) {
  DrawnPlan drawn{.is_gpt = !happens(15)};
  TrainingJob job{.model_name = "drawn",
                  .model = draw_model(drawn.is_gpt),
                  .global_batch_size = one_of(std::vector{4, 6, 8, 12, 16})};
  const Scenario scenario{.job = job, .cluster = cluster_of(stack, job), .stack = stack};
  const SearchSpace space = draw_pins();
  const std::int64_t gpus = one_of(std::vector{1, 2, 3, 4, 4, 6, 8, 8});
  std::vector<Degrees> splits =
      enumerate_degrees(scenario, gpus, space, one_of(enumerate_tp(scenario, gpus, space)));
  if (happens(60) && !stack.can_run.schedules.empty()) {  // one stage is the commonest split
    std::erase_if(splits, [](const Degrees& split) { return split.pp == 1; });
  }
  if (splits.empty()) {
    return std::nullopt;
  }
  const std::vector<ParallelConfig> variants =
      enumerate_variants(scenario, space, config_of_degrees(scenario, space, one_of(splits)));
  const std::vector<Replicas> replicas = enumerate_replicas(scenario, gpus, space);
  if (variants.empty() || replicas.empty()) {
    return std::nullopt;
  }
  ParallelConfig config = one_of(variants);
  const Replicas& data = one_of(replicas);
  config.dp = data.dp;
  config.micro_batch_size = one_of(data.micro_batch_sizes);
  const Scenario judged =
      space.ignores_stack_support ? with_stale_weights(with_every_schedule(scenario)) : scenario;
  const Bytes capacity = usable_memory(scenario.cluster.gpu, kHeadroom);
  if (!is_candidate(judged, config, gpus, space) || find_shape_violation({judged, config}) ||
      find_violation({judged, config}, capacity)) {
    return std::nullopt;
  }
  if (happens(40)) {
    const bool reductions = happens(60);
    drawn.overlap = Overlap{.messages = happens(50),
                            .reductions = reductions,
                            .gathers = reductions && happens(50),
                            .tensor = happens(50),
                            .as_possible = true};
  }
  const Plan plan = make_plan({scenario, config}, gpus, kHeadroom, Calibration{});
  drawn.plan = parse_plan(to_json(plan), "drawn.json");
  return drawn;
}

}  // namespace ptdp::testing
