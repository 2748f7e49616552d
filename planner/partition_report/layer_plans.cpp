// Searches the degrees of a list of layers, those with the least bound of their time first.
#include "planner/partition_report/layer_plans.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <tuple>
#include <utility>

#include "cost_model/contains.h"
#include "cost_model/error.h"
#include "cost_model/iteration/reduction_and_optimizer.h"
#include "cost_model/iteration/simulated_step.h"
#include "cost_model/iteration/step_builder.h"
#include "planner/partition_report/listed_pipeline.h"

namespace ptdp {
namespace {

/// Steps that the search for one cut of unlike layers into several chunks may take: some ms.
constexpr std::int64_t kMostCutSteps = 30'000;
constexpr int kMostStages = 2048;  // of a pipeline
/// Most actions of a step to simulate: pp of 400, or pp of 64 with 40 chunks.
constexpr double kMostStepActions = 4e6;
constexpr double kWorkOfALayer = 30.0;  // of a cut, against that of an action simulated

/// Degrees, and a lower bound of the time of an iteration with them.
struct BoundedDegrees {
  ParallelConfig config;
  Seconds bound;
};

/// Degrees with the cut and time that were found for them.
struct CostedDegrees {
  ParallelConfig config;
  std::vector<int> sizes;  ///< Layers of each virtual stage, the ends counted.
  Seconds time;

  friend bool operator<(const CostedDegrees& a, const CostedDegrees& b) {
    return a.time != b.time ? a.time < b.time : a.config < b.config;
  }
};

/// Returns the ZeRO stages to look at.
std::vector<int> zero_stages(const LayerSearch& search) {
  constexpr int highest = 1;
  const IntegerRanges& pinned = search.space.zero_stage;
  std::vector<int> stages;
  for (int stage = 0; stage <= highest; ++stage) {
    if (pinned.is_any() ? contains(search.stack.can_run.zero_stages, stage)
                        : pinned.contains(stage)) {
      stages.push_back(stage);
    }
  }
  if (!stages.empty()) {
    return stages;
  }
  throw Error(pinned.is_any()
                  ? "--stack: " + search.stack.name +
                        " has ZeRO stages of its own; a list of layers is planned with 0 and 1: "
                        "expected another stack, or --zero-stage 0,1 as if it ran them"
                  : "--zero-stage: expected 0 or 1 for a list of layers, got " + pinned.text());
}

/// Returns a difference of times near `whole`; 0 for what rounding leaves of none.
Seconds but_for_rounding(Seconds difference, Seconds whole) {
  constexpr double rounding = 1e-12;
  return difference > rounding * whole ? difference : Seconds(0.0);
}

/// The search of plan_layers().
class Planner {
 public:
  explicit Planner(const LayerSearch& search)
      : search_(search),
        scenario_(scenario_of(search)),
        pipeline_(search.list),
        zero_stages_(zero_stages(search)),
        limit_((1.0 - search.memory_headroom) * search.cluster.gpu.memory) {}

  LayerPlans run() {
    std::vector<BoundedDegrees> degrees = enumerate();
    std::ranges::stable_sort(degrees, {}, &BoundedDegrees::bound);
    LayerPlans result{.search = search_};
    candidates_.enumerated = static_cast<std::int64_t>(degrees.size());
    std::erase_if(degrees, [&](const BoundedDegrees& one) {
      return simulated_actions(one.config, microbatches(one.config)) > kMostStepActions;
    });
    candidates_.too_long = candidates_.enumerated - static_cast<std::int64_t>(degrees.size());
    for (std::size_t i = 0; i < degrees.size() && may_win(degrees[i].bound); ++i) {
      if (work_ > search_.most_work) {
        candidates_.unseen =
            std::ranges::count_if(degrees.begin() + static_cast<std::ptrdiff_t>(i), degrees.end(),
                                  [&](const BoundedDegrees& one) { return may_win(one.bound); });
        candidates_.possible_gain =
            best_.empty() ? 1.0 : std::max(0.0, 1.0 - degrees[i].bound / best_.front().time);
        break;
      }
      look_at(degrees[i].config);
    }
    for (const CostedDegrees& costed : best_) {
      result.plans.push_back(plan_of(costed));
    }
    result.candidates = candidates_;
    if (best_.empty() && candidates_.unseen == 0) {
      result.nearest = nearest(degrees);
    }
    return result;
  }

