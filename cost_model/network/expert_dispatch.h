// Expert parallelism: how far tokens travel to their experts, and how long that takes.
#pragma once

#include <cstdint>

#include "cost_model/inputs/cluster_spec.h"
#include "cost_model/inputs/parallel_config.h"
#include "cost_model/inputs/rank_grid.h"
#include "cost_model/units.h"

namespace ptdp {

/// Which experts a token may have: the `topk` of best score among those of the `group_topk` groups
/// of consecutive experts that have the best expert each.
struct ExpertRouting {
  int num_experts = 1;
  int topk = 1;
  int num_groups = 1;  ///< Of equally many experts; 1: any experts together.
  int group_topk = 1;

  friend bool operator==(const ExpertRouting&, const ExpertRouting&) = default;
};

/// Mean number of distinct nodes that a token visits, of `nodes` that hold the experts in order,
/// equally many each: nodes times the probability that one given node has an expert of the token.
/// Nodes stand for any equal parts, such as GPUs. Scores are independent and alike.
///
/// Experts are then drawn one after another, best first, from all of them until group_topk groups
/// have one, and from these groups from then on. What is drawn next depends on how many experts and
/// groups were drawn before alone: the probability follows draw by draw. Without groups it is
/// hypergeometric, nodes·(1 − C(E − E/nodes, topk)/C(E, topk)) for E experts.
///
/// Source: node-limited routing of DeepSeek-V3 (arXiv:2412.19437 2.1.2), which takes groups by the
/// sum of their two best scores (3.95 nodes of 4 in place of 3.98 here, by simulation); by the best
/// one as in the tests of deepseek-ai/DeepEP. A real router's scores are not independent.
///
/// 1 <= topk <= group_topk·num_experts/num_groups, group_topk <= num_groups; num_groups divides
/// num_experts, nodes <= num_experts. Where nodes do not divide them, the next number that does
/// stands for it. Where neither of nodes and num_groups divides the other, groups are left
/// out, and the number is too large.
[[nodiscard]] double expected_nodes(const ExpertRouting& routing, std::int64_t nodes);

/// The tokens of one GPU on their way to experts, or back.
struct Dispatch {
  std::int64_t tokens = 0;  ///< Of this GPU, each once.
  std::int64_t hidden_size = 0;
  double element_bytes = 2.0;  ///< With scales: fp8 with an fp32 per 128 elements has 1 + 4/128.
  ExpertRouting routing;
};

/// Time in which tokens get to their experts on the GPUs of `expert_group`, n of them on N nodes.
/// Every expert has as many tokens. S is what the tokens of one GPU take, tokens·hidden·bytes.
///
/// all-to-all: all_to_all_time(topk·S). Source: Megatron-Core, MoEAlltoAllTokenDispatcher.
///
/// all-gather: all_gather_time(n·S). Source: Megatron-Core, MoEAllGatherTokenDispatcher, whose
/// group is ExpertDimension::kTensorAndExpert.
///
/// hierarchical: a token crosses the NICs once for each other node that it visits, to the GPU of
/// the same place there, and is copied over NVLink to each GPU that has experts of it. Both stages
/// run at the same time:
///
///   t = t_launch + hops + max(S·E_N·(N−1)/N · o/β_nic, S·E_n/β_node)
///
/// with E_N of expected_nodes() for nodes and E_n for GPUs; the second is nothing where nodes have
/// one member. The copy that stays on the receiving GPU is counted: the kernels treat it as any
/// other, and their authors count it as well. Source: arXiv:2412.19437 3.2.2; deepseek-ai/DeepEP.
/// tests/validation/expert_dispatch_test.cpp compares with its published bandwidths.
[[nodiscard]] Seconds dispatch_time(const Dispatch& dispatch, ExpertDispatch kind,
                                    const GroupPlacement& expert_group, const ClusterSpec& cluster);
/// Time in which the outputs of the experts get back and are summed: as dispatch_time(), but
/// reduce_scatter_time(n·S) for all-gather. Also of gradients on their way to experts, as
/// dispatch_time() is of gradients on their way back.
[[nodiscard]] Seconds combine_time(const Dispatch& dispatch, ExpertDispatch kind,
                                   const GroupPlacement& expert_group, const ClusterSpec& cluster);

/// Copies of each token that arrive at GPUs of the expert group by hierarchical dispatch: one for
/// each GPU that has any of its experts.
[[nodiscard]] double copies_received(const ExpertRouting& routing,
                                     const GroupPlacement& expert_group);

/// Bytes that one GPU sends in a dispatch, and as many in a combination: (n−1)/n·topk·S, (n−1)·S,
/// or S·E_N·(N−1)/N over its NIC and S·E_n over NVLink.
[[nodiscard]] Bytes dispatch_volume(const Dispatch& dispatch, ExpertDispatch kind,
                                    const GroupPlacement& expert_group);

}  // namespace ptdp
