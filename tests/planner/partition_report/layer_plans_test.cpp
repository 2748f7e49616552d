// Tests of the search over degrees of a list of layers: by hand, by brute force, and against the
// search of transformers.
#include "planner/partition_report/layer_plans.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "cost_model/memory/rank_activations.h"
#include "cost_model/pipeline_rank/rank_layers.h"
#include "planner/partition_report/layer_plans_output.h"
#include "planner/search/search.h"
#include "tests/cost_model/partition/partitions.h"
#include "tests/support/scenarios.h"
#include "tests/support/thrown.h"

namespace ptdp {
namespace {

constexpr double kLink = 1e9;    // bytes per second between GPUs
constexpr double kMemory = 4e9;  // bytes per second of a GPU's memory

/// Returns a node of eight GPUs whose links and memories take time by size alone.
ClusterSpec plain_node(double memory) {
  ClusterSpec cluster{.name = "plain", .gpus_per_node = 8};
  cluster.gpu.memory = Bytes(memory);
  cluster.gpu.memory_bandwidth = BytesPerSecond(kMemory);
  cluster.gpu.memory_efficiency = 1.0;
  cluster.nvlink.bandwidth = cluster.nic.bandwidth = BytesPerSecond(kLink);
  return cluster;
}

/// Returns a stack that overlaps nothing, and reads and writes 40 bytes per parameter in a step.
StackSpec plain_stack() {
  StackSpec stack{.name = "plain", .optimizer_traffic = 40.0};
  stack.can_run.schedules = {ScheduleKind::kOneFOneB, ScheduleKind::kInterleaved};
  stack.can_run.zero_stages = {0, 1};
  return stack;
}

ListedLayer layer_of(double forward, double backward, double parameters, double activations,
                     double output) {
  return {.name = "layer",
          .time = Seconds(forward + backward),
          .forward = Seconds(forward),
          .parameters = parameters,
          .activations = Bytes(activations),
          .output = Bytes(output)};
}

LayerSearch search_of(const LayerList& list, std::int64_t gpus, std::int64_t batch,
                      double memory = 1e15) {
  return {.list = list,
          .cluster = plain_node(memory),
          .stack = plain_stack(),
          .gpus = gpus,
          .global_batch_size = batch};
}

/// The oracle: 1F1B of one list with some degrees, written without the project's code.
class HandPlan {
 public:
  HandPlan(const LayerSearch& search, int pp, int dp, int zero)
      : search_(search),
        pp_(pp),
        dp_(dp),
        zero_(zero),
        microbatches_(static_cast<int>(search.global_batch_size) / dp) {}

  /// Returns the time of an iteration with `sizes` layers per stage: 1F1B by its dependencies. A
  /// rank is busy with what it sends. Then come reductions, then the optimizer.
  [[nodiscard]] double time(const std::vector<int>& sizes) const {
    std::vector<double> forward(pp_);
    std::vector<double> backward(pp_);
    std::vector<double> parameters(pp_);
    std::size_t next = 0;
    for (int rank = 0; rank < pp_; ++rank) {
      for (int i = 0; i < sizes[rank]; ++i, ++next) {
        const ListedLayer& layer = search_.list.layers[next];
        forward[rank] += layer.forward->value();
        backward[rank] += layer.time.value() - layer.forward->value();
        parameters[rank] += *layer.parameters;
      }
      if (rank + 1 < pp_) {
        const double message = search_.list.layers[next - 1].output->value() / kLink;
        forward[rank] += message;
        backward[rank + 1] += message;
      }
    }
    const double ring = (dp_ - 1.0) / dp_ / kLink;
    double shift = 0.0;
    double begin = 0.0;
    for (int rank = 0; rank < pp_ && zero_ == 1; ++rank) {
      shift = std::max(shift, 2.0 * parameters[rank] * ring - begin);
      begin += forward[rank];
    }
    const std::vector<double> ends = ends_of_passes(forward, backward);
    double end = 0.0;
    double optimizer = 0.0;
    for (int rank = 0; rank < pp_; ++rank) {
      end = std::max(end,
                     ends[rank] + shift + (zero_ == 1 ? 1.0 : 2.0) * 4.0 * parameters[rank] * ring);
      optimizer = std::max(optimizer, 40.0 * parameters[rank] / (zero_ == 1 ? dp_ : 1) / kMemory);
    }
    return end + optimizer;
  }

