#include "runtime/weights/exported_weights.h"

#include <algorithm>
#include <utility>

#include "runtime/checkpoint/checkpoint_format.h"
#include "runtime/parameters/block_range.h"

namespace ptdp {
namespace {

std::map<std::string, PlacedParameter, std::less<>> places_of(const TransformerConfig& model,
                                                              std::string_view type) {
  std::map<std::string, PlacedParameter, std::less<>> places;
  for (PlacedParameter& parameter : huggingface_parameters(model, type)) {
    std::string name = parameter.name;
    places.emplace(std::move(name), std::move(parameter));
  }
  return places;
}

/// Returns the tensors of a model, each once, in the order of its parameters.
std::vector<NewTensor> tensors_of(const TransformerConfig& model, std::string_view type,
                                  DataType stored) {
  std::vector<NewTensor> tensors;
  for (const PlacedParameter& parameter : huggingface_parameters(model, type)) {
    const std::string& name = parameter.place.tensor;
    if (std::none_of(tensors.begin(), tensors.end(),
                     [&](const NewTensor& tensor) { return tensor.name == name; })) {
      tensors.push_back({name, stored, stored_shape(parameter.place)});
    }
  }
  return tensors;
}

/// Returns numbers of an accumulator type on the host.
std::vector<double> values_on_host(Backend& backend, const Buffer& from) {
  std::vector<double> values(static_cast<std::size_t>(from.size));
  if (from.type == DataType::kFloat64) {
    backend.copy_out(from, values.data());
    return values;
  }
  std::vector<float> narrow(values.size());
  backend.copy_out(from, narrow.data());
  std::copy(narrow.begin(), narrow.end(), values.begin());
  return values;
}

}  // namespace

ExportedWeights::ExportedWeights(std::filesystem::path directory, const TransformerConfig& model,
                                 std::string_view type, DataType stored)
    : places_(places_of(model, type)),
      files_(std::move(directory), tensors_of(model, type, stored)) {}

void ExportedWeights::write(const Parameter& parameter, const Part& range,
                            std::span<const double> values) {
  const ParameterPlace& place = places_.at(parameter.name).place;
  const MatrixBlock block = without_padding(parameter.block, parameter.total_rows);
  const Part valid = intersection(range, {0, block.rows * block.columns});
  std::vector<double> part_values;
  for (const FileBlock& part : file_blocks(place, block, valid)) {
    const auto from = values.subspan(static_cast<std::size_t>(part.values.first),
                                     static_cast<std::size_t>(part.values.count));
    part_values.assign(from.begin(), from.end());
    if (place.is_transposed) {
      const auto rows = static_cast<std::size_t>(part.block.rows);
      const auto columns = static_cast<std::size_t>(part.block.columns);
      for (std::size_t i = 0; i < from.size(); ++i) {
        part_values[i % rows * columns + i / rows] = from[i];
      }
    }
    files_.write(
        place.tensor, part.block,
        {.data = part_values.data(), .size = std::ssize(part_values), .type = DataType::kFloat64});
  }
}

void ExportedWeights::write(Backend& backend, const Optimizer& optimizer) {
  for (std::size_t i = 0; i < optimizer.shares().size(); ++i) {
    const ParameterStore& store = *optimizer.shares()[i].store;
    for (const OwnedSlice& slice : optimizer.saved_slices(static_cast<int>(i))) {
      const Parameter& parameter = store.parameters()[slice.parameter];
      for (std::int64_t done = 0; done < slice.master.size; done += kElementsPerPiece) {
        const std::int64_t count = std::min(kElementsPerPiece, slice.master.size - done);
        write(parameter, {slice.range.first - parameter.first + done, count},
              values_on_host(backend, slice.master.slice(done, count)));
      }
    }
  }
}

}  // namespace ptdp
