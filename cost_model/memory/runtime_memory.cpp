// Computes the memory of each pass from its buffers, and walks through a rank's list of actions.
#include "cost_model/memory/runtime_memory.h"

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "cost_model/iteration/schedule_shape.h"
#include "cost_model/memory/unit_memory.h"
#include "cost_model/pipeline_rank/rank_costs.h"
#include "cost_model/schedule/generators/generators.h"

namespace ptdp {
namespace {

constexpr double kMessages = 4.0;  // one received and one sent, in both directions

/// Memory of the passes of a virtual stage's layers, one after the other: what the others keep
/// meanwhile, and what the one at work takes.
class LayerPasses {
 public:
  LayerPasses(const RuntimeBuffers& buffers, Recompute recompute, double layers)
      : b_(buffers),
        layer_(layer_memory(buffers, recompute)),
        layers_(layers),
        recompute_(recompute) {}

  /// Returns what all layers keep until the backward pass.
  [[nodiscard]] Bytes kept() const { return layers_ * layer_.kept; }
  /// Returns what all layers keep until a weight gradient that is put off.
  [[nodiscard]] Bytes deferred() const { return layers_ * layer_.deferred; }

  /// Returns the most memory during the forward pass of the last layer.
  [[nodiscard]] Bytes forward() const { return before_last() + computing(); }
  /// Returns the most memory during the whole backward pass of the last layer.
  [[nodiscard]] Bytes backward() const {
    const Bytes gradient = b_.rows + b_.branch;
    const Bytes up = mlp() - b_.left - b_.activated + gradient;
    const Bytes core = attention() + b_.attention + of_mlp() + gradient;
    const Bytes keys =
        attention() - b_.attention - b_.log_sums - b_.qk_normed + of_mlp() + gradient;
    return before_last() +
           std::max(
               {recomputing(), leaving(mlp()),
                mlp() - b_.left + gradient + b_.summed_gradient +
                    std::max(b_.fc2.input, b_.fc2.weight),
                up + both_gradients(b_.fc1), leaving(attention() + b_.left),
                core + b_.summed_gradient + std::max(b_.projection.input, b_.projection.weight),
                core + attending_backward(), summing_keys(keys + b_.qk_normed_behind),
                keys - b_.keys + both_gradients(b_.qkv_products)});
  }
  /// Returns the memory of the layers before the last one, and of what that one leaves once its
  /// gradients are made.
  [[nodiscard]] Bytes reducing() const { return before_last() + b_.rows; }
  /// Returns the most memory during an input gradient; `after` is what the end of the model keeps
  /// meanwhile. Layers before the one at work keep `kept`, those behind it `deferred`. Most is thus
  /// at one end.
  [[nodiscard]] Bytes input_gradient(Bytes after) const {
    const Bytes gradient = b_.rows + b_.branch;
    const Bytes at_mlp = mlp() - b_.left + gradient + b_.summed_gradient;
    // What is left of the MLP then: its normed input, its first product and its activation.
    const Bytes of_first = attention() + b_.rows + b_.up + b_.activated + of_mlp();
    const Bytes at_attention = of_first + gradient + b_.all_rows + b_.summed_gradient;
    const Bytes keys = at_attention - b_.log_sums - b_.qk_normed;
    const Bytes at_qkv = keys - b_.keys + b_.all_rows;
    // Norms in front of branches come next. Parallel branches copy the gradient at the MLP.
    const Bytes at_norm1 = another_gradient() + b_.norming;
    const Bytes at_norm2 = b_.is_parallel ? another_gradient() : at_norm1;
    const Bytes at_work =
        std::max({recomputing(), leaving(mlp()), at_mlp + b_.activated + b_.fc2.input,
                  at_mlp + b_.all_rows + std::max({b_.summing, b_.fc1.input, at_norm2}),
                  leaving(of_first + b_.all_rows + b_.left),
                  at_attention + b_.attention + std::max(attending_later(), b_.projection.input),
                  summing_keys(keys + b_.qk_normed_behind),
                  at_qkv + std::max({b_.summing, b_.qkv_products.input, at_norm1})});
    return after + (layers_ - 1.0) * std::max(layer_.kept, layer_.deferred) + at_work;
  }