 private:
  [[nodiscard]] bool may_win(Seconds bound) const {
    return best_.size() < search_.num_best || bound < best_.back().time;
  }

  /// Returns all degrees to look at.
  [[nodiscard]] std::vector<BoundedDegrees> enumerate() const {
    std::vector<BoundedDegrees> result;
    const SearchSpace& space = search_.space;
    const StackCapabilities& can_run = search_.stack.can_run;
    const bool has_pipeline = contains(can_run.schedules, ScheduleKind::kOneFOneB);
    const bool has_chunks = contains(can_run.schedules, ScheduleKind::kInterleaved);
    const std::int64_t most_stages =
        has_pipeline
            ? std::min<std::int64_t>(search_.gpus / search_.list.tp, pipeline_.num_layers())
            : 1;
    for (const std::int64_t pp : space.pp.values(most_stages)) {
      const bool is_chunked = has_chunks && pp >= std::max(can_run.interleaved_min_stages, 2);
      const std::int64_t most_chunks = is_chunked ? pipeline_.num_layers() / pp : 1;
      for (const std::int64_t vpp : space.vpp.values(
               space.vpp.is_any() ? std::min<std::int64_t>(most_chunks, kMostTriedChunks)
                                  : most_chunks)) {
        if (pp <= most_stages && vpp <= most_chunks && pp * vpp <= kMostStages) {
          add_replicas(static_cast<int>(pp), static_cast<int>(vpp), result);
        }
      }
    }
    return result;
  }

  void add_replicas(int pp, int vpp, std::vector<BoundedDegrees>& result) const {
    const LayerList& list = search_.list;
    for (const std::int64_t dp : divisors(search_.global_batch_size / list.micro_batch_size)) {
      if (dp * pp * list.tp > search_.gpus || !search_.space.dp.contains(dp)) {
        continue;
      }
      for (const int stage : zero_stages_) {
        const ParallelConfig config{
            .tp = list.tp,
            .pp = pp,
            .dp = static_cast<int>(dp),
            .vpp = vpp,
            .micro_batch_size = list.micro_batch_size,
            .schedule = vpp == 1 ? ScheduleKind::kOneFOneB : ScheduleKind::kInterleaved,
            .zero_stage = stage};
        const bool is_twin = dp == 1 && stage > 0 && search_.space.zero_stage.contains(0);
        if (!is_twin && (vpp == 1 || microbatches(config) % pp == 0)) {
          result.push_back({config, least_time(config)});
        }
      }
    }
  }

  [[nodiscard]] std::int64_t microbatches(const ParallelConfig& config) const {
    return num_microbatches(search_.global_batch_size, config);
  }

  /// Returns the time that an optimizer's step takes at least on some rank; 0 where ranks go on by
  /// themselves.
  [[nodiscard]] Seconds least_optimizer(const ParallelConfig& config) const {
    return search_.stack.optimizer_post_validation
               ? Seconds(0.0)
               : optimizer_time({scenario_, config}, {.dense = pipeline_.parameters() / config.pp})
                     .step;
  }

  /// Returns a lower bound of the time of an iteration, however the layers are cut: the work of the
  /// slowest rank, which has the mean or the longest layer.
  [[nodiscard]] Seconds least_time(const ParallelConfig& config) const {
    const Seconds work = std::max(pipeline_.time() / config.pp, pipeline_.longest_layer());
    return static_cast<double>(microbatches(config)) *
               (work + config.vpp * search_.stack.microbatch_overhead) +
           least_optimizer(config);
  }

  /// Returns a lower bound of the time of an iteration with a cut. A rank begins behind the forward
  /// passes of the stages before its first one, and their backward passes end the step.
  [[nodiscard]] Seconds least_time(const ParallelConfig& config, const StageLoads& loads) const {
    Seconds least;
    Seconds around;
    for (int rank = 0; rank < config.pp; ++rank) {
      Seconds work;
      for (std::size_t stage = rank; stage < loads.passes.size(); stage += config.pp) {
        work += loads.passes[stage].forward + loads.passes[stage].backward;
      }
      least = std::max(least, static_cast<double>(microbatches(config)) * work + around);
      around += loads.passes[rank].forward + loads.passes[rank].backward;
    }
    return least + least_optimizer(config);
  }

