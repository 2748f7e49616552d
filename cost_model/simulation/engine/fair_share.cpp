#include "cost_model/simulation/engine/fair_share.h"

#include <algorithm>
#include <cassert>

namespace ptdp {
namespace {

/// Returns how many links a flow has: 1 or 2.
std::size_t num_distinct(const std::array<int, 2>& links) {
  return links[0] == links[1] ? 1 : 2;
}

}  // namespace

FairShare::FairShare(int num_flows, int num_links) : flows_(num_flows), links_(num_links) {}

void FairShare::start(int flow, std::array<int, 2> links) {
  flows_[flow].links = links;
  flows_[flow].rate = 0.0;
  for (std::size_t i = 0; i < num_distinct(links); ++i) {
    links_[links[i]].flows.push_back(flow);
    touched_.push_back(links[i]);
  }
}

void FairShare::stop(int flow) {
  const std::array<int, 2>& links = flows_[flow].links;
  for (std::size_t i = 0; i < num_distinct(links); ++i) {
    std::vector<int>& on_link = links_[links[i]].flows;
    const auto found = std::find(on_link.begin(), on_link.end(), flow);
    assert(found != on_link.end());
    on_link.erase(found);
    touched_.push_back(links[i]);
  }
}

std::span<const int> FairShare::update() {
  changed_.clear();
  component_links_.clear();
  component_flows_.clear();
  for (const int link : touched_) {
    if (links_[link].is_found || links_[link].flows.empty()) {
      continue;
    }
    const std::size_t first_link = component_links_.size();
    const std::size_t first_flow = component_flows_.size();
    mark(link);
    find_component(first_link);
    if (component_flows_.size() == first_flow + 1) {
      settle(component_flows_.back(), 1.0);
    } else {
      fill(first_link);
    }
  }
  for (const int link : component_links_) {
    links_[link].is_found = false;
  }
  for (const int flow : component_flows_) {
    Flow& of = flows_[flow];
    of.is_found = false;
    of.is_settled = false;
    if (of.rate != of.settled) {
      of.rate = of.settled;
      changed_.push_back(flow);
    }
  }
  touched_.clear();
  return changed_;
}

void FairShare::mark(int link) {
  Link& of = links_[link];
  if (!of.is_found) {
    of.is_found = true;
    of.left = 1.0;
    of.unsettled = static_cast<int>(of.flows.size());
    component_links_.push_back(link);
  }
}

/// Finds all links and flows that flows connect with the links found so far, from `first_link` on.
void FairShare::find_component(std::size_t first_link) {
  for (std::size_t i = first_link; i < component_links_.size(); ++i) {
    for (const int flow : links_[component_links_[i]].flows) {
      if (!flows_[flow].is_found) {
        flows_[flow].is_found = true;
        component_flows_.push_back(flow);
        mark(flows_[flow].links[0]);
        mark(flows_[flow].links[1]);
      }
    }
  }
}

/// Fills the component that was found last, progressively.
void FairShare::fill(std::size_t first_link) {
  std::vector<int>& open = open_links_;
  open.assign(component_links_.begin() + static_cast<std::ptrdiff_t>(first_link),
              component_links_.end());
  while (true) {
    double least = 1.0;
    std::size_t num_open = 0;
    for (const int link : open) {
      if (const Link& of = links_[link]; of.unsettled > 0) {
        open[num_open++] = link;
        least = std::min(least, of.left / of.unsettled);
      }
    }
    open.resize(num_open);
    if (open.empty()) {
      return;
    }
    for (const int link : open) {
      const Link& of = links_[link];
      if (of.unsettled == 0 || of.left / of.unsettled > least) {
        continue;
      }
      for (const int flow : of.flows) {
        if (!flows_[flow].is_settled) {
          settle(flow, least);
        }
      }
    }
  }
}

void FairShare::settle(int flow, double rate) {
  Flow& of = flows_[flow];
  of.settled = rate;
  of.is_settled = true;
  for (std::size_t i = 0; i < num_distinct(of.links); ++i) {
    Link& link = links_[of.links[i]];
    link.left = std::max(link.left - rate, 0.0);
    --link.unsettled;
  }
}

}  // namespace ptdp