 private:
  /// Returns what all layers but the last keep.
  [[nodiscard]] Bytes before_last() const { return (layers_ - 1.0) * layer_.kept; }
  /// Returns what a layer has left at the time of its MLP.
  [[nodiscard]] Bytes mlp() const {
    return repeats(recompute_) == Repeats::kModules ? layer_.kept : layer_.most;
  }
  /// Returns what a layer has left at the time of attention's backward pass.
  [[nodiscard]] Bytes attention() const {
    return b_.entered1 + b_.qkv + b_.keys + b_.qk_normed + b_.attention + b_.log_sums;
  }
  /// Returns the memory of another gradient through the residuals, where an input gradient keeps
  /// the one behind a branch as it is; 0 where the branch has one of its own.
  [[nodiscard]] Bytes another_gradient() const {
    const bool has_own = b_.summed_gradient.value() > 0.0 || b_.branch.value() > 0.0;
    return has_own ? Bytes(0.0) : b_.rows;
  }
  /// Returns what attention's backward pass takes: the gradients of queries, keys and values apart
  /// from these, and scratch memory.
  [[nodiscard]] Bytes attending_backward() const {
    return b_.qkv + b_.keys + b_.attending.backward;
  }
  /// Returns what it takes where weight gradients wait.
  [[nodiscard]] Bytes attending_later() const {
    return b_.replaces_qkv ? b_.attending.backward : attending_backward();
  }
  /// Returns the memory while gradients of shared keys and values are summed, with `others` beside;
  /// 0 where ranks share none.
  [[nodiscard]] Bytes summing_keys(Bytes others) const {
    if (b_.keys.value() == 0.0) {
      return Bytes(0.0);
    }
    // The shared ones are released before the sum takes its scratch memory.
    return others + b_.gathered_keys +
           std::max(Bytes(0.0), std::max(b_.summing_keys, b_.summing_norms) - b_.keys);
  }
  /// Returns the memory while the gradient passes a norm behind a branch, of which `all` is left; 0
  /// without such norms.
  [[nodiscard]] Bytes leaving(Bytes all) const {
    return b_.branch.value() > 0.0 ? all + b_.rows + b_.branch + b_.norming : Bytes(0.0);
  }
  /// Returns what waits for attention's gradient where both branches take the layer's input: the
  /// gradient of the MLP's normed input, and its statistics; else 0.
  [[nodiscard]] Bytes of_mlp() const {
    return b_.is_parallel ? b_.all_rows + b_.statistics : Bytes(0.0);
  }
  /// Returns what a fully recomputed layer takes during its repeated forward pass; else 0.
  [[nodiscard]] Bytes recomputing() const {
    return repeats(recompute_) == Repeats::kLayer ? b_.rows + computing() : Bytes(0.0);
  }
  /// Returns the most memory during a layer's forward pass: its linear layers, which may gather or
  /// sum, and attention.
  [[nodiscard]] Bytes computing() const {
    // Parallel branches hold attention's sum meanwhile.
    const Bytes at_mlp = mlp() - b_.left + (b_.is_parallel ? b_.rows : Bytes(0.0));
    return std::max({b_.entered1 + b_.qkv + b_.keys + b_.gathered_keys + b_.norm_sums,
                     at_mlp - b_.activated + gathered() + b_.fc1.forward,
                     at_mlp + summed_rows(b_.fc2), mlp() + b_.branch,
                     attention() + b_.attending.forward, attention() + summed_rows(b_.projection),
                     attention() + summed_middle() + b_.normed_middle});
  }
  /// Returns what the result of a row-parallel layer takes while it is made.
  [[nodiscard]] Bytes summed_rows(const LinearScratch& linear) const {
    return b_.all_rows + std::max({b_.summing, b_.scattered, linear.forward});
  }
  /// Returns what the middle of the layer takes while it is summed: what the projection leaves, or
  /// the result of the branch and the norm behind it.
  [[nodiscard]] Bytes summed_middle() const {
    return b_.branch.value() > 0.0 ? b_.left + b_.branch : b_.all_rows + b_.scattered;
  }
  /// Returns the memory of rows that sequence parallelism gathers; 0 without it.
  [[nodiscard]] Bytes gathered() const { return b_.is_scattered ? b_.all_rows : Bytes(0.0); }
  /// Returns what a column-parallel layer's gradients take beside its input. First come the weight
  /// gradient's rows and then, in place of the input, the input gradient; or both at once where
  /// collectives run behind products.
  [[nodiscard]] Bytes both_gradients(const LinearScratch& linear) const {
    const Bytes summing = std::max(b_.summing, linear.input);
    return b_.is_behind ? b_.all_rows + b_.gathered_behind + std::max(summing, linear.weight)
                        : std::max(gathered() + linear.weight, b_.all_rows - b_.rows + summing);
  }

