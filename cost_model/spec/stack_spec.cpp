#include "cost_model/spec/stack_spec.h"

#include <algorithm>
#include <utility>

#include "cost_model/error.h"

namespace ptdp {
namespace {

constexpr Range kBytesPerParameter = {0.0, 1e4, "bytes per parameter"};
constexpr Range kStoredBytes = {0.25, 1e4, "bytes per parameter"};
constexpr Range kMegabytes = {0.001, 1e6, "megabytes"};
constexpr Range kMebibytes = {0.001, 1e6, "MiB"};
constexpr Range kLogitRange = {0.0, 1e4, "bytes per logit"};
const Bytes kUsualBucket = StackSpec{}.gradient_bucket_size;
const double kUsualLossTraffic = StackSpec{}.loss_traffic;
constexpr Range kMicroseconds = {0.0, 1e6, "microseconds"};

/// The fields that a stack has in each precision: applies `visit` to both of every pair.
template <class Visit>
void visit_together(StackSpec& stack, PrecisionBytes& bytes, const Visit& visit) {
  visit(stack.precision, bytes.precision);
  visit(stack.weight_bytes, bytes.weight_bytes);
  visit(stack.gradient_bytes, bytes.gradient_bytes);
  visit(stack.optimizer_bytes, bytes.optimizer_bytes);
  visit(stack.reduced_gradient_bytes, bytes.reduced_gradient_bytes);
  visit(stack.optimizer_traffic, bytes.optimizer_traffic);
  visit(stack.loss_traffic, bytes.loss_traffic);
}

void sort_by_precision(std::vector<PrecisionBytes>& precisions) {
  std::sort(
      precisions.begin(), precisions.end(),
      [](const PrecisionBytes& a, const PrecisionBytes& b) { return a.precision < b.precision; });
}

/// Each precision once, and not that of the stack itself.
void check_precisions(const StackSpec& stack, const std::string& place) {
  std::vector<Precision> precisions = {stack.precision};
  for (const PrecisionBytes& bytes : stack.other_precisions) {
    precisions.push_back(bytes.precision);
  }
  std::sort(precisions.begin(), precisions.end());
  const auto repeated = std::adjacent_find(precisions.begin(), precisions.end());
  if (repeated != precisions.end()) {
    throw Error(place + ": " + std::string(name_of(*repeated)) +
                " is there twice, or in precision");
  }
}

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

StackSpec with_overlap(StackSpec stack, const Overlap& overlap) {
  stack.pipeline_overlap = overlap.messages ? PipelineOverlap::kAlways : PipelineOverlap::kNever;
  stack.data_parallel_overlap =
      overlap.reductions ? DataParallelOverlap::kAlways : DataParallelOverlap::kNever;
  stack.parameter_gather_overlap = overlap.gathers;
  stack.tensor_parallel_overlap =
      overlap.tensor && (!overlap.as_possible || can_overlap_tensor(stack));
  return stack;
}

StackSpec at_precision(StackSpec stack, Precision precision) {
  const auto other =
      std::find_if(stack.other_precisions.begin(), stack.other_precisions.end(),
                   [&](const PrecisionBytes& bytes) { return bytes.precision == precision; });
  if (other != stack.other_precisions.end()) {
    visit_together(stack, *other, [](auto& a, auto& b) { std::swap(a, b); });
    sort_by_precision(stack.other_precisions);
    return stack;
  }
  if (element_bytes(precision) != element_bytes(stack.precision)) {
    throw Error("stack " + stack.name + " says what it keeps in " +
                std::string(name_of(stack.precision)) + ", not in " +
                std::string(name_of(precision)) + ": other_precisions lacks it");
  }
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
void describe(Fields& fields, PrecisionBytes& bytes) {
  fields.choice("precision", bytes.precision, NamedValues<Precision>(kPrecisionNames));
  fields.number("weight_bytes", bytes.weight_bytes, kStoredBytes);
  fields.number("gradient_bytes", bytes.gradient_bytes, kStoredBytes);
  fields.number("optimizer_bytes", bytes.optimizer_bytes, kBytesPerParameter);
  fields.number("reduced_gradient_bytes", bytes.reduced_gradient_bytes, kStoredBytes);
  fields.number("optimizer_traffic", bytes.optimizer_traffic, kBytesPerParameter);
  fields.number("loss_traffic", bytes.loss_traffic, kLogitRange);
}

template <class Fields>
void describe(Fields& fields, StackSpec& stack) {
  fields.name("name", stack.name);
  fields.text("source", stack.source);
  fields.choice("precision", stack.precision, NamedValues<Precision>(kPrecisionNames));
  fields.name("attention", stack.attention);
  if (fields.optional("memory_model", stack.memory_model != MemoryModel::kMegatron)) {
    fields.choice("memory_model", stack.memory_model, NamedValues<MemoryModel>(kMemoryModelNames));
  }
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
  if (fields.optional("other_precisions", !stack.other_precisions.empty())) {
    fields.objects("other_precisions", stack.other_precisions);
    if constexpr (Fields::kIsReading) {
      check_precisions(stack, fields.place_of("other_precisions"));
      sort_by_precision(stack.other_precisions);
    }
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
    fields.number("loss_traffic", stack.loss_traffic, kLogitRange);
  }
  if (fields.optional("optimizer_post_validation", stack.optimizer_post_validation)) {
    fields.flag("optimizer_post_validation", stack.optimizer_post_validation);
  }
  fields.choice("data_parallel_overlap", stack.data_parallel_overlap,
                NamedValues<DataParallelOverlap>(kDataParallelOverlapNames));
  if (fields.optional("parameter_gather_overlap", !stack.parameter_gather_overlap)) {
    fields.flag("parameter_gather_overlap", stack.parameter_gather_overlap);
  }
  if (fields.optional("shards_matrices_apart", stack.shards_matrices_apart)) {
    fields.flag("shards_matrices_apart", stack.shards_matrices_apart);
  }
  fields.flag("scatter_gather", stack.scatter_gather);
  if (fields.optional("expert_dispatch", stack.expert_dispatch != ExpertDispatch::kAllToAll)) {
    fields.choice("expert_dispatch", stack.expert_dispatch,
                  NamedValues<ExpertDispatch>(kExpertDispatchNames));
  }
  if (fields.optional("context_parallel_kind",
                      stack.context_parallel_kind != ContextParallel::kRing)) {
    fields.choice("context_parallel_kind", stack.context_parallel_kind,
                  NamedValues<ContextParallel>(kContextParallelNames));
  }
  fields.choice("pipeline_overlap", stack.pipeline_overlap,
                NamedValues<PipelineOverlap>(kPipelineOverlapNames));
  fields.quantity("pipeline_latency_us", stack.pipeline_latency, kMicro, kMicroseconds);
  fields.quantity("microbatch_overhead_us", stack.microbatch_overhead, kMicro, kMicroseconds);
  fields.quantity("host_time_per_kernel_us", stack.host_time_per_kernel, kMicro, kMicroseconds);
  fields.number("overlap_slowdown", stack.overlap_slowdown, {0.0, 1.0, "a fraction"});
  fields.number("reserve_fraction", stack.reserve_fraction, {0.0, 0.9, "of device memory"});
  if (fields.optional("workspace_MiB", stack.workspace.value() > 0.0)) {
    fields.quantity("workspace_MiB", stack.workspace, kGibi / 1024.0, kMebibytes);
  }
  fields.object("can_run", stack.can_run);
}

template void describe(ObjectReader&, StackSpec&);
template void describe(ObjectWriter&, StackSpec&);

}  // namespace ptdp
