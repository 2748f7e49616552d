// What both collective algorithms share: counting, slices as messages, and the barrier.
#include "runtime/transport/message_communicator.h"

#include <array>
#include <cassert>

namespace ptdp {

Request MessageCommunicator::send(Buffer buffer, int to) {
  const auto kind = static_cast<std::size_t>(CollectiveKind::kSend);
  const Request request = start_send(buffer, to, Traffic::kMessages);
  sent_.bytes[kind] += buffer.bytes();
  ++sent_.messages[kind];
  return request;
}

Request MessageCommunicator::receive(Buffer buffer, int from) {
  return start_receive(buffer, from, Traffic::kMessages, {});
}

void MessageCommunicator::wait(Request request) {
  wait_all(std::array{request});
}

void MessageCommunicator::all_reduce(Buffer whole, Reduction reduction) {
  run(whole, Phases::kBoth, reduction, CollectiveKind::kAllReduce);
}

void MessageCommunicator::reduce_scatter(Buffer whole) {
  run(whole, Phases::kReduceScatter, Reduction::kSum, CollectiveKind::kReduceScatter);
}

void MessageCommunicator::all_gather(Buffer whole) {
  run(whole, Phases::kAllGather, Reduction::kSum, CollectiveKind::kAllGather);
}

void MessageCommunicator::run(Buffer whole, Phases phases, Reduction reduction,
                              CollectiveKind kind) {
  if (size() == 1) {
    return;
  }
  ++sent_.messages[static_cast<std::size_t>(kind)];
  switch (algorithm_) {
    case CollectiveAlgorithm::kRing:
      run_ring(whole, phases, reduction, kind);
      break;
    case CollectiveAlgorithm::kOrdered:
      run_ordered(whole, phases, reduction, kind);
      break;
  }
}

void MessageCommunicator::barrier() {
  // The first rank hears from all others, then tells them.
  const int first = 0;
  requests_.clear();
  if (rank() != first) {
    requests_.push_back(start_send({}, first, Traffic::kCollectives));
    requests_.push_back(start_receive({}, first, Traffic::kCollectives, {}));
    wait_all(requests_);
    return;
  }
  for (int other = 1; other < size(); ++other) {
    requests_.push_back(start_receive({}, other, Traffic::kCollectives, {}));
  }
  wait_all(requests_);
  requests_.clear();
  for (int other = 1; other < size(); ++other) {
    requests_.push_back(start_send({}, other, Traffic::kCollectives));
  }
  wait_all(requests_);
}

Request MessageCommunicator::send_slice(Buffer slice, int to, CollectiveKind kind) {
  if (slice.empty()) {
    return {};
  }
  sent_.bytes[static_cast<std::size_t>(kind)] += slice.bytes();
  return start_send(slice, to, Traffic::kCollectives);
}

Request MessageCommunicator::receive_slice(Buffer slice, int from) {
  return slice.empty() ? Request{} : start_receive(slice, from, Traffic::kCollectives, {});
}

Request MessageCommunicator::combine_slice(Buffer to, int from, Reduction reduction) {
  return to.empty() ? Request{} : start_receive(to, from, Traffic::kCollectives, reduction);
}

}  // namespace ptdp
