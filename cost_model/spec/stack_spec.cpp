#include "cost_model/spec/stack_spec.h"

#include <algorithm>

#include "cost_model/error.h"

namespace ptdp {
namespace {

constexpr Range kBytesPerParameter = {0.0, 1e4, "bytes per parameter"};
constexpr Range kStoredBytes = {0.25, 1e4, "bytes per parameter"};
constexpr int kHighestZeroStage = 3;
constexpr Range kMegabytes = {0.001, 1e6, "megabytes"};
constexpr Range kBytesPerLogit = {0.0, 1e4, "bytes per logit"};
const Bytes kUsualBucket = StackSpec{}.gradient_bucket_size;
const double kUsualLossTraffic = StackSpec{}.loss_traffic;
constexpr Range kMicroseconds = {0.0, 1e6, "microseconds"};

/// A list of choices that names one twice is a slip; so is an empty one, unless that says
/// something.
template <class Value>
void check_choices(std::vector<Value> values, const std::string& place, bool may_be_empty = false) {
  std::sort(values.begin(), values.end());
  if ((values.empty() && !may_be_empty) ||
      std::adjacent_find(values.begin(), values.end()) != values.end()) {
    throw Error(place + ": expected at least one choice and none twice");
  }
}

}  // namespace

StackSpec at_precision(StackSpec stack, Precision precision) {
  if (precision == Precision::kBf16 && stack.precision == Precision::kFp16) {
    if (stack.bf16_gradient_bytes > 0.0) {
      stack.gradient_bytes = stack.bf16_gradient_bytes;
    }
    if (stack.bf16_optimizer_bytes > 0.0) {
      stack.optimizer_bytes = stack.bf16_optimizer_bytes;
    }
  }
  stack.precision = precision;
  return stack;
}

template <class Fields>
void describe(Fields& fields, StackCapabilities& can_run) {
  fields.choices("schedules", can_run.schedules, NamedValues<ScheduleKind>(kScheduleNames));
  fields.choices("recompute", can_run.recompute, NamedValues<Recompute>(kRecomputeNames));
  fields.counts("zero_stages", can_run.zero_stages, 0, kHighestZeroStage);
  fields.flag("sequence_parallel", can_run.sequence_parallel);
  fields.flag("context_parallel", can_run.context_parallel);
  fields.flag("expert_parallel", can_run.expert_parallel);
  fields.count("interleaved_min_stages", can_run.interleaved_min_stages, 2, 1000);
  if (fields.optional("uneven_layers", can_run.uneven_layers)) {
    fields.flag("uneven_layers", can_run.uneven_layers);
  }
  if constexpr (Fields::kIsReading) {
    check_choices(can_run.schedules, fields.place_of("schedules"), true);
    check_choices(can_run.recompute, fields.place_of("recompute"));
    check_choices(can_run.zero_stages, fields.place_of("zero_stages"));
  }
}

template <class Fields>
void describe(Fields& fields, StackSpec& stack) {
  fields.name("name", stack.name);
  fields.text("source", stack.source);
  fields.choice("precision", stack.precision, NamedValues<Precision>(kPrecisionNames));
  fields.name("attention", stack.attention);
  if (fields.optional("fused_element_wise", !stack.fused_element_wise)) {
    fields.flag("fused_element_wise", stack.fused_element_wise);
  }
  fields.flag("tensor_parallel_overlap", stack.tensor_parallel_overlap);
  fields.flag("fused_gradient_accumulation", stack.fused_gradient_accumulation);
  fields.number("weight_bytes", stack.weight_bytes, kStoredBytes);
  fields.number("gradient_bytes", stack.gradient_bytes, kStoredBytes);
  fields.number("optimizer_bytes", stack.optimizer_bytes, kBytesPerParameter);
  if (fields.optional("bf16_gradient_bytes", stack.bf16_gradient_bytes != 0.0)) {
    fields.number("bf16_gradient_bytes", stack.bf16_gradient_bytes, kStoredBytes);
  }
  if (fields.optional("bf16_optimizer_bytes", stack.bf16_optimizer_bytes != 0.0)) {
    fields.number("bf16_optimizer_bytes", stack.bf16_optimizer_bytes, kStoredBytes);
  }
  fields.number("reduced_gradient_bytes", stack.reduced_gradient_bytes, kStoredBytes);
  fields.number("gradient_bucket_bytes", stack.gradient_bucket_bytes, kBytesPerParameter);
  if (fields.optional("gradient_bucket_MB", stack.gradient_bucket_size != kUsualBucket)) {
    fields.quantity("gradient_bucket_MB", stack.gradient_bucket_size, kMega, kMegabytes);
  }
  fields.number("gradient_staging_traffic", stack.gradient_staging_traffic, kBytesPerParameter);
  fields.number("optimizer_traffic", stack.optimizer_traffic, kBytesPerParameter);
  if (fields.optional("loss_scaling_traffic", stack.loss_scaling_traffic != 0.0)) {
    fields.number("loss_scaling_traffic", stack.loss_scaling_traffic, kBytesPerParameter);
  }
  if (fields.optional("loss_traffic", stack.loss_traffic != kUsualLossTraffic)) {
    fields.number("loss_traffic", stack.loss_traffic, kBytesPerLogit);
  }
  if (fields.optional("optimizer_post_validation", stack.optimizer_post_validation)) {
    fields.flag("optimizer_post_validation", stack.optimizer_post_validation);
  }
  fields.choice("data_parallel_overlap", stack.data_parallel_overlap,
                NamedValues<DataParallelOverlap>(kDataParallelOverlapNames));
  fields.flag("scatter_gather", stack.scatter_gather);
  fields.flag("pipeline_overlap", stack.pipeline_overlap);
  fields.quantity("pipeline_latency_us", stack.pipeline_latency, kMicro, kMicroseconds);
  fields.quantity("microbatch_overhead_us", stack.microbatch_overhead, kMicro, kMicroseconds);
  fields.quantity("host_time_per_kernel_us", stack.host_time_per_kernel, kMicro, kMicroseconds);
  fields.number("overlap_slowdown", stack.overlap_slowdown, {0.0, 1.0, "a fraction"});
  fields.number("reserve_fraction", stack.reserve_fraction, {0.0, 0.9, "of device memory"});
  fields.object("can_run", stack.can_run);
}

template void describe(ObjectReader&, StackSpec&);
template void describe(ObjectWriter&, StackSpec&);

}  // namespace ptdp
