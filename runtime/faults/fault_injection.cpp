#include "runtime/faults/fault_injection.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cmath>
#include <csignal>
#include <memory>
#include <string>
#include <thread>

#include "cost_model/error.h"

namespace ptdp {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kInjectedStatus = 3;
constexpr double kLargestFactor = 1000.0;
constexpr std::array<std::string_view, 7> kFaultNames = {"throw", "alloc", "exit", "kill",
                                                         "stop",  "hang",  "slow"};

/// Throws Error that says what was expected at `place` and what was found.
[[noreturn]] void refuse(const std::string& place, std::string_view expected,
                         std::string_view found) {
  throw Error(fmt::format("{}: expected {}, got \"{}\"", place, expected, found));
}

/// Parses a number from `low` to `high`. Throws Error at `place` for other text.
template <class Number>
Number number_of(std::string_view text, Number low, Number high, std::string_view what,
                 const std::string& place) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || !(number >= low) ||
      !(number <= high)) {
    refuse(place, fmt::format("{} from {} to {}", what, low, high), text);
  }
  return number;
}

/// Parses what happens, such as "throw" or "slow:2". Throws Error at `place` for other text.
void parse_what(std::string_view text, InjectedFault& fault, const std::string& place) {
  const std::size_t colon = text.find(':');
  const std::string_view name = text.substr(0, colon);
  for (std::size_t i = 0; i < kFaultNames.size(); ++i) {
    if (kFaultNames[i] == name) {
      fault.what = static_cast<FaultKind>(i);
      if ((fault.what == FaultKind::kSlow) != (colon != std::string_view::npos)) {
        break;
      }
      if (fault.what == FaultKind::kSlow) {
        fault.factor = number_of(text.substr(colon + 1), 1.0, kLargestFactor, "a factor", place);
      }
      return;
    }
  }
  refuse(place, "what=throw, alloc, exit, kill, stop, hang or slow:FACTOR", text);
}

ActionKind kind_of(std::string_view text, const std::string& place) {
  for (int kind = 0; kind < kNumActionKinds; ++kind) {
    if (spelling_of(static_cast<ActionKind>(kind)) == text) {
      return static_cast<ActionKind>(kind);
    }
  }
  refuse(place, "a kind of action such as F, B, SEND_F or REDUCE_GRAD", text);
}

/// Waits 0.3 s. Other processes hear ten times a second what this one is in. So they can name the
/// action, as they could one that takes long.
void let_others_hear() {
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
}

/// The action that runs on a lane: its start, and the factor by which it is slowed.
struct SlowLane {
  double factor = 1.0;
  Clock::time_point start;
};

/// The injected faults of one rank. Several threads, one per lane, may call it at once.
class Injection {
 public:
  explicit Injection(std::vector<InjectedFault> faults) : faults_(std::move(faults)) {
    happened_ = std::vector<std::atomic<bool>>(faults_.size());
  }

  void before(std::int64_t step, const Action& action, Lane lane) {
    SlowLane& slow = slow_[static_cast<std::size_t>(lane)];
    slow = {.start = Clock::now()};
    for (std::size_t i = 0; i < faults_.size(); ++i) {
      const InjectedFault& fault = faults_[i];
      Action plain = action;
      plain.overlaps_next = false;
      if (fault.step.value_or(step) != step || fault.kind.value_or(action.kind) != action.kind ||
          fault.action.value_or(plain) != plain) {
        continue;
      }
      if (fault.what == FaultKind::kSlow) {
        slow.factor *= fault.factor;
      } else if (!happened_[i].exchange(true)) {
        happen(fault.what);
      }
    }
  }
  void after(Lane lane) {
    const SlowLane& slow = slow_[static_cast<std::size_t>(lane)];
    if (slow.factor > 1.0) {
      std::this_thread::sleep_for((Clock::now() - slow.start) * (slow.factor - 1.0));
    }
  }

 private:
  static void happen(FaultKind what) {
    switch (what) {
      case FaultKind::kThrow:
        throw Error("a fault on purpose (--inject)", ExitStatus::kRuntimeFault);
      case FaultKind::kAlloc:
        throw OutOfMemory("out of memory, on purpose (--inject)");
      case FaultKind::kExit:
        let_others_hear();
        ::_exit(kInjectedStatus);
      case FaultKind::kKill:
        let_others_hear();
        ::kill(::getpid(), SIGKILL);
        break;
      case FaultKind::kStop:
        let_others_hear();
        ::kill(::getpid(), SIGSTOP);
        break;
      case FaultKind::kHang:
        while (true) {
          std::this_thread::sleep_for(std::chrono::hours(1));
        }
      case FaultKind::kSlow:
        break;
    }
  }

  std::vector<InjectedFault> faults_;
  std::vector<std::atomic<bool>> happened_;
  std::array<SlowLane, kNumLanes> slow_ = {};
};

}  // namespace

InjectedFault parse_injected_fault(std::string_view text, const std::string& place) {
  InjectedFault fault;
  bool has_rank = false;
  bool has_what = false;
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::size_t comma = rest.find(',');
    const std::string_view item = rest.substr(0, comma);
    rest = comma == std::string_view::npos ? "" : rest.substr(comma + 1);
    const std::size_t equals = item.find('=');
    const std::string_view key = item.substr(0, equals);
    const std::string_view value = equals == std::string_view::npos ? "" : item.substr(equals + 1);
    if (key == "rank") {
      fault.rank = number_of(value, 0, 1 << 20, "a rank", place);
      has_rank = true;
    } else if (key == "action") {
      const std::vector<Action> actions = parse_order(value, place);
      if (actions.size() != 1) {
        refuse(place, "one action such as 2F0", value);
      }
      fault.action = actions.front();
    } else if (key == "kind") {
      fault.kind = kind_of(value, place);
    } else if (key == "step") {
      fault.step = number_of<std::int64_t>(value, 1, std::int64_t{1} << 40, "a step", place) - 1;
    } else if (key == "what") {
      parse_what(value, fault, place);
      has_what = true;
    } else {
      refuse(place, "rank=, action=, kind=, step= or what=", item);
    }
  }
  if (!has_rank || !has_what) {
    refuse(place, "rank=N and what=FAULT at least", text);
  }
  return fault;
}

ActionHooks injected_faults(std::span<const InjectedFault> faults, int rank) {
  std::vector<InjectedFault> own;
  for (const InjectedFault& fault : faults) {
    if (fault.rank == rank) {
      own.push_back(fault);
    }
  }
  if (own.empty()) {
    return {};
  }
  const auto injection = std::make_shared<Injection>(std::move(own));
  return {.before = [injection](std::int64_t step, const Action& action,
                                Lane lane) { injection->before(step, action, lane); },
          .after = [injection](Lane lane) { injection->after(lane); }};
}

}  // namespace ptdp
