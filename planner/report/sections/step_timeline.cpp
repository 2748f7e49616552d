#include "planner/report/sections/step_timeline.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "planner/report/packed_numbers.h"
#include "planner/search/parallel_tasks.h"

namespace ptdp {
namespace {

constexpr std::size_t kNoDrawnAction = std::numeric_limits<std::size_t>::max();

/// A kind of action as it is drawn.
struct DrawnKind {
  std::optional<ActionKind> kind;  ///< What it draws; nullopt for overlapped pairs.
  const char* name = "";
  const char* letter = "";
  Tint tint = Tint::kCompute;
  const char* waits_for = "";
};
constexpr std::array kDrawnKinds = {
    DrawnKind{ActionKind::kForward, "forward", "F", Tint::kCompute,
              "activations of the stage before"},
    DrawnKind{ActionKind::kBackward, "backward", "B", Tint::kCompute,
              "gradients of the stage after"},
    DrawnKind{ActionKind::kInputGradient, "input gradient", "I", Tint::kCompute,
              "gradients of the stage after"},
    DrawnKind{ActionKind::kWeightGradient, "weight gradient", "W", Tint::kCompute},
    DrawnKind{std::nullopt, "forward with backward", "FB", Tint::kCompute, "both of its inputs"},
    DrawnKind{ActionKind::kRecompute, "recompute", "R", Tint::kWaste},
    DrawnKind{ActionKind::kSendForward, "message", "S", Tint::kCommunication},
    DrawnKind{ActionKind::kReduceGradients, "gradient reduction", "D", Tint::kCommunication,
              "weight gradients"},
    DrawnKind{ActionKind::kGatherParameters, "parameter gathering", "G", Tint::kCommunication},
    DrawnKind{ActionKind::kReduceTied, "tied embedding", "T", Tint::kCommunication,
              "the other end of the pipeline"},
    DrawnKind{ActionKind::kReduceNorm, "norm of gradients", "N", Tint::kCommunication,
              "all other ranks"},
    DrawnKind{ActionKind::kOptimizer, "optimizer", "O", Tint::kOptimizer, "reduced gradients"}};

/// Returns the place in kDrawnKinds of a kind, or of overlapped pairs; its end for what is not
/// drawn.
std::size_t drawn_kind(std::optional<ActionKind> kind) {
  if (kind == ActionKind::kSendBackward) {
    kind = ActionKind::kSendForward;
  }
  return static_cast<std::size_t>(std::ranges::find(kDrawnKinds, kind, &DrawnKind::kind) -
                                  kDrawnKinds.begin());
}

/// An action of a rank's row.
struct DrawnAction {
  std::int32_t start = 0;  ///< Start [ticks].
  std::int32_t end = 0;    ///< End [ticks].
  std::size_t kind = 0;    ///< Place in kDrawnKinds.
  int microbatch = 0;
  int chunk = 0;
  std::size_t position = 0;  ///< Position in the rank's list.
};

/// Returns the microbatch of a pass or message; −1 for what serves none.
int microbatch_of(const Action& action) {
  const bool is_message =
      action.kind == ActionKind::kSendForward || action.kind == ActionKind::kSendBackward;
  return is_compute(action.kind) || is_message ? action.microbatch : -1;
}

/// Returns the place of an action's stage among those of its rank; −1 for what serves the whole
/// rank.
int chunk_of(const Schedule& schedule, int rank, const Action& action) {
  if (action.kind >= ActionKind::kReduceTied) {
    return -1;
  }
  const int stage = action.stage;
  return schedule.placement == StagePlacement::kBidirectional ? (stage == rank ? 0 : 1)
                                                              : stage / schedule.pp;
}

/// Returns the actions of one lane in the order of their starts.
std::vector<DrawnAction> actions_of_lane(const DrawnStep& step, int rank, Lane lane, double tick) {
  const std::vector<Action>& order = step.schedule.orders[static_cast<std::size_t>(rank)];
  const std::vector<Span>& spans = step.timeline.spans[static_cast<std::size_t>(rank)];
  const auto ticks = [&](Seconds time) {
    return static_cast<std::int32_t>(std::lround(time.value() / tick));
  };
  std::vector<DrawnAction> actions;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const Action& action = order[i];
    const bool is_pair = action.overlaps_next && i + 1 < order.size();
    const std::size_t kind = drawn_kind(is_pair ? std::nullopt : std::optional(action.kind));
    if (kind < kDrawnKinds.size() && lane_of(action.kind, step.messages, step.data) == lane) {
      actions.push_back({.start = ticks(spans[i].start),
                         .end = ticks(spans[i].end),
                         .kind = kind,
                         .microbatch = microbatch_of(action),
                         .chunk = chunk_of(step.schedule, rank, action),
                         .position = i});
    }
    i += is_pair ? 1 : 0;
  }
  if (!std::ranges::is_sorted(actions, {}, &DrawnAction::start)) {
    std::ranges::stable_sort(actions, {}, &DrawnAction::start);
  }
  std::erase_if(actions, [](const DrawnAction& action) { return action.start == action.end; });
  return actions;
}

/// Returns the row of a rank: its compute lane, and in the gaps of that its data lane.
std::vector<DrawnAction> row_of(const DrawnStep& step, int rank, double tick) {
  const std::vector<DrawnAction> beside = actions_of_lane(step, rank, Lane::kData, tick);
  std::vector<DrawnAction> row;
  std::int32_t idle_from = 0;
  std::size_t next = 0;
  const auto fill_gap = [&](std::int32_t until) {
    for (; next < beside.size() && beside[next].start < until; ++next) {
      DrawnAction piece = beside[next];
      piece.start = std::max(piece.start, idle_from);
      piece.end = std::min(piece.end, until);
      if (piece.start < piece.end) {
        row.push_back(piece);
      }
      if (beside[next].end > until) {
        break;  // the rest of it may show in the next gap
      }
    }
  };
  for (DrawnAction action : actions_of_lane(step, rank, Lane::kCompute, tick)) {
    action.start = std::max(action.start, idle_from);  // clocks of a measured step may disagree
    action.end = std::max(action.end, action.start);
    fill_gap(action.start);
    row.push_back(action);
    idle_from = action.end;
  }
  fill_gap(std::numeric_limits<std::int32_t>::max());
  return row;
}

/// Rows of all ranks of a step.
struct DrawnRows {
  double tick = 0.0;  ///< Unit of their times [s].
  std::vector<std::vector<DrawnAction>> rows;
};

DrawnRows rows_of(const DrawnStep& step) {
  DrawnRows drawn{.tick = step.timeline.times.makespan().value() / kTicksOfStep};
  for (int rank = 0; rank < step.schedule.pp; ++rank) {
    drawn.rows.push_back(row_of(step, rank, drawn.tick));
  }
  return drawn;
}

/// Returns the steps of the critical path that are drawn. Of an action in several pieces, the last
/// one stands for all.
std::vector<std::pair<int, int>> drawn_path(const CriticalPath& path, const DrawnRows& drawn,
                                            const Schedule& schedule) {
  std::vector<std::vector<std::size_t>> places;
  for (std::size_t rank = 0; rank < drawn.rows.size(); ++rank) {
    places.emplace_back(schedule.orders[rank].size(), kNoDrawnAction);
    for (std::size_t i = 0; i < drawn.rows[rank].size(); ++i) {
      places.back()[drawn.rows[rank][i].position] = i;
    }
  }
  std::vector<std::pair<int, int>> steps;
  for (const PathStep& step : path.steps) {
    const std::size_t place = places[static_cast<std::size_t>(step.rank)][step.position];
    const std::pair<int, int> drawn_step(step.rank, static_cast<int>(place));
    if (place != kNoDrawnAction && (steps.empty() || steps.back() != drawn_step)) {
      steps.push_back(drawn_step);
    }
  }
  return steps;
}

PackedTimeline packed(const DrawnStep& step, const DrawnRows& drawn,
                      const std::vector<std::int32_t>& number_of_kind) {
  PackedTimeline timeline{.name = step.name,
                          .end_s = step.timeline.times.makespan().value(),
                          .bubble_s = step.bubble.value(),
                          .tick_s = drawn.tick};
  std::vector<std::vector<std::int32_t>> columns(5);
  for (const std::vector<DrawnAction>& row : drawn.rows) {
    timeline.num_actions.push_back(static_cast<int>(row.size()));
    std::int32_t end = 0;
    for (const DrawnAction& action : row) {
      columns[0].push_back(action.start - end);
      columns[1].push_back(action.end - action.start);
      columns[2].push_back(number_of_kind[action.kind]);
      columns[3].push_back(action.microbatch);
      columns[4].push_back(action.chunk);
      end = action.end;
    }
  }
  timeline.actions = packed_numbers(columns);
  if (step.critical_path != nullptr) {
    timeline.critical_path = drawn_path(*step.critical_path, drawn, step.schedule);
  }
  return timeline;
}

}  // namespace

