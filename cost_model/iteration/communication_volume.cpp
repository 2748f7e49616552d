// Counts the bytes that the ranks of each pipeline rank send, operation by operation.
#include "cost_model/iteration/communication_volume.h"

#include <cmath>

#include "cost_model/inputs/parallel_config.h"
#include "cost_model/inputs/parameter_counts.h"
#include "cost_model/inputs/rank_sizes.h"
#include "cost_model/iteration/sharding.h"
#include "cost_model/layer/split_key_heads.h"
#include "cost_model/layer/split_norms.h"
#include "cost_model/pipeline_rank/aligned_ranges.h"
#include "cost_model/pipeline_rank/rank_costs.h"
#include "cost_model/pipeline_rank/rank_parameters.h"

namespace ptdp {
namespace {

constexpr std::int64_t kScalarBytes = 8;  // an fp64 norm or loss

/// Kinds of operations, as the fields of KindVolumes.
enum class Kind { kAllReduce, kReduceScatter, kAllGather, kSend };
/// Groups that ranks send in, in the order of kVolumeGroups.
enum class Group { kTensor, kPipelineForward, kPipelineBackward, kData, kTied, kModel, kLoss };

/// One operation, done several times by one or more groups.
struct Operation {
  Kind kind = Kind::kSend;
  std::int64_t bytes = 0;  ///< Size of the whole buffer; for a send, what all members send.
  std::int64_t ranks = 2;  ///< Members of a group.
  /// Times that it is done, over all groups with members on the pipeline rank.
  std::int64_t times = 1;
};

/// Pipeline ranks that the members of a group lie on.
struct Reach {
  int places = 1;  ///< Number of pipeline ranks.
  /// Whether the group is counted on this pipeline rank, so that it is counted once.
  bool begins_here = true;
};

/// Returns the bytes that all members of all groups send for an operation.
std::int64_t sent(const Operation& operation) {
  const std::int64_t to_others = (operation.ranks - 1) * operation.bytes * operation.times;
  switch (operation.kind) {
    case Kind::kAllReduce:
      return 2 * to_others;
    case Kind::kReduceScatter:
    case Kind::kAllGather:
      return to_others;
    case Kind::kSend:
      return operation.bytes * operation.times;
  }
  return 0;
}

template <class Size>
Size& entry_of(GroupVolumes<Size>& groups, Group group, Kind kind) {
  KindVolumes<Size>& volumes = groups.*kVolumeGroups<Size>[static_cast<std::size_t>(group)].volumes;
  switch (kind) {
    case Kind::kAllReduce:
      return volumes.all_reduce;
    case Kind::kReduceScatter:
      return volumes.reduce_scatter;
    case Kind::kAllGather:
      return volumes.all_gather;
    case Kind::kSend:
      break;
  }
  return volumes.send;
}

/// Returns the pipeline rank that holds a virtual stage; the one of the first copy in a
/// bidirectional schedule.
int rank_holding(const ParallelConfig& config, int virtual_stage) {
  const bool is_coming_back =
      traits_of(config.schedule).placement == StagePlacement::kV && virtual_stage >= config.pp;
  return is_coming_back ? 2 * config.pp - 1 - virtual_stage : virtual_stage % config.pp;
}

/// Whether virtual stages k and k + 1 are on different ranks.
bool crosses_ranks(const ParallelConfig& config, int k) {
  return rank_holding(config, k) != rank_holding(config, k + 1);
}

/// Visits every operation that the ranks of pipeline rank `stage` take part in, by calling
/// visit(group, operation, reach).
template <class Visit>
class RankOperations {
 public:
  RankOperations(const PlannedJob& job, int rank, const Visit& visit)
      : model_(job.model()),
        config_(job.config()),
        rank_(rank),
        visit_(visit),
        element_(element_bytes(job.stack().precision)),
        accumulator_(accumulator_bytes(job.stack().precision)),
        tokens_(std::int64_t{1} * job.config().micro_batch_size * model_.seq_length),
        gathered_heads_(tokens_ * element_ *
                        std::llround(gathered_head_width(model_, config_.tp,
                                                         job.stack().can_run.split_key_heads))),
        norm_sums_(tokens_ * accumulator_ * norm_sums_of_token(model_, config_.tp, job.stack())),
        is_scattered_(job.config().sequence_parallel || job.stack().scatter_gather),
        passes_(job.microbatches() * job.config().dp / num_copies(job.config())) {}

