#include "planner/traces/trace_products.h"

#include <algorithm>
#include <charconv>
#include <compare>
#include <functional>
#include <map>
#include <optional>
#include <unordered_set>
#include <utility>

namespace ptdp {
namespace {

using Shape = std::vector<std::int64_t>;

constexpr std::int64_t kLongestSide = std::int64_t{1} << 40;

/// Returns the shapes of "[[8,4],[4,2],[]]". Lists of lists and what else is no shape are empty.
std::vector<Shape> shapes_in(std::string_view text) {
  std::vector<Shape> shapes;
  int depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '[') {
      ++depth;
      if (depth == 2) {
        shapes.emplace_back();
      }
    } else if (text[i] == ']') {
      --depth;
    } else if (depth == 2 && text[i] >= '0' && text[i] <= '9') {
      std::int64_t side = 0;
      const char* const end = std::from_chars(text.data() + i, text.data() + text.size(), side).ptr;
      shapes.back().push_back(side);
      i = static_cast<std::size_t>(end - text.data()) - 1;
    }
  }
  return shapes;
}

/// The sides of a product: b products of m times k with k times n.
struct Sides {
  std::int64_t b = 1;
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
};

/// Returns the sides of "x[.., m, k] times y[.., k, n]"; nullopt if the shapes do not go together.
std::optional<Sides> sides_of(const Shape& x, const Shape& y) {
  if (x.size() < 2 || y.size() < 2 || x.back() != y[y.size() - 2]) {
    return std::nullopt;
  }
  Sides sides{.m = x[x.size() - 2], .n = y.back(), .k = x.back()};
  for (std::size_t i = 0; i + 2 < x.size(); ++i) {
    sides.b *= std::min(x[i], kLongestSide / std::max<std::int64_t>(sides.b, 1));
  }
  return sides;
}

/// Returns the sides of "x[.., k] times the transpose of y[n, k]".
std::optional<Sides> sides_of_linear(const Shape& x, const Shape& y) {
  if (x.empty() || y.size() != 2 || x.back() != y[1]) {
    return std::nullopt;
  }
  Sides sides{.m = 1, .n = y[0], .k = y[1]};
  for (std::size_t i = 0; i + 1 < x.size(); ++i) {
    sides.m *= std::min(x[i], kLongestSide / std::max<std::int64_t>(sides.m, 1));
  }
  return sides;
}

/// A row of work_by_shape() that is being summed up.
struct GrowingUse {
  Seconds time;
  std::int64_t kernels = 0;
  std::unordered_set<std::int64_t> operators = {};
};

/// What tells rows apart: indices of names of the operator and its shapes, or of the kernel and 0.
struct UseKey {
  std::uint32_t name = 0;
  std::uint32_t shapes = 0;
  WorkKind kind = WorkKind::kProduct;

  friend auto operator<=>(const UseKey&, const UseKey&) = default;
};

std::map<UseKey, GrowingUse> summed_uses(const Trace& trace, std::span<const TraceWindow> windows) {
  std::map<UseKey, GrowingUse> rows;
  for (const GpuWork& work : trace.work) {
    if (work.kind == WorkKind::kCollective || window_at(windows, work.start) == nullptr) {
      continue;
    }
    UseKey key{.name = work.name, .shapes = 0, .kind = work.kind};
    const auto op = trace.operators.find(work.op);
    const bool is_linked = work.is_kernel && op != trace.operators.end();
    if (is_linked && op->second.shapes != 0) {
      key.name = op->second.name;
      key.shapes = op->second.shapes;
    }
    GrowingUse& row = rows[key];
    row.time += to_seconds(work.end - work.start);
    ++row.kernels;
    if (is_linked) {
      row.operators.insert(work.op);
    }
  }
  return rows;
}

/// Returns the row of an average iteration out of `steps`.
WorkUse average_use(const Trace& trace, const UseKey& key, const GrowingUse& row, double steps) {
  WorkUse use{.kind = key.kind,
              .name = trace.names[key.name],
              .calls = static_cast<double>(row.kernels) / steps,
              .time = row.time / steps,
              .flops = {}};
  if (key.shapes != 0) {
    const std::string& shapes = trace.names[key.shapes];
    const ProductShape shape =
        key.kind == WorkKind::kProduct ? product_shape(use.name, shapes) : ProductShape{};
    use.name += " " + (shape.text.empty() ? shapes : shape.text);
    use.calls = static_cast<double>(row.operators.size()) / steps;  // each of several kernels
    use.flops = shape.flops * use.calls;
  }
  return use;
}

}  // namespace

ProductShape product_shape(std::string_view op, std::string_view shapes) {
  const std::vector<Shape> inputs = shapes_in(shapes);
  // These add their first input to the product of the next two.
  const bool adds = op == "aten::addmm" || op == "aten::baddbmm" || op == "aten::_addmm_activation";
  const std::size_t first = adds ? 1 : 0;
  if (op.find("conv") != std::string_view::npos || inputs.size() < first + 2) {
    return {};
  }
  const std::optional<Sides> sides = op == "aten::linear"
                                         ? sides_of_linear(inputs[0], inputs[1])
                                         : sides_of(inputs[first], inputs[first + 1]);
  if (!sides) {
    return {};
  }
  const std::string text =
      std::to_string(sides->m) + "x" + std::to_string(sides->n) + "x" + std::to_string(sides->k);
  return {.text = sides->b == 1 ? text : std::to_string(sides->b) + "*" + text,
          .flops = Flops(2.0 * static_cast<double>(sides->b) * static_cast<double>(sides->m) *
                         static_cast<double>(sides->n) * static_cast<double>(sides->k))};
}

const TraceWindow* window_at(std::span<const TraceWindow> windows, Nanoseconds time) {
  const auto next = std::ranges::upper_bound(windows, time, {}, &TraceWindow::start);
  if (next == windows.begin() || time >= std::prev(next)->end) {
    return nullptr;
  }
  return &*std::prev(next);
}

std::vector<WorkUse> work_by_shape(const Trace& trace, std::span<const TraceWindow> windows) {
  const auto steps = static_cast<double>(std::max<std::size_t>(windows.size(), 1));
  std::vector<WorkUse> uses;
  for (const auto& [key, row] : summed_uses(trace, windows)) {
    uses.push_back(average_use(trace, key, row, steps));
  }
  std::ranges::stable_sort(uses, std::ranges::greater{}, &WorkUse::time);
  return uses;
}

}  // namespace ptdp
