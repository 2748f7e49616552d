// Times a complete schedule: compute, messages, collectives and the optimizer, lane by lane.
#pragma once

#include <span>

#include "cost_model/schedule/schedule.h"
#include "cost_model/simulation/step_times.h"
#include "cost_model/simulation/timeline.h"

namespace ptdp {

/// Times a complete schedule, and returns when every action ran. Every lane of a rank (lane.h) does
/// its actions in the order of the rank's list. Each starts as soon as the one before it on the
/// lane is done and its inputs are there:
///
///   F, B, I        the received or copied activation or gradient; B and I of the last stage its F;
///                  F the first UNSHARD of its stage on this rank, and it ends no sooner than
///                  1/n of its time after the last of n; in a pair all of them;
///   a pair         both inputs; both run for the sum of their durations;
///   SEND           what it sends; occupies its lane for latency + transfer, and waits for no
///                  receiver: receives are posted ahead;
///   RECV           is its SEND, beside whatever the rank does: what takes the result waits for it;
///   COPY           no time;
///   REDUCE_GRAD k  of n of a stage: (k + 1)/n of the last W or B of the stage before it in the
///                  list has run; occupies the data lane for latency + transfer, as UNSHARD does
///                  (the compute lane, if StepTimes::data blocks);
///   TIED           two ranks, NORM all (each by itself if StepTimes::ranks_meet is off): start
///                  when the compute lanes have come to it and the data lanes have done what
///                  stands before it;
///   OPTIMIZER      what stands before it on the data lane.
///
/// A schedule without sends and receives has implied messages. They arrive latency + transfer after
/// they were made, any number at a time, and keep nobody busy.
///
/// Contention (StepTimes::shares_links): each rank has a link out and a link in, within its node
/// and across nodes. A message loads the sender's link out and the receiver's link in; a collective
/// of the data lane loads both links of its rank. Transfers that share a link get max-min fair
/// rates (fair_share.h). A transfer that is alone gets 1, the rate that TransferTime::transfer is
/// given at: the full rate of message_time() and bus_bandwidth() in network/collectives.h. Sharing
/// makes no step faster. Latency, TIED and implied messages load no link.
///
/// StepTimes::overlap_slowdown is f, from 0 to 1: F, B, I, W and R of a rank run at rate 1 − f
/// while its data lane is busy. Work counts what they take then.
///
/// Stragglers and jitter apply to F, B, I, W and R. Replicas and the members of a tensor-parallel
/// group do the same at the same time: one pipeline stands for all of them and is simulated once.
///
/// The schedule must pass the checks of find_fault() up to that of the order, and so be in a valid
/// place on every rank. Throws Error with the rank and the action when it comes to a deadlock.
[[nodiscard]] Timeline simulate_step(const Schedule& schedule, const StepTimes& times);

/// Times a complete schedule as simulate_step() does, without the spans, which take as much memory
/// as the schedule. It is made for searches.
[[nodiscard]] SimulatedTimes simulate_step_times(const Schedule& schedule, const StepTimes& times);

/// Times a compute-only schedule, in half the time that simulate_step() takes. Implied messages
/// have one latency. Passes take `durations` by virtual stage, their `alone` left out; one stands
/// for all stages.
[[nodiscard]] SimulatedTimes simulate(const Schedule& schedule,
                                      std::span<const StageDurations> durations,
                                      Seconds p2p_latency = Seconds(0.0));

}  // namespace ptdp
