// Tensors as a file of safetensors describes them: types, shapes, and where their elements lie.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/backend.h"

namespace ptdp {

/// Returns the size of an element [bits] of the type that files of safetensors call `name`. Returns
/// nullopt for other names. Source: huggingface/safetensors 0.8, `Dtype` of tensor.rs.
[[nodiscard]] std::optional<std::int64_t> stored_bits(std::string_view name);
/// Returns the names of all types of safetensors, separated by commas.
[[nodiscard]] std::string stored_type_names();
/// Returns the type of buffers that holds what files of safetensors call `name`. Returns nullopt
/// for all but F64, F32, BF16 and F16.
[[nodiscard]] std::optional<DataType> element_type_of(std::string_view name);
/// Returns what files of safetensors call a floating-point type: "F64", "F32", "BF16" or "F16".
[[nodiscard]] std::string_view stored_name_of(DataType type);

/// A tensor of a file. Elements lie in C's order, without gaps, in little-endian.
struct StoredTensor {
  std::string type;                 ///< Name of the elements' type in the file, as "BF16".
  std::vector<std::int64_t> shape;  ///< Sizes of the dimensions; empty: a single element.
  std::int64_t begin = 0;           ///< Place of the first byte behind the file's header.
  std::int64_t end = 0;             ///< Place behind the last byte, counted as `begin` is.
};

/// Returns a shape as messages show it: "[2, 3]". Sizes after the eighth are left out.
[[nodiscard]] std::string sizes_text(std::span<const std::int64_t> shape);
/// Returns the size [B] of a tensor of this type and shape. Returns nullopt when it exceeds the
/// largest std::int64_t, or ends within a byte. `shape` has no negative sizes.
[[nodiscard]] std::optional<std::int64_t> tensor_bytes(std::int64_t bits,
                                                       std::span<const std::int64_t> shape);

/// Elements of a tensor in equally long runs without gaps: run i has elements from first + i·stride
/// on.
struct ElementRuns {
  std::int64_t first = 0;   ///< Number of the first run's first element in the tensor.
  std::int64_t length = 0;  ///< Number of elements of a run.
  std::int64_t stride = 0;  ///< Distance between the beginnings of two runs [elements].
  std::int64_t count = 0;   ///< Number of runs.
};

/// Returns the elements of a block, row by row, in as few runs as possible. A tensor of one
/// dimension is a matrix of one row. Throws Error at `place` when the tensor has another number of
/// dimensions, or when the block is not of its columns or leaves it.
[[nodiscard]] ElementRuns runs_of(const StoredTensor& tensor, const MatrixBlock& block,
                                  const std::string& place);

}  // namespace ptdp
