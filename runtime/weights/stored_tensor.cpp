#include "runtime/weights/stored_tensor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "cost_model/error.h"

namespace ptdp {
namespace {

struct KnownType {
  std::string_view name;
  std::int64_t bits = 0;
};
constexpr std::array kKnownTypes = {
    KnownType{"BOOL", 8},        KnownType{"F4", 4},          KnownType{"F6_E2M3", 6},
    KnownType{"F6_E3M2", 6},     KnownType{"U8", 8},          KnownType{"I8", 8},
    KnownType{"F8_E5M2", 8},     KnownType{"F8_E4M3", 8},     KnownType{"F8_E8M0", 8},
    KnownType{"F8_E4M3FNUZ", 8}, KnownType{"F8_E5M2FNUZ", 8}, KnownType{"I16", 16},
    KnownType{"U16", 16},        KnownType{"F16", 16},        KnownType{"BF16", 16},
    KnownType{"I32", 32},        KnownType{"U32", 32},        KnownType{"F32", 32},
    KnownType{"C64", 64},        KnownType{"F64", 64},        KnownType{"I64", 64},
    KnownType{"U64", 64}};

constexpr std::size_t kMostSizesShown = 8;

constexpr std::array kElementTypes = {DataType::kFloat64, DataType::kFloat32, DataType::kBFloat16,
                                      DataType::kFloat16};

/// Returns whether `count` numbers from `first` on leave the numbers below `size`.
bool leaves(std::int64_t first, std::int64_t count, std::int64_t size) {
  return first < 0 || count < 0 || first > size || count > size - first;
}

}  // namespace

std::optional<std::int64_t> stored_bits(std::string_view name) {
  for (const KnownType& type : kKnownTypes) {
    if (type.name == name) {
      return type.bits;
    }
  }
  return std::nullopt;
}

std::string stored_type_names() {
  std::vector<std::string_view> names;
  names.reserve(kKnownTypes.size());
  for (const KnownType& type : kKnownTypes) {
    names.push_back(type.name);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string_view stored_name_of(DataType type) {
  switch (type) {
    case DataType::kFloat64:
      return "F64";
    case DataType::kFloat32:
      return "F32";
    case DataType::kBFloat16:
      return "BF16";
    case DataType::kFloat16:
      return "F16";
    case DataType::kInt32:
      return "I32";
  }
  return "";
}

std::optional<DataType> element_type_of(std::string_view name) {
  for (const DataType type : kElementTypes) {
    if (stored_name_of(type) == name) {
      return type;
    }
  }
  return std::nullopt;
}

std::string sizes_text(std::span<const std::int64_t> shape) {
  const auto shown = shape.first(std::min(shape.size(), kMostSizesShown));
  return fmt::format("[{}{}]", fmt::join(shown.begin(), shown.end(), ", "),
                     shown.size() < shape.size() ? ", ..." : "");
}

std::optional<std::int64_t> tensor_bytes(std::int64_t bits, std::span<const std::int64_t> shape) {
  std::int64_t total = bits;
  for (const std::int64_t size : shape) {
    if (__builtin_mul_overflow(total, size, &total)) {
      return std::nullopt;
    }
  }
  return total % 8 == 0 ? std::optional(total / 8) : std::nullopt;
}

ElementRuns runs_of(const StoredTensor& tensor, const MatrixBlock& block,
                    const std::string& place) {
  const std::vector<std::int64_t>& shape = tensor.shape;
  if (shape.empty() || shape.size() > 2) {
    throw Error(
        fmt::format("{}: shape {}, expected one or two dimensions", place, sizes_text(shape)));
  }
  const std::int64_t rows = shape.size() == 1 ? 1 : shape.front();
  const std::int64_t columns = shape.back();
  if (block.total_columns != columns || leaves(block.first_row, block.rows, rows) ||
      leaves(block.first_column, block.columns, columns)) {
    throw Error(fmt::format(
        "{}: shape {}, expected {} columns, of which {} from column {} on, and {} rows from row {} "
        "on",
        place, sizes_text(shape), block.total_columns, block.columns, block.first_column,
        block.rows, block.first_row));
  }
  const std::int64_t first = block.first_row * columns + block.first_column;
  if (block.rows == 0 || block.columns == 0) {
    return {.first = first};
  }
  if (block.columns == columns) {
    const std::int64_t length = block.rows * columns;
    return {.first = first, .length = length, .stride = length, .count = 1};
  }
  return {.first = first, .length = block.columns, .stride = columns, .count = block.rows};
}

}  // namespace ptdp
