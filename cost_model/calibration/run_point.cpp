#include "cost_model/calibration/run_point.h"

#include <array>
#include <cmath>

#include "cost_model/spec/object_reader.h"
#include "cost_model/spec/object_writer.h"

namespace ptdp {
namespace {

struct Field {
  const char* name;
  double RunPoint::*value;
};
constexpr std::array kSizes = {Field{"parameters", &RunPoint::parameters},
                               Field{"gpus", &RunPoint::gpus}, Field{"tp", &RunPoint::tp},
                               Field{"pp", &RunPoint::pp}};

}  // namespace

RunPoint run_point(const TransformerConfig& model, const ParallelConfig& config) {
  return {.parameters = static_cast<double>(parameter_count(model)),
          .gpus = static_cast<double>(config.world_size()),
          .tp = static_cast<double>(config.tp),
          .pp = static_cast<double>(config.pp),
          .recompute = config.recompute};
}

double distance(const RunPoint& a, const RunPoint& b) {
  double sum = a.recompute == b.recompute ? 0.0 : 1.0;
  for (const Field& size : kSizes) {
    sum += std::abs(std::log2(a.*size.value / b.*size.value));
  }
  return sum;
}

template <class Fields>
void describe(Fields& fields, RunPoint& point) {
  for (const Field& size : kSizes) {
    fields.number(size.name, point.*size.value, {1.0, 1e18});
  }
  fields.choice("recompute", point.recompute, NamedValues<Recompute>(kRecomputeNames));
}

template void describe(ObjectReader&, RunPoint&);
template void describe(ObjectWriter&, RunPoint&);

}  // namespace ptdp
