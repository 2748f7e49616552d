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
    Field{"parameters", &CalibrationPoint::parameters}, Field{"gpus", &CalibrationPoint::gpus},
    Field{"tp", &CalibrationPoint::tp}, Field{"pp", &CalibrationPoint::pp}};

}  // namespace

CalibrationPoint run_point(const TransformerConfig& model, const ParallelConfig& config) {
  return {.parameters = parameter_count(model),
          .gpus = config.world_size(),
          .tp = config.tp,
          .pp = config.pp,
          .recompute = config.recompute};
}

double distance(const CalibrationPoint& a, const CalibrationPoint& b) {
  double sum = a.recompute == b.recompute ? 0.0 : 1.0;
  for (const Field& size : kSizes) {
    sum += std::abs(
        std::log2(static_cast<double>(a.*size.value) / static_cast<double>(b.*size.value)));
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