  /// Returns whether each rank keeps to the memory: 2 + 4 + 12 bytes per parameter, min(p − r, m)
  /// microbatches, and four messages of the largest size.
  [[nodiscard]] bool fits(const std::vector<int>& sizes) const {
    double message = 0.0;
    for (std::size_t i = 0; i + 1 < search_.list.layers.size(); ++i) {
      message = std::max(message, search_.list.layers[i].output->value());
    }
    std::size_t next = 0;
    for (int rank = 0; rank < pp_; ++rank) {
      double memory = pp_ > 1 ? 4.0 * message : 0.0;
      for (int i = 0; i < sizes[rank]; ++i, ++next) {
        const ListedLayer& layer = search_.list.layers[next];
        memory += *layer.parameters * (6.0 + 12.0 / (zero_ == 1 ? dp_ : 1)) +
                  std::min(pp_ - rank, microbatches_) * layer.activations->value();
      }
      if (memory > search_.cluster.gpu.memory.value()) {
        return false;
      }
    }
    return true;
  }

  /// Returns the cut that fits and has the least slowest rank, then the least squares, then the
  /// earliest stages; nullopt if none fits.
  [[nodiscard]] std::optional<std::vector<int>> cut() const {
    std::optional<std::vector<int>> best;
    std::pair<double, double> least;
    for_each_composition(static_cast<int>(search_.list.layers.size()), pp_,
                         [&](const std::vector<int>& sizes) {
                           if (!fits(sizes)) {
                             return;
                           }
                           std::pair<double, double> score;
                           std::size_t next = 0;
                           for (const int size : sizes) {
                             double time = 0.0;
                             for (int i = 0; i < size; ++i) {
                               time += search_.list.layers[next++].time.value();
                             }
                             score.first = std::max(score.first, time);
                             score.second += time * time;
                           }
                           if (!best || score < least) {
                             best = sizes;
                             least = score;
                           }
                         });
    return best;
  }

 private:
  /// Returns when each rank has done all passes, none of which begins before its input is there.
  [[nodiscard]] std::vector<double> ends_of_passes(const std::vector<double>& forward,
                                                   const std::vector<double>& backward) const {
    std::vector<std::vector<double>> forward_end(pp_);
    std::vector<std::vector<double>> backward_end(pp_);
    std::vector<double> now(pp_);
    for (bool goes_on = true; goes_on;) {
      goes_on = false;
      for (int rank = 0; rank < pp_; ++rank) {
        const auto done_forward = static_cast<int>(forward_end[rank].size());
        const auto done_backward = static_cast<int>(backward_end[rank].size());
        const int ahead = std::min(pp_ - rank, microbatches_);
        const bool is_forward =
            done_forward < microbatches_ && done_forward - done_backward < ahead;
        if (is_forward && (rank == 0 || forward_end[rank - 1].size() > forward_end[rank].size())) {
          const double input = rank == 0 ? 0.0 : forward_end[rank - 1][done_forward];
          now[rank] = std::max(now[rank], input) + forward[rank];
          forward_end[rank].push_back(now[rank]);
          goes_on = true;
        } else if (!is_forward && done_backward < microbatches_ &&
                   (rank == pp_ - 1 || backward_end[rank + 1].size() > backward_end[rank].size())) {
          const double input = rank == pp_ - 1 ? 0.0 : backward_end[rank + 1][done_backward];
          now[rank] = std::max(now[rank], input) + backward[rank];
          backward_end[rank].push_back(now[rank]);
          goes_on = true;
        }
      }
    }
    return now;
  }