TimelineView step_timeline(const std::vector<DrawnStep>& steps, std::size_t num_workers) {
  TimelineView view{.num_ranks = steps.front().schedule.pp};
  std::vector<DrawnRows> all(steps.size());
  run_tasks(steps.size(), num_workers,
            [&](std::size_t, std::size_t i) { all[i] = rows_of(steps[i]); });
  std::vector<std::int32_t> number_of_kind(kDrawnKinds.size(), -1);
  for (const DrawnRows& step : all) {
    for (const std::vector<DrawnAction>& row : step.rows) {
      for (const DrawnAction& action : row) {
        number_of_kind[action.kind] = 0;
      }
    }
  }
  for (std::size_t kind = 0; kind < kDrawnKinds.size(); ++kind) {
    if (number_of_kind[kind] == 0) {
      const DrawnKind& drawn = kDrawnKinds.at(kind);
      number_of_kind[kind] = static_cast<std::int32_t>(view.kinds.size());
      view.kinds.push_back({drawn.name, drawn.letter, drawn.tint, drawn.waits_for});
    }
  }
  view.schedules.resize(steps.size());
  run_tasks(steps.size(), num_workers, [&](std::size_t, std::size_t i) {
    view.schedules[i] = packed(steps[i], all[i], number_of_kind);
  });
  return view;
}

}  // namespace ptdp
