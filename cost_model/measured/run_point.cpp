#include "cost_model/measured/run_point.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "cost_model/error.h"
#include "cost_model/inputs/parameter_counts.h"
#include "cost_model/inputs/stack_precision.h"
#include "cost_model/text/object_reader.h"
#include "cost_model/text/object_writer.h"

namespace ptdp {
namespace {

constexpr std::int64_t kLargest = 1'000'000'000'000'000'000;

struct Field {
  const char* name;
  std::int64_t CalibrationPoint::*value;
};
constexpr std::array kSizes = {
    Field{"parameters", &CalibrationPoint::parameters},
    Field{"seq_length", &CalibrationPoint::seq_length}, Field{"gpus", &CalibrationPoint::gpus},
    Field{"tp", &CalibrationPoint::tp}, Field{"pp", &CalibrationPoint::pp}};

/// Returns what the configuration switches on, in the order of declaration.
std::vector<RunFeature> features_of(const ParallelConfig& config) {
  std::vector<RunFeature> features;
  const auto add_if = [&](bool has, RunFeature feature) {
    if (has) {
      features.push_back(feature);
    }
  };
  add_if(config.cp > 1, RunFeature::kContextParallel);
  add_if(config.ep > 1, RunFeature::kExpertParallel);
  add_if(config.vpp > 1, RunFeature::kInterleaved);
  add_if(traits_of(config.schedule).splits_backward, RunFeature::kSplitBackward);
  add_if(config.zero_stage == 3, RunFeature::kZero3);
  add_if(config.offload != Offload::kNone, RunFeature::kOffload);
  return features;
}

/// Returns whether a run has the feature, or may have it: files of earlier versions say neither
/// precision nor features.
bool may_have(const CalibrationPoint& point, RunFeature feature) {
  return point.precision.empty() ||
         std::find(point.features.begin(), point.features.end(), feature) != point.features.end();
}

/// Throws Error at `place` for a precision that is none of precision_names().
void check_precision(const std::string& precision, const std::string& place) {
  const std::vector<std::string> names = precision_names();
  if (std::find(names.begin(), names.end(), precision) == names.end()) {
    throw Error(place + ": expected a precision, such as bf16 or fp8-block, got " + precision);
  }
}

}  // namespace

CalibrationPoint run_point(const Scenario& scenario, const ParallelConfig& config) {
  return run_point(scenario.job.model, precision_name(scenario.stack), config);
}

CalibrationPoint run_point(const TransformerConfig& model, std::string precision,
                           const ParallelConfig& config) {
  return {.parameters = parameter_count(model),
          .seq_length = model.seq_length,
          .gpus = config.world_size(),
          .tp = config.tp,
          .pp = config.pp,
          .recompute = config.recompute,
          .precision = std::move(precision),
          .features = features_of(config)};
}

std::string job_name(const TransformerConfig& model, std::int64_t global_batch_size,
                     std::int64_t gpus) {
  std::string name = std::to_string(parameter_count(model));
  name += " parameters, sequences of ";
  name += std::to_string(model.seq_length);
  name += ", batch ";
  name += std::to_string(global_batch_size);
  name += ", ";
  name += std::to_string(gpus);
  return name += " GPUs";
}

double distance(const CalibrationPoint& a, const CalibrationPoint& b) {
  double sum = a.recompute == b.recompute ? 0.0 : 1.0;
  for (const Field& size : kSizes) {
    if (a.*size.value != b.*size.value) {  // most runs of a scope share most sizes
      sum += std::abs(
          std::log2(static_cast<double>(a.*size.value) / static_cast<double>(b.*size.value)));
    }
  }
  return sum;
}

std::vector<std::string> never_measured(const CalibrationPoint& point,
                                        const std::vector<CalibrationPoint>& others,
                                        std::size_t left_out) {
  std::vector<std::string> lines;
  const auto note_unless_measured = [&](const std::string& what, const auto& has_it) {
    for (std::size_t i = 0; i < others.size(); ++i) {
      if (i != left_out && has_it(others[i])) {
        return true;
      }
    }
    lines.push_back(what + ", which no run of this cluster and stack has");
    return false;
  };
  if (others.size() == (left_out < others.size() ? 1 : 0)) {
    return lines;
  }
  note_unless_measured("precision " + point.precision, [&](const CalibrationPoint& other) {
    return other.precision == point.precision || other.precision.empty() || point.precision.empty();
  });
  std::vector<RunFeature> measured;
  for (const RunFeature feature : point.features) {
    const std::string name(name_of(feature, NamedValues<RunFeature>(kRunFeatureNames)));
    if (!note_unless_measured(
            name, [&](const CalibrationPoint& other) { return may_have(other, feature); })) {
      continue;
    }
    for (const RunFeature earlier : measured) {
      note_unless_measured(
          std::string(name_of(earlier, NamedValues<RunFeature>(kRunFeatureNames))) + " with " +
              name,
          [&](const CalibrationPoint& other) {
            return may_have(other, feature) && may_have(other, earlier);
          });
    }
    measured.push_back(feature);
  }
  return lines;
}

template <class Fields>
void describe(Fields& fields, Described<Fields, CalibrationPoint>& point) {
  for (const Field& size : kSizes) {
    fields.count(size.name, point.*size.value, 1, kLargest);
  }
  fields.choice("recompute", point.recompute, NamedValues<Recompute>(kRecomputeNames));
  if (fields.optional("precision", !point.precision.empty())) {
    fields.text("precision", point.precision);
    if constexpr (Fields::kIsReading) {
      check_precision(point.precision, fields.place_of("precision"));
    }
  }
  if (fields.optional("features", !point.features.empty())) {
    fields.choices("features", point.features, NamedValues<RunFeature>(kRunFeatureNames));
  }
}

template void describe(ObjectReader&, CalibrationPoint&);
template void describe(ObjectWriter&, const CalibrationPoint&);

}  // namespace ptdp
