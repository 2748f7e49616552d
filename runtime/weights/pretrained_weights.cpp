#include "runtime/weights/pretrained_weights.h"

#include <algorithm>
#include <utility>

#include "cost_model/error.h"
#include "cost_model/inputs/huggingface/huggingface_config.h"
#include "cost_model/text/in_quotes.h"
#include "cost_model/text/object_reader.h"
#include "runtime/checkpoint/checkpoint_format.h"
#include "runtime/checkpoint/model_difference.h"
#include "runtime/copy_rounded.h"
#include "runtime/parameters/block_range.h"

namespace ptdp {
namespace {

/// Returns a model without what training chooses for itself.
TransformerConfig as_given(TransformerConfig model) {
  model.seq_length = 1;
  model.dropout = {};
  model.dropout_rates = kUsualDropout;
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
  for (PlacedParameter& parameter : huggingface_parameters(model, type_)) {
    std::string name = parameter.name;
    places_.emplace(std::move(name), std::move(parameter));
  }
  check_tensors(model);
}

void PretrainedWeights::check_tensors(const TransformerConfig& model) const {
  std::vector<std::string> needed;
  for (const auto& [name, parameter] : places_) {
    const ParameterPlace& place = parameter.place;
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
  const ParameterPlace& place = found->second.place;
  std::fill(values.begin(), values.end(), 0.0);
  const MatrixBlock block = without_padding(parameter.block, parameter.total_rows);
  const Part valid = intersection(range, {0, block.rows * block.columns});
  std::vector<double> turned;
  for (const FileBlock& part : file_blocks(place, block, valid)) {
    const auto count = static_cast<std::size_t>(part.values.count);
    const auto to = values.subspan(static_cast<std::size_t>(part.values.first), count);
    if (!place.is_transposed) {
      files_.read(place.tensor, part.block, host_buffer(to));
      continue;
    }
    turned.resize(count);
    files_.read(place.tensor, part.block, host_buffer(turned));
    for (std::size_t i = 0; i < count; ++i) {
      const auto rows = static_cast<std::size_t>(part.block.rows);
      const auto columns = static_cast<std::size_t>(part.block.columns);
      to[i] = turned[i % rows * columns + i / rows];
    }
  }
}

void PretrainedWeights::fill(Backend& backend, Optimizer& optimizer) const {
  std::vector<double> values;
  for (std::size_t i = 0; i < optimizer.shares().size(); ++i) {
    const ParameterStore& store = *optimizer.shares()[i].store;
    for (const OwnedSlice& slice : optimizer.owned_slices(static_cast<int>(i))) {
      const Parameter& parameter = store.parameters()[slice.parameter];
      for (std::int64_t done = 0; done < slice.master.size; done += kElementsPerPiece) {
        const std::int64_t count = std::min(kElementsPerPiece, slice.master.size - done);
        values.resize(static_cast<std::size_t>(count));
        read(parameter, {slice.range.first - parameter.first + done, count}, values);
        copy_rounded(backend, values, slice.master.slice(done, count));
      }
    }
  }
  optimizer.round_masters();
}

}  // namespace ptdp