  void visit_all() const {
    for_each_virtual_stage(config_, rank_, [&](int virtual_stage) {
      visit_layers(virtual_stage);
      visit_messages(virtual_stage);
    });
    visit_data();
    visit_tied();
    visit_scalars();
  }

 private:
  [[nodiscard]] std::int64_t activations() const { return tokens_ * model_.hidden_size * element_; }
  [[nodiscard]] int last_virtual_stage() const { return config_.pp * config_.vpp - 1; }

  void tensor(Kind kind, std::int64_t bytes, std::int64_t times) const {
    visit_(Group::kTensor,
           Operation{.kind = kind, .bytes = bytes, .ranks = config_.tp, .times = times}, Reach{});
  }
  void exchange(std::int64_t all_reduces, std::int64_t all_gathers,
                std::int64_t reduce_scatters) const {
    if (config_.sequence_parallel) {
      tensor(Kind::kAllGather, activations(), all_gathers * passes_);
      tensor(Kind::kReduceScatter, activations(), reduce_scatters * passes_);
    } else {
      tensor(Kind::kAllReduce, activations(), all_reduces * passes_);
    }
  }

  void visit_layers(int virtual_stage) const {
    const auto layers =
        std::llround(total(layers_of_virtual_stage(model_, config_, virtual_stage)));
    const std::int64_t again = repeats(config_.recompute) == Repeats::kLayer ? 2 : 0;
    exchange(layers * (4 + again), layers * (6 + again), layers * (4 + again));
    if (gathered_heads_ > 0) {
      tensor(Kind::kAllGather, gathered_heads_, layers * (1 + again / 2) * passes_);
      tensor(Kind::kReduceScatter, gathered_heads_, layers * passes_);
    }
    tensor(Kind::kAllReduce, norm_sums_, layers * (2 + again / 2) * passes_);
    const bool is_last = virtual_stage == last_virtual_stage();
    if (virtual_stage == 0) {
      exchange(1, 1, 1);
    }
    if (is_last) {
      exchange(1, 1, 1);
      tensor(Kind::kAllReduce, tokens_ * accumulator_, passes_);
      tensor(Kind::kAllReduce, 2 * tokens_ * accumulator_, passes_);
    }
    if (config_.sequence_parallel) {
      const std::int64_t h = model_.hidden_size;
      const std::int64_t norm = parameters_of_norm(model_) * h;
      const std::int64_t of_layer = layer_parameters(model_, /*has_experts=*/false).replicated;
      tensor(Kind::kAllReduce, accumulator_ * (layers * of_layer + (is_last ? norm : 0)),
             shards_gradients(config_) ? 1 : config_.dp);
    } else if (model_.qk_layernorm && !splits_norms(model_, config_.tp)) {
      // A rank's gradients of the norms of heads are sums over its heads.
      tensor(Kind::kAllReduce, accumulator_ * layers * qk_norm_parameters(model_),
             shards_gradients(config_) ? 1 : config_.dp);
    }
  }

  void visit_messages(int virtual_stage) const {
    const Operation message{.kind = Kind::kSend,
                            .bytes = activations() * (is_scattered_ ? 1 : config_.tp),
                            .times = passes_};
    const auto gather = [&] {
      if (is_scattered_ && !config_.sequence_parallel) {
        tensor(Kind::kAllGather, activations(), passes_);
      }
    };
    if (virtual_stage < last_virtual_stage() && crosses_ranks(config_, virtual_stage)) {
      visit_(Group::kPipelineForward, message, Reach{});
      gather();  // of the gradient that comes back
    }
    if (virtual_stage > 0 && crosses_ranks(config_, virtual_stage - 1)) {
      visit_(Group::kPipelineBackward, message, Reach{});
      gather();
    }
  }

  /// Returns the pipeline ranks that hold what this one holds: in a bidirectional schedule also the
  /// one as far from the other end.
  [[nodiscard]] Reach copies() const {
    const int places = num_copies(config_);
    return {.places = places, .begins_here = places == 1 || rank_ < config_.pp - 1 - rank_};
  }