  const RuntimeBuffers& b_;
  LayerMemory layer_;
  double layers_;
  Recompute recompute_;
};

/// Computes the memory of a virtual stage from the passes of its layers. Adds the `units` that a
/// sharded model, which is one stage, has whole.
StageMemory stage_memory_of(const RuntimeBuffers& b, const LayerPasses& passes, double layers,
                            bool begins, bool ends, const UnitMemory& units) {
  const Bytes none;
  const Bytes end_deferred = ends ? b.all_rows + b.logits : none;
  StageMemory stage{
      .kept = passes.kept(), .deferred = passes.deferred() + end_deferred, .result = b.rows};
  if (layers > 0.0) {
    stage.forward = passes.forward() + units.forward;
    stage.backward =
        std::max(passes.backward() + units.backward, passes.reducing() + units.reducing_layer);
    stage.input_gradient = passes.input_gradient(end_deferred);
  }
  stage.weight_gradient = stage.deferred + (layers > 0.0 ? b.fc2.weight : none);
  if (ends) {
    stage.weight_gradient = std::max(stage.weight_gradient, end_deferred + b.output.weight);
  }
  if (begins) {
    const Bytes gathered = b.is_scattered ? b.all_rows : none;
    stage.forward =
        std::max(stage.forward, b.all_rows + std::max(b.summing, b.scattered) + units.embedding);
    stage.backward =
        std::max({stage.backward, b.rows + gathered + units.ends, b.rows + units.reducing_ends});
    stage.deferred += b.rows;
    stage.weight_gradient = std::max(stage.weight_gradient + b.rows, b.rows + gathered);
  }
  if (ends) {
    const Bytes end = b.rows + b.statistics + b.all_rows + b.logits + b.loss;
    const Bytes all = passes.kept() + end;
    const Bytes logits = all - b.loss;
    // In a whole pass the input gradient of the logits takes the place of their normed input.
    const Bytes summing = logits + std::max(b.output.input, b.summing);
    stage.kept += end;
    stage.forward =
        std::max({stage.forward, all + units.logits, logits + b.output.forward + units.logits});
    const Bytes norm = passes.kept() + 2.0 * b.rows + b.statistics + b.all_rows + b.norming;
    stage.backward = std::max({stage.backward, all + units.end, summing + units.end,
                               logits + b.output.weight + units.end, norm + units.end});
    stage.input_gradient = std::max({stage.input_gradient, all, summing + b.all_rows,
                                     logits + b.all_rows + b.rows + b.norming});
  }
  // Ids of tokens stay until the last gradient that needs them.
  const Bytes ids = ((begins ? 1.0 : 0.0) + (ends ? 1.0 : 0.0)) * b.tokens;
  for (Bytes StageMemory::*size :
       {&StageMemory::kept, &StageMemory::deferred, &StageMemory::forward, &StageMemory::backward,
        &StageMemory::input_gradient, &StageMemory::weight_gradient}) {
    stage.*size += ids;
  }
  return stage;
}

/// What passes of the whole model need, computed once for all its virtual stages.
struct PassNeeds {
  explicit PassNeeds(const PlannedJob& job)
      : buffers(runtime_buffers(job.scenario(), job.config())), units(unit_memory(job)) {}

