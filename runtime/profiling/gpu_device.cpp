// The particulars of measuring a GPU, and the shipped profiles of known GPUs.
#include <algorithm>
#include <array>
#include <optional>

#include "cost_model/inputs/catalog/catalog.h"
#include "runtime/profiling/profiled_device.h"
#include "runtime/profiling/profiled_models.h"

namespace ptdp {
namespace {

constexpr double kShortOfGpu = 5.0;  // seconds in which only small sizes can be measured
constexpr double kLongestWarmUp = 4.0;
constexpr double kWarmUpShare = 0.05;  // fraction of the time
// An H200 held products back for its power after 20 to 50 ms, and by all but 3 % of what it took in
// the end after 100 ms (tests/validation/gpu/MEASURED.md).
constexpr double kLeadIn = 0.15;
constexpr std::int64_t kMiB = std::int64_t{1} << 20;

/// A shipped profile of a GPU, found by a part of the driver's name.
struct KnownName {
  const char* part;  // part of the driver's name; a part that contains another comes first
  const char* gpu;
  const char* cluster;
};
constexpr std::array<KnownName, 10> kKnownNames = {{
    {"GB300", "gb300-nvl72", "dgx-gb300"},
    {"GB200", "gb200-nvl72", "dgx-gb200"},
    {"B300", "b300-sxm", "dgx-b300"},
    {"B200", "b200-180gb-sxm", "dgx-b200"},
    {"H200", "h200-141gb-sxm", "hgx-h200"},
    {"H800", "h800-80gb-sxm", "h800"},
    {"H100 80GB HBM3", "h100-80gb-sxm", "dgx-h100"},
    {"RTX PRO 6000 Blackwell Server", "rtx-pro-6000-blackwell", "8x-rtx-pro-6000"},
    {"A100-SXM4-80GB", "a100-80gb-sxm", "selene-a100"},
    {"A100-SXM4-40GB", "a100-40gb-sxm", "dgx-a100-40gb"},
}};

/// Returns the profile of a GPU that nobody has described. Constants that products and bandwidth
/// show are measured.
GpuSpec unknown_gpu() {
  // How tiles fill the multiprocessors of an A100, by SimuMax's products.
  return {.matmul_output_depth = 34.4, .matmul_wave_overlap = 0.33};
}

}  // namespace

std::optional<KnownGpu> find_known_gpu(const std::string& name) {
  const auto* const known = std::find_if(
      kKnownNames.begin(), kKnownNames.end(),
      [&](const KnownName& entry) { return name.find(entry.part) != std::string::npos; });
  if (known == kKnownNames.end()) {
    return std::nullopt;
  }
  return KnownGpu{.gpu = known->gpu, .cluster = known->cluster};
}

ProfiledDevice gpu_device(const GpuRequest& request) {
  const bool is_short = request.seconds < kShortOfGpu;
  const std::optional<KnownGpu> known = find_known_gpu(request.name);
  ProfiledDevice device{
      .cluster = request.links,
      .kind = "GPU",
      .peaks = known ? "the data sheet's, or the best products where that has none"
                     : "the best products",
      .make_backend = request.make_backend,
      .warm_up = std::min(kLongestWarmUp, kWarmUpShare * request.seconds),
      .lead_in = is_short ? 0.0 : kLeadIn,
      .precisions = {Precision::kBf16, Precision::kFp16, Precision::kFp32},
      .peak_size = is_short ? 2048 : 8192,
      .host_copies = {kMiB, is_short ? 16 * kMiB : 512 * kMiB},
      .queues_work = true,
      .models = gpu_models,
      .unmeasured =
          "One GPU was measured: its node, NVLink, network and collectives are those of " +
          request.links.name + ".",
      .take_samples = request.take_samples,
      .remarks = request.remarks};
  ClusterSpec& cluster = device.cluster;
  cluster.default_stack = "ptdp-cuda";
  cluster.gpu = known ? find_gpu(known->gpu) : unknown_gpu();
  cluster.gpu.name = "gpu";
  cluster.gpu.constants_of.clear();
  cluster.gpu.memory = request.memory;
  cluster.gpu.num_multiprocessors = request.num_multiprocessors;
  const std::int64_t largest = is_short ? 64 * kMiB : 2048 * kMiB;
  for (std::int64_t bytes = 1 << 10; bytes < largest; bytes *= 8) {
    device.copies.push_back(bytes);
  }
  device.copies.push_back(largest);
  return device;
}

}  // namespace ptdp
