// The parameters of a model as a Hugging Face directory, from any layout.
#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "cost_model/inputs/transformer_config.h"
#include "runtime/optimizer/optimizer.h"
#include "runtime/weights/huggingface_tensors.h"
#include "runtime/weights/safetensors_writer.h"

namespace ptdp {

/// Writes a directory with the weights of a model. Calls come in the order of SafetensorsWriter's.
class ExportedWeights {
 public:
  /// `type` is one of huggingface_weight_types(), whose tensors get elements of `stored`.
  ExportedWeights(std::filesystem::path directory, const TransformerConfig& model,
                  std::string_view type, DataType stored);

  [[nodiscard]] SafetensorsWriter& files() { return files_; }
  /// Writes `range` of a parameter's block, counted row by row, without rows that pad the
  /// parameter.
  void write(const Parameter& parameter, const Part& range, std::span<const double> values);
  /// Writes this rank's part of the masters (Optimizer::saved_slices). All ranks together write
  /// every element once.
  void write(Backend& backend, const Optimizer& optimizer);

 private:
  std::map<std::string, PlacedParameter, std::less<>> places_;  ///< Places by parameter.
  SafetensorsWriter files_;
};

}  // namespace ptdp
