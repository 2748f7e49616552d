// What the operations of a layer do, move and take.
#pragma once

#include <string>
#include <vector>

#include "cost_model/inputs/layer_kinds.h"
#include "planner/plan/plan.h"
#include "planner/report/report.h"

namespace ptdp {

/// An operation of a layer: its work and its time per microbatch on one GPU.
struct LayerWork {
  std::string name;
  std::string pass;   ///< "forward", "backward", "input gradient" or "weight gradient".
  std::string sizes;  ///< Sizes of a product; empty for others.
  bool is_product = false;
  Flops flops;   ///< FLOPs of products and attention; 0 for what moves data alone.
  Bytes bytes;   ///< Traffic of memory.
  Seconds time;  ///< Time by the cost model, without the calibration's factor.
};

/// Returns the kind that most layers of the plan's model are of.
[[nodiscard]] LayerKind usual_layer_kind(const TransformerConfig& model);

/// Returns the operations of a layer of `kind` under the plan: products, attention, element-wise
/// work and casts. Their times are those that layer_costs() adds up. Left out are starts of
/// kernels, communication, and what measured layers say of a layer as a whole.
[[nodiscard]] std::vector<LayerWork> layer_work(const Plan& plan, LayerKind kind);

/// Returns the operations of the plan's usual layer over FLOPs per byte, below what the GPU's peak
/// and its memory allow. Operations without FLOPs are in the table of layer_table() only.
[[nodiscard]] ReportSection layer_roofline(const Plan& plan);
/// Returns FLOPs, bytes, time and rate of every operation of the plan's usual layer.
[[nodiscard]] ReportSection layer_table(const Plan& plan);

}  // namespace ptdp