  const LayerSearch& search_;
  int pp_;
  int dp_;
  int zero_;
  int microbatches_;
};

LayerList random_list() {
  LayerList list{.name = "random"};
  for (int i = 0; i < 6; ++i) {
    list.layers.push_back(layer_of(*rc::gen::inRange(1, 10), *rc::gen::inRange(1, 20),
                                   1e8 * *rc::gen::inRange(0, 10), 1e8 * *rc::gen::inRange(0, 10),
                                   1e8 * *rc::gen::inRange(0, 10)));
  }
  return list;
}

TEST(LayerPlans, AreTheBestOfAllDegreesAndCuts) {
  EXPECT_TRUE(rc::check([] {
    LayerSearch search =
        search_of(random_list(), 8, *rc::gen::element(4, 6, 8, 24), 1e9 * *rc::gen::inRange(5, 60));
    search.space.vpp = IntegerRanges(1);
    std::vector<double> times;
    for (int pp = 1; pp <= 6; ++pp) {
      for (int dp = 1; pp * dp <= 8; ++dp) {
        for (int zero = 0; zero <= (dp > 1 ? 1 : 0); ++zero) {
          const HandPlan hand(search, pp, dp, zero);
          const auto sizes = search.global_batch_size % dp == 0 ? hand.cut() : std::nullopt;
          if (sizes) {
            times.push_back(hand.time(*sizes));
          }
        }
      }
    }
    std::ranges::sort(times);
    const LayerPlans found = plan_layers(search);
    RC_ASSERT(found.plans.size() == std::min(times.size(), search.num_best));
    for (std::size_t i = 0; i < found.plans.size(); ++i) {
      const LayerPlan& plan = found.plans[i];
      RC_ASSERT(std::abs(plan.iteration_time().value() / times[i] - 1.0) < 1e-9);
      const HandPlan hand(search, plan.config.pp, plan.config.dp, plan.config.zero_stage);
      RC_ASSERT(plan.config.layers_per_stage == *hand.cut());
    }
    RC_ASSERT(found.plans.empty() == found.nearest.has_value());
  }));
}

// By hand: six layers of 1 + 2 s, 2 ranks, 4 microbatches. A rank works 4·9 s; the other's first
// chunk is the bubble: 9 s with one chunk each, 3 s with three.
TEST(LayerPlans, InterleaveWhereChunksShortenTheBubble) {
  LayerList list{.name = "equal", .layers = {layer_of(1.0, 2.0, 0.0, 0.0, 0.0)}};
  list.layers.front().count = 6;
  LayerSearch search = search_of(list, 2, 4);
  search.space.pp = IntegerRanges(2);
  const LayerPlans found = plan_layers(search);
  ASSERT_EQ(found.plans.size(), 3U);
  EXPECT_EQ(found.plans[0].config.vpp, 3);
  EXPECT_NEAR(found.plans[0].iteration_time().value(), 39.0, 1e-9);
  EXPECT_NEAR(found.plans[0].times.bubble.value(), 3.0, 1e-9);
  EXPECT_EQ(found.plans[2].config.vpp, 1);
  EXPECT_NEAR(found.plans[2].iteration_time().value(), 45.0, 1e-9);
}

// By hand, as the schedule of three ranks has it: 5 + 2·2 + 1 activations of a chunk on rank 0 …
// of which each is the one layer of the rank.
TEST(LayerPlans, CountWhatTheScheduleHasInFlight) {
  LayerList list{.name = "equal", .layers = {layer_of(1.0, 2.0, 0.0, 1e9, 0.0)}};
  list.layers.front().count = 6;
  LayerSearch search = search_of(list, 3, 12);
  search.space.pp = IntegerRanges(3);
  search.space.vpp = IntegerRanges(2);
  const LayerPlans found = plan_layers(search);
  ASSERT_EQ(found.plans.size(), 1U);
  // (v − 1)·p + 2·(p − 1 − r) + 1 for r = 0, 1, 2.
  EXPECT_EQ(found.plans[0].memory[0].activations, Bytes(8e9));
  EXPECT_EQ(found.plans[0].memory[1].activations, Bytes(6e9));
  EXPECT_EQ(found.plans[0].memory[2].activations, Bytes(4e9));
}

// A list of tp 2 has half of the parameters on each GPU.
TEST(LayerPlans, TakeTheListsTpAndMicrobatch) {
  LayerList list{.name = "wide", .layers = {layer_of(1.0, 2.0, 3e8, 0.0, 0.0)}};
  list.tp = 2;
  list.micro_batch_size = 4;
  list.optimizer_bytes = 8.0;
  LayerSearch search = search_of(list, 8, 16);
  search.stack = with_bytes_of(search.stack, list);
  const LayerPlans found = plan_layers(search);
  const LayerPlan& best = found.plans.front();
  EXPECT_EQ(best.config.dp, 4);
  EXPECT_EQ(best.partition.num_microbatches, 1);
  EXPECT_EQ(best.config.world_size(), 8);
  EXPECT_EQ(best.memory[0].weights, Bytes(2.0 * 1.5e8));
  EXPECT_EQ(best.memory[0].optimizer, Bytes(8.0 * 1.5e8 / (best.config.zero_stage == 1 ? 4 : 1)));
  search.gpus = 1;
  EXPECT_EQ(message_of([&] { return plan_layers(search); }),
            "--gpus: expected 2 or more, the tp of the list wide, got 1");
  search.gpus = 8;
  search.global_batch_size = 6;
  EXPECT_EQ(message_of([&] { return plan_layers(search); }),
            "--global-batch-size: expected a multiple of 4, the micro_batch_size of the list wide, "
            "got 6");
}

// By hand: a layer of 1e9 parameters needs 6 GB and 12 of optimizer, of which two replicas share
// half each: 12 GB of the 9 there are.
TEST(LayerPlans, SayWhatLacksLeast) {
  const LayerList list{.name = "large", .layers = {layer_of(1.0, 2.0, 1e9, 0.0, 0.0)}};
  const LayerPlans found = plan_layers(search_of(list, 2, 2, 9e9));
  EXPECT_TRUE(found.plans.empty());
  ASSERT_TRUE(found.nearest.has_value());
  EXPECT_EQ(found.nearest->config.dp, 2);
  EXPECT_EQ(found.nearest->config.zero_stage, 1);
  EXPECT_NEAR(found.nearest->missing.value(), 3e9, 0.01 * 12e9);
}

TEST(LayerPlans, RefuseStacksWithoutAZeroStageThatIsSearched) {
  LayerSearch search =
      search_of({.name = "l", .layers = {layer_of(1.0, 2.0, 0.0, 0.0, 0.0)}}, 1, 1);
  search.stack.can_run.zero_stages = {3};
  const std::string message = message_of([&] { return plan_layers(search); });
  EXPECT_EQ(message.find("--stack: plain has ZeRO stages of its own"), 0U) << message;
  search.space.zero_stage = IntegerRanges(0);
  EXPECT_EQ(plan_layers(search).plans.size(), 1U);
}

// 600 ranks are more than are simulated. Of pp 2 one choice is looked at before the work is used
// up, and none of the others may be faster than promised.
TEST(LayerPlans, SayWhatTheyLeaveOpen) {
  LayerList list{.name = "long", .layers = {layer_of(1.0, 3.0, 0.0, 0.0, 0.0)}};
  list.layers.front().count = 1'200;
  LayerSearch search = search_of(list, 600, 600);
  search.space.pp = IntegerRanges::parse("2,600", 1, 600, "test");
  search.most_work = 1.0;
  search.num_best = 1;
  const LayerPlans found = plan_layers(search);
  ASSERT_EQ(found.plans.size(), 1U);
  EXPECT_EQ(found.plans[0].config.pp, 2);
  const LayerCandidates& candidates = found.candidates;
  EXPECT_GT(candidates.too_long, 0);
  EXPECT_GT(candidates.unseen, 0);
  EXPECT_GE(candidates.beaten(), 0);
  search.most_work = 1e9;
  const LayerPlans whole = plan_layers(search);
  EXPECT_EQ(whole.candidates.unseen, 0);
  EXPECT_LE(1.0 - whole.plans[0].iteration_time() / found.plans[0].iteration_time(),
            candidates.possible_gain);
}

/// Returns a transformer as a list, costed with tp for one sequence: passes with the accumulation
/// of gradients, and the working set of the logits among what they keep.
LayerList layer_list_of(const Scenario& scenario, int tp) {
  ParallelConfig config{.tp = tp, .pp = 2};
  const TransformerConfig& model = scenario.job.model;
  const PlannedJob job(scenario, config);
  const MicrobatchCosts& costs = job.costs();
  LayerList list{.name = "transformer", .tp = tp};
  const Bytes output(2.0 * model.seq_length * model.hidden_size / tp);
  for_each_kind(layers_of_model(model), [&](std::size_t kind, double count) {
    const LayerCosts& layer = costs.layers[kind];
    const Seconds backward = layer.backward.total() + layer.gradient_accumulation;
    list.layers.push_back(
        layer_of(layer.forward.total().value(), backward.value(),
                 tp * layer_parameters_of_rank(model, config, kLayerKinds[kind]).total(),
                 RankActivations(job).of_layer(kind).value(), output.value()));
    list.layers.back().count = static_cast<int>(count);
  });
  const auto end_of = [&](const PassTime& passes, Seconds forward, int rank, Bytes working) {
    return layer_of(forward.value(),
                    (passes.total() - forward + costs.embedding_accumulation).value(),
                    tp * end_parameters(model, config, rank), working.value(), output.value());
  };
  list.embedding = end_of(costs.embedding, costs.embedding_forward, 0, Bytes(0.0));
  list.logits = end_of(costs.logits, costs.logits_forward, 1, memory_by_rank(job)[1].working_set);
  return list;
}

// The search of transformers gathers messages that were scattered over tp, which a list knows
// nothing of: some microseconds of each message. It adds (m − 1)/m of the accumulation of
// gradients, the list all of it. Times of a list are not those of the slowest card.
TEST(LayerPlans, OfATransformerAgreeWithItsOwnSearch) {
  Scenario scenario = shipped_scenario("llama-2-70b", "dgx-h100", "megatron-core-2025", 256);
  scenario.cluster.gpu.card_spread = 0.0;
  SearchOptions options{.gpus = 64};
  options.space.tp = IntegerRanges(8);
  options.space.micro_batch_size = IntegerRanges(1);
  options.space.cp = IntegerRanges(1);
  options.space.recompute = {Recompute::kNone};
  options.space.sequence_parallel = false;
  options.space.zero_stage = IntegerRanges::parse("0,1", 0, 1, "test");
  options.space.vpp = IntegerRanges::parse("1:8", 1, 8, "test");
  const SearchResult expected = search(scenario, options);
  ASSERT_FALSE(expected.best.empty());
  LayerSearch search{.list = layer_list_of(scenario, 8),
                     .cluster = scenario.cluster,
                     .stack = scenario.stack,
                     .gpus = 64,
                     .global_batch_size = 256,
                     .space = options.space};
  const LayerPlans found = plan_layers(search);
  ASSERT_FALSE(found.plans.empty());
  const Candidate& transformer = expected.best.front();
  const LayerPlan& list = found.plans.front();
  EXPECT_EQ(list.config.pp, transformer.config.pp) << degrees_text(transformer.config);
  EXPECT_EQ(list.config.dp, transformer.config.dp);
  EXPECT_EQ(list.config.vpp, transformer.config.vpp);
  EXPECT_NEAR(list.iteration_time() / transformer.time, 1.0, 0.005)
      << degrees_text(list.config) << " beside " << degrees_text(transformer.config);
}

}  // namespace
}  // namespace ptdp
