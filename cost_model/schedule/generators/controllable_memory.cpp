// V-Half and V-Min: schedules from a building block that repeats for every microbatch.
//
// The block says when each rank runs the four passes of a microbatch, in slots of F = I = W. Blocks
// six slots apart never collide, and a rank's two weight gradients fit between them.
//
// Run as it stands the block leaves gaps at both ends. The paper closes them by squeezing and
// reordering; here a list scheduler does. In each slot a rank runs the first pass in the order of
// the blocks that can run and leaves room for those it overtakes. At F = I = W neither the makespan
// nor any rank's peak is above that of the authors' generator: 896 schedules compared, p from 2 to
// 24 and 32, m to 64.
#include <algorithm>
#include <array>
#include <cassert>
#include <cstdint>
#include <deque>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "cost_model/schedule/generators/generators.h"

namespace ptdp {
namespace {

constexpr int kPeriod = 6;
// The passes of a block in the order of their dependencies: F and F, I and I, of stages r, 2p-1-r,
// 2p-1-r and r. Even ones wait for rank r-1, odd ones for rank r+1.
constexpr int kNumPasses = 4;
constexpr int kFirstInputGradient = 2;
using Block = std::array<int, kNumPasses>;

constexpr bool is_forward(int pass) {
  return pass < kFirstInputGradient;
}

// What tells V-Half and V-Min apart.
struct Recipe {
  ScheduleKind kind;
  std::vector<Block> blocks;  ///< Start of the passes of microbatch 0, by rank [slots].
  std::vector<int> limits;    ///< Chunks a rank may hold.
  /// Whether a weight gradient goes first on a rank at its limit that has forward passes left.
  bool full_ranks_free_first = false;
  /// How long after its place in the block a weight gradient gives way to other passes [slots].
  int weight_patience = 0;
};

// Returns how long a rank's two weight gradients wait after their input gradients [slots]. They
// take the two slots of the period that the rank's passes leave, so that the later of the two waits
// least.
std::array<int, 2> weight_delays(const Block& block) {
  std::vector<int> free;
  for (int slot = 0; slot < kPeriod; ++slot) {
    if (std::none_of(block.begin(), block.end(),
                     [slot](int start) { return start % kPeriod == slot; })) {
      free.push_back(slot);
    }
  }
  const auto delay = [&block](int pass, int slot) {
    return (slot - block.at(pass) % kPeriod + kPeriod) % kPeriod;
  };
  const std::array<int, 2> straight{delay(2, free.at(0)), delay(3, free.at(1))};
  const std::array<int, 2> crossed{delay(2, free.at(1)), delay(3, free.at(0))};
  return std::ranges::max(crossed) < std::ranges::max(straight) ? crossed : straight;
}

struct WeightGradient {
  int stage = 0;
  int microbatch = 0;
  std::int64_t due = 0;  ///< Slot of the gradient in the blocks.
};

struct RankState {
  Block next{};  ///< Next microbatch of each pass.
  int live = 0;  ///< Chunks held.
  std::array<int, 2> weight_delays{};
  std::deque<WeightGradient> waiting;
};

class ListScheduler {
 public:
  ListScheduler(const Recipe& recipe, int num_microbatches)
      : recipe_(recipe),
        pp_(static_cast<int>(recipe.blocks.size())),
        num_microbatches_(num_microbatches),
        ranks_(recipe.blocks.size()),
        ends_(static_cast<std::size_t>(kNumPasses) * pp_ * num_microbatches, kNever),
        orders_(recipe.blocks.size()) {
    for (int rank = 0; rank < pp_; ++rank) {
      ranks_.at(rank).weight_delays = weight_delays(recipe.blocks.at(rank));
      orders_.at(rank).reserve(static_cast<std::size_t>(kPeriod) * num_microbatches);
    }
  }

