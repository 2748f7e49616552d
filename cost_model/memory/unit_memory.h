// What this project's own runtime has whole of a sharded model while its passes work with it.
#pragma once

#include "cost_model/inputs/scenario.h"
#include "cost_model/pipeline_rank/planned_job.h"
#include "cost_model/units.h"

namespace ptdp {

/// Memory of whole units (layers, ends of the model) at moments of a microbatch, beside its
/// activations. There are L layers. w and g are the weights and gradients of a layer, w_e and g_e
/// those of the ends (embedding, positions, final norm, output), each with the padding of
/// aligned_ranges.h:
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
  Bytes forward;         ///< Whole units while a layer's forward pass runs.
  Bytes embedding;       ///< Whole units before the first layer's forward pass.
  Bytes logits;          ///< Whole units after the last layer's forward pass.
  Bytes end;             ///< Whole units while the backward pass of the logits runs.
  Bytes backward;        ///< Whole units while a layer's backward pass runs.
  Bytes reducing_layer;  ///< Whole units while a layer's gradients are reduced.
  Bytes ends;            ///< Whole units after the first layer's backward pass.
  Bytes reducing_ends;   ///< Whole units while the ends' gradients are reduced.
  Bytes put_off;         ///< Gradients that wait where weight gradients are put off.
};
/// Computes the memory of whole units; all 0 where neither gradients nor weights are sharded over
/// dp.
[[nodiscard]] UnitMemory unit_memory(const PlannedJob& job);

}  // namespace ptdp
