#include "runtime/rehearsal/rehearsal_communicator.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "runtime/transport/group_tag.h"
#include "runtime/transport/solo_communicator.h"

namespace ptdp {
namespace {

constexpr double kActivationDeviation = 1.0;
constexpr double kGradientDeviation = 1e-3;
/// Number of variates drawn for a buffer. More are copies of these, which take a fraction of the
/// time.
constexpr std::int64_t kDrawn = std::int64_t{1} << 20;

/// Copies the first `have` elements over the rest of a buffer, again and again.
void repeat(Backend& backend, Buffer whole, std::int64_t have) {
  while (have < whole.size) {
    const std::int64_t count = std::min(have, whole.size - have);
    backend.copy(whole.slice(0, count), whole.slice(have, count));
    have += count;
  }
}

}  // namespace

RehearsalCommunicator::RehearsalCommunicator(Backend& backend, CacheEvictor& others, int rank,
                                             int size)
    : RehearsalCommunicator(backend, others, std::make_unique<SoloCommunicator>(rank, size),
                            kWorldTag) {}

RehearsalCommunicator::RehearsalCommunicator(Backend& backend, CacheEvictor& others,
                                             std::unique_ptr<Communicator> inner, int tag)
    : ForwardingCommunicator(std::move(inner)), backend_(backend), others_(others), tag_(tag) {}

std::unique_ptr<Communicator> RehearsalCommunicator::group(std::span<const int> ranks, int tag) {
  return std::unique_ptr<Communicator>(
      new RehearsalCommunicator(backend_, others_, ForwardingCommunicator::group(ranks, tag), tag));
}

Request RehearsalCommunicator::receive(Buffer buffer, int from) {
  static_cast<void>(ForwardingCommunicator::receive(buffer, from));
  expected_[++last_request_] = buffer;
  return {.id = last_request_};
}

void RehearsalCommunicator::wait(Request request) {
  if (request.id == 0) {
    return;  // a send, perhaps by another thread
  }
  const auto found = expected_.find(request.id);
  assert(found != expected_.end());
  const Buffer received = found->second;
  expected_.erase(found);
  others_.use();
  const std::int64_t drawn = std::min(received.size, kDrawn);
  backend_.fill_normal(received.slice(0, drawn),
                       {.rows = 1, .columns = drawn, .total_columns = drawn}, request.id,
                       tag_ == kBackwardTag ? kGradientDeviation : kActivationDeviation);
  repeat(backend_, received, drawn);
}

void RehearsalCommunicator::all_gather(Buffer whole) {
  ForwardingCommunicator::all_gather(whole);
  if (!is_within_passes(tag_)) {
    return;
  }
  const Part own = part_of(whole.size, size(), rank());
  for (int other = 0; other < size(); ++other) {
    const Part part = part_of(whole.size, size(), other);
    const std::int64_t count = std::min(own.count, part.count);
    if (other != rank() && count > 0) {
      backend_.copy(whole.slice(own.first, count), whole.slice(part.first, count));
    }
    // Parts differ by one element at most.
    if (part.count > count) {
      backend_.fill(whole.slice(part.first + count, part.count - count), 0.0);
    }
  }
}

Request RehearsalCommunicator::begin_all_gather(Buffer whole) {
  all_gather(whole);
  return {};
}

}  // namespace ptdp
