// Brings the measurements of a run's ranks together on rank 0, over messages alone.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/backend.h"
#include "runtime/executor/step_record.h"
#include "runtime/transport/communicator.h"

namespace ptdp {

/// A function that reads a steady clock [s].
using ReadClock = std::function<double()>;
/// Returns the steady clock's time [s].
[[nodiscard]] double read_steady_clock();

/// Returns a record as bytes for parse_record(). Their form is that of one program on hosts of one
/// byte order: they are sent, never kept.
[[nodiscard]] std::string to_bytes(const RankRecord& record);
/// Returns the record that to_bytes() wrote. Throws Error(kRuntimeFault) for bytes that are not a
/// whole record.
[[nodiscard]] RankRecord parse_record(std::string_view bytes);

/// Returns by how much rank 0's clock is ahead of this rank's [s], to be added to this rank's
/// times. Rank 0 asks every other rank for its time, 50 times. The fastest answer counts; it cannot
/// be wrong by more than half the time it took. An offset within that error counts as 0, since the
/// clocks may be one, as on one host. All ranks call it, at a time when nobody computes.
[[nodiscard]] double clock_offset(Communicator& world, Backend& backend,
                                  const ReadClock& clock = read_steady_clock);

/// Returns all records by rank on rank 0, with times of its clock; none on other ranks. All ranks
/// call it.
[[nodiscard]] std::vector<RankRecord> gather_records(Communicator& world, Backend& backend,
                                                     RankRecord own,
                                                     const ReadClock& clock = read_steady_clock);

}  // namespace ptdp