  void visit_data() const {
    const std::int64_t parameters =
        std::llround(rank_parameters(model_, config_, rank_).dense) +
        padding_of_rank(model_, config_, LayersOfRanks(model_, config_), rank_);
    const auto over_replicas = [&](Kind kind, std::int64_t bytes, std::int64_t times) {
      visit_(Group::kData,
             Operation{.kind = kind,
                       .bytes = parameters * bytes,
                       .ranks = std::int64_t{1} * config_.dp * num_copies(config_),
                       .times = times * config_.tp},
             copies());
    };
    const std::int64_t microbatches = passes_ / config_.dp;  // per replica
    if (shards_optimizer(config_)) {
      over_replicas(Kind::kReduceScatter, accumulator_,
                    shards_gradients(config_) ? microbatches : 1);
      over_replicas(Kind::kAllGather, element_,
                    shards_weights(config_) ? microbatches * (gathers_again(config_) ? 2 : 1) : 1);
    } else {
      over_replicas(Kind::kAllReduce, accumulator_, 1);
    }
  }

  void visit_tied() const {
    const bool is_end = rank_ == 0 || rank_ == config_.pp - 1;
    const std::int64_t table = tied_range_size(model_, config_);
    if (!is_end || table == 0) {
      return;
    }
    visit_(Group::kTied,
           Operation{.kind = Kind::kAllReduce,
                     .bytes = table * accumulator_,
                     .ranks = 2,
                     .times = std::int64_t{1} * config_.tp *
                              (shards_optimizer(config_) ? 1 : config_.dp)},
           Reach{.places = 2, .begins_here = rank_ == 0});
  }

  void visit_scalars() const {
    const std::int64_t replica = std::int64_t{1} * config_.tp * config_.pp;
    const bool is_sharded = shards_optimizer(config_);
    visit_(Group::kModel,
           Operation{.kind = Kind::kAllReduce,
                     .bytes = kScalarBytes,
                     .ranks = is_sharded ? replica * config_.dp : replica,
                     .times = is_sharded ? 1 : config_.dp},
           Reach{.places = config_.pp, .begins_here = rank_ == 0});
    if (holds_logits(config_, rank_)) {
      visit_(Group::kLoss,
             Operation{.kind = Kind::kAllReduce,
                       .bytes = kScalarBytes,
                       .ranks = std::int64_t{1} * config_.dp * num_copies(config_),
                       .times = config_.tp},
             copies());
    }
  }

  const TransformerConfig& model_;
  const ParallelConfig& config_;
  int rank_;
  const Visit& visit_;
  std::int64_t element_;
  std::int64_t accumulator_;
  std::int64_t tokens_;          ///< Tokens of a microbatch.
  std::int64_t gathered_heads_;  ///< Bytes of heads that are gathered for a microbatch, or 0.
  std::int64_t norm_sums_;       ///< Bytes that norms over ranks sum in a pass, or 0.
  bool is_scattered_;
  std::int64_t passes_;  ///< Passes of microbatches through a virtual stage, in all replicas.
};

}  // namespace

GroupVolumes<std::int64_t> job_volumes(const PlannedJob& job) {
  GroupVolumes<std::int64_t> volumes;
  for (int rank = 0; rank < job.config().pp; ++rank) {
    const auto add = [&](Group group, const Operation& operation, const Reach& reach) {
      if (reach.begins_here) {
        entry_of(volumes, group, operation.kind) += sent(operation);
      }
    };
    RankOperations(job, rank, add).visit_all();
  }
  return volumes;
}

GroupVolumes<Bytes> mean_rank_volumes(const PlannedJob& job, int rank) {
  GroupVolumes<Bytes> volumes;
  const double ranks = 1.0 * job.config().tp * job.config().dp;
  const auto add = [&](Group group, const Operation& operation, const Reach& reach) {
    entry_of(volumes, group, operation.kind) +=
        Bytes(static_cast<double>(sent(operation)) / reach.places / ranks);
  };
  RankOperations(job, rank, add).visit_all();
  return volumes;
}

}  // namespace ptdp
