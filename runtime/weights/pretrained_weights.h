// Weights of a Hugging Face directory as the parameters of a model, in any layout.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "cost_model/inputs/transformer_config.h"
#include "runtime/optimizer/optimizer.h"
#include "runtime/parameters/parameter_store.h"
#include "runtime/weights/huggingface_tensors.h"
#include "runtime/weights/weights_directory.h"

namespace ptdp {

/// The weights of a directory that fit a model. Several threads may read at once.
class PretrainedWeights {
 public:
  /// Opens the files of a directory and reads its config.json. Throws Error unless config.json says
  /// the model that `model` is, and every parameter of it has a tensor of its shape. It also throws
  /// for tensors that the model has no use for. Nothing is allocated for weights.
  ///
  /// What training chooses may differ: the length of sequences, dropout, and initial values.
  PretrainedWeights(const std::filesystem::path& directory, const TransformerConfig& model);

  /// Returns the model as config.json says it, with the longest sequence that it takes.
  [[nodiscard]] const TransformerConfig& model() const { return model_; }
  [[nodiscard]] const std::filesystem::path& directory() const { return files_.path(); }
  /// Returns the directory's "model_type".
  [[nodiscard]] const std::string& type() const { return type_; }
  /// Reads `range` of a parameter's block into `values`, counted row by row; rows that pad the
  /// parameter give 0. The parameter must be of the model. Throws Error when a file cannot be read.
  void read(const Parameter& parameter, const Part& range, std::span<double> values) const;
  /// Fills the masters that the rank's optimizer owns, and rounds the weights from the masters.
  /// When states are sharded, weights that other ranks update must be gathered afterwards.
  void fill(Backend& backend, Optimizer& optimizer) const;

 private:
  void check_tensors(const TransformerConfig& model) const;

  WeightsDirectory files_;
  TransformerConfig model_;
  std::string type_;
  ParameterPlaces places_;
};

}  // namespace ptdp