  [[nodiscard]] std::vector<std::vector<Action>> orders() {
    bool moved = true;
    for (int slot = 0; moved; ++slot) {
      moved = false;
      for (int rank = 0; rank < pp_; ++rank) {
        if (const std::optional<int> pass = choose(rank, slot)) {
          run(rank, *pass, slot);
          moved = true;
        }
      }
    }
    assert(std::ranges::all_of(orders_, [this](const std::vector<Action>& order) {
      return static_cast<int>(order.size()) == kPeriod * num_microbatches_;
    }));
    return std::move(orders_);
  }

 private:
  /// Choice of the oldest weight gradient in place of a pass.
  static constexpr int kWeights = kNumPasses;
  static constexpr int kNever = std::numeric_limits<int>::max();

  [[nodiscard]] int& end(int rank, int pass, int microbatch) {
    return ends_[(static_cast<std::size_t>(pass) * pp_ + rank) * num_microbatches_ + microbatch];
  }

  [[nodiscard]] int stage(int rank, int pass) const {
    return pass == 0 || pass == 3 ? rank : 2 * pp_ - 1 - rank;
  }

  // Slot in the blocks of a pass's next run.
  [[nodiscard]] std::int64_t place(int rank, int pass) const {
    return recipe_.blocks[rank][pass] + std::int64_t{kPeriod} * ranks_[rank].next[pass];
  }

  [[nodiscard]] bool can_run(int rank, int pass, int slot) {
    const int microbatch = ranks_[rank].next[pass];
    const int neighbour = pass % 2 == 0 ? rank - 1 : rank + 1;
    if (neighbour >= 0 && neighbour < pp_ && end(neighbour, pass, microbatch) > slot) {
      return false;
    }
    return pass == 0 || end(rank, pass - 1, microbatch) <= slot;
  }

  // Counts the forward passes that a pass at this place overtakes. Each wants a chunk, and may
  // become ready before any of those held is freed.
  [[nodiscard]] int num_overtaken_forwards(int rank, std::int64_t place_of_overtaker) const {
    std::int64_t overtaken = 0;
    for (int pass = 0; pass < kFirstInputGradient; ++pass) {
      const int next = ranks_[rank].next[pass];
      const std::int64_t slots = place_of_overtaker - place(rank, pass);
      const std::int64_t earlier = slots <= 0 ? 0 : (slots + kPeriod - 1) / kPeriod;
      overtaken += std::min<std::int64_t>(earlier, num_microbatches_ - next);
    }
    return static_cast<int>(overtaken);
  }

  // Returns the pass that a rank runs in a slot, kWeights for a weight gradient, or nullopt for
  // none.
  [[nodiscard]] std::optional<int> choose(int rank, int slot) {
    const RankState& state = ranks_[rank];
    const int limit = recipe_.limits[rank];
    const int num_waiting = static_cast<int>(state.waiting.size());
    if (recipe_.full_ranks_free_first && num_waiting > 0 && state.live == limit &&
        std::min(state.next[0], state.next[1]) < num_microbatches_) {
      return kWeights;
    }
    Block passes{0, 1, 2, 3};
    std::ranges::sort(passes, {}, [this, rank](int pass) { return place(rank, pass); });
    for (const int pass : passes) {
      if (state.next[pass] == num_microbatches_) {
        continue;
      }
      if (num_waiting > 0 &&
          state.waiting.front().due + recipe_.weight_patience < place(rank, pass)) {
        return kWeights;
      }
      if (!can_run(rank, pass, slot)) {
        continue;
      }
      if (!is_forward(pass)) {
        return pass;
      }
      const int after = state.live + 1 + num_overtaken_forwards(rank, place(rank, pass));
      if (after <= limit) {
        return pass;
      }
      if (after - num_waiting <= limit) {
        return kWeights;
      }
    }
    return num_waiting > 0 ? std::optional(kWeights) : std::nullopt;
  }

