// Which buffer of a rank every stage and microbatch uses, so that none is allocated while a step
// runs.
#pragma once

#include <vector>

#include "cost_model/schedule/schedule.h"

namespace ptdp {

/// Buffers that a rank needs for one of its virtual stages, as many as it holds at a time.
struct StageBuffers {
  int stage = 0;
  int activations = 0;           ///< What the backward pass needs, from F to B or W.
  int received_activations = 0;  ///< From RECV_F or COPY_F to the F that takes it.
  int received_gradients = 0;    ///< From RECV_B or COPY_B to the B or I that takes it.

  friend bool operator==(const StageBuffers&, const StageBuffers&) = default;
};

/// Every buffer, and who uses which. Stages differ in size, so that each has buffers of its own,
/// numbered from 0; two ranks that hold one stage (DualPipe) share none. Slots are in the tables by
/// stage and microbatch (slot_of of schedule_fault.h).
struct BufferSlots {
  std::vector<std::vector<StageBuffers>> ranks;  ///< By rank: its stages, ascending.
  std::vector<int> activations;
  std::vector<int> received_activations;  ///< 0 where nothing is received.
  std::vector<int> received_gradients;    ///< Likewise.
};

/// Gives every use the lowest slot that is free at its place in the list. A lane that runs ahead of
/// the list has to wait for the user before it: what frees a slot stands before what takes it, so
/// that this adds no deadlock. The actions of an overlapped pair run together and do not hand slots
/// to each other. The schedule must be without a fault; where it is compute-only nothing is
/// received.
[[nodiscard]] BufferSlots assign_buffer_slots(const Schedule& schedule);

}  // namespace ptdp
