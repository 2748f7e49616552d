#include "runtime/weights/pretrained_weights.h"

#include <algorithm>

#include "cost_model/error.h"
#include "cost_model/inputs/huggingface/huggingface_config.h"
#include "cost_model/text/in_quotes.h"
#include "cost_model/text/object_reader.h"
#include "runtime/checkpoint/model_difference.h"
#include "runtime/host_values.h"
#include "runtime/parameters/block_range.h"

namespace ptdp {
namespace {

/// Returns a model without what training chooses for itself.
TransformerConfig as_given(TransformerConfig model) {
  model.seq_length = 1;
  model.dropout = {};
  model.dropout_rates = kUsualDropoutRates;
  model.init_method_std = 0.02;
  model.activation_func = activation_of(model);
  return model;
}

/// Throws Error, naming the field, unless the directory's model is the plan's.
void require_same(const TransformerConfig& found, const TransformerConfig& expected,
                  const std::string& place) {
  if (const auto difference = model_difference(as_given(found), as_given(expected))) {
    throw Error(place + ": a model other than the plan's: " + difference->key + ": found " +
                difference->found + ", expected " + difference->expected);
  }
}

Buffer host_buffer(std::span<double> values) {
  return {.data = values.data(), .size = std::ssize(values), .type = DataType::kFloat64};
}

}  // namespace

PretrainedWeights::PretrainedWeights(const std::filesystem::path& directory,
                                     const TransformerConfig& model)
    : files_(directory) {
  const std::filesystem::path config = directory / "config.json";
  ObjectReader reader = ObjectReader::from_file(config);
  if (!is_huggingface_config(reader)) {
    throw Error(config.string() + ": expected a config.json of Hugging Face, with a model_type");
  }
  reader.text("model_type", type_);
  model_ = read_huggingface_config(reader);
  require_same(model_, model, config.string());
  places_ = places_by_name(huggingface_parameters(model, type_));
  check_tensors(model);
}

void PretrainedWeights::check_tensors(const TransformerConfig& model) const {
  std::vector<std::string> needed;
  for (const auto& [name, place] : places_) {
    std::vector<std::int64_t> shape = stored_shape(place);
    if (place.may_be_longer && files_.has(place.tensor)) {
      const StoredTensor& found = files_.tensor(place.tensor);
      if (!found.shape.empty()) {
        shape.front() = std::max(shape.front(), found.shape.front());
      }
    }
    files_.require_shape(place.tensor, shape);
    needed.push_back(place.tensor);
  }
  std::sort(needed.begin(), needed.end());
  for (const std::string& tensor : files_.names()) {
    if (!std::binary_search(needed.begin(), needed.end(), tensor) &&
        !is_passed_over(model, tensor)) {
      throw Error(files_.path().string() + ": tensor " + in_quotes(tensor) + ": found, but a " +
                  type_ + " of this config.json has none of this name");
    }
  }
}

void PretrainedWeights::read(const Parameter& parameter, const Part& range,
                             std::span<double> values) const {
  const auto found = places_.find(parameter.name);
  if (found == places_.end()) {
    throw Error(files_.path().string() + ": no tensor has the parameter " + parameter.name);
  }
  const ParameterPlace& place = found->second;
  std::fill(values.begin(), values.end(), 0.0);
  const MatrixBlock block = without_padding(parameter.block, parameter.total_rows);
  const Part valid = intersection(range, {0, block.rows * block.columns});
  for (const FileBlock& part : file_blocks(place, block, valid)) {
    const auto to = values.subspan(static_cast<std::size_t>(part.values.first),
                                   static_cast<std::size_t>(part.values.count));
    files_.read(place.tensor, part.block, host_buffer(to));
    if (place.is_transposed) {
      const std::vector<double> turned = transposed(to, part.block.rows, part.block.columns);
      std::copy(turned.begin(), turned.end(), to.begin());
    }
  }
}

void PretrainedWeights::fill(Backend& backend, Optimizer& optimizer) const {
  for (std::size_t i = 0; i < optimizer.shares().size(); ++i) {
    const ParameterStore& store = *optimizer.shares()[i].store;
    for (const OwnedSlice& slice : optimizer.owned_slices(static_cast<int>(i))) {
      const Parameter& parameter = store.parameters()[slice.parameter];
      fill_in_pieces(backend, slice.master, [&](std::int64_t first, std::span<double> values) {
        read(parameter, {slice.range.first - parameter.first + first, std::ssize(values)}, values);
      });
    }
  }
  optimizer.round_masters();
}

}  // namespace ptdp
