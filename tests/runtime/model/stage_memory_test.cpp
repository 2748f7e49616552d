// Compares bytes of activations with runtime/model/MEMORY.md, "What is in memory when", on which
// the cost model's prediction rests.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "cost_model/inputs/rank_sizes.h"
#include "cost_model/pipeline_rank/rank_costs.h"
#include "runtime/transport/solo_communicator.h"
#include "tests/runtime/model/idle_backend.h"
#include "tests/runtime/model/stage_run.h"

namespace ptdp {
namespace {

/// The sums of MEMORY.md [B].
struct Page {
  Page(const Task& task, const Layout& layout)
      : w(bytes_of(task.type)), acc(bytes_of(accumulator_of(task.type))) {
    const TransformerConfig& model = task.model;
    const int t = layout.tp;
    n = std::int64_t{1} * model.seq_length * layout.micro_batch_size;
    is_scattered = layout.sequence_parallel && t > 1;
    rh = (is_scattered ? n / t : n) * model.hidden_size * w;
    nh = n * model.hidden_size * w;
    na = n * model.num_attention_heads * model.kv_channels / t * w;
    nf = n * model.ffn_hidden_size / t * w;
    nv = n * padded_vocab_size(model, t) / t * w;
    statistics = 2 * (is_scattered ? n / t : n) * acc;
    log_sum = n * model.num_attention_heads / t * acc;
    const std::int64_t all = 2 * rh + statistics + 4 * na + log_sum + 2 * rh + statistics + 2 * nf;
    most = all;
    kept = all;
    without_core = all;
    if (layout.recompute == Recompute::kSelective) {
      kept = without_core = all - na - log_sum;
    } else if (layout.recompute == Recompute::kFull) {
      kept = rh;
    }
    for_weights = 2 * rh + 4 * na + 2 * nh + 2 * nf;
    end = rh + statistics + nh + nv + 3 * n * acc;
    extra = is_scattered ? rh : 0;
    summed = is_scattered || task.dropout > 0.0 ? nh : 0;
  }

