// What ptdp's own runtime has whole of a sharded model while its passes work with it.
#pragma once

#include "cost_model/inputs/scenario.h"
#include "cost_model/stage/planned_job.h"
#include "cost_model/units.h"

namespace ptdp {

/// Whole units take so much at moments of a microbatch, beside its activations. With w and g the
/// weights and gradients of a layer, w_e and g_e those of the ends (embedding, positions,
/// final norm, output), L layers:
///
///                     weights sharded         kept until the backward pass
///   forward           w_e + w                 w_e + L·w
///   logits            w_e                     w_e + L·w
///   end               w_e + g_e               w_e + L·w + g_e
///   backward          w + g + g_e             L·w + g + g_e
///   reducing_layer    g + g_e + scratch       (L−1)·w + g + g_e + scratch
///   reducing_ends     g_e + scratch           g_e + scratch
///
/// w and w_e are 0 where gradients alone are sharded. Where weight gradients are put off, those of
/// all layers wait: `put_off`, L·g + g_e. Source: runtime/model/MEMORY.md.
struct UnitMemory {
  Bytes forward;         ///< While a layer's forward pass runs.
  Bytes embedding;       ///< Before that of the first.
  Bytes logits;          ///< Behind that of the last.
  Bytes end;             ///< While the backward pass of the logits runs,
  Bytes backward;        ///< then of the last layer,
  Bytes reducing_layer;  ///< when its gradients are reduced,
  Bytes ends;            ///< behind that of the first layer,
  Bytes reducing_ends;   ///< and when the ends' are.
  Bytes put_off;
};
[[nodiscard]] UnitMemory unit_memory(const PlannedJob& job);

}  // namespace ptdp