  RuntimeBuffers buffers;
  UnitMemory units;
};

StageMemory virtual_stage_memory(const PassNeeds& needs, const TransformerConfig& model,
                                 const ParallelConfig& config, int virtual_stage) {
  const double layers = total(layers_of_virtual_stage(model, config, virtual_stage));
  StageMemory stage =
      stage_memory_of(needs.buffers, {needs.buffers, config.recompute, layers}, layers,
                      virtual_stage == 0, virtual_stage == config.pp * config.vpp - 1, needs.units);
  stage.input_gradient += needs.units.forward + needs.units.put_off;
  stage.weight_gradient += needs.units.put_off;
  return stage;
}

/// A rank's memory while its list of actions is walked through.
class StepWalk {
 public:
  StepWalk(RankMemories& stages, int num_stages, bool has_messages)
      : stages_(stages), num_stages_(num_stages), has_messages_(has_messages) {}

  /// Accounts for one action.
  void run(const Action& action) {
    const StageMemory& stage = stages_.of_virtual_stage(action.stage);
    const bool begins = action.stage == 0;
    const bool ends = action.stage + 1 == num_stages_;
    const Bytes result = stage.result;
    switch (action.kind) {
      case ActionKind::kReceiveForward:
      case ActionKind::kReceiveBackward:
        waiting_ += result;
        note(Bytes(0.0));
        break;
      case ActionKind::kSendForward:
      case ActionKind::kSendBackward:
        waiting_ -= result;
        break;
      case ActionKind::kForward:
        take(result, !begins);
        kept_ += stage.kept;
        note(stage.forward - stage.kept);
        make(result, !ends);
        break;
      case ActionKind::kBackward:
        take(result, !ends);
        note(stage.backward - stage.kept);
        kept_ -= stage.kept;
        make(result, !begins);
        break;
      case ActionKind::kInputGradient:
        take(result, !ends);
        note(stage.input_gradient - stage.kept);
        kept_ += stage.deferred - stage.kept;
        make(result, !begins);
        break;
      case ActionKind::kWeightGradient:
        note(stage.weight_gradient - stage.deferred);
        kept_ -= stage.deferred;
        break;
      case ActionKind::kRecompute:
      case ActionKind::kCopyForward:
      case ActionKind::kCopyBackward:
      case ActionKind::kReduceGradients:
      case ActionKind::kGatherParameters:
      case ActionKind::kReduceTied:
      case ActionKind::kReduceNorm:
      case ActionKind::kOptimizer:
        break;
    }
  }

  [[nodiscard]] const ActivationPeak& peak() const { return peak_; }

 private:
  /// Removes a message that a pass takes, where there is one.
  void take(Bytes message, bool is_there) {
    waiting_ -= is_there && has_messages_ ? message : Bytes(0.0);
  }
  /// Adds a message that a pass makes, where there is one.
  void make(Bytes message, bool is_there) {
    waiting_ += is_there && has_messages_ ? message : Bytes(0.0);
  }
  /// Updates the peak with a pass that takes `working` besides what is kept and waits.
  void note(Bytes working) {
    const ActivationPeak here{.kept = kept_, .working = working, .waiting = waiting_};
    if (here.total() > peak_.total()) {
      peak_ = here;
    }
  }

