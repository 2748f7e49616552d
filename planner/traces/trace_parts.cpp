#include "planner/traces/trace_parts.h"

#include <algorithm>
#include <array>
#include <span>
#include <string>

namespace ptdp {
namespace {

struct RoleWord {
  std::string_view word;  ///< A word of a description, in lower case.
  GroupRole role;
};

// Words of the descriptions of Megatron-Core's parallel_state.py, of torchtitan's device meshes and
// of FSDP. In this order: "EXPERT_DATA_PARALLEL_GROUP" has replicas, "DATA_PARALLEL_GROUP_WITH_CP"
// too. The tied embedding's group counts as one of replicas.
constexpr auto kRoleWords = std::to_array<RoleWord>({{"data", GroupRole::kData},
                                                     {"dp", GroupRole::kData},
                                                     {"fsdp", GroupRole::kData},
                                                     {"hsdp", GroupRole::kData},
                                                     {"replicate", GroupRole::kData},
                                                     {"shard", GroupRole::kData},
                                                     {"embedding", GroupRole::kData},
                                                     {"embd", GroupRole::kData},
                                                     {"expert", GroupRole::kExpert},
                                                     {"ep", GroupRole::kExpert},
                                                     {"context", GroupRole::kContext},
                                                     {"cp", GroupRole::kContext},
                                                     {"pipeline", GroupRole::kPipeline},
                                                     {"pp", GroupRole::kPipeline},
                                                     {"tensor", GroupRole::kTensor},
                                                     {"tp", GroupRole::kTensor}});

/// Returns the words of a description in lower case: "mesh_dp_shard" has three.
std::vector<std::string> words_of_group(std::string_view group) {
  std::vector<std::string> words(1);
  for (const char c : group) {
    if (c >= 'A' && c <= 'Z') {
      words.back() += static_cast<char>(c - 'A' + 'a');
    } else if (c >= 'a' && c <= 'z') {
      words.back() += c;
    } else if (!words.back().empty()) {
      words.emplace_back();
    }
  }
  return words;
}

GroupRole role_by_description(std::string_view group) {
  const std::vector<std::string> words = words_of_group(group);
  for (const RoleWord& known : kRoleWords) {
    if (std::ranges::find(words, known.word) != words.end()) {
      return known.role;
    }
  }
  return GroupRole::kUnknown;
}

bool is_message(TracedCollective kind) {
  return kind == TracedCollective::kMessage || kind == TracedCollective::kMessageOrAllToAll;
}

struct RoleDegree {
  GroupRole role;
  std::int64_t degree;
};

/// Returns the roles that a collective may have in a configuration.
std::vector<RoleDegree> possible_roles(TracedCollective kind, const ParallelConfig& config) {
  const std::int64_t replicas = std::int64_t{config.dp} * config.cp;
  std::vector<RoleDegree> roles;
  if (is_message(kind)) {
    roles = {{GroupRole::kPipeline, config.pp}, {GroupRole::kContext, config.cp}};
  }
  if (kind == TracedCollective::kAllToAll || kind == TracedCollective::kMessageOrAllToAll) {
    roles.push_back({GroupRole::kExpert, config.ep});
  }
  if (kind == TracedCollective::kAllToAll) {
    roles.push_back({GroupRole::kContext, config.cp});
  }
  if (roles.empty()) {
    roles = {{GroupRole::kTensor, config.tp}, {GroupRole::kData, replicas}};
  }
  std::erase_if(roles, [](const RoleDegree& role) { return role.degree <= 1; });
  return roles;
}

Seconds exposed_of(const std::vector<CollectiveUse>& collectives, const ParallelConfig& config,
                   GroupRole role) {
  Seconds sum;
  for (const CollectiveUse& use : collectives) {
    sum += role_of(use, config) == role ? use.exposed : Seconds(0.0);
  }
  return sum;
}

}  // namespace

GroupRole role_of(const CollectiveUse& use, const ParallelConfig& config) {
  if (const GroupRole role = role_by_description(use.group); role != GroupRole::kUnknown) {
    return role;
  }
  std::vector<RoleDegree> roles = possible_roles(use.kind, config);
  if (roles.size() > 1 && use.ranks > 0 && !is_message(use.kind)) {
    std::erase_if(roles, [&](const RoleDegree& role) { return role.degree != use.ranks; });
  }
  return roles.size() == 1 ? roles.front().role : GroupRole::kUnknown;
}

Seconds TraceTimes::compute() const {
  return products + attention + norms + element_wise + optimizer + copies;
}

Seconds TraceTimes::total() const {
  return compute() + exposed + host_copies + idle;
}

Seconds predicted_compute(const CostBreakdown& predicted) {
  return predicted.matmul + predicted.attention + predicted.memory_bound + predicted.recompute +
         predicted.embedding_and_logits + predicted.optimizer;
}

std::vector<TracePart> split_by_trace(const TraceTimes& times,
                                      const std::vector<CollectiveUse>& collectives,
                                      const CostBreakdown& predicted,
                                      const ParallelConfig& config) {
  const auto exposed = [&](GroupRole role) { return exposed_of(collectives, config, role); };
  std::vector<TracePart> parts = {
      {"products", predicted.matmul, times.products},
      {"attention", predicted.attention, times.attention},
      {"element-wise", predicted.memory_bound, times.norms + times.element_wise + times.copies},
      {"recomputed, embedding, logits", predicted.recompute + predicted.embedding_and_logits,
       std::nullopt},
      {"optimizer", predicted.optimizer, times.optimizer},
      {"tensor parallel", predicted.tensor_parallel, exposed(GroupRole::kTensor)},
      {"context parallel", predicted.context_parallel, exposed(GroupRole::kContext)},
      {"expert parallel", predicted.expert_parallel, exposed(GroupRole::kExpert)},
      {"replicas", predicted.data_parallel + predicted.embedding_all_reduce,
       exposed(GroupRole::kData)},
      {"stages, launches, idle",
       predicted.bubble + predicted.pipeline_messages + predicted.launch + predicted.offload +
           predicted.core_contention,
       exposed(GroupRole::kPipeline) + times.host_copies + times.idle},
      {"other communication", std::nullopt, exposed(GroupRole::kUnknown)}};
  if (times.attention == Seconds(0.0)) {
    // Attention that is not fused is products, and a softmax among the element-wise work.
    parts[0] = {"products and attention", predicted.matmul + predicted.attention, times.products};
    parts.erase(parts.begin() + 1);
  }
  std::erase_if(parts, [](const TracePart& part) {
    return part.predicted.value_or(Seconds(0.0)) == Seconds(0.0) &&
           part.measured.value_or(Seconds(0.0)) == Seconds(0.0);
  });
  return parts;
}

}  // namespace ptdp
