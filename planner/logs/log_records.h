// Finds lines of progress, whatever launchers, terminals and other ranks put before and behind.
#pragma once

#include <string_view>
#include <vector>

#include "planner/logs/log_record.h"

namespace ptdp {

/// Returns whether a line may hold a record or a part of one; fast, for the many that hold none.
[[nodiscard]] bool may_hold_record(std::string_view line);

/// Returns the records of a line, in order; one line may hold several, of several ranks. Lines of
/// validation are no records, and neither is one that says nothing of time.
[[nodiscard]] std::vector<LogRecord> records_of(std::string_view line);

/// Returns whether a line begins a record of Megatron whose end a terminal or an editor may have
/// moved to the next line: its last bar, time, batch or loss is missing. `records` are the line's.
[[nodiscard]] bool is_cut(std::string_view line, const std::vector<LogRecord>& records);

/// The memory that a GPU used at most [B]; 0 where it is not known.
struct LogMemory {
  double allocated = 0.0;  ///< Most that tensors took.
  double reserved = 0.0;   ///< Most that PyTorch's allocator took.
};
/// Returns the largest of what Megatron's reports of memory in a line say.
[[nodiscard]] LogMemory reported_memory(std::string_view line);

}  // namespace ptdp
