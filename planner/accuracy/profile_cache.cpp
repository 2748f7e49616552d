// Finds profiles once each, and says which of them take as long as one another.
#include "planner/accuracy/profile_cache.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "cost_model/error.h"
#include "cost_model/inputs/catalog/catalog.h"
#include "cost_model/inputs/stack_precision.h"

namespace ptdp {
namespace {

/// Shipped clusters that take as long as another one, the machines of several users of one kind. A
/// test holds that there are no others: so shipped clusters are told apart without their files.
constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kTwins = {
    {{"azure-a100", "bytedance-a100"},
     {"azure-a100", "mosaicml-a100-80gb"},
     {"bytedance-a100", "mosaicml-a100-80gb"},
     {"meta-a100", "roce-a100"}}};

bool are_twins(std::string_view a, std::string_view b) {
  return std::ranges::find(kTwins, std::pair(std::min(a, b), std::max(a, b))) != kTwins.end();
}

bool takes_as_long(const GpuSpec& a, const GpuSpec& b) {
  if (a.memory_bandwidth != b.memory_bandwidth) {
    return false;  // saves copies: nearly all that differ do so here
  }
  GpuSpec like = a;
  like.name = b.name;
  like.source = b.source;
  like.memory = b.memory;
  return like == b;
}

template <class Profile>
const Profile& find(std::map<std::string, Profile>& cache, const std::string& name,
                    Profile (*find_profile)(const std::string&)) {
  const auto found = cache.find(name);
  return found != cache.end() ? found->second
                              : cache.emplace(name, find_profile(name)).first->second;
}

/// Returns whether stacks of one precision differ in nothing but what runs state, names, memory and
/// what the stacks can run.
bool is_like_stack(const StackSpec& a, const StackSpec& b) {
  StackSpec like = a;
  like.name = b.name;
  like.source = b.source;
  like.program = b.program;
  like.can_run = b.can_run;
  like.reserve_fraction = b.reserve_fraction;
  like.memory_model = b.memory_model;
  like.loss_bytes = b.loss_bytes;
  like.split_loss_bytes = b.split_loss_bytes;
  like.fp8 = b.fp8;
  like.data_parallel_overlap = b.data_parallel_overlap;
  like.tp_comm_overlap = b.tp_comm_overlap;
  like.expert_dispatch = b.expert_dispatch;
  like.expert_overlap = b.expert_overlap;
  like.cuda_graphs = b.cuda_graphs;
  like.logged_flops = b.logged_flops;
  return like == b;
}

/// Returns whether a stack, brought to the precision of another, is like it.
bool takes_as_long_at(const StackSpec& stack, const StackSpec& other) {
  try {
    return is_like_stack(at_precision(stack, other.precision), other);
  } catch (const Error&) {
    return false;  // nothing says what it keeps there
  }
}

}  // namespace

bool takes_as_long(const ClusterSpec& a, const ClusterSpec& b) {
  if (!takes_as_long(a.gpu, b.gpu)) {
    return false;
  }
  ClusterSpec like = a;
  like.gpu = b.gpu;
  like.name = b.name;
  like.source = b.source;
  like.default_stack = b.default_stack;
  return like == b;
}

bool takes_as_long(const StackSpec& a, const StackSpec& b) {
  if (a.host_time_per_kernel != b.host_time_per_kernel ||
      a.microbatch_overhead != b.microbatch_overhead || a.pipeline_overlap != b.pipeline_overlap ||
      a.tensor_parallel_overlap != b.tensor_parallel_overlap) {
    return false;  // saves copies: most that differ do so here
  }
  StackSpec other = b;
  if (a.name == b.name) {  // with a switch of the stack's the other way
    other.scatter_gather = a.scatter_gather;
    other.fused_element_wise = a.fused_element_wise;
  }
  if (a.precision != b.precision) {
    return takes_as_long_at(a, other) || takes_as_long_at(other, a);
  }
  return is_like_stack(a, other);
}

bool ProfileCache::is_like(const std::string& name, const ClusterSpec& cluster) {
  const bool are_shipped = is_unchanging(ProfileKind::kCluster, name) &&
                           is_unchanging(ProfileKind::kCluster, cluster.name) &&
                           cluster == cluster_of(cluster.name);
  return are_shipped ? name == cluster.name || are_twins(name, cluster.name)
                     : takes_as_long(cluster_of(name), cluster);
}

const ClusterSpec& ProfileCache::cluster_of(const std::string& name) {
  return find(clusters_, name, find_cluster);
}

const StackSpec& ProfileCache::stack_of(const std::string& name) {
  return find(stacks_, name, find_stack);
}

void ProfileCache::find_all(const std::vector<MeasuredRun>& runs) {
  for (const MeasuredRun& run : runs) {
    try {
      (void)cluster_of(run.cluster);
      (void)stack_of(run.stack);
    } catch (const Error&) {
      continue;  // told by scenario_of()
    }
  }
}

ProgramKind ProfileCache::program_of(const MeasuredRun& run) {
  try {
    return stack_of(run.stack).program;
  } catch (const Error&) {
    return ProgramKind::kOther;
  }
}

Scenario ProfileCache::scenario_of(const MeasuredRun& run) {
  Scenario scenario{
      .job = {.model_name = run.id, .model = run.model, .global_batch_size = run.global_batch_size},
      .cluster = cluster_of(run.cluster),
      .stack = stack_of(run.stack)};
  if (run.data_parallel_overlap.has_value()) {
    scenario.stack.data_parallel_overlap =
        *run.data_parallel_overlap ? DataParallelOverlap::kAlways : DataParallelOverlap::kNever;
  }
  if (run.tp_comm_overlap == false) {
    scenario.stack.tp_comm_overlap = TpCommOverlap::kNone;
  } else if (run.tp_comm_overlap && scenario.stack.tp_comm_overlap == TpCommOverlap::kNone) {
    scenario.stack.tp_comm_overlap = TpCommOverlap::kUserBuffers;  // --tp-comm-overlap
  }
  scenario.stack.expert_dispatch = run.expert_dispatch.value_or(scenario.stack.expert_dispatch);
  scenario.stack.expert_overlap = run.expert_overlap.value_or(scenario.stack.expert_overlap);
  scenario.stack.cuda_graphs = run.cuda_graphs.value_or(scenario.stack.cuda_graphs);
  scenario.stack.scatter_gather = run.scatter_gather.value_or(scenario.stack.scatter_gather);
  scenario.stack.fused_element_wise = run.fused.value_or(scenario.stack.fused_element_wise);
  scenario.stack = with_precision(scenario.stack, run.precision);
  return scenario;
}

bool ProfileCache::is_place_of(const std::string& cluster, const std::string& stack,
                               const Scenario& scenario) {
  try {
    // The stack first: its file is a fifth of a cluster's, which clusters of one's own need.
    return takes_as_long(stack_of(stack), scenario.stack) && is_like(cluster, scenario.cluster);
  } catch (const Error&) {
    return false;
  }
}

}  // namespace ptdp
