#include "cost_model/measured/run_point.h"

#include <array>
#include <cmath>

#include "cost_model/inputs/parameter_counts.h"
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

}  // namespace

CalibrationPoint run_point(const TransformerConfig& model, const ParallelConfig& config) {
  return {.parameters = parameter_count(model),
          .seq_length = model.seq_length,
          .gpus = config.world_size(),
          .tp = config.tp,
          .pp = config.pp,
          .recompute = config.recompute};
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

template <class Fields>
void describe(Fields& fields, Described<Fields, CalibrationPoint>& point) {
  for (const Field& size : kSizes) {
    fields.count(size.name, point.*size.value, 1, kLargest);
  }
  fields.choice("recompute", point.recompute, NamedValues<Recompute>(kRecomputeNames));
}

template void describe(ObjectReader&, CalibrationPoint&);
template void describe(ObjectWriter&, const CalibrationPoint&);

}  // namespace ptdp
