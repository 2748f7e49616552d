// How flows share links: max-min fairness.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

namespace ptdp {

/// Max-min fair rates of flows that load at most two links each. Every link has capacity 1, and a
/// flow alone on its links has rate 1. No flow could have more unless another, which has no more
/// than it, had less.
///
/// The method is progressive filling. The link with the least capacity per flow gives each of its
/// flows that much. These flows are settled and leave their share of their other links to the rest,
/// and so on. Source: Bertsekas & Gallager, Data Networks, 2nd edition, section 6.5.2.
///
/// The caller numbers flows and links. Only what is connected with a flow that started or stopped
/// is computed again.
class FairShare {
 public:
  FairShare(int num_flows, int num_links);

  /// Starts a flow that is not running. It loads both links; two equal ids are one link.
  void start(int flow, std::array<int, 2> links);
  /// Takes a running flow off its links.
  void stop(int flow);

  /// Brings the rates up to date. Returns the running flows whose rate has changed, with those that
  /// started. The span is valid until the next call.
  std::span<const int> update();

  /// Returns the rate of a running flow as of the last update().
  [[nodiscard]] double rate(int flow) const { return flows_[flow].rate; }

 private:
  struct Flow {
    std::array<int, 2> links = {};
    double rate = 0.0;
    double settled = 0.0;     ///< Rate that the flow is going to have.
    bool is_settled = false;  ///< Whether the rate is settled, while links are filled.
    bool is_found = false;
  };
  struct Link {
    std::vector<int> flows = {};
    double left = 1.0;  ///< Capacity for flows that are not settled.
    int unsettled = 0;
    bool is_found = false;
  };

  void mark(int link);
  void find_component(std::size_t first_link);
  void fill(std::size_t first_link);
  void settle(int flow, double rate);

  std::vector<Flow> flows_;
  std::vector<Link> links_;
  std::vector<int> touched_;  ///< Links on which a flow has started or stopped.
  // Buffers of update(), which works on one connected component after the other.
  std::vector<int> component_links_;
  std::vector<int> component_flows_;
  /// Links of the current component that have flows which are not settled.
  std::vector<int> open_links_;
  std::vector<int> changed_;
};

}  // namespace ptdp
