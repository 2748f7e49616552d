// Scales the constants of a cluster and a stack by the factors of the knobs.
#include "planner/profile_fit/profile_knobs.h"

#include <algorithm>
#include <vector>

namespace ptdp {
namespace {

/// Raises `peak` if a fraction of it would exceed 1. The rates, fractions times peak, stay the
/// same.
template <class Rate>
void keep_fractions_below_one(Rate& peak, const std::vector<double*>& fractions) {
  double most = 1.0;
  for (const double* fraction : fractions) {
    most = std::max(most, *fraction);
  }
  if (most > 1.0) {
    peak = Rate(peak.value() * most);
    for (double* fraction : fractions) {
      *fraction /= most;
    }
  }
}

void scale_compute(ClusterSpec& cluster, const KnobFactors& factors) {
  const auto scale = [](double& factor, double by) {
    factor = std::clamp(factor * by, 1.0 / kLargestTimeFactor, kLargestTimeFactor);
  };
  scale(cluster.time_factors.matmul, factors[ProfileKnob::kProducts]);
  scale(cluster.time_factors.attention, factors[ProfileKnob::kAttention]);
  scale(cluster.time_factors.memory_bound, factors[ProfileKnob::kMemory]);
  cluster.gpu.kernel_latency = cluster.gpu.kernel_latency * factors[ProfileKnob::kOverhead];
}

void scale_link(LinkSpec& link, double collective_rate, double message_rate) {
  double collectives = link.collective_efficiency.value_or(link.efficiency) / collective_rate;
  link.efficiency /= message_rate;
  const bool is_one_number = !link.collective_efficiency && collective_rate == message_rate;
  std::vector<double*> fractions = {&collectives, &link.efficiency};
  if (link.sibling_efficiency) {
    *link.sibling_efficiency /= collective_rate;
    fractions.push_back(&*link.sibling_efficiency);
  }
  keep_fractions_below_one(link.bandwidth, fractions);
  if (!is_one_number) {
    link.collective_efficiency = collectives;
  }
}

void scale_cluster(ClusterSpec& cluster, const KnobFactors& factors) {
  const double latency = factors[ProfileKnob::kCollectiveLatency];
  const double rate = factors[ProfileKnob::kCollectiveRate];
  const double network_latency = factors[ProfileKnob::kNetworkLatency];
  const double network_rate = factors[ProfileKnob::kNetworkRate];
  cluster.collective_launch = cluster.collective_launch * latency;
  cluster.nvlink.hop_latency = cluster.nvlink.hop_latency * latency;
  cluster.nic.hop_latency = cluster.nic.hop_latency * network_latency;
  scale_link(cluster.nvlink, rate, factors[ProfileKnob::kMessageRate]);
  scale_link(cluster.nic, network_rate, network_rate);
  for (std::vector<AllReduceCurve>* curves :
       {&cluster.all_reduce_curves, &cluster.reduce_scatter_curves, &cluster.all_gather_curves}) {
    for (AllReduceCurve& measured : *curves) {
      measured.curve = measured.nodes == 1 ? scaled(measured.curve, latency, rate)
                                           : scaled(measured.curve, network_latency, network_rate);
    }
  }
  cluster.message_curve = scaled(cluster.message_curve, factors[ProfileKnob::kMessageLatency],
                                 factors[ProfileKnob::kMessageRate]);
  for (std::optional<NcclSpec>* nccl : {&cluster.nccl, &cluster.nccl_within_node}) {
    if (*nccl) {
      (*nccl)->launch = (*nccl)->launch * latency;
    }
  }
}

void scale_stack(StackSpec& stack, const KnobFactors& factors) {
  const double overhead = factors[ProfileKnob::kOverhead];
  stack.microbatch_overhead = stack.microbatch_overhead * overhead;
  stack.host_time_per_kernel = stack.host_time_per_kernel * overhead;
  stack.pipeline_latency = stack.pipeline_latency * factors[ProfileKnob::kMessageLatency];
  const double optimizer = factors[ProfileKnob::kOptimizer];
  stack.optimizer_traffic *= optimizer;
  stack.loss_scaling_traffic *= optimizer;
  for (PrecisionBytes& bytes : stack.other_precisions) {
    bytes.optimizer_traffic *= optimizer;
  }
}

}  // namespace

Scenario with_factors(Scenario scenario, const KnobFactors& factors) {
  scale_compute(scenario.cluster, factors);
  scale_cluster(scenario.cluster, factors);
  scale_stack(scenario.stack, factors);
  return scenario;
}

}  // namespace ptdp
