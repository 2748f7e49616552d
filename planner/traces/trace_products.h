// Products of matrices by shape, and other kernels by name.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cost_model/units.h"
#include "planner/traces/trace.h"
#include "planner/traces/trace_steps.h"

namespace ptdp {

/// Work of one shape, or without shapes of one name, in an average iteration.
struct WorkUse {
  WorkKind kind = WorkKind::kProduct;
  std::string name;  ///< "aten::mm 8192x1024x4096" (m, n, k), or the name of the kernel.
  double calls = 0.0;
  Seconds time;  ///< Sum over its kernels, be they at once with others or not.
  Flops flops;   ///< 0 if the shape is unknown.
};

/// Returns the shape of a product by its operator and the shapes of its inputs as JSON: "mxnxk",
/// with a batch in front "b*mxnxk"; "" if these do not say it. `flops` are 2bmnk.
struct ProductShape {
  std::string text;
  Flops flops;
};
[[nodiscard]] ProductShape product_shape(std::string_view op, std::string_view shapes);

/// Returns all work but collectives, the longest first. Work belongs to the window in which it
/// starts.
[[nodiscard]] std::vector<WorkUse> work_by_shape(const Trace& trace,
                                                 std::span<const TraceWindow> windows);

/// Returns the window of a time; nullptr outside of all windows, which must be in order.
[[nodiscard]] const TraceWindow* window_at(std::span<const TraceWindow> windows, Nanoseconds time);

}  // namespace ptdp
