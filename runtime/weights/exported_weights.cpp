#include "runtime/weights/exported_weights.h"

#include <set>
#include <string>
#include <utility>

#include "runtime/host_values.h"
#include "runtime/parameters/block_range.h"

namespace ptdp {
namespace {

/// Returns the tensors of parameters, each once, in the order of the parameters.
std::vector<NewTensor> tensors_of(const std::vector<PlacedParameter>& parameters, DataType stored) {
  std::vector<NewTensor> tensors;
  std::set<std::string> names;
  for (const PlacedParameter& parameter : parameters) {
    if (names.insert(parameter.place.tensor).second) {
      tensors.push_back({parameter.place.tensor, stored, stored_shape(parameter.place)});
    }
  }
  return tensors;
}

}  // namespace

ExportedWeights::ExportedWeights(std::filesystem::path directory,
                                 const std::vector<PlacedParameter>& parameters, DataType stored)
    : places_(places_by_name(parameters)),
      files_(std::move(directory), tensors_of(parameters, stored)) {}

void ExportedWeights::write(const Parameter& parameter, const Part& range,
                            std::span<const double> values) {
  const ParameterPlace& place = places_.at(parameter.name);
  const MatrixBlock block = without_padding(parameter.block, parameter.total_rows);
  const Part valid = intersection(range, {0, block.rows * block.columns});
  for (const FileBlock& part : file_blocks(place, block, valid)) {
    const auto from = values.subspan(static_cast<std::size_t>(part.values.first),
                                     static_cast<std::size_t>(part.values.count));
    std::vector<double> stored = place.is_transposed
                                     ? transposed(from, part.block.columns, part.block.rows)
                                     : std::vector<double>(from.begin(), from.end());
    files_.write(place.tensor, part.block,
                 {.data = stored.data(), .size = std::ssize(stored), .type = DataType::kFloat64});
  }
}

void ExportedWeights::write(Backend& backend, const Optimizer& optimizer,
                            const std::function<void()>& check) {
  for (std::size_t i = 0; i < optimizer.shares().size(); ++i) {
    const ParameterStore& store = *optimizer.shares()[i].store;
    for (const OwnedSlice& slice : optimizer.saved_slices(static_cast<int>(i))) {
      const Parameter& parameter = store.parameters()[slice.parameter];
      for_each_piece(slice.master.size, [&](std::int64_t first, std::int64_t count) {
        check();
        write(parameter, {slice.range.first - parameter.first + first, count},
              copied_out(backend, slice.master.slice(first, count)));
      });
    }
  }
}

void export_weights(const WeightsExport& to, const HostSide& host, Backend& backend,
                    const Optimizer& optimizer, const std::function<void()>& check) {
  Communicator& world = host.world;
  ExportedWeights weights(to.directory, huggingface_parameters(to.model, to.type), to.stored);
  const SafetensorsWriter& files = weights.files();
  if (world.rank() == 0) {
    files.begin();
  }
  world.barrier();
  weights.write(backend, optimizer, check);
  const std::vector<std::int64_t> here = files.written();
  const Tensor counts(host.backend, DataType::kFloat64, std::ssize(here));
  // Numbers of elements are exact below 2^53.
  copy_rounded(host.backend, std::vector<double>(here.begin(), here.end()), counts);
  world.all_reduce(counts, Reduction::kSum);
  const std::vector<double> written = copied_out(host.backend, counts);
  if (world.rank() == 0) {
    for (const FileContent& file : to.others) {
      files.add(file.path.string(), file.content);
    }
    files.finish(std::vector<std::int64_t>(written.begin(), written.end()), check);
  }
}

}  // namespace ptdp
