// How flows share links: max-min fairness.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

namespace ptdp {

/// Max-min fair rates of flows that load at most two links each. Every link has capacity 1, and a
/// flow alone on its links has rate 1. No flow could have more without another that has no more
/// than it having less.
///
/// Progressive filling: the link with the least capacity per flow gives each of its flows that
/// much; these are settled and leave their share of their other links to the rest; and so on.
/// Source: Bertsekas & Gallager, Data Networks, 2nd edition, section 6.5.2.
///
/// Flows and links are numbered by the caller. Only what is connected with a flow that started or
/// stopped is computed again.
class FairShare {
 public:
  FairShare(int num_flows, int num_links);

  /// `flow`, which is not running, loads both links, which are one or two.
  void start(int flow, std::array<int, 2> links);
  void stop(int flow);

  /// Brings the rates up to date. Returns the running flows whose rate has changed, those that
  /// started among them; valid until the next call.
  std::span<const int> update();

  /// As of the last update(); of running flows.
  [[nodiscard]] double rate(int flow) const { return flows_[flow].rate; }

 private:
  struct Flow {
    std::array<int, 2> links = {};
    double rate = 0.0;
    double settled = 0.0;     ///< The rate to be.
    bool is_settled = false;  ///< While filling.
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
  std::vector<int> touched_;  ///< Links on which something has started or stopped.
  // What update() works on: a connected component after the other.
  std::vector<int> component_links_;
  std::vector<int> component_flows_;
  std::vector<int> open_links_;  ///< Of the component at hand: with flows that are not settled.
  std::vector<int> changed_;
};

}  // namespace ptdp
