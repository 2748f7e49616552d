// The ring collective: n−1 steps in which every rank passes a partial sum on to the next rank, then
// n−1 steps in which it passes on whole sums. Source: Patarasuk & Yuan, JPDC 69 (2009), section 3.
#include <algorithm>
#include <array>
#include <cstddef>

#include "runtime/transport/message_communicator.h"

namespace ptdp {
namespace {

/// The order in which rank r of n sends and receives in a ring. In step s it sends its slice of
/// part r−s−1 (mod n) and receives its slice of part r−s−2. It adds what it received while s < n−1,
/// and copies it afterwards; so part r is summed at rank r, in step n−2.
///
/// Two rounds (lanes) run at a time, one step of each in turn. While a slice of one round is in
/// flight, the slice of the other is summed. Exchange t is one step of one round, and exchange t +
/// lanes sends what exchange t received.
struct RingOrder {
  int n = 1;
  int rank = 0;
  int first_step = 0;
  int steps = 0;
  int lanes = 1;

  /// Returns the step s of exchange t.
  [[nodiscard]] int step(std::int64_t t) const {
    return first_step + static_cast<int>(t / lanes % steps);
  }
  /// Returns whether exchange t adds what it receives, rather than copies it.
  [[nodiscard]] bool reduces(std::int64_t t) const { return step(t) < n - 1; }
  /// Returns the owner of the slice that exchange t sends.
  [[nodiscard]] int owner_sent(std::int64_t t) const { return (rank + 2 * n - step(t) - 1) % n; }
  /// Returns the owner of the slice that exchange t receives.
  [[nodiscard]] int owner_received(std::int64_t t) const {
    return (rank + 2 * n - step(t) - 2) % n;
  }
  /// Returns the round of exchange t.
  [[nodiscard]] std::int64_t round(std::int64_t t) const {
    return t / lanes / steps * lanes + t % lanes;
  }
  /// Returns how many exchanges before its own turn a receive begins.
  [[nodiscard]] int receives_ahead() const { return n <= 3 ? lanes : 2 * lanes; }
  /// Returns how many exchanges after its own a send is waited for. The wait comes before the
  /// receive begins that overwrites the slice, n−1 steps after it was sent.
  [[nodiscard]] int sends_behind() const {
    return std::min(2 * lanes, (n - 1) * lanes - receives_ahead());
  }
};

// Two lanes, each at most two exchanges ahead.
constexpr int kMaxReceives = 4;
// More than the sends in flight: two lanes, one exchange ahead and two behind.
constexpr int kPlaces = 8;

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
