// The ordered collective, a pairwise exchange. Every rank sends every other rank its part. The
// owner of a part sums what arrived in the order of ranks, whatever the order of arrival.
#include <algorithm>
#include <span>

#include "runtime/transport/combine.h"
#include "runtime/transport/message_communicator.h"

namespace ptdp {

void MessageCommunicator::run_ordered(Buffer whole, Phases phases, Reduction reduction,
                                      CollectiveKind kind) {
  const std::int64_t most = kWindowBytes / bytes_of(whole.type) / (size() - 1);
  const CollectiveSlices slices(whole, size(), std::max<std::int64_t>(most, 1));
  Tensor scratch;
  if (phases != Phases::kAllGather && rank() > 0) {
    scratch = Tensor(backend(), whole.type, slices.largest());
  }
  const Withdrawal withdrawal(*this);
  for (std::int64_t round = 0; round < slices.rounds(); ++round) {
    if (phases != Phases::kAllGather) {
      reduce_in_order(slices, round, scratch, reduction, kind);
    }
    if (phases != Phases::kReduceScatter) {
      gather_from_owners(slices, round, kind);
    }
  }
}

// Everything is in flight before the first wait, so that a rank sleeps at most twice. The parts of
// earlier ranks are summed in `scratch`, then with this rank's own, then with those of later ranks.
// x + y and y + x have equal bits.
void MessageCommunicator::reduce_in_order(const CollectiveSlices& slices, std::int64_t round,
                                          Buffer scratch, Reduction reduction,
                                          CollectiveKind kind) {
  const int n = size();
  const Buffer own = slices.at(rank(), round);
  requests_.clear();
  for (int other = 0; other < n; ++other) {
    if (other == 0 && rank() > 0) {
      requests_.push_back(receive_slice(scratch.slice(0, own.size), other));
    } else if (other < rank()) {
      requests_.push_back(combine_slice(scratch.slice(0, own.size), other, reduction));
    } else if (other > rank()) {
      requests_.push_back(combine_slice(own, other, reduction));
    }
  }
  // Every rank begins with a different receiver, so that no rank gets all messages at once.
  for (int i = 1; i < n; ++i) {
    const int to = (rank() + i) % n;
    requests_.push_back(send_slice(slices.at(to, round), to, kind));
  }
  const std::span<const Request> requests = requests_;
  const auto num_before = static_cast<std::size_t>(rank());
  if (rank() > 0) {
    wait_all(requests.first(num_before));
    combine(scratch.slice(0, own.size), own, reduction, backend());
  }
  wait_all(requests.subspan(num_before));
}

void MessageCommunicator::gather_from_owners(const CollectiveSlices& slices, std::int64_t round,
                                             CollectiveKind kind) {
  const int n = size();
  const Buffer own = slices.at(rank(), round);
  requests_.clear();
  for (int i = 1; i < n; ++i) {
    const int from = (rank() + n - i) % n;
    requests_.push_back(receive_slice(slices.at(from, round), from));
    requests_.push_back(send_slice(own, (rank() + i) % n, kind));
  }
  wait_all(requests_);
}

}  // namespace ptdp
