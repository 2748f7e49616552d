// Faults on purpose, to rehearse what a run does about them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/executor/executor.h"

namespace ptdp {

enum class FaultKind : std::uint8_t {
  kThrow,  ///< The action fails.
  kAlloc,  ///< Memory does not suffice.
  kExit,   ///< The process of the rank exits with status 3.
  kKill,   ///< It is killed.
  kStop,   ///< It is stopped, as by SIGSTOP.
  kHang,   ///< The action never ends.
  kSlow    ///< Actions take `factor` times as long.
};

/// One fault of one rank.
struct InjectedFault {
  FaultKind what = FaultKind::kThrow;
  int rank = 0;
  std::optional<Action> action;    ///< Where both are missing: any.
  std::optional<ActionKind> kind;  ///< Any stage and microbatch.
  /// Of the training, from 0. Where it is missing: any.
  std::optional<std::int64_t> step;
  double factor = 1.0;  ///< Of kSlow; at least 1.
};

/// Reads "rank=3,action=2F0,step=1,what=throw": `kind=SEND_F` in place of the action; steps from 1
/// on; what=slow:2 with a factor. Throws Error at `place` for what is no such list.
[[nodiscard]] InjectedFault parse_injected_fault(std::string_view text, const std::string& place);

/// Those of the faults that are of this rank. Each but a slow one happens once. Throw Error, with
/// status kRuntimeFault, or OutOfMemory.
[[nodiscard]] ActionHooks injected_faults(std::span<const InjectedFault> faults, int rank);

}  // namespace ptdp