  /// Cuts, and costs degrees unless a bound shows that they are too slow.
  void look_at(const ParallelConfig& config) {
    const PlannedJob job(scenario_, config);
    const std::optional<std::vector<int>> sizes = cut(job);
    if (!sizes) {
      ++candidates_.too_full;
      return;
    }
    const StageLoads loads = pipeline_.loads(job, *sizes);
    if (!may_win(least_time(config, loads))) {
      return;
    }
    ++candidates_.simulated;
    work_ += simulated_actions(config, job.microbatches());
    CostedDegrees costed{config, *sizes, simulations_.simulate(job, given_step(job, loads))};
    best_.insert(std::ranges::upper_bound(best_, costed, std::less<>()), std::move(costed));
    if (best_.size() > search_.num_best) {
      best_.pop_back();
    }
  }

  /// A cut without a limit of memory.
  struct FreeCut {
    std::vector<int> sizes;
    bool is_exact = true;  ///< Whether the slowest rank is as fast as possible.
  };

  [[nodiscard]] FreeCut free_cut(const PlannedJob& job) const {
    const ParallelConfig& config = job.config();
    const std::vector<LayerCost> costs = pipeline_.costs(job);
    try {
      return {*partition_layers(costs,
                                {.pp = config.pp, .vpp = config.vpp, .most_steps = kMostCutSteps})};
    } catch (const Error&) {  // it takes too many steps
      return {*partition_layers(costs, {.pp = config.pp * config.vpp}), false};
    }
  }

  /// Returns the layers per virtual stage, the ends counted; nullopt where no cut fits, or none
  /// that is found in time.
  std::optional<std::vector<int>> cut(const PlannedJob& job) {
    const ParallelConfig& config = job.config();
    work_ += config.pp;
    if (pipeline_.exceeds(job, limit_)) {
      return std::nullopt;
    }
    work_ += kWorkOfALayer * pipeline_.num_layers();
    const auto [shape, is_new] = free_cuts_.try_emplace({config.pp, config.vpp});
    if (is_new) {
      shape->second = free_cut(job);
    }
    const FreeCut& free = shape->second;
    candidates_.by_chunks += free.is_exact ? 0 : 1;
    const bool fits = pipeline_.fits(job, free.sizes, limit_);
    if (fits || !free.is_exact) {
      return fits ? std::optional(free.sizes) : std::nullopt;
    }
    try {
      std::optional<std::vector<int>> sizes = cut_within(job, limit_);
      return sizes && pipeline_.fits(job, *sizes, limit_) ? sizes : std::nullopt;
    } catch (const Error&) {  // it takes too many steps
      return std::nullopt;
    }
  }

  [[nodiscard]] std::optional<std::vector<int>> cut_within(const PlannedJob& job,
                                                           Bytes limit) const {
    PartitionRequest request = pipeline_.request(job, limit);
    request.most_steps = kMostCutSteps;
    return partition_layers(pipeline_.costs(job), request);
  }

  /// Returns the degrees, of those with one chunk per GPU, that lack least memory. Of each pp those
  /// whose replicas share most are looked at.
  [[nodiscard]] std::optional<NearestDegrees> nearest(std::vector<BoundedDegrees> degrees) const {
    std::erase_if(degrees, [](const BoundedDegrees& one) { return one.config.vpp > 1; });
    std::ranges::sort(degrees, std::greater<>(), [](const BoundedDegrees& one) {
      return std::tuple(one.config.pp, one.config.zero_stage, one.config.dp);
    });
    std::optional<NearestDegrees> nearest;
    int last_pp = 0;
    for (const BoundedDegrees& one : degrees) {
      if (std::exchange(last_pp, one.config.pp) == one.config.pp) {
        continue;
      }
      const Bytes missing = least_limit(PlannedJob(scenario_, one.config)) - limit_;
      if (!nearest || missing < nearest->missing) {
        nearest = {one.config, missing};
      }
    }
    return nearest;
  }

  /// Returns the memory of a GPU with which a cut fits, to a hundredth. There must be none in
  /// limit_.
  [[nodiscard]] Bytes least_limit(const PlannedJob& job) const {
    constexpr double precision = 0.01;
    Bytes low = limit_;
    Bytes high = 2.0 * limit_;
    while (!cut_within(job, high)) {
      low = std::exchange(high, 2.0 * high);
    }
    while (high - low > precision * high) {
      const Bytes middle = low + (high - low) / 2.0;
      (cut_within(job, middle) ? high : low) = middle;
    }
    return high;
  }

