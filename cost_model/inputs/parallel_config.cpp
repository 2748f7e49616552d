#include "cost_model/inputs/parallel_config.h"

#include <cassert>
#include <limits>

#include "cost_model/error.h"
#include "cost_model/inputs/config_fields.h"

namespace ptdp {
namespace {

/// Reads or writes a field. If it is always written, it is there whenever it applies; any other
/// field is written only with an unusual value. Reading throws Error if the field does not apply.
template <class Fields, class Value, class Pin, bool has_flag>
void describe_field(Fields& fields, const ConfigField<Value, Pin, has_flag>& field,
                    Described<Fields, ParallelConfig>& config) {
  const std::string key(field.key);
  if (field.traits.is_always_written ? !field.applies(config)
                                     : !fields.optional(key, !field.is_usual(config))) {
    return;
  }
  if constexpr (std::is_same_v<Value, std::optional<int>>) {
    int limit = (config.*field.member).value_or(config.pp);
    describe_value(fields, field.traits, key, limit);
    if constexpr (Fields::kIsReading) {
      config.*field.member = limit;
    }
  } else {
    describe_value(fields, field.traits, key, config.*field.member);
  }
  if constexpr (Fields::kIsReading) {
    if (!field.applies(config)) {
      throw Error(fields.place_of(key) + ": expected " + std::string(field.traits.applies_beside) +
                  " beside it");
    }
  }
}

}  // namespace

std::string_view name_of(Recompute recompute) {
  return name_of(recompute, NamedValues<Recompute>(kRecomputeNames));
}
std::string_view name_of(Precision precision) {
  return name_of(precision, NamedValues<Precision>(kPrecisionNames));
}
std::string_view name_of(RankOrder order) {
  return name_of(order, NamedValues<RankOrder>(kRankOrderNames));
}
std::string_view name_of(Offload offload) {
  return name_of(offload, NamedValues<Offload>(kOffloadNames));
}
std::string_view name_of(ExpertDispatch dispatch) {
  return name_of(dispatch, NamedValues<ExpertDispatch>(kExpertDispatchNames));
}
std::string_view name_of(ContextParallel kind) {
  return name_of(kind, NamedValues<ContextParallel>(kContextParallelNames));
}

std::int64_t ParallelConfig::world_size() const {
  const std::int64_t of_replica = std::int64_t{1} * tp * pp;
  const std::int64_t replicas = std::int64_t{1} * dp * cp;
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  return of_replica > most / replicas ? most : of_replica * replicas;
}

std::int64_t num_microbatches(std::int64_t global_batch_size, const ParallelConfig& config) {
  const std::int64_t per_step = std::int64_t{1} * config.dp * config.micro_batch_size;
  assert(global_batch_size % per_step == 0);
  return global_batch_size / per_step;
}

std::string to_string(const ParallelConfig& config) {
  std::string text;
  for_each_config_field([&](const auto& field) {
    const bool is_told_elsewhere = field.key == "recompute_method" || field.key == "memory_limit";
    if (is_told_elsewhere ||
        (!field.traits.is_always_printed && (field.is_usual(config) || !field.applies(config)))) {
      return;
    }
    const std::string value = spelled(config.*field.member);
    text += text.empty() ? "" : " ";
    if (field.key == "schedule") {
      text += value;
      text += config.memory_limit ? " limit=" + spelled(config.memory_limit) : "";
    } else if (field.key == "recompute_num_layers") {
      text += spelled(config.recompute_method) + '=' + value;
    } else if (field.key == "sequence_parallel") {
      text += "sequence-parallel";
    } else {
      text += std::string(field.short_key()) + '=' + value;
    }
  });
  return text;
}

template <class Fields>
void describe(Fields& fields, Described<Fields, ParallelConfig>& config) {
  for_each_config_field([&](const auto& field) { describe_field(fields, field, config); });
}
template void describe(ObjectReader&, ParallelConfig&);
template void describe(ObjectWriter&, const ParallelConfig&);

}  // namespace ptdp