  void run(int rank, int pass, int slot) {
    RankState& state = ranks_[rank];
    if (pass == kWeights) {
      const WeightGradient& gradient = state.waiting.front();
      orders_[rank].push_back({ActionKind::kWeightGradient, gradient.stage, gradient.microbatch});
      state.waiting.pop_front();
      --state.live;
      return;
    }
    const int microbatch = state.next[pass];
    if (is_forward(pass)) {
      ++state.live;
    } else {
      state.waiting.push_back(
          {.stage = stage(rank, pass),
           .microbatch = microbatch,
           .due = place(rank, pass) + state.weight_delays[pass - kFirstInputGradient]});
    }
    orders_[rank].push_back({is_forward(pass) ? ActionKind::kForward : ActionKind::kInputGradient,
                             stage(rank, pass), microbatch});
    end(rank, pass, microbatch) = slot + 1;
    ++state.next[pass];
  }

  const Recipe& recipe_;
  int pp_;
  int num_microbatches_;
  std::vector<RankState> ranks_;
  std::vector<int> ends_;  ///< End of each run of a pass [slots], by pass, rank and microbatch.
  std::vector<std::vector<Action>> orders_;
};

// Chunks that a rank may hold. Few microbatches do not fill the limit: before rank r sends its
// first input gradient down, it holds at most m chunks of one stage and r + 1 of the other.
int limit_of(int chunks, int rank, int num_microbatches) {
  return std::min({chunks, 2 * num_microbatches, num_microbatches + 1 + rank});
}

Schedule scheduled(const Recipe& recipe, int num_microbatches) {
  Schedule schedule = without_actions(recipe.kind, {.pp = static_cast<int>(recipe.blocks.size()),
                                                    .num_microbatches = num_microbatches});
  schedule.orders = ListScheduler(recipe, num_microbatches).orders();
  return schedule;
}

}  // namespace

Schedule v_half(int pp, int num_microbatches) {
  assert(pp >= 1 && num_microbatches >= 1);
  // Full ranks that free first do not change the makespan at F = I = W, but keep forward passes
  // together. That is 2.5 % faster at F, I and W of 10, 12 and 8 for p = 16, m = 64. V-Min is full
  // too often for it.
  Recipe recipe{.kind = ScheduleKind::kVHalf,
                .full_ranks_free_first = true,
                .weight_patience = kPeriod * num_microbatches + kPeriod * (pp + 1)};
  const int chunks = 2 * ((pp + 2) / 2);
  const int gap = pp % 2 == 0 ? 3 : 0;  // without it the passes of an even p collide
  for (int rank = 0; rank < pp; ++rank) {
    recipe.blocks.push_back(
        {2 * rank, 3 * pp - 2 - rank, 3 * pp + gap - 1 + 2 * rank, 6 * pp + gap - 2 - rank});
    recipe.limits.push_back(limit_of(chunks, rank, num_microbatches));
  }
  return scheduled(recipe, num_microbatches);
}

Schedule v_min(int pp, int num_microbatches) {
  assert(pp >= 1 && num_microbatches >= 1);
  // Patience of 2 to 4 slots gives the same makespans; 1 loses some gains over the authors'
  // schedules, and 5 is worse than they are at p = 19, 21, 22 and 24.
  Recipe recipe{.kind = ScheduleKind::kVMin, .weight_patience = 3};
  const int chunks = 2 * ((pp + 4) / 3);
  const int gap = pp % 3 == 0 ? 2 : 0;  // without it the passes collide
  for (int rank = 0; rank < pp; ++rank) {
    recipe.blocks.push_back(
        {rank, 2 * pp - 1 - rank, 2 * pp + gap + rank, 4 * pp + gap - 1 - rank});
    int limit = limit_of(chunks, rank, num_microbatches);
    // At p % 3 = 2 the authors' schedules leave one chunk unused on the first rank that could fill
    // the limit, which costs nothing here either.
    const bool is_first_full = rank == 0 || num_microbatches + 1 + rank == chunks;
    if (pp % 3 == 2 && rank + 1 < pp && limit == chunks && is_first_full) {
      --limit;
    }
    recipe.limits.push_back(limit);
  }
  return scheduled(recipe, num_microbatches);
}

}  // namespace ptdp
