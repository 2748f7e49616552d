// Expert parallelism: how far tokens travel to their experts, and how long that takes.
#pragma once

#include <cstdint>

#include "cost_model/inputs/cluster_spec.h"
#include "cost_model/inputs/parallel_config.h"
#include "cost_model/inputs/rank_grid.h"
#include "cost_model/units.h"

namespace ptdp {

/// Which experts a token may have. Of the groups of consecutive experts, the `group_topk` with the
/// best single experts qualify. The token gets the `topk` experts of best score in those groups.
struct ExpertRouting {
  int num_experts = 1;  ///< Experts of a layer.
  int topk = 1;         ///< Experts per token.
  int num_groups = 1;   ///< Groups of equally many experts; 1 lets any experts go together.
  int group_topk = 1;   ///< Groups from which one token's experts may come.

  friend bool operator==(const ExpertRouting&, const ExpertRouting&) = default;
};

/// Mean number of distinct nodes that a token visits, when `nodes` nodes hold the experts in order,
/// equally many each. It is `nodes` times the probability that one given node has an expert of the
/// token. Nodes stand for any equal parts, such as GPUs. Scores are taken to be independent and
/// alike.
///
/// Experts are drawn one after another, best first, from all experts until group_topk groups have
/// one. From then on they are drawn from these groups. The next draw depends only on how many
/// experts and groups were drawn before, so the probability follows draw by draw. Without groups it
/// is hypergeometric, nodes·(1 − C(E − E/nodes, topk)/C(E, topk)) for E experts.
///
/// Source: node-limited routing of DeepSeek-V3 (arXiv:2412.19437 2.1.2). It ranks groups by the sum
/// of their two best scores: 3.95 nodes of 4 in place of 3.98 here, by simulation. Ranking by the
/// best score is as in the tests of deepseek-ai/DeepEP. A real router's scores are not independent.
///
/// Valid for 1 <= topk <= group_topk·num_experts/num_groups, group_topk <= num_groups, nodes <=
/// num_experts, and num_groups that divides num_experts. When `nodes` does not divide num_experts,
/// the next larger number that does is used. When neither of `nodes` and num_groups divides the
/// other, groups are left out, and the result is too large.
[[nodiscard]] double expected_nodes(const ExpertRouting& routing, std::int64_t nodes);

/// The tokens of one GPU on their way to experts, or back.
struct Dispatch {
  std::int64_t tokens = 0;       ///< Tokens of this GPU, each counted once.
  std::int64_t hidden_size = 0;  ///< Elements per token.
  /// Bytes per element with scales: fp8 with an fp32 per 128 elements has 1 + 4/128.
  double element_bytes = 2.0;
  ExpertRouting routing;
};

/// Time in which tokens get to their experts on the GPUs of `expert_group`, n GPUs on N nodes.
/// Every expert has as many tokens. S is what the tokens of one GPU take, tokens·hidden·bytes.
/// `kind` selects the formula:
///
/// all-to-all: all_to_all_time(topk·S). Source: Megatron-Core, MoEAlltoAllTokenDispatcher.
///
/// all-gather: all_gather_time(n·S). Source: Megatron-Core, MoEAllGatherTokenDispatcher, whose
/// group is ExpertDimension::kTensorAndExpert.
///
/// hierarchical: a token crosses the NICs once for each other node that it visits, to the GPU of
/// the same place there. From there it is copied over NVLink to each GPU that has experts of the
/// token. Both stages run at the same time:
///
///   t = t_launch + hops + max(S·E_N·(N−1)/N · o/β_nic, S·E_n/β_node)
///
/// Here E_N is expected_nodes() for nodes, and E_n for GPUs. The second term is 0 when nodes have
/// one member; a group of one GPU takes no time. The copy that stays on the receiving GPU is
/// counted: the kernels treat it as any other, and their authors count it as well. Source:
/// arXiv:2412.19437 3.2.2; deepseek-ai/DeepEP. tests/validation/expert_dispatch_test.cpp compares
/// with its published bandwidths.
[[nodiscard]] Seconds dispatch_time(const Dispatch& dispatch, ExpertDispatch kind,
                                    const GroupPlacement& expert_group, const ClusterSpec& cluster);
/// Time in which the outputs of the experts get back and are summed. It equals dispatch_time(), but
/// is reduce_scatter_time(n·S) for all-gather. In the backward pass gradients travel both ways too,
/// and cost one dispatch_time() and one combine_time().
[[nodiscard]] Seconds combine_time(const Dispatch& dispatch, ExpertDispatch kind,
                                   const GroupPlacement& expert_group, const ClusterSpec& cluster);

/// Mean copies of each token that arrive at GPUs of the expert group by hierarchical dispatch: one
/// for each GPU that has any of the token's experts.
[[nodiscard]] double copies_received(const ExpertRouting& routing,
                                     const GroupPlacement& expert_group);

/// Bytes that one GPU sends in a dispatch, and again in a combination. With S, n, N, E_N and E_n as
/// in dispatch_time() they are (n−1)/n·topk·S for all-to-all and (n−1)·S for all-gather.
/// Hierarchical dispatch sends S·E_N·(N−1)/N over the NIC plus S·E_n over NVLink. A group of one
/// GPU sends none.
[[nodiscard]] Bytes dispatch_volume(const Dispatch& dispatch, ExpertDispatch kind,
                                    const GroupPlacement& expert_group);

}  // namespace ptdp
