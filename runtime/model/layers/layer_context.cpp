#include "runtime/model/layers/layer_context.h"

#include <cassert>
#include <utility>

#include "kernels/counter_random.h"

namespace ptdp {
namespace {

/// Number by which dropout's key is derived from the seed. Keys of parameters are hashes of names.
constexpr std::uint64_t kDropoutStream = 1;

/// Returns the dropout rate of a site.
double rate_of(DropoutSite site, const DropoutRates& rates) {
  switch (site) {
    case DropoutSite::kEmbedding:
      return rates.embedding;
    case DropoutSite::kAttention:
      return rates.attention;
    case DropoutSite::kProjection:
    case DropoutSite::kMlp:
      return rates.hidden;
  }
  return 0.0;
}

}  // namespace

void StoredParameter::append(const StoredParameter& next) {
  if (!exists()) {
    *this = next;
    return;
  }
  assert(next.store == store && next.id == id + count);
  ++count;
}

LayerContext::LayerContext(Backend& backend, Communicator& tensor_group, ParameterStore& parameters,
                           const StageSettings& settings)
    : backend_(backend), tensor_group_(tensor_group), parameters_(parameters), settings_(settings) {
  assert(!scatters_sequence() || model().seq_length % tp() == 0);
}

std::int64_t LayerContext::rows() const {
  return std::int64_t{1} * settings_.model.seq_length * settings_.micro_batch_size;
}

std::int64_t LayerContext::own_rows() const {
  return scatters_sequence() ? rows() / tp() : rows();
}

Tensor LayerContext::tensor(std::int64_t size) const {
  return {backend_, settings_.type, size};
}

Tensor LayerContext::accumulator(std::int64_t size) const {
  return {backend_, accumulator_of(settings_.type), size};
}

TokenRange LayerContext::range(const Microbatch& microbatch) const {
  TokenRange range = range_of_all(microbatch);
  const std::int64_t positions = own_rows() / range.batch;
  range.runs = {PositionRun{scatters_sequence() ? tensor_rank() * positions : 0, positions}};
  return range;
}

TokenRange LayerContext::range_of_all(const Microbatch& microbatch) const {
  const std::int64_t s = settings_.model.seq_length;
  return {.first_sample = microbatch.first_sample,
          .batch = settings_.micro_batch_size,
          .seq_length = s,
          .runs = {PositionRun{0, s}}};
}

Dropout LayerContext::dropout(const Microbatch& microbatch, int layer, DropoutSite site) const {
  std::uint64_t key = derived_key(settings_.seed, kDropoutStream);
  for (const std::uint64_t number :
       {static_cast<std::uint64_t>(microbatch.step), static_cast<std::uint64_t>(layer),
        static_cast<std::uint64_t>(site)}) {
    key = derived_key(key, number);
  }
  return {.probability = rate_of(site, settings_.dropout), .key = key};
}

StoredParameter LayerContext::declare(Parameter parameter) const {
  return {.store = &parameters_, .id = parameters_.declare(std::move(parameter))};
}

StoredParameter LayerContext::declare_replicated(const std::string& name, std::int64_t size,
                                                 double value, GradientGroup group) const {
  return declare({.name = name,
                  .block = {.rows = 1, .columns = size, .total_columns = size},
                  .total_rows = 1,
                  .group = group,
                  .is_replicated = true,
                  .constant = value});
}

}  // namespace ptdp