  RankMemories& stages_;
  int num_stages_;
  bool has_messages_;
  Bytes kept_;
  Bytes waiting_;
  ActivationPeak peak_;
};

}  // namespace

StageMemory virtual_stage_memory(const PlannedJob& job, int virtual_stage) {
  return virtual_stage_memory(PassNeeds(job), job.model(), job.config(), virtual_stage);
}

struct RankMemories::Needs : PassNeeds {
  using PassNeeds::PassNeeds;
};

RankMemories::RankMemories(const PlannedJob& job)
    : scenario_(job.scenario()),
      config_(job.config()),
      needs_(std::make_shared<const Needs>(job)),
      stages_(static_cast<std::size_t>(job.config().pp) *
              static_cast<std::size_t>(job.config().vpp)) {}

const StageMemory& RankMemories::of_virtual_stage(int virtual_stage) {
  std::optional<StageMemory>& stage = stages_[static_cast<std::size_t>(virtual_stage)];
  if (!stage) {
    stage = virtual_stage_memory(*needs_, scenario_.job.model, config_, virtual_stage);
  }
  return *stage;
}

ActivationPeak RankMemories::peak(const Schedule& schedule, int rank) {
  return walked(schedule, rank, /*has_messages=*/true);
}

ActivationPeak RankMemories::peak_of_compute(const Schedule& compute, int rank) {
  return walked(compute, rank, /*has_messages=*/false);
}

Bytes RankMemories::angles(int rank) const {
  const TransformerConfig& model = scenario_.job.model;
  const double of_stage =
      1.0 * model.seq_length * rotary_width(model) * accumulator_bytes(scenario_.stack.precision);
  double stages = 0.0;
  for_each_virtual_stage(config_, rank, [&](int virtual_stage) {
    stages += total(layers_of_virtual_stage(model, config_, virtual_stage)) > 0.0 ? 1.0 : 0.0;
  });
  return Bytes(stages * of_stage);
}

ActivationPeak RankMemories::walked(const Schedule& schedule, int rank, bool has_messages) {
  const auto count = static_cast<std::size_t>(num_stages(schedule));
  stages_.resize(std::max(stages_.size(), count));
  StepWalk walk(*this, num_stages(schedule), has_messages);
  for (const Action& action : schedule.orders[static_cast<std::size_t>(rank)]) {
    walk.run(action);
  }
  ActivationPeak peak = walk.peak();
  peak.kept += angles(rank);
  return peak;
}

Bytes RankMemories::least(int rank) {
  Bytes most;
  for_each_virtual_stage(config_, rank, [&](int virtual_stage) {
    const StageMemory& stage = of_virtual_stage(virtual_stage);
    most = std::max({most, stage.forward, stage.kept});
  });
  return most + angles(rank);
}

ActivationPeak activation_peak(const PlannedJob& job, const Schedule& schedule, int rank) {
  return RankMemories(job).peak(schedule, rank);
}

ActivationPeak activation_bound(const PlannedJob& job, int rank) {
  return RankMemories(job).bound(rank);
}

Bytes RankMemories::waiting() {
  if (config_.pp == 1) {
    return Bytes(0.0);
  }
  const std::int64_t microbatches = num_microbatches(scenario_.job.global_batch_size, config_);
  const double group = default_microbatch_group_size(config_.pp, static_cast<int>(microbatches));
  const bool takes_turns = traits_of(config_.schedule).has_groups;
  return (takes_turns ? std::max(kMessages, group) : kMessages) * of_virtual_stage(0).result;
}

ActivationPeak RankMemories::bound(int rank) {
  const bool splits = traits_of(config_.schedule).splits_backward;
  const ScheduleShape shape =
      schedule_sizes(config_, num_microbatches(scenario_.job.global_batch_size, config_));
  double chunks = traits_of(config_.schedule).peak_activations(shape, rank);
  // Most activations of one virtual stage. Interleaved, groups of N microbatches take turns, and
  // the end of the model goes back as soon as it is reached.
  const bool takes_turns = traits_of(config_.schedule).has_groups;
  const double group = default_microbatch_group_size(config_.pp, shape.num_microbatches);
  const double most_of_one =
      takes_turns ? std::min<double>(2.0 * group, shape.num_microbatches) : shape.num_microbatches;
  const int end = config_.pp * config_.vpp - 1;

  std::vector<std::pair<Bytes, double>> held;  // size for one microbatch, and how many at most
  ActivationPeak peak;
  for_each_virtual_stage(config_, rank, [&](int virtual_stage) {
    const StageMemory& stage = of_virtual_stage(virtual_stage);
    const Bytes kept = splits ? std::max(stage.kept, stage.deferred) : stage.kept;
    const Bytes whole = std::max(stage.forward, stage.backward);
    const Bytes most =
        splits ? std::max({whole, stage.input_gradient, stage.weight_gradient}) : whole;
    held.emplace_back(kept, virtual_stage == end && takes_turns ? 1.0 : most_of_one);
    peak.working = std::max(peak.working, most - kept);
  });
  peak.waiting = waiting();
  std::sort(held.begin(), held.end(), std::greater<>());
  for (const auto& [of_one, most] : held) {
    const double count = std::min(chunks, most);
    peak.kept += count * of_one;
    chunks -= count;
  }
  peak.kept += angles(rank);
  return peak;
}

}  // namespace ptdp
