// A ring: n−1 steps in which every rank passes a partial sum on to the next one, then n−1 steps in
// which it passes on whole ones. Source: Patarasuk & Yuan, JPDC 69 (2009), section 3.
#include <algorithm>
#include <array>
#include <cstddef>

#include "runtime/transport/message_communicator.h"

namespace ptdp {
namespace {

/// What rank r of n does, exchange by exchange. In step s it sends slice r−s−1 (mod n) and receives
/// slice r−s−2, which it adds to its own while s < n−1 and takes as it is afterwards: so part r is
/// summed at rank r, in step n−2. Two rounds run at a time, a step of each in turn: while a slice
/// of one is under way, that of the other is summed. Exchange t is a step of one of them, and what
/// exchange t received is what exchange t + lanes sends.
struct RingOrder {
  int n = 1;
  int rank = 0;
  int first_step = 0;
  int steps = 0;
  int lanes = 1;

  [[nodiscard]] int step(std::int64_t t) const {
    return first_step + static_cast<int>(t / lanes % steps);
  }
  [[nodiscard]] bool reduces(std::int64_t t) const { return step(t) < n - 1; }
  [[nodiscard]] int owner_sent(std::int64_t t) const { return (rank + 2 * n - step(t) - 1) % n; }
  [[nodiscard]] int owner_received(std::int64_t t) const {
    return (rank + 2 * n - step(t) - 2) % n;
  }
  [[nodiscard]] std::int64_t round(std::int64_t t) const {
    return t / lanes / steps * lanes + t % lanes;
  }
  /// Receives begin this many exchanges ahead of their turn.
  [[nodiscard]] int receives_ahead() const { return n <= 3 ? lanes : 2 * lanes; }
  /// Sends are waited for this many exchanges after theirs, but before the receive begins that
  /// overwrites the slice, n−1 steps after it was sent.
  [[nodiscard]] int sends_behind() const {
    return std::min(2 * lanes, (n - 1) * lanes - receives_ahead());
  }
};

constexpr int kMaxReceives = 4;  // 2 lanes ahead by 2.
constexpr int kPlaces = 8;       // More than sends under way: 2 lanes ahead by 1, behind by 2.

}  // namespace

void MessageCommunicator::run_ring(Buffer whole, Phases phases, Reduction reduction,
                                   CollectiveKind kind) {
  const int n = size();
  const CollectiveSlices slices(whole, n, kWindowBytes / kMaxReceives / bytes_of(whole.type));
  const RingOrder order = {.n = n,
                           .rank = rank(),
                           .first_step = phases == Phases::kAllGather ? n - 1 : 0,
                           .steps = phases == Phases::kBoth ? 2 * (n - 1) : n - 1,
                           .lanes = slices.rounds() > 1 ? 2 : 1};
  const std::int64_t num_exchanges = slices.rounds() * order.steps;

  const Withdrawal withdrawal(*this);
  std::array<Request, kPlaces> receives;
  std::array<Request, kPlaces> sends;
  const auto place = [](std::int64_t t) { return static_cast<std::size_t>(t % kPlaces); };
  const auto receive = [&](std::int64_t t) {
    if (t < num_exchanges) {
      const Buffer slice = slices.at(order.owner_received(t), order.round(t));
      const int left = (rank() + n - 1) % n;
      receives[place(t)] =
          order.reduces(t) ? combine_slice(slice, left, reduction) : receive_slice(slice, left);
    }
  };
  const auto send = [&](std::int64_t t) {
    if (t < num_exchanges) {
      const Buffer slice = slices.at(order.owner_sent(t), order.round(t));
      sends[place(t)] = send_slice(slice, (rank() + 1) % n, kind);
    }
  };
  const auto wait = [&](std::int64_t t) {
    const std::int64_t behind = t - order.sends_behind();
    wait_all(std::array{t < num_exchanges ? receives[place(t)] : Request{},
                        behind >= 0 ? sends[place(behind)] : Request{}});
  };

  for (int t = 0; t < order.receives_ahead(); ++t) {
    receive(t);
  }
  for (int t = 0; t < order.lanes; ++t) {
    send(t);
  }
  for (std::int64_t t = 0; t < num_exchanges; ++t) {
    wait(t);
    receive(t + order.receives_ahead());
    send(t + order.lanes);
  }
  for (std::int64_t t = num_exchanges; t < num_exchanges + order.sends_behind(); ++t) {
    wait(t);
  }
}

}  // namespace ptdp
