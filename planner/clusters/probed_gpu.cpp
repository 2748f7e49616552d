#include "planner/clusters/probed_gpu.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <map>
#include <utility>

#include "cost_model/error.h"
#include "cost_model/inputs/catalog/catalog.h"
#include "cost_model/inputs/measured_curve.h"
#include "cost_model/text/plural.h"

namespace ptdp {
namespace {

constexpr std::size_t kMostNotes = 4;  // of a probe; its file has all

/// Returns the software that ran a layer, on this GPU: without a rate of its attention there, with
/// attention that no kernel fuses.
StackSpec stack_of(const ProbedLayer& probed, const GpuSpec& gpu) {
  StackSpec stack = find_stack(probed.stack);
  stack.precision = probed.precision;
  const auto has_rate = [&](const std::string& kernel) {
    return std::any_of(gpu.attention_rates.begin(), gpu.attention_rates.end(),
                       [&](const AttentionRate& rate) { return rate.kernel == kernel; });
  };
  if (!has_rate(stack.attention) && !has_rate(stack.other_attention)) {
    stack.attention = "unfused";
    stack.other_attention.clear();
  }
  return stack;
}

void check_device(NewCluster& made, const ProbeReport& probe, const std::string& place) {
  const GpuSpec& gpu = made.cluster.gpu;
  if (!probe.is_gpu) {
    if (!made.cluster.cores_per_node) {
      made.warn(fmt::format("{}: measured on a CPU, {}: its times are not those of {}", place,
                            probe.device_name, gpu.name));
    }
  } else if (!may_be(gpu, probe.device_name)) {
    throw Error(fmt::format("{}: expected the probe of a GPU {}, got one of {}", place, gpu.name,
                            probe.device_name));
  }
}

void take_rates(NewCluster& made, const ProbeReport& probe, const std::string& place) {
  GpuSpec& gpu = made.cluster.gpu;
  if (probe.is_gpu) {
    gpu.memory = probe.memory;
    made.say(
        fmt::format("memory of a GPU: {:.2f} GiB, by {}", probe.memory.value() / kGibi, place));
  }
  if (probe.matmul_sustained) {
    gpu.matmul_sustained = *probe.matmul_sustained;
    made.say(fmt::format("products keep {:.1f} % of their rate in seconds of work, by {}",
                         100.0 * gpu.matmul_sustained, place));
  }
  gpu.kernel_latency = probe.kernel_latency.value_or(gpu.kernel_latency);
  if (probe.memory_bandwidth) {
    gpu.memory_bandwidth = std::max(gpu.memory_bandwidth, *probe.memory_bandwidth);
    gpu.memory_efficiency = *probe.memory_bandwidth / gpu.memory_bandwidth;
    made.say(fmt::format("memory: {} of {}, by {}", rate_text(*probe.memory_bandwidth),
                         rate_text(gpu.memory_bandwidth), place));
  }
  if (probe.host_time_per_kernel) {
    const Seconds usual = find_stack(kProbedStack).host_time_per_kernel;
    made.cluster.launch_slowdown = std::clamp(*probe.host_time_per_kernel / usual,
                                              kLaunchSlowdownRange.low, kLaunchSlowdownRange.high);
    made.say(fmt::format("launches: {:.2f} us each, {:.2f} times as long as usual, by {}",
                         probe.host_time_per_kernel->value() / kMicro, made.cluster.launch_slowdown,
                         place));
  }
}

/// Returns the products and attention that the probe measured and the GPU has a peak for.
/// Element-wise operations of PyTorch are no program's own kernels; the layers tell what they take.
std::vector<MeasuredOperation> usable_operations(const ProbeReport& probe, const GpuSpec& gpu) {
  std::vector<MeasuredOperation> usable;
  std::copy_if(probe.operations.begin(), probe.operations.end(), std::back_inserter(usable),
               [&](const MeasuredOperation& measured) {
                 return measured.operation() <= DeviceOperation::kAttentionBackward &&
                        gpu.peak(measured.precision()).value() > 0.0;
               });
  return usable;
}

/// Puts tables of operations into the GPU, each time multiplied by `factor`.
void put_operations(GpuSpec& gpu, const std::vector<MeasuredOperation>& operations, double factor,
                    const std::string& place) {
  for (const MeasuredOperation& measured : operations) {
    std::vector<MeasuredOperation::Point> points = measured.points();
    for (MeasuredOperation::Point& point : points) {
      point.time = point.time * factor;
    }
    std::erase_if(gpu.measured_operations, [&](const MeasuredOperation& old) {
      return old.operation() == measured.operation() && old.precision() == measured.precision();
    });
    gpu.measured_operations.emplace_back(measured.operation(), measured.precision(),
                                         std::move(points), place);
  }
}

/// Returns the cluster with its GPU at the clocks of the probe's rows, which are too short for a
/// limit of power to act.
ClusterSpec at_full_clocks(ClusterSpec cluster, const std::vector<MeasuredOperation>& operations,
                           const std::string& place) {
  cluster.gpu.matmul_sustained = 1.0;
  put_operations(cluster.gpu, operations, 1.0, place);
  return cluster;
}

/// Returns whether two layers differ in their sequences alone.
bool is_same_layer(const ProbedLayer& a, const ProbedLayer& b) {
  return a.layer.model == b.layer.model && a.layer.tp == b.layer.tp && a.precision == b.precision &&
         a.stack == b.stack;
}

/// Leaves out layers of which a pass took longer than with more sequences: what is true of messages
/// is true of layers.
std::vector<ProbedLayer> without_spikes(const std::vector<ProbedLayer>& layers, NewCluster& made,
                                        const std::string& place) {
  const auto is_spike = [&](const ProbedLayer& probed) {
    return std::any_of(layers.begin(), layers.end(), [&](const ProbedLayer& other) {
      return is_same_layer(probed, other) &&
             other.layer.micro_batch_size > probed.layer.micro_batch_size &&
             (other.layer.forward < probed.layer.forward * kDeepestDip ||
              other.layer.backward < probed.layer.backward * kDeepestDip);
    });
  };
  std::vector<ProbedLayer> kept;
  std::remove_copy_if(layers.begin(), layers.end(), std::back_inserter(kept), is_spike);
  if (const std::ptrdiff_t spikes = std::ssize(layers) - std::ssize(kept); spikes > 0) {
    made.warn(fmt::format("{}: left out {} that took longer than with more sequences", place,
                          plural(spikes, "layer")));
  }
  return kept;
}

/// Returns the factors of the layers, one for each number of tokens and ranks: the geometric mean
/// where several have them.
std::vector<LayerFactor> factors_of(const std::vector<ProbedLayer>& layers,
                                    const ClusterSpec& cluster) {
  std::map<std::pair<double, int>, std::vector<LayerFactor>> alike;
  for (const ProbedLayer& probed : layers) {
    const LayerFactor factor = factor_of(probed.layer, cluster, stack_of(probed, cluster.gpu));
    alike[{factor.tokens, factor.tp}].push_back(factor);
  }
  std::vector<LayerFactor> factors;
  for (const auto& [key, some] : alike) {
    LayerFactor& mean = factors.emplace_back(LayerFactor{.tokens = key.first, .tp = key.second});
    for (const LayerFactor& factor : some) {
      const double share = 1.0 / static_cast<double>(some.size());
      mean.forward *= std::pow(factor.forward, share);
      mean.backward *= std::pow(factor.backward, share);
    }
  }
  return factors;
}

/// Drops what says that the GPU's constants are assumed.
void trust_gpu(NewCluster& made) {
  made.cluster.gpu.is_assumed = false;
  made.cluster.gpu.constants_of.clear();
  std::erase_if(made.warnings,
                [](const std::string& line) { return line.starts_with("what kernels reach on "); });
}

/// Lets launches take no longer than the layers leave room for, where the probe did not time them:
/// what a profile assumes of its host need not hold for this one.
void limit_launches(NewCluster& made, const std::vector<ProbedLayer>& layers,
                    ClusterSpec& at_full_clocks, const std::string& place) {
  double slowdown = at_full_clocks.launch_slowdown;
  for (const ProbedLayer& probed : layers) {
    slowdown = std::min(slowdown, largest_launch_slowdown(probed.layer, at_full_clocks,
                                                          stack_of(probed, at_full_clocks.gpu)));
  }
  slowdown = std::max(slowdown, kLaunchSlowdownRange.low);
  if (slowdown < at_full_clocks.launch_slowdown) {
    made.say(fmt::format("launches: {:.2f} times as long as usual, the most that fits into {}",
                         slowdown, place));
    at_full_clocks.launch_slowdown = slowdown;
    made.cluster.launch_slowdown = slowdown;
  }
}

void take_layers(NewCluster& made, const ProbeReport& probe, ClusterSpec at_full_clocks,
                 const std::string& place) {
  const std::vector<ProbedLayer> layers = without_spikes(probe.layers, made, place);
  if (probe.is_gpu && !probe.host_time_per_kernel) {
    limit_launches(made, layers, at_full_clocks, place);
  }
  const std::vector<LayerFactor> factors = factors_of(layers, at_full_clocks);
  if (factors.empty()) {
    return;
  }
  const auto is_other = [&](const ProbedLayer& other) {
    const ProbedLayer& first = layers.front();
    return other.layer.model.hidden_size != first.layer.model.hidden_size ||
           other.precision != first.precision;
  };
  if (std::any_of(layers.begin(), layers.end(), is_other)) {
    made.warn(place +
              ": layers of several widths or precisions: dense layers of any take the mean "
              "of what these say");
  }
  const auto [least, most] = std::minmax_element(
      factors.begin(), factors.end(),
      [](const LayerFactor& a, const LayerFactor& b) { return a.forward < b.forward; });
  made.say(fmt::format("{}: {:.2f} to {:.2f} times as long forward as modeled, by {}",
                       plural(std::ssize(layers), "layer"), least->forward, most->forward, place));
  made.cluster.gpu.layer_factors = factors;
  trust_gpu(made);
}

}  // namespace

void take_probe(NewCluster& made, const ProbeReport& probe, const std::string& place) {
  check_device(made, probe, place);
  take_rates(made, probe, place);
  GpuSpec& gpu = made.cluster.gpu;
  const std::vector<MeasuredOperation> operations = usable_operations(probe, gpu);
  if (!operations.empty()) {
    if (gpu.matmul_start.value() == 0.0) {
      gpu.matmul_start = gpu.kernel_latency;  // measured times of products contain their start
    }
    std::ptrdiff_t num_times = 0;
    for (const MeasuredOperation& measured : operations) {
      num_times += std::ssize(measured.points());
    }
    made.say(fmt::format("products and attention: {} measured, by {}", plural(num_times, "time"),
                         place));
    trust_gpu(made);
  }
  take_layers(made, probe, at_full_clocks(made.cluster, operations, place), place);
  // In a step the limit of power acts: kernels take longer by what it takes from products.
  put_operations(gpu, operations, 1.0 / gpu.matmul_sustained, place);
  for (std::size_t i = 0; i < std::min(probe.notes.size(), kMostNotes); ++i) {
    made.warn(place + ": " + probe.notes[i]);
  }
  if (probe.notes.size() > kMostNotes) {
    made.warn(fmt::format("{}: {} more such lines, under skipped and warnings", place,
                          probe.notes.size() - kMostNotes));
  }
}

}  // namespace ptdp
