// The parameters of a model as a Hugging Face directory, from any layout.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "cost_model/inputs/transformer_config.h"
#include "runtime/optimizer/optimizer.h"
#include "runtime/transport/communicator.h"
#include "runtime/weights/huggingface_tensors.h"
#include "runtime/weights/safetensors_writer.h"

namespace ptdp {

/// A directory of Hugging Face that the weights go to.
struct WeightsExport {
  std::filesystem::path directory;
  std::string type;                      ///< Type of the model, one of huggingface_weight_types().
  TransformerConfig model;               ///< The model as its config.json says it.
  std::string config;                    ///< Text of config.json.
  DataType stored = DataType::kFloat32;  ///< Type of the elements in the files.
};

/// Writes a directory with the weights of a model. Calls come in the order of SafetensorsWriter's.
class ExportedWeights {
 public:
  /// `parameters` are those of a whole model, whose tensors get elements of `stored`.
  ExportedWeights(std::filesystem::path directory, const std::vector<PlacedParameter>& parameters,
                  DataType stored);

  [[nodiscard]] SafetensorsWriter& files() { return files_; }
  /// Writes `range` of a parameter's block, counted row by row, without rows that pad the
  /// parameter.
  void write(const Parameter& parameter, const Part& range, std::span<const double> values);
  /// Writes this rank's part of the masters (Optimizer::saved_slices). All ranks together write
  /// every element once.
  void write(Backend& backend, const Optimizer& optimizer);

 private:
  ParameterPlaces places_;
  SafetensorsWriter files_;
};

/// Writes the masters of all ranks and config.json. Every rank of `world`, whose buffers are those
/// of `host`, calls it with its own optimizer and the backend of that. Throws Error(kOutputFailed).
void export_weights(const WeightsExport& to, Communicator& world, Backend& host, Backend& backend,
                    const Optimizer& optimizer);

}  // namespace ptdp
