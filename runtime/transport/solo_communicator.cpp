// Counts what one rank of a group would send, without sending it.
#include "runtime/transport/solo_communicator.h"

#include <algorithm>
#include <cassert>

namespace ptdp {
namespace {

/// Returns the bytes that a ring sends of `whole` in n−1 steps: all but the part of rank `owner`
/// mod `ranks` [B].
std::int64_t bytes_without(Buffer whole, int ranks, int owner) {
  return whole.bytes() - part_of(whole.size, ranks, owner % ranks).count * bytes_of(whole.type);
}

}  // namespace

SoloCommunicator::SoloCommunicator(int rank, int size) : rank_(rank), size_(size) {
  assert(rank >= 0 && rank < size);
}

std::unique_ptr<Communicator> SoloCommunicator::group(std::span<const int> ranks, int /*tag*/) {
  const auto place = std::find(ranks.begin(), ranks.end(), rank_);
  assert(place != ranks.end());
  return std::make_unique<SoloCommunicator>(static_cast<int>(place - ranks.begin()),
                                            static_cast<int>(ranks.size()));
}

Request SoloCommunicator::send(Buffer buffer, int /*to*/) {
  count(CollectiveKind::kSend, buffer.bytes());
  return {};
}

Request SoloCommunicator::receive(Buffer /*buffer*/, int /*from*/) {
  return {};
}

void SoloCommunicator::wait(Request /*request*/) {}

void SoloCommunicator::all_reduce(Buffer whole, Reduction /*reduction*/) {
  if (size_ > 1) {
    count(CollectiveKind::kAllReduce,
          bytes_without(whole, size_, rank_) + bytes_without(whole, size_, rank_ + 1));
  }
}

void SoloCommunicator::reduce_scatter(Buffer whole) {
  if (size_ > 1) {
    count(CollectiveKind::kReduceScatter, bytes_without(whole, size_, rank_));
  }
}

void SoloCommunicator::all_gather(Buffer whole) {
  if (size_ > 1) {
    count(CollectiveKind::kAllGather, bytes_without(whole, size_, rank_ + 1));
  }
}

void SoloCommunicator::barrier() {}

void SoloCommunicator::count(CollectiveKind kind, std::int64_t bytes) {
  const auto place = static_cast<std::size_t>(kind);
  sent_.bytes[place] += bytes;
  ++sent_.messages[place];
}

}  // namespace ptdp