  [[nodiscard]] LayerPlan plan_of(const CostedDegrees& costed) {
    const PlannedJob job(scenario_, costed.config);
    const auto num_microbatches = static_cast<double>(job.microbatches());
    const GivenStep step = given_step(job, pipeline_.loads(job, costed.sizes));
    const StepParts parts = simulations_.parts(job, step);
    PartitionRequest request = pipeline_.request(job, limit_);
    request.memory = limit_;
    LayerPlan plan{
        .config = costed.config,
        .sizes = costed.sizes,
        .partition = described_partition(search_.list, request, costed.sizes, job.microbatches()),
        .memory = pipeline_.memory(job, costed.sizes)};
    plan.config.layers_per_stage = plan.partition.layers_per_stage();
    plan.partition.has_memory = true;
    for (std::size_t rank = 0; rank < plan.memory.size(); ++rank) {
      plan.partition.ranks[rank].memory = plan.memory[rank].total();
    }
    LayerPlanTimes& times = plan.times;
    times.compute =
        num_microbatches * plan.partition.ranks[slowest_rank(plan.partition.ranks)].time;
    times.overhead = num_microbatches * costed.config.vpp * search_.stack.microbatch_overhead;
    times.bubble = but_for_rounding(parts.passes - times.compute - times.overhead, parts.whole);
    times.messages = but_for_rounding(parts.with_messages - parts.passes, parts.whole);
    times.optimizer = std::min(parts.whole - parts.with_messages,
                               step.times.norm + *std::ranges::max_element(step.times.optimizer));
    times.data_parallel =
        but_for_rounding(parts.whole - parts.with_messages - times.optimizer, parts.whole);
    return plan;
  }

  const LayerSearch& search_;
  Scenario scenario_;
  ListedPipeline pipeline_;
  std::vector<int> zero_stages_;
  Bytes limit_;  // memory of a GPU that may be used
  StepSimulations simulations_;
  std::map<std::pair<int, int>, FreeCut> free_cuts_;  // by pp and vpp
  std::vector<CostedDegrees> best_;                   // the fastest first
  LayerCandidates candidates_;
  double work_ = 0.0;  // actions simulated, and layers cut
};

void check_search(const LayerSearch& search) {
  const LayerList& list = search.list;
  if (list.tp > search.gpus) {
    throw Error(fmt::format("--gpus: expected {} or more, the tp of the list {}, got {}", list.tp,
                            list.name, search.gpus));
  }
  if (search.global_batch_size % list.micro_batch_size != 0) {
    throw Error(
        fmt::format("--global-batch-size: expected a multiple of {}, the micro_batch_size "
                    "of the list {}, got {}",
                    list.micro_batch_size, list.name, search.global_batch_size));
  }
}

}  // namespace

Scenario scenario_of(const LayerSearch& search) {
  Scenario scenario{.cluster = search.cluster, .stack = search.stack};
  scenario.job.model_name = search.list.name;
  scenario.job.model.untied_embeddings = true;
  scenario.job.global_batch_size = search.global_batch_size;
  return scenario;
}

double loss_of(const LayerPlan& plan, const LayerPlans& plans) {
  return plan.iteration_time() / plans.plans.front().iteration_time() - 1.0;
}

Bytes peak_of(const LayerPlan& plan) {
  return plan.memory[heaviest_of(plan.memory)].total();
}

StackSpec with_bytes_of(StackSpec stack, const LayerList& list) {
  stack.weight_bytes = list.weight_bytes.value_or(stack.weight_bytes);
  stack.gradient_bytes = list.gradient_bytes.value_or(stack.gradient_bytes);
  stack.optimizer_bytes = list.optimizer_bytes.value_or(stack.optimizer_bytes);
  stack.fp8.reset();
  return stack;
}

Seconds LayerPlanTimes::total() const {
  Seconds sum;
  for (const LayerPlanTerm& term : kLayerTerms) {
    sum += this->*term.time;
  }
  return sum;
}

LayerPlans plan_layers(const LayerSearch& search) {
  check_search(search);
  return Planner(search).run();
}

}  // namespace ptdp
