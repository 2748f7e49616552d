#include "runtime/run/start_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "cost_model/error.h"
#include "cost_model/text/plural.h"
#include "runtime/transport/gathering.h"

namespace ptdp {
namespace {

std::string gibibytes(Bytes size) {
  return fmt::format("{:.2f} GiB", size.value() / kGibi);
}

/// What a rank's GPU has taken, and what its plan reserves for that [B]; both 0 without a plan.
struct RankMemory {
  double taken = 0.0;
  double reserve = 0.0;

  [[nodiscard]] double excess() const { return taken - reserve; }
};

/// Gathers what every rank has on rank 0, in the order of ranks; returns nothing elsewhere.
std::vector<RankMemory> gathered(const RankMemory& own, const HostSide& host) {
  std::string bytes(sizeof(own), '\0');
  std::memcpy(bytes.data(), &own, sizeof(own));
  const std::vector<std::string> all = gather_bytes(host.world, host.backend, bytes);
  std::vector<RankMemory> ranks(all.size());
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    std::memcpy(&ranks[rank], all[rank].data(), sizeof(own));
  }
  return ranks;
}

constexpr const char* kByWhom = "by the driver, NCCL, other libraries and other programs";

/// Throws Error when a rank's peak does not fit beside what is taken of its GPU.
void check_peak(const PlannedMemory& planned, Bytes taken, int pipeline_rank) {
  const Bytes peak = planned.peaks[static_cast<std::size_t>(pipeline_rank)];
  if (taken + peak > planned.device) {
    throw Error(
        fmt::format("{} of its GPU's {} were taken at start-up {} (the plan reserves {}): "
                    "expected at most {}, since the plan's peak is {}; end other programs "
                    "on the GPU, or plan with a larger --memory-headroom",
                    gibibytes(taken), gibibytes(planned.device), kByWhom,
                    gibibytes(planned.reserve), gibibytes(planned.device - peak), gibibytes(peak)),
        ExitStatus::kRuntimeFault);
  }
}

}  // namespace

std::string compare_start_memory(const std::optional<PlannedMemory>& planned, Bytes taken,
                                 int pipeline_rank, const HostSide& host) {
  const std::vector<RankMemory> ranks =
      gathered(planned ? RankMemory{taken.value(), planned->reserve.value()} : RankMemory(), host);
  if (planned) {
    check_peak(*planned, taken, pipeline_rank);
  }
  const auto above = std::count_if(ranks.begin(), ranks.end(),
                                   [](const RankMemory& rank) { return rank.excess() > 0.0; });
  if (above == 0) {
    return "";
  }
  const auto most = std::max_element(
      ranks.begin(), ranks.end(),
      [](const RankMemory& a, const RankMemory& b) { return a.excess() < b.excess(); });
  return fmt::format(
      "{} of the GPU of rank {} were taken at start-up {}: expected at most the {} that the plan "
      "reserves{}",
      gibibytes(Bytes(most->taken)), most - ranks.begin(), kByWhom, gibibytes(Bytes(most->reserve)),
      above == 1 ? ""
                 : fmt::format(" ({} took more than reserved, none more than this one)",
                               plural(above, "rank")));
}

}  // namespace ptdp
