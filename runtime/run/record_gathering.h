// What the ranks of a run measured, brought together on rank 0 over messages alone.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/backend.h"
#include "runtime/executor/step_record.h"
#include "runtime/transport/communicator.h"

namespace ptdp {

/// Reads a steady clock [s].
using ReadClock = std::function<double()>;
[[nodiscard]] double read_steady_clock();

/// A record as bytes, and back. The form is that of one program on hosts of one byte order: it is
/// sent, never kept. Throws Error(kRuntimeFault) for bytes that are not a whole record.
[[nodiscard]] std::string to_bytes(const RankRecord& record);
[[nodiscard]] RankRecord parse_record(std::string_view bytes);

/// What rank 0's clock is ahead of this rank's [s]: what to add to this rank's times. Rank 0 asks
/// every other one for its time, 50 times; the fastest answer counts, which cannot be wrong by more
/// than half the time it took. Where the offset is below that the clocks may be one, as those of
/// a host are, and it is 0. All ranks call it, at a time when nobody computes.
[[nodiscard]] double clock_offset(Communicator& world, Backend& backend,
                                  const ReadClock& clock = read_steady_clock);

/// All records by rank on rank 0, with times of its clock; empty on the others. All ranks call it.
[[nodiscard]] std::vector<RankRecord> gather_records(Communicator& world, Backend& backend,
                                                     RankRecord own,
                                                     const ReadClock& clock = read_steady_clock);

}  // namespace ptdp
