#include "cost_model/inputs/parallel_config.h"

#include <cassert>
#include <limits>
#include <utility>

#include "cost_model/error.h"

namespace ptdp {
namespace {

constexpr int kLargestDegree = 100'000'000;

/// "13,5x14,12": neighbours that are equal together.
std::string counted(const std::vector<int>& numbers) {
  std::string text;
  for (std::size_t begin = 0; begin < numbers.size();) {
    std::size_t end = begin + 1;
    while (end < numbers.size() && numbers[end] == numbers[begin]) {
      ++end;
    }
    text += text.empty() ? "" : ",";
    text += end - begin > 1 ? std::to_string(end - begin) + 'x' : "";
    text += std::to_string(numbers[begin]);
    begin = end;
  }
  return text;
}

/// Which modules selective recomputation is of, or which layers full recomputation: where it is
/// neither of the attention core nor of all.
template <class Fields>
void describe_recomputation(Fields& fields, ParallelConfig& config) {
  if (fields.optional("recompute_modules", config.recompute_modules != kCoreAttentionAlone)) {
    std::string text = to_string(config.recompute_modules);
    fields.text("recompute_modules", text);
    if constexpr (Fields::kIsReading) {
      const std::string place = fields.place_of("recompute_modules");
      config.recompute_modules = parse_recompute_modules(text, place);
      if (config.recompute != Recompute::kSelective) {
        throw Error(place + ": expected recompute \"selective\" beside it");
      }
    }
  }
  if (fields.optional("recompute_num_layers", config.recomputes_by_layers())) {
    fields.count("recompute_num_layers", config.recompute_num_layers, 1, kLargestDegree);
    fields.choice("recompute_method", config.recompute_method,
                  NamedValues<RecomputeMethod>(kRecomputeMethodNames));
    if constexpr (Fields::kIsReading) {
      if (config.recompute != Recompute::kFull) {
        throw Error(fields.place_of("recompute_num_layers") +
                    ": expected recompute \"full\" beside it");
      }
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
  const auto key = [](const char* name, int value) {
    return name + std::string("=") + std::to_string(value);
  };
  std::string text = key("tp", config.tp) + ' ' + key("pp", config.pp) + ' ' + key("dp", config.dp);
  for (const auto& [name, degree] : {std::pair{"cp", config.cp}, std::pair{"ep", config.ep},
                                     std::pair{"etp", config.etp}, std::pair{"vpp", config.vpp}}) {
    if (degree > 1) {
      text += ' ' + key(name, degree);
    }
  }
  text += ' ' + key("b", config.micro_batch_size) + ' ';
  text += name_of(config.schedule);
  if (config.memory_limit) {
    text += ' ' + key("limit", *config.memory_limit);
  }
  text += " recompute=";
  text += name_of(config.recompute);
  if (config.recompute == Recompute::kSelective &&
      config.recompute_modules != kCoreAttentionAlone) {
    text += " modules=" + to_string(config.recompute_modules);
  }
  if (config.recomputes_by_layers()) {
    const std::string method(name_of(config.recompute_method));
    text += ' ' + key(method.c_str(), config.recompute_num_layers);
  }
  if (config.sequence_parallel) {
    text += " sequence-parallel";
  }
  if (config.zero_stage > 0) {
    text += ' ' + key("zero", config.zero_stage);
  }
  if (config.dp_replicate > 1) {
    text += ' ' + key("dp_replicate", config.dp_replicate);
  }
  if (!config.reshard_after_forward) {
    text += " reshard_after_forward=off";
  }
  if (config.rank_order != RankOrder{}) {
    text += " order=";
    text += name_of(config.rank_order);
  }
  if (config.offload != Offload::kNone) {
    text += " offload=";
    text += name_of(config.offload);
  }
  if (config.offload_num_layers > 0) {
    text += ' ' + key("offload_num_layers", config.offload_num_layers);
  }
  if (!config.layers_per_stage.empty()) {
    text += " layers=" + counted(config.layers_per_stage);
  }
  return text;
}

template <class Fields>
void describe(Fields& fields, ParallelConfig& config) {
  fields.count("tp", config.tp, 1, kLargestDegree);
  fields.count("pp", config.pp, 1, kLargestDegree);
  fields.count("dp", config.dp, 1, kLargestDegree);
  fields.count("cp", config.cp, 1, kLargestDegree);
  fields.count("ep", config.ep, 1, kLargestDegree);
  if (fields.optional("etp", config.etp != 1)) {
    fields.count("etp", config.etp, 1, kLargestDegree);
  }
  fields.count("vpp", config.vpp, 1, kLargestDegree);
  fields.count("micro_batch_size", config.micro_batch_size, 1, kLargestDegree);
  fields.choice("schedule", config.schedule, NamedValues<ScheduleKind>(kScheduleNames));
  fields.choice("recompute", config.recompute, NamedValues<Recompute>(kRecomputeNames));
  describe_recomputation(fields, config);
  fields.flag("sequence_parallel", config.sequence_parallel);
  fields.count("zero_stage", config.zero_stage, 0, 3);
  if (fields.optional("dp_replicate", config.dp_replicate != 1)) {
    fields.count("dp_replicate", config.dp_replicate, 1, kLargestDegree);
  }
  if (fields.optional("reshard_after_forward", !config.reshard_after_forward)) {
    fields.flag("reshard_after_forward", config.reshard_after_forward);
  }
  fields.choice("rank_order", config.rank_order, NamedValues<RankOrder>(kRankOrderNames));
  if (fields.optional("offload", config.offload != Offload::kNone)) {
    fields.choice("offload", config.offload, NamedValues<Offload>(kOffloadNames));
  }
  if (fields.optional("offload_num_layers", config.offload_num_layers > 0)) {
    fields.count("offload_num_layers", config.offload_num_layers, 1, kLargestDegree);
    if constexpr (Fields::kIsReading) {
      if (!offloads_activations(config.offload)) {
        throw Error(fields.place_of("offload_num_layers") +
                    R"(: expected offload "activations" or "optimizer+activations" beside it)");
      }
    }
  }
  fields.counts("layers_per_stage", config.layers_per_stage, 0, kLargestDegree);
  if (traits_of(config.schedule).is_searched) {
    int limit = config.memory_limit.value_or(config.pp);
    fields.count("memory_limit", limit, 1, 2 * kLargestDegree);
    config.memory_limit = limit;
  }
}
template void describe(ObjectReader&, ParallelConfig&);
template void describe(ObjectWriter&, ParallelConfig&);

}  // namespace ptdp
