#include "tests/planner/report/made_up_report.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "planner/report/packed_numbers.h"

namespace ptdp {
namespace {

constexpr int kForward = 0;
constexpr int kBackward = 1;

struct Pass {
  int kind = kForward;
  int microbatch = 0;
  std::int64_t start = 0;
  std::int64_t end = 0;
};

/// A pipeline: its size, and how long passes take on each rank, in ticks of a microsecond.
struct Pipeline {
  int ranks = 0;
  int microbatches = 0;
  std::int64_t forward = 0;
  std::int64_t backward = 0;
  int most_in_flight = 0;  ///< Forward passes that the first rank is ahead of backward passes.
  double noise = 0.0;      ///< By how much of its length a pass is longer or shorter, at most.
  int num_kinds = 2;       ///< Kinds that passes have: forward, and others in turns.
};

std::vector<Pass> order_of(const Pipeline& pipeline, int rank) {
  std::vector<Pass> order;
  const int ahead = std::clamp(pipeline.most_in_flight - rank, 1, pipeline.microbatches);
  for (int i = 0; i < pipeline.microbatches + ahead; ++i) {
    if (i < pipeline.microbatches) {
      order.push_back({.kind = kForward, .microbatch = i});
    }
    if (i >= ahead - 1 && i - ahead + 1 < pipeline.microbatches) {
      order.push_back({.kind = kBackward, .microbatch = i - ahead + 1});
    }
  }
  return order;
}

/// Runs the passes of each rank in order, each after the one of the neighbour that it needs.
std::vector<std::vector<Pass>> step_of(const Pipeline& pipeline) {
  const auto num_ranks = static_cast<std::size_t>(pipeline.ranks);
  const auto num_microbatches = static_cast<std::size_t>(pipeline.microbatches);
  const std::vector<std::int64_t> none(num_microbatches, -1);
  std::vector<std::vector<std::int64_t>> forward_end(num_ranks, none);
  std::vector<std::vector<std::int64_t>> backward_end(num_ranks, none);
  std::vector<std::vector<Pass>> orders;
  orders.reserve(num_ranks);
  for (int rank = 0; rank < pipeline.ranks; ++rank) {
    orders.push_back(order_of(pipeline, rank));
  }
  std::vector<std::size_t> next(num_ranks, 0);
  std::vector<std::int64_t> free(num_ranks, 0);
  for (bool has_moved = true; has_moved;) {
    has_moved = false;
    for (std::size_t rank = 0; rank < num_ranks; ++rank) {
      while (next[rank] < orders[rank].size()) {
        Pass& pass = orders[rank][next[rank]];
        const auto microbatch = static_cast<std::size_t>(pass.microbatch);
        const bool is_forward = pass.kind == kForward;
        const std::int64_t ready = is_forward ? (rank == 0 ? 0 : forward_end[rank - 1][microbatch])
                                   : rank + 1 == num_ranks ? forward_end[rank][microbatch]
                                                           : backward_end[rank + 1][microbatch];
        if (ready < 0) {
          break;
        }
        const double wobble =
            1.0 + pipeline.noise * std::sin(static_cast<double>(17 * rank + 31 * microbatch));
        const std::int64_t length = is_forward ? pipeline.forward : pipeline.backward;
        pass.start = std::max(free[rank], ready);
        pass.end = pass.start + std::llround(static_cast<double>(length) * wobble);
        free[rank] = pass.end;
        (is_forward ? forward_end : backward_end)[rank][microbatch] = pass.end;
        ++next[rank];
        has_moved = true;
      }
    }
  }
  return orders;
}

PackedTimeline timeline_of(const std::string& name, const Pipeline& pipeline) {
  PackedTimeline timeline{.name = name, .tick_s = 1e-6};
  std::vector<std::vector<std::int32_t>> columns(5);
  const std::vector<std::vector<Pass>> passes = step_of(pipeline);
  std::int64_t end = 0;
  for (const std::vector<Pass>& rank : passes) {
    timeline.num_actions.push_back(static_cast<int>(rank.size()));
    std::int64_t reached = 0;
    for (const Pass& pass : rank) {
      columns[0].push_back(static_cast<std::int32_t>(pass.start - reached));
      columns[1].push_back(static_cast<std::int32_t>(pass.end - pass.start));
      columns[2].push_back(pass.kind == kForward
                               ? kForward
                               : kBackward + pass.microbatch % (pipeline.num_kinds - 1));
      columns[3].push_back(pass.microbatch);
      columns[4].push_back(0);
      reached = pass.end;
    }
    end = std::max(end, reached);
  }
  timeline.end_s = static_cast<double>(end) * timeline.tick_s;
  timeline.bubble_s =
      static_cast<double>(end - pipeline.microbatches * (pipeline.forward + pipeline.backward)) *
      timeline.tick_s;
  timeline.actions = packed_numbers(columns);
  for (int rank = 0; rank < pipeline.ranks; ++rank) {
    timeline.critical_path.emplace_back(rank, 0);
  }
  const int last = pipeline.ranks - 1;
  for (int i = 1; i < timeline.num_actions.back(); ++i) {
    timeline.critical_path.emplace_back(last, i);
  }
  for (int rank = last - 1; rank >= 0; --rank) {
    timeline.critical_path.emplace_back(rank,
                                        timeline.num_actions[static_cast<std::size_t>(rank)] - 1);
  }
  return timeline;
}

std::vector<TimelineKind> kinds() {
  return {
      {.name = "forward",
       .letter = "F",
       .tint = Tint::kCompute,
       .waits_for = "activations of the stage before"},
      {.name = "backward",
       .letter = "B",
       .tint = Tint::kCompute,
       .waits_for = "gradients of the stage after"},
      {.name = "input gradient", .letter = "I", .tint = Tint::kCompute, .waits_for = ""},
      {.name = "weight gradient", .letter = "W", .tint = Tint::kCompute, .waits_for = ""},
      {.name = "forward with backward", .letter = "FB", .tint = Tint::kCompute, .waits_for = ""},
      {.name = "message", .letter = "S", .tint = Tint::kCommunication, .waits_for = ""},
      {.name = "optimizer", .letter = "O", .tint = Tint::kOptimizer, .waits_for = ""}};
}

BarsView waterfall() {
  BarsView view{.unit = "s", .is_waterfall = true};
  view.bars = {
      {.name = "matrix products",
       .value = 50.21,
       .tint = Tint::kCompute,
       .low = 45.1,
       .high = 55.9,
       .note = "Forward and backward passes, at 71 % of the peak."},
      {.name = "recomputed", .value = 20.64, .tint = Tint::kWaste, .low = 18.2, .high = 23.4},
      {.name = "element-wise work", .value = 7.312, .tint = Tint::kCompute},
      {.name = "tensor all-reduce", .value = 8.904, .tint = Tint::kCommunication},
      {.name = "bubble", .value = 10.45, .tint = Tint::kIdle, .low = 9.0, .high = 11.2},
      {.name = "pipeline messages", .value = 0.7658, .tint = Tint::kCommunication},
      {.name = "gradient all-reduce", .value = 3.417, .tint = Tint::kCommunication},
      {.name = "optimizer", .value = 1.003, .tint = Tint::kOptimizer}};
  view.total = Bar{.name = "iteration", .value = 102.7018, .low = 91.57, .high = 115.2};
  return view;
}

StackedView memory_of_stages() {
  StackedView view;
  view.x = {.name = "stage"};
  view.y = {.name = "memory of a GPU", .unit = "GiB"};
  view.categories = {"weights", "gradients", "optimizer", "activations", "buffers"};
  for (int stage = 0; stage < 64; ++stage) {
    const double in_flight = std::min(64 - stage, 40);
    const double ends = stage == 0 || stage == 63 ? 1.9 : 0.0;
    view.columns.push_back({.name = std::to_string(stage),
                            .values = {3.7 + ends, 7.3 + 2 * ends, 14.6, 0.75 * in_flight, 2.25}});
  }
  view.limit = Limit{.name = "capacity", .value = 66.6};
  return view;
}

CurvesView scaling() {
  CurvesView view;
  view.x = {.name = "GPUs", .is_log = true};
  view.y = {.name = "throughput", .unit = "tokens/s"};
  Curve best{.name = "best plan"};
  Curve ideal{.name = "ideal"};
  for (int gpus = 64; gpus <= 4096; gpus *= 2) {
    const double rate = 26.0 * gpus;
    best.x.push_back(gpus);
    best.y.push_back(rate / (1.0 + gpus / 9000.0));
    best.low.push_back(0.88 * best.y.back());
    best.high.push_back(1.1 * best.y.back());
    ideal.x.push_back(gpus);
    ideal.y.push_back(rate);
  }
  view.curves = {best, ideal};
  view.marks = {{.name = "more than a rack from", .value = 1024.0}};
  return view;
}

CurvesView memory_over_time() {
  CurvesView view;
  view.x = {.name = "time", .unit = "s"};
  view.y = {.name = "memory", .unit = "GiB"};
  for (int stage = 0; stage < 2; ++stage) {
    Curve curve{.name = "stage " + std::to_string(stage), .has_steps = true};
    for (int i = 0; i < 60; ++i) {
      curve.x.push_back(0.01 * i);
      curve.y.push_back(40.0 + std::min(i, 12 - 4 * stage) * 2.0 - (i % 2) * 2.0 -
                        std::max(0, i - 46) * 1.5);
    }
    view.curves.push_back(curve);
  }
  view.limits = {{.name = "capacity", .value = 72.0}};
  return view;
}

ScatterView candidates() {
  ScatterView view;
  view.x = {.name = "time of an iteration", .unit = "s"};
  view.y = {.name = "memory of a GPU", .unit = "GiB"};
  view.parts = {"matrix products", "bubble", "messages"};
  view.part_unit = "s";
  view.reference = ScatterPoint{
      .x = 102.7, .y = 70.96, .name = "tp=8 pp=64 dp=6", .note = {}, .parts = {80.0, 10.5, 12.2}};
  view.groups = {{.name = "on the front", .points = {*view.reference}},
                 {.name = "fits", .points = {}},
                 {.name = kHostileName, .points = {}}};
  for (int i = 1; i <= 60; ++i) {
    const double more = 0.5 * i + 3.0 * std::sin(7.0 * i) * std::sin(7.0 * i);
    ScatterPoint point{.x = 102.7 + more,
                       .y = 74.0 - 20.0 * std::abs(std::sin(3.0 * i)),
                       .name = "tp=8 pp=64 dp=6 b=" + std::to_string(i),
                       .note = i % 3 == 0 ? "Its bubble is larger." : "",
                       .parts = {80.0 - 0.5, 10.5 + more, 12.7}};
    view.groups[i % 3 == 0 ? 2 : 1].points.push_back(point);
  }
  view.groups[0].points.push_back({.x = 110.2, .y = 52.0, .name = "tp=8 pp=128 dp=3", .note = {}});
  Curve front{.name = "best for its memory", .x = {102.7, 110.2}, .y = {70.96, 52.0}};
  front.has_steps = true;
  view.curves = {front};
  return view;
}

ScatterView roofline() {
  ScatterView view;
  view.x = {.name = "intensity", .unit = "FLOP/B", .is_log = true};
  view.y = {.name = "rate", .unit = "FLOP/s", .is_log = true};
  view.groups = {{.name = "products", .points = {}}, {.name = "element-wise", .points = {}}};
  for (int i = 1; i <= 8; ++i) {
    view.groups[0].points.push_back({.x = 60.0 * i * i,
                                     .y = 2.6e14 * i / (i + 1.0),
                                     .name = "product " + std::to_string(i),
                                     .note = {}});
    view.groups[1].points.push_back(
        {.x = 0.2 * i, .y = 3e11 * i, .name = "element-wise " + std::to_string(i), .note = {}});
  }
  view.curves = {{.name = "roof of an A100",
                  .x = {0.1, 156.0, 10000.0},
                  .y = {2e11, 3.12e14, 3.12e14},
                  .low = {},
                  .high = {}}};
  return view;
}

FlipsView flips() {
  FlipsView view{.base_s = 102.7};
  const std::vector<std::pair<std::string, double>> inputs = {
      {"speed of matrix products", -48.0}, {"bandwidth between nodes", -9.0},
      {"bandwidth inside a node", -14.0},  {"memory of a GPU", -3.0},
      {"time to launch a kernel", 2.5},    {"imbalance of stages", 11.0}};
  for (const auto& [name, slope] : inputs) {
    FlipInput input{.name = name, .steps = {}};
    for (const double change : {-0.5, -0.2, -0.1, 0.0, 0.1, 0.2, 0.5}) {
      FlipStep step{
          .change = change, .time_s = 102.7 + slope * change, .winner = "tp=8 pp=64 dp=6"};
      step.same_s = step.time_s;
      if (name == "memory of a GPU" && change == -0.5) {
        step = {.change = change, .winner = ""};
      } else if (slope < -8.0 && slope > -20.0 && change < -0.1) {
        step.winner = "tp=4 pp=64 dp=12";
        step.is_same = false;
        step.same_s = *step.time_s + 2.0;
      }
      input.steps.push_back(step);
    }
    view.inputs.push_back(input);
  }
  view.note = "Each input alone, at 7 values from half to half more.";
  return view;
}

const std::string kShortHostileName = "<img src=x>";  // a button has room for it

/// Returns bars by stack, whose first bar is `first` seconds long.
BarsView bars_of_stack(double first) {
  BarsView view{.unit = "s", .is_waterfall = true};
  view.bars = {{.name = "compute", .value = first, .tint = Tint::kCompute},
               {.name = "bubble", .value = 10.5, .tint = Tint::kIdle}};
  view.total = Bar{.name = "iteration", .value = first + 10.5};
  view.meanings = {{Tint::kIdle, "waiting"}};
  return view;
}

ChoicesView few_choices() {
  return {.choices = {{.name = "2022", .note = "The best.", .picture = bars_of_stack(80.0)},
                      {.name = kShortHostileName, .picture = bars_of_stack(90.0)}}};
}

/// Returns more choices than buttons have room for, among them those of few_choices().
ChoicesView many_choices() {
  ChoicesView view;
  for (const std::string& name : {std::string("2022"), kShortHostileName, kHostileName}) {
    view.choices.push_back(
        {.name = name,
         .picture = TableView{.columns = {"stage", "memory"}, .rows = {{"1", name + " GiB"}}}});
  }
  return view;
}

TimelineView large_step(int ranks, int microbatches) {
  const Pipeline pipeline{.ranks = ranks,
                          .microbatches = microbatches,
                          .forward = 55000,
                          .backward = 121000,
                          .most_in_flight = ranks};
  Pipeline all_first = pipeline;
  all_first.most_in_flight = pipeline.microbatches + pipeline.ranks;
  return {.num_ranks = pipeline.ranks,
          .kinds = kinds(),
          .schedules = {timeline_of("1f1b", pipeline), timeline_of("gpipe", all_first)}};
}

TimelineView measured_step() {
  const Pipeline pipeline{
      .ranks = 8, .microbatches = 16, .forward = 10000, .backward = 20000, .most_in_flight = 8};
  Pipeline real = pipeline;
  real.noise = 0.12;
  real.num_kinds = 7;
  return {.num_ranks = pipeline.ranks,
          .kinds = kinds(),
          .schedules = {timeline_of("1f1b", pipeline), timeline_of("measured", real)}};
}

}  // namespace

Report made_up_report(int ranks, int microbatches) {
  Report report;
  report.title = "1T on 3072 GPUs: 102.7 s per iteration";
  report.sentence =
      "Train 1T on 3072 A100s with tp=8 pp=64 dp=6 b=1 1f1b and full recomputation: 102.7 s per "
      "iteration of 3072 sequences, 162.9 TFLOP/s per GPU, 52.2 % of peak.";
  report.rests_on = {"63 runs of this cluster and stack, 1,822 of its kind of program.",
                     "Assumed: sequence length 2048, global batch size 3072.", kHostileName};
  report.command = "ptdp-plan --gpus 3072 --model 1T --report plan.html";
  report.sections = {
      {"time", "Where does the time go?", "Of each iteration, by term.", waterfall()},
      {"steps", "What does each GPU do, and when?", "", large_step(ranks, microbatches)},
      {"memory", "Does it fit?", "The fullest GPU of each stage.", memory_of_stages()},
      {"memory-over-time", "When is memory full?", "", memory_over_time()},
      {"candidates", "Why not another plan?", "All that fit, by time and memory.", candidates()},
      {"scaling", "What would more GPUs bring?", "", scaling()},
      {"roofline", "How near is the work to the peak?", "", roofline()},
      {"flips", "What would change the answer?", "", flips()},
      {"measured", "Was it so?", "A run beside its prediction.", measured_step()},
      {"stacks", "Which software is fastest?", "",
       TableView{.columns = {"stack", "time", "speed", "note"},
                 .rows = {{"megatron-lm-2022", "95.77 s", "65,692", "flash attention"},
                          {"megatron-lm-2021", "102.7 s", "61,248", kHostileName}}}},
      {"by-stack", "Where does each one's time go?", "", few_choices()},
      {"memory-by-stack", "What does each one hold?", "", many_choices()},
      {"hostile", kHostileName, kHostileName, TextView{.paragraphs = {kHostileName, "Plain."}}}};
  return report;
}

}  // namespace ptdp
