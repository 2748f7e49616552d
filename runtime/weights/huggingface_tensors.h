// Which tensors of a Hugging Face model hold the parameters of a model, and where.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cost_model/inputs/transformer_config.h"
#include "kernels/backend.h"
#include "runtime/parameters/block_range.h"

namespace ptdp {

/// Where a parameter lies in a tensor.
struct ParameterPlace {
  std::string tensor;
  std::int64_t outputs = 0;  ///< Rows of the tensor, or elements of a vector.
  std::int64_t inputs = 0;   ///< Columns of the tensor; 0 for a vector.
  /// Whether the tensor is stored as [inputs, outputs], as GPT-2's are.
  bool is_transposed = false;
  /// Whether the tensor may have more rows than the model uses, as a table of positions may.
  bool may_be_longer = false;
  OutputRuns runs;  ///< Rows or elements of the tensor that are the parameter's.
};

/// A parameter of a whole model by its name (runtime/model/README.md), and its place in files.
struct PlacedParameter {
  std::string name;
  std::int64_t outputs = 0;  ///< Rows of a matrix, or elements of a vector.
  std::int64_t inputs = 0;   ///< Columns of a matrix; 0 for a vector.
  ParameterPlace place;
};

/// Names of the types whose tensors are known, as "model_type" of a config.json gives them. When a
/// model is written, the first of them that can say it is its type.
[[nodiscard]] const std::vector<std::string>& huggingface_weight_types();

/// Returns all parameters of a resolved model with their places in files of a type. Throws Error
/// for a type that huggingface_weight_types() does not have. Source: the parameters of the modeling
/// classes of huggingface/transformers 5.12.1.
[[nodiscard]] std::vector<PlacedParameter> huggingface_parameters(const TransformerConfig& model,
                                                                  std::string_view type);

/// Places of parameters by their names.
using ParameterPlaces = std::map<std::string, ParameterPlace, std::less<>>;
[[nodiscard]] ParameterPlaces places_by_name(const std::vector<PlacedParameter>& parameters);

/// Elements of a parameter that are a rectangle of its tensor.
struct FileBlock {
  MatrixBlock block;  ///< The rectangle, in the tensor as it is stored.
  Part values;        ///< The elements, counted from the beginning of the range.
};

/// Returns the shape of a place's tensor as files have it.
[[nodiscard]] std::vector<std::int64_t> stored_shape(const ParameterPlace& place);

/// Returns a matrix of rows·columns elements with rows and columns exchanged.
[[nodiscard]] std::vector<double> transposed(std::span<const double> matrix, std::int64_t rows,
                                             std::int64_t columns);

/// Returns the rectangles of a place's tensor that hold `range` of a parameter's block without
/// padding, counted row by row. In a transposed tensor the elements of each lie column by column.
[[nodiscard]] std::vector<FileBlock> file_blocks(const ParameterPlace& place,
                                                 const MatrixBlock& block, const Part& range);

/// Returns whether a tensor that no parameter needs may be in files: tables that older versions of
/// transformers stored, and a copy of a tied embedding.
[[nodiscard]] bool is_passed_over(const TransformerConfig& model, std::string_view tensor);

}  // namespace ptdp
