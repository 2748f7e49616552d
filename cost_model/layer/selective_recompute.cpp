// Adds up the forward work that each recomputed module repeats.
#include "cost_model/layer/selective_recompute.h"

#include "cost_model/inputs/rank_sizes.h"
#include "cost_model/layer/expert_biases.h"
#include "cost_model/layer/fp8_casts.h"
#include "cost_model/operations/memory_bound.h"

namespace ptdp {
namespace {

constexpr double kNormPasses = 2.0;  // of the 4 of both norms (memory_bound.h)
constexpr double kNormKernels = 1.0;
constexpr double kActivationKernels = 1.0;
constexpr double kMlpKernels = 3.0;  // two products and the activation
constexpr double kUpProjectionKernels = 4.0;
// Kernels of attention and of the products that `op` keeps: queries, values, and two of the MLP.
constexpr double kKernelsOfWhatOpKeeps = 5.0;

/// Adds up what the modules of a configuration repeat of one layer.
class Repeating {
 public:
  Repeating(const Scenario& scenario, const ParallelConfig& config, LayerKind kind,
            const ForwardParts& forward)
      : scenario_(scenario),
        model_(scenario.job.model),
        gpu_(scenario.cluster.gpu),
        config_(config),
        kind_(kind),
        forward_(forward),
        per_width_(element_bytes(scenario.stack.precision) *
                   static_cast<double>(tokens_of_rank(model_, config))) {}

  /// Returns the work that `modules` repeat. To be called once.
  [[nodiscard]] RepeatedWork of(RecomputeModules modules) {
    if (modules.has(RecomputeModule::kEverySecondProduct)) {
      add_every_second_product();
      return work_;
    }
    if (modules.has(RecomputeModule::kCoreAttention)) {
      work_.time += forward_.attention_core;
    }
    if (modules.has(RecomputeModule::kLayerNorm)) {
      add_norms((has_latent_attention(model_) ? 1.0 : 0.0) + (kind_.has_experts ? 1.0 : 0.0));
    }
    if (modules.has(RecomputeModule::kMlaUpProjection) && has_latent_attention(model_)) {
      add_up_projection();
    }
    if (cover_mlp(modules, kind_.has_experts)) {
      add_mlp();
      add_norms(kind_.has_experts ? 0.0 : 1.0);
    }
    if (kind_.has_experts) {
      add_experts(modules);
    }
    return work_;
  }

 private:
  void add_traffic(double width, double passes) {
    work_.time.memory_bound += memory_bound_time(Bytes(passes * per_width_ * width), gpu_);
  }

  void add_norms(double count) {
    const double shards = config_.sequence_parallel ? config_.tp : 1.0;
    add_traffic(model_.hidden_size / shards, count * kNormPasses);
    work_.kernels.launch(count * kNormKernels);
  }

  void add_up_projection() {
    work_.time.matmul += forward_.products.qkv.forward;
    // Queries and keys, each read and written where rotary positions are put to their heads.
    add_traffic(2.0 * static_cast<double>(query_width(model_)) / config_.tp, 2.0);
    work_.time.tensor_parallel += forward_.collectives.into_attention;
    work_.kernels.launch(kUpProjectionKernels, starts_in_products(2.0, gpu_));
  }

  /// Adds the MLP of a dense layer, or the shared experts of one with experts.
  void add_mlp() {
    const double width = dense_mlp_width(model_, kind_);
    if (width == 0.0) {
      return;
    }
    work_.time.matmul += forward_.products.up.forward + forward_.products.down.forward;
    add_traffic(width / config_.tp, activation_passes());
    work_.time.tensor_parallel += forward_.collectives.into_mlp + forward_.collectives.out_of_mlp;
    work_.kernels.launch(kMlpKernels, starts_in_products(2.0, gpu_));
  }

  void add_experts(RecomputeModules modules) {
    if (modules.has(RecomputeModule::kMoe)) {
      work_.time.matmul += forward_.experts.products.forward;
      work_.time.memory_bound += forward_.experts.element_wise_forward;
      work_.time.expert_parallel += forward_.experts.communication;
      work_.kernels += expert_kernels(scenario_, config_).forward;
    } else if (modules.has(RecomputeModule::kMoeActivation)) {
      work_.time.memory_bound += forward_.experts.activation_forward;
      const int experts = experts_of_rank(model_, config_);
      work_.kernels.launch(kActivationKernels +
                           expert_bias_kernels(model_, scenario_.stack, experts).bounds);
    }
  }

  void add_every_second_product() {
    const auto queries = static_cast<double>(query_width(model_));
    const auto keys = static_cast<double>(key_width(model_));
    const double share_of_keys = keys / (queries + 2.0 * keys);
    const double share_of_gate = model_.gated_linear_unit ? 0.5 : 0.0;
    work_.time.matmul += share_of_keys * forward_.products.qkv.forward +
                         forward_.products.projection.forward +
                         share_of_gate * forward_.products.up.forward;
    work_.time.memory_bound += forward_.element_wise;
    work_.time.tensor_parallel +=
        forward_.collectives.into_attention + forward_.collectives.into_mlp;
    if (!config_.sequence_parallel) {
      work_.time.tensor_parallel += forward_.collectives.out_of_attention;
    }
    work_.kernels.launch(forward_.kernels - kKernelsOfWhatOpKeeps,
                         starts_in_products(share_of_keys + 1.0 + share_of_gate, gpu_));
  }

  [[nodiscard]] double activation_passes() const { return model_.gated_linear_unit ? 3.0 : 2.0; }

  const Scenario& scenario_;
  const TransformerConfig& model_;
  const GpuSpec& gpu_;
  const ParallelConfig& config_;
  LayerKind kind_;
  const ForwardParts& forward_;
  double per_width_;  ///< Bytes of a pass over one feature of a rank's tokens.
  RepeatedWork work_;
};

}  // namespace

RepeatedWork repeated_work(const Scenario& scenario, const ParallelConfig& config, LayerKind kind,
                           const ForwardParts& forward) {
  if (config.recompute_modules == kCoreAttentionAlone) {
    return {.time = forward.attention_core};
  }
  RepeatedWork work = Repeating(scenario, config, kind, forward).of(config.recompute_modules);
  const LayerCasts casts = repeated_casts(scenario, config, kind);
  work.time.memory_bound += cast_times(casts, scenario).forward;
  work.kernels.launch(casts.forward_kernels,
                      starts_in_casts(casts.forward_kernels, scenario.cluster.gpu));
  return work;
}

double repeated_width(const TransformerConfig& model, const ParallelConfig& config, LayerKind kind,
                      double gathered) {
  const RecomputeModules modules = config.recompute_modules;
  const double h = model.hidden_size;
  const bool is_split = config.sequence_parallel;
  if (modules.has(RecomputeModule::kEverySecondProduct)) {
    return 2.0 * h * (is_split ? gathered : 1.0);  // or the all-reduce of the projection
  }
  double width = 0.0;
  if (modules.has(RecomputeModule::kMlaUpProjection) && has_latent_attention(model) && is_split) {
    width += gathered * attention_input_width(model);
  }
  if (cover_mlp(modules, kind.has_experts) && dense_mlp_width(model, kind) > 0) {
    width += (is_split ? gathered + 1.0 : 2.0) * h;
  }
  return width;
}

}  // namespace ptdp
