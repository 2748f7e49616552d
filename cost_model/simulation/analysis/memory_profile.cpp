#include "cost_model/simulation/analysis/memory_profile.h"

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <optional>
#include <utility>

#include "cost_model/simulation/engine/step_layout.h"

namespace ptdp {
namespace {

struct Change {
  Seconds time;
  Bytes by;
};

const Bytes& one_or_each(const std::vector<Bytes>& values, int index) {
  return values[values.size() == 1 ? 0 : static_cast<std::size_t>(index)];
}

class Changes {
 public:
  Changes(const Schedule& schedule, const std::vector<Span>& spans, int rank, const MemoryUse& use)
      : order_(schedule.orders[rank]),
        spans_(spans),
        use_(use),
        layout_(schedule),
        rank_(rank),
        num_microbatches_(schedule.num_microbatches) {}

  /// Returns the changes in the order of time; at equal times what is freed comes first.
  std::vector<Change> collect() {
    if (use_.message > Bytes(0.0)) {
      note_compute();
    }
    for (std::size_t i = 0; i < order_.size(); ++i) {
      add_changes(i);
    }
    std::sort(changes_.begin(), changes_.end(), [](const Change& a, const Change& b) {
      return std::pair(a.time, a.by) < std::pair(b.time, b.by);
    });
    return std::move(changes_);
  }

 private:
  static constexpr std::uint32_t kNowhere = 0xffffffff;

  void add(Seconds from, Seconds to, Bytes size) {
    if (size != Bytes(0.0) && from != to) {
      changes_.push_back({from, size});
      changes_.push_back({to, Bytes(-size.value())});
    }
  }

  [[nodiscard]] std::size_t slot(Direction direction, const Action& action) const {
    const std::size_t chunk =
        static_cast<std::size_t>(layout_.chunk_of(action.stage, rank_)) * kNumDirections +
        static_cast<std::size_t>(direction);
    return chunk * num_microbatches_ + action.microbatch;
  }

  /// Notes where F and B or I of the rank's stages stand, for the messages that they take and make.
  void note_compute() {
    compute_.assign(
        static_cast<std::size_t>(layout_.chunks_per_rank()) * kNumDirections * num_microbatches_,
        kNowhere);
    for (std::size_t i = 0; i < order_.size(); ++i) {
      const ActionKind kind = order_[i].kind;
      if (kind == ActionKind::kForward) {
        compute_[slot(Direction::kForward, order_[i])] = static_cast<std::uint32_t>(i);
      } else if (kind == ActionKind::kBackward || kind == ActionKind::kInputGradient) {
        compute_[slot(Direction::kBackward, order_[i])] = static_cast<std::uint32_t>(i);
      }
    }
  }

  void add_changes(std::size_t i) {
    const Action& action = order_[i];
    if (is_compute(action.kind)) {
      add(spans_[i].start, spans_[i].end, one_or_each(use_.working, action.stage));
    }
    switch (action.kind) {
      case ActionKind::kForward:
        changes_.push_back({spans_[i].start, one_or_each(use_.activations, action.stage)});
        break;
      case ActionKind::kBackward:
      case ActionKind::kWeightGradient:
        changes_.push_back(
            {spans_[i].end, Bytes(-one_or_each(use_.activations, action.stage).value())});
        break;
      case ActionKind::kSendForward:
      case ActionKind::kSendBackward:
        if (const std::optional<Span> maker = compute_of(action)) {
          add(maker->end, spans_[i].end, use_.message);
        }
        break;
      case ActionKind::kReceiveForward:
      case ActionKind::kReceiveBackward:
        if (const std::optional<Span> taker = compute_of(action)) {
          add(spans_[i].start, taker->end, use_.message);
        }
        break;
      case ActionKind::kInputGradient:
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

  /// Returns when the action ran that makes or takes a message; nullopt if messages take no memory.
  [[nodiscard]] std::optional<Span> compute_of(const Action& message) const {
    if (compute_.empty()) {
      return std::nullopt;
    }
    const std::uint32_t position = compute_[slot(direction_of(message.kind), message)];
    return position == kNowhere ? std::nullopt : std::optional(spans_[position]);
  }

  const std::vector<Action>& order_;
  const std::vector<Span>& spans_;
  const MemoryUse& use_;
  StepLayout layout_;
  int rank_;
  int num_microbatches_;
  /// Positions of F and of B or I, by chunk, direction and microbatch.
  std::vector<std::uint32_t> compute_;
  std::vector<Change> changes_;
};

}  // namespace

MemoryProfile memory_profile(const Schedule& schedule, const std::vector<Span>& spans, int rank,
                             const MemoryUse& use) {
  assert(spans.size() == schedule.orders[rank].size());
  const Bytes fixed = one_or_each(use.fixed, rank);
  MemoryProfile profile{.samples = {{Seconds(0.0), fixed}}, .peak = fixed};
  const std::vector<Change> changes = Changes(schedule, spans, rank, use).collect();
  Bytes held = fixed;
  for (std::size_t i = 0; i < changes.size();) {
    const Seconds time = changes[i].time;
    for (; i < changes.size() && changes[i].time == time; ++i) {
      held += changes[i].by;
    }
    if (profile.samples.back().time == time) {
      profile.samples.back().held = held;
    } else if (profile.samples.back().held != held) {
      profile.samples.push_back({time, held});
    }
    if (held > profile.peak) {
      profile.peak = held;
      profile.peak_time = time;
    }
  }
  return profile;
}

}  // namespace ptdp