  std::int64_t w;
  std::int64_t acc;
  std::int64_t n, rh, nh, na, nf, nv, statistics, log_sum;
  bool is_scattered;
  std::int64_t most;          ///< K of MEMORY.md: what a layer keeps without recomputation.
  std::int64_t kept;          ///< k of MEMORY.md: what a layer keeps with the recomputation in use.
  std::int64_t without_core;  ///< K of MEMORY.md while the MLP runs.
  std::int64_t for_weights;   ///< w of MEMORY.md: kept from backward_input to backward_weights.
  std::int64_t end;           ///< e of MEMORY.md: what the end of the model keeps besides.
  std::int64_t extra;         ///< [SP + r·h] of MEMORY.md.
  std::int64_t summed;        ///< D of MEMORY.md: gradient of a branch's sum, where it is apart.
};

struct StageCase {
  StageLayers layers;
  const char* name;
};

const std::vector<StageCase> kStages = {
    {{.first = 0, .count = 3, .begins_model = true}, "first"},
    {{.first = 1, .count = 2}, "middle"},
    {{.first = 1, .count = 3, .ends_model = true}, "last"},
    {{.first = 0, .count = 2, .begins_model = true, .ends_model = true}, "only"},
    {{.first = 4, .count = 0, .ends_model = true}, "logits alone"}};

/// Returns every layout that changes one rank's own buffers.
std::vector<Layout> layouts() {
  std::vector<Layout> all;
  for (const Recompute recompute : {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
    for (const int tp : {1, 2, 4}) {
      for (const bool is_scattered : {false, true}) {
        for (const bool overlaps : {false, true}) {
          all.push_back({.tp = tp,
                         .sequence_parallel = is_scattered,
                         .overlaps_tensor = overlaps,
                         .recompute = recompute,
                         .micro_batch_size = 2});
        }
      }
    }
  }
  return all;
}

/// A stage on one rank, whose memory is measured from the moment it was made.
class MeasuredStage {
 public:
  MeasuredStage(const Task& task, const Layout& layout, const StageCase& stage,
                bool replaces_attention_inputs)
      : layers_(stage.layers),
        backend_(replaces_attention_inputs),
        group_(layout.tp - 1, layout.tp),
        stage_(backend_, group_, settings_of(task, layout), stage.layers, nullptr),
        page_(task, layout) {
    for (int i = 0; i < 2; ++i) {
      batches_.emplace_back(backend_, task, layout.micro_batch_size, i);
    }
    start_ = backend_.bytes_in_use();
  }

  [[nodiscard]] std::int64_t in_use() const { return backend_.bytes_in_use() - start_; }
  /// Returns the most memory in use during `action`.
  [[nodiscard]] std::int64_t peak_of(const std::function<void()>& action) {
    backend_.reset_peak();
    action();
    return backend_.peak_bytes() - start_;
  }
  [[nodiscard]] Tensor forward(int i) {
    return stage_.forward(microbatch(i), layers_.begins_model ? Tensor() : rows());
  }
  [[nodiscard]] Tensor backward_input(int i) {
    return stage_.backward_input(microbatch(i), layers_.ends_model ? Tensor() : rows());
  }
  [[nodiscard]] Tensor backward(int i) {
    return stage_.backward(microbatch(i), layers_.ends_model ? Tensor() : rows());
  }
  void backward_weights(int i) { stage_.backward_weights(microbatch(i)); }
  [[nodiscard]] const Page& page() const { return page_; }
  [[nodiscard]] int activations_held() const { return stage_.activations_held(); }

  /// Returns what a microbatch keeps after forward and after backward_input, by MEMORY.md.
  [[nodiscard]] std::int64_t expected_kept() const {
    return layers_.count * page_.kept + (layers_.ends_model ? page_.end : 0);
  }
  [[nodiscard]] std::int64_t expected_for_weights() const {
    return layers_.count * page_.for_weights + (layers_.ends_model ? page_.nh + page_.nv : 0) +
           (layers_.begins_model ? page_.rh : 0);
  }

 private:
  [[nodiscard]] const Microbatch& microbatch(int i) const {
    return batches_[static_cast<std::size_t>(i)].microbatch();
  }
  [[nodiscard]] Tensor rows() {
    Tensor x(backend_, stage_.parameters().all_weights().type, page_.rh / page_.w);
    backend_.fill(x, 0.01);
    return x;
  }

  StageLayers layers_;
  IdleBackend backend_;
  SoloCommunicator group_;
  TransformerStage stage_;
  Page page_;
  std::vector<Batch> batches_;
  std::int64_t start_ = 0;
};

TEST(StageMemory, HoldsWhatThePageListsFromPassToPass) {
  Task task = small_task();
  task.type = DataType::kBFloat16;
  for (const Layout& layout : layouts()) {
    for (const StageCase& stage : kStages) {
      SCOPED_TRACE(to_string(layout) + " " + stage.name);
      MeasuredStage measured(task, layout, stage, /*replaces_attention_inputs=*/true);
      const std::int64_t kept = measured.expected_kept();
      const std::int64_t for_weights = measured.expected_for_weights();
      static_cast<void>(measured.forward(0));
      EXPECT_EQ(measured.in_use(), kept);
      static_cast<void>(measured.forward(1));
      EXPECT_EQ(measured.in_use(), 2 * kept);
      EXPECT_EQ(measured.activations_held(), 2);
      static_cast<void>(measured.backward_input(0));
      EXPECT_EQ(measured.in_use(), kept + for_weights);
      EXPECT_EQ(measured.activations_held(), 2);
      static_cast<void>(measured.backward(1));
      EXPECT_EQ(measured.in_use(), for_weights);
      EXPECT_EQ(measured.activations_held(), 1);
      measured.backward_weights(0);
      EXPECT_EQ(measured.in_use(), 0);
      EXPECT_EQ(measured.activations_held(), 0);
    }
  }
}

/// The most memory of each pass, as MEMORY.md lists it.
struct Peaks {
  std::int64_t forward = 0;
  std::int64_t backward = 0;
  std::int64_t backward_input = 0;
  std::int64_t backward_weights = 0;
};

Peaks expected_peaks(const Page& page, const Layout& layout, const StageLayers& layers,
                     bool replaces_attention_inputs) {
  Peaks peaks;
  const std::int64_t num_layers = layers.count;
  const std::int64_t core = page.rh + page.rh + page.statistics + 4 * page.na + page.log_sum;
  const std::int64_t end_for_weights = layers.ends_model ? page.nh + page.nv : 0;
  for (std::int64_t i = 0; i < num_layers; ++i) {
    const std::int64_t before = i * page.kept;
    const std::int64_t after = (num_layers - 1 - i) * page.for_weights + end_for_weights;
    const std::int64_t mlp = before + page.without_core + page.rh;
    const std::int64_t attention =
        before + page.most - page.rh - page.statistics + page.rh + page.nh + page.summed;
    const std::int64_t apart = replaces_attention_inputs ? 0 : 3 * page.na;  // Q of MEMORY.md
    const std::int64_t another = page.summed > 0 ? 0 : page.rh;              // E of MEMORY.md
    const std::int64_t recomputing = layout.recompute == Recompute::kFull
                                         ? before + page.most + page.rh + page.nh + page.extra
                                         : 0;
    // fc1's gradients: with SP its input's rows are gathered while its gradient is formed.
    const std::int64_t fc1 =
        page.without_core - page.nf + page.nh + (page.is_scattered ? page.nh : page.rh);
    const std::int64_t fc1_behind = layout.overlaps_tensor && layout.tp > 1 ? before + fc1 : 0;
    peaks.forward = std::max({peaks.forward, before + page.without_core + page.nh + page.extra});
    peaks.backward = std::max(
        {peaks.backward, recomputing, mlp + page.summed,
         before + core + page.rh + page.na + std::max(page.summed, 3 * page.na), fc1_behind});
    peaks.backward_input = std::max(
        {peaks.backward_input, after + recomputing, after + mlp + page.summed + page.nf,
         after + mlp + page.summed + page.nh + another, after + attention + page.na + apart,
         after + attention - page.log_sum + page.nh + another});
  }
  if (layers.begins_model) {
    peaks.forward = std::max(peaks.forward, page.nh + page.extra);
    peaks.backward = std::max(peaks.backward, page.rh + (page.is_scattered ? page.nh : 0));
  }
  peaks.backward_weights =
      num_layers * page.for_weights + end_for_weights + (layers.begins_model ? page.rh : 0);
  if (layers.ends_model) {
    const std::int64_t end = num_layers * page.kept + page.end;
    const std::int64_t input_gradient = end - 3 * page.n * page.acc;
    peaks.forward = std::max(peaks.forward, end);
    peaks.backward = std::max(
        {peaks.backward, end, num_layers * page.kept + 2 * page.rh + page.statistics + page.nh});
    peaks.backward_input =
        std::max({peaks.backward_input, end, input_gradient + page.nh + page.rh});
  }
  return peaks;
}

/// Expects of all layouts and stages what the page says of a host or of a GPU.
void expect_peaks(const Task& task, bool replaces_attention_inputs) {
  for (const Layout& layout : layouts()) {
    for (const StageCase& stage : kStages) {
      SCOPED_TRACE(to_string(layout) + " " + stage.name);
      MeasuredStage measured(task, layout, stage, replaces_attention_inputs);
      const Peaks expected =
          expected_peaks(measured.page(), layout, stage.layers, replaces_attention_inputs);
      EXPECT_EQ(measured.peak_of([&] { static_cast<void>(measured.forward(0)); }),
                expected.forward);
      EXPECT_EQ(measured.peak_of([&] { static_cast<void>(measured.backward(0)); }),
                expected.backward);
      static_cast<void>(measured.forward(1));
      EXPECT_EQ(measured.peak_of([&] { static_cast<void>(measured.backward_input(1)); }),
                expected.backward_input);
      EXPECT_EQ(measured.peak_of([&] { measured.backward_weights(1); }), expected.backward_weights);
    }
  }
}

TEST(StageMemory, HoldsAtMostWhatThePageSays) {
  expect_peaks(small_task(), /*replaces_attention_inputs=*/true);
  expect_peaks(small_task(), /*replaces_attention_inputs=*/false);
}

TEST(StageMemory, HoldsLessWithoutDropoutWhereGradientsPassThrough) {
  Task task = small_task();
  task.dropout = 0.0;
  expect_peaks(task, /*replaces_attention_inputs=*/true);
  expect_peaks(task, /*replaces_attention_inputs=*/false);
}

}  // namespace
}  // namespace ptdp
