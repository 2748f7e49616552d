// Scales what a job is made of, with everything that was measured of it.
#include "planner/explain/changed_inputs.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <utility>
#include <vector>

#include "cost_model/inputs/measured_curve.h"
#include "cost_model/memory/memory.h"

namespace ptdp {
namespace {

bool is_bound_by_peak(DeviceOperation operation) {
  return operation <= DeviceOperation::kDropoutAttentionBackward;
}

void scale_peaks(GpuSpec& gpu, double factor) {
  for (FlopsPerSecond GpuSpec::*peak :
       {&GpuSpec::peak_fp16, &GpuSpec::peak_bf16, &GpuSpec::peak_fp32, &GpuSpec::peak_tf32,
        &GpuSpec::peak_fp64, &GpuSpec::peak_fp8, &GpuSpec::peak_fp4}) {
    gpu.*peak = gpu.*peak * factor;
  }
  for (MeasuredOperation& measured : gpu.measured_operations) {
    if (is_bound_by_peak(measured.operation())) {
      std::vector<MeasuredOperation::Point> points = measured.points();
      for (MeasuredOperation::Point& point : points) {
        point.time = point.time * (1.0 / factor);
      }
      measured = {measured.operation(), measured.precision(), std::move(points), gpu.name};
    }
  }
}

/// Multiplies the rates of the curves within nodes, or of those across nodes.
void scale_curves(ClusterSpec& cluster, bool is_within, double factor) {
  for (std::vector<AllReduceCurve>* curves :
       {&cluster.all_reduce_curves, &cluster.reduce_scatter_curves, &cluster.all_gather_curves,
        &cluster.all_to_all_curves}) {
    for (AllReduceCurve& measured : *curves) {
      if ((measured.nodes == 1) == is_within) {
        measured.curve = scaled(measured.curve, 1.0, 1.0 / factor);
      }
    }
  }
}

void scale_node_links(ClusterSpec& cluster, double factor) {
  cluster.nvlink.bandwidth = cluster.nvlink.bandwidth * factor;
  for (std::optional<NcclSpec>* nccl : {&cluster.nccl, &cluster.nccl_within_node}) {
    if (*nccl) {
      (*nccl)->nvls.bandwidth = (*nccl)->nvls.bandwidth * factor;
    }
  }
  cluster.message_curve = scaled(cluster.message_curve, 1.0, 1.0 / factor);
  scale_curves(cluster, true, factor);
}

void scale_memory(Scenario& scenario, double factor) {
  GpuSpec& gpu = scenario.cluster.gpu;
  const Bytes reserved = reserved_memory(gpu, scenario.stack);
  gpu.memory = gpu.memory * factor;
  // What programs take beyond their tensors does not grow with the GPU.
  scenario.stack.reserve_fraction = 1.0;
  scenario.stack.reserve_fraction = reserved / reserved_memory(gpu, scenario.stack);
}

/// Returns the multiple of `unit` nearest to `value`.
std::int64_t rounded(double value, std::int64_t unit) {
  return std::llround(value / static_cast<double>(unit)) * unit;
}

std::int64_t batch_near(std::int64_t batch, const ParallelConfig& config, double change) {
  const double asked = static_cast<double>(batch) * (1.0 + change);
  const std::int64_t per_step = std::int64_t{config.dp} * config.micro_batch_size;
  const std::int64_t in_groups =
      traits_of(config.schedule).has_groups ? per_step * config.pp : per_step;
  for (const std::int64_t unit : {in_groups, per_step}) {
    const std::int64_t near = rounded(asked, unit);
    if (near != batch &&
        std::abs(static_cast<double>(near) - asked) <= kNearChange * static_cast<double>(batch)) {
      return near;
    }
  }
  // Then one that other plans divide: a multiple of the largest power of two that is near.
  for (auto unit = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(batch)));
       unit > 1; unit /= 2) {
    const std::int64_t near = rounded(asked, unit);
    if (near > 0 && near != batch &&
        std::abs(static_cast<double>(near) - asked) <= kNearChange * static_cast<double>(batch)) {
      return near;
    }
  }
  return rounded(asked, 1);
}

/// Returns the whole nodes or trays, or GPUs of one node, nearest to what is asked for.
std::int64_t gpus_near(const ClusterSpec& cluster, std::int64_t gpus, double change) {
  const double asked = static_cast<double>(gpus) * (1.0 + change);
  if (asked <= cluster.gpus_per_node) {
    return rounded(asked, 1);
  }
  return rounded(asked, cluster.gpus_per_tray > 0 ? cluster.gpus_per_tray : cluster.gpus_per_node);
}

}  // namespace

const ChangedInputText& text_of(ChangedInput input) {
  return kChangedInputs.at(static_cast<std::size_t>(input));
}

std::optional<ChangedJob> changed_job(const Scenario& scenario, std::int64_t gpus,
                                      const ParallelConfig& config, const InputChange& change) {
  const double by = change.by;
  ChangedJob changed{.scenario = scenario, .gpus = gpus, .change = by};
  ClusterSpec& cluster = changed.scenario.cluster;
  const bool is_one_node = gpus <= cluster.gpus_per_node;
  const auto count = [&](std::int64_t now, std::int64_t before) {
    changed.value = now;
    changed.change = static_cast<double>(now) / static_cast<double>(before) - 1.0;
    return now > 0 && now != before;
  };
  bool is_there = true;
  switch (change.input) {
    case ChangedInput::kPeak:
      scale_peaks(cluster.gpu, 1.0 + by);
      break;
    case ChangedInput::kNodeLinks:
      is_there = gpus > 1 && cluster.gpus_per_node > 1;
      scale_node_links(cluster, 1.0 + by);
      break;
    case ChangedInput::kNetwork:
      is_there = !is_one_node;
      cluster.nic.bandwidth = cluster.nic.bandwidth * (1.0 + by);
      scale_curves(cluster, false, 1.0 + by);
      break;
    case ChangedInput::kMemory:
      scale_memory(changed.scenario, 1.0 + by);
      break;
    case ChangedInput::kBatch: {
      std::int64_t& batch = changed.scenario.job.global_batch_size;
      batch = batch_near(batch, config, by);
      is_there = count(batch, scenario.job.global_batch_size);
      break;
    }
    case ChangedInput::kGpus:
      changed.gpus = gpus_near(cluster, gpus, by);
      is_there = count(changed.gpus, gpus) &&
                 (cluster.max_gpus() == 0 || changed.gpus <= cluster.max_gpus());
      break;
  }
  return is_there ? std::optional(std::move(changed)) : std::nullopt;
}

}  // namespace ptdp
