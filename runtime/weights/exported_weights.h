// The parameters of a model as a Hugging Face directory, from any layout.
#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "cost_model/inputs/transformer_config.h"
#include "cost_model/text/files.h"
#include "runtime/optimizer/optimizer.h"
#include "runtime/transport/communicator.h"
#include "runtime/weights/huggingface_tensors.h"
#include "runtime/weights/safetensors_writer.h"

namespace ptdp {

/// A directory of Hugging Face that the weights go to.
struct WeightsExport {
  std::filesystem::path directory;
  std::string type;         ///< Type of the model, one of huggingface_weight_types().
  TransformerConfig model;  ///< The model as its config.json says it.
  /// Files beside the weights, by their names in the directory: config.json, those of a tokenizer.
  std::vector<FileContent> others;
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
  /// every element once. Calls `check` before each piece of some milliseconds; it may throw.
  void write(Backend& backend, const Optimizer& optimizer, const std::function<void()>& check);

 private:
  ParameterPlaces places_;
  SafetensorsWriter files_;
};

/// Writes the masters of all ranks and the other files. Every rank of `host.world` calls it with
/// its own optimizer and the backend of that. `check` is called while files are written and synced;
/// what it throws ends the export. Throws Error(kOutputFailed), too. Then
/// discard_unfinished_weights() removes what was begun, once ranks are told why.
void export_weights(const WeightsExport& to, const HostSide& host, Backend& backend,
                    const Optimizer& optimizer, const std::function<void()>& check);

}  // namespace ptdp
