// Reads the trace that PyTorch's profiler (Kineto) writes of one rank.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "planner/traces/trace.h"

namespace ptdp {

/// Reads a trace, plain or packed by gzip. Memory grows with its kernels, launches and products,
/// not with the file. Throws Error for a file that cannot be read, for one that is no trace, and
/// for a trace without work of a GPU.
[[nodiscard]] Trace read_trace(const std::filesystem::path& path);

/// Reads a trace from its plain text; `place` names it. Throws Error as read_trace() does.
[[nodiscard]] Trace trace_of(std::string_view text, const std::string& place);

}  // namespace ptdp
