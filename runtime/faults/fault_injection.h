// Faults on purpose, to rehearse how a run reacts to them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/executor/executor.h"

namespace ptdp {

/// What an injected fault does.
enum class FaultKind : std::uint8_t {
  kThrow,  ///< The action fails with an Error.
  kAlloc,  ///< The action runs out of memory.
  kExit,   ///< The rank's process exits with status 3.
  kKill,   ///< The rank's process is killed by SIGKILL.
  kStop,   ///< The rank's process is stopped by SIGSTOP.
  kHang,   ///< The action never ends.
  kSlow    ///< Actions take `factor` times as long.
};

/// One injected fault of one rank, and when it happens.
struct InjectedFault {
  FaultKind what = FaultKind::kThrow;
  int rank = 0;
  /// The action at which it happens. Without action and kind, any action.
  std::optional<Action> action;
  /// The kind of action at which it happens, of any stage and microbatch.
  std::optional<ActionKind> kind;
  /// The step of the training at which it happens, from 0. Without a step, any.
  std::optional<std::int64_t> step;
  double factor = 1.0;  ///< Slowdown by kSlow, at least 1.
};

/// Parses a fault such as "rank=3,action=2F0,step=1,what=throw". `kind=SEND_F` may replace the
/// action, steps count from 1, and what=slow:2 has a factor. Throws Error at `place` for other
/// text.
[[nodiscard]] InjectedFault parse_injected_fault(std::string_view text, const std::string& place);

/// Returns hooks that make this rank's faults happen. Each happens once; a slow one happens in
/// every action that matches. A hook throws Error(kRuntimeFault) or OutOfMemory.
[[nodiscard]] ActionHooks injected_faults(std::span<const InjectedFault> faults, int rank);

}  // namespace ptdp
