// The particulars of measuring a core of a host.
#include "runtime/profiling/profiled_device.h"
#include "runtime/profiling/profiled_models.h"

namespace ptdp {
namespace {

constexpr double kShortOfHost = 5.0;  // seconds in which only small sizes can be measured
constexpr std::int64_t kSmallestHostCopy = 1 << 10;

/// Returns the powers of two from 2 on below `all`, and `all` if it is more than 1.
std::vector<int> numbers_of_cores(int all) {
  std::vector<int> numbers;
  for (int cores = 2; cores < all; cores *= 2) {
    numbers.push_back(cores);
  }
  if (all > 1) {
    numbers.push_back(all);
  }
  return numbers;
}

}  // namespace

ProfiledDevice host_device(const HostRequest& request) {
  const bool is_short = request.seconds < kShortOfHost;
  ProfiledDevice device{
      .kind = "core",
      .peaks = "the best products",
      .make_backend = request.make_backend,
      .precisions = {Precision::kFp32, Precision::kBf16, Precision::kFp64, Precision::kFp16},
      .peak_size = is_short ? 256 : 512,
      .models = host_models,
      .busy_cores = numbers_of_cores(request.cores),
      .computes_in_threads = true,
      .largest_message = is_short ? 1 << 20 : 1 << 24,
      .unmeasured = "nic: none, one process is one node."};
  ClusterSpec& cluster = device.cluster;
  cluster.default_stack = "ptdp-cpu";
  cluster.gpus_per_node = 1024;  // ranks that may share the cores
  cluster.cores_per_node = request.cores;
  cluster.gpu = {.name = "core",
                 .memory = request.memory,
                 .num_multiprocessors = 1,
                 .matmul_wave_overlap = 1.0,
                 .matmul_tile = MatmulTile{.rows = 16, .columns = 16}};
  cluster.nic = {.bandwidth = BytesPerSecond(1.25 * kGiga),
                 .efficiency = 0.9,
                 .hop_latency = microseconds(30.0)};
  const std::int64_t largest = is_short ? 1 << 22 : 1 << 25;
  for (std::int64_t bytes = kSmallestHostCopy; bytes <= largest; bytes *= 8) {
    device.copies.push_back(bytes);
  }
  for (int ranks = 2; ranks <= request.most_ranks; ranks *= 2) {
    device.link_ranks.push_back(ranks);
  }
  return device;
}

}  // namespace ptdp
