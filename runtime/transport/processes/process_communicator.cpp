// Turns buffers into packets and back.
#include "runtime/transport/processes/process_communicator.h"

#include <algorithm>
#include <cassert>
#include <string>

#include "cost_model/error.h"
#include "runtime/transport/combine.h"
#include "runtime/transport/link_backend.h"

namespace ptdp {
namespace {

/// Returns a hash of both arguments by the finalizer of SplitMix64: every bit of the result depends
/// on every bit of both.
std::uint64_t mixed(std::uint64_t hash, std::uint64_t value) {
  std::uint64_t z = hash * 0x9E3779B97F4A7C15U + value + 0x9E3779B97F4A7C15U;
  z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
  return z ^ (z >> 31U);
}

}  // namespace

ProcessCommunicator::ProcessCommunicator(std::shared_ptr<ProcessWorldState> world,
                                         ProcessGroup group, int rank, Backend& backend)
    : MessageCommunicator(backend, world->algorithm()),
      world_(std::move(world)),
      group_(std::move(group)),
      rank_(rank),
      is_on_device_(is_asynchronous(backend)),
      mailboxes_(2 * group_.members.size()) {}

ProcessCommunicator::~ProcessCommunicator() {
  receives_.end_all([this](ProcessReceive& begun) { engine().withdraw(begun); });
}

std::unique_ptr<Communicator> ProcessCommunicator::group(std::span<const int> ranks, int tag) {
  engine().throw_if_aborted();
  const auto place = std::find(ranks.begin(), ranks.end(), rank_);
  assert(place != ranks.end());
  const std::uint64_t call = groups_made_[{std::vector<int>(ranks.begin(), ranks.end()), tag}]++;
  std::uint64_t id = mixed(mixed(group_.id, static_cast<std::uint64_t>(tag)), call);
  ProcessGroup group;
  for (const int rank : ranks) {
    group.members.push_back(member(rank));
    id = mixed(id, static_cast<std::uint64_t>(rank));
  }
  group.id = id;
  return std::make_unique<ProcessCommunicator>(world_, std::move(group),
                                               static_cast<int>(place - ranks.begin()), backend());
}

Request ProcessCommunicator::start_send(Buffer buffer, int to, Traffic traffic) {
  engine().throw_if_aborted();
  Packet packet = engine().pool().take(Packet::blocks_for(buffer.bytes()));
  packet.header() = {.group = channel(traffic),
                     .size = buffer.size,
                     .world = world_->number(),
                     .type = buffer.type};
  if (!buffer.empty()) {
    backend().copy_out(buffer, packet.elements().data);
  }
  engine().send(std::move(packet), member(to));
  return {};
}

Request ProcessCommunicator::start_receive(Buffer buffer, int from, Traffic traffic,
                                           std::optional<Reduction> reduction) {
  const Request request = receives_.free_place();
  ProcessReceive& receive = receives_[request];
  receive.buffer = buffer;
  receive.reduction = reduction;
  receive.is_collective = traffic == Traffic::kCollectives;
  receive.from = from;
  engine().expect(receive, mailbox(from, traffic));
  receives_.take();
  return request;
}

void ProcessCommunicator::wait_all(std::span<const Request> requests) {
  engine().throw_if_aborted();
  const auto has_arrived = [&](Request request) {
    return request.id == 0 || receives_[request].has_arrived;
  };
  if (std::all_of(requests.begin(), requests.end(), [](Request r) { return r.id == 0; })) {
    return;
  }
  engine().wait_until([&] { return std::all_of(requests.begin(), requests.end(), has_arrived); });
  for (const Request& request : requests) {
    if (request.id != 0) {
      receives_.give_back(request);
      take(receives_[request]);
    }
  }
}

void ProcessCommunicator::take(ProcessReceive& receive) {
  ProcessReceive arrived = std::exchange(receive, {});
  const Buffer sent = arrived.packet.elements();
  check_received(sent, member(arrived.from), arrived.buffer, member(rank_));
  if (arrived.reduction) {
    combine_received(sent, arrived.buffer, *arrived.reduction);
  } else if (!sent.empty()) {
    backend().copy_in(sent.data, arrived.buffer);
  }
  engine().pool().give_back(std::move(arrived.packet));
}

// The packet lies in host memory, so that a device needs a copy of it.
void ProcessCommunicator::combine_received(Buffer sent, Buffer to, Reduction reduction) {
  if (!is_on_device_ || sent.empty()) {
    combine(sent, to, reduction, backend());
    return;
  }
  const Tensor received(backend(), sent.type, sent.size);
  backend().copy_in(sent.data, received);
  combine(received, to, reduction, backend());
}

void ProcessCommunicator::withdraw_collectives() noexcept {
  receives_.end_collectives([this](ProcessReceive& begun) { engine().withdraw(begun); });
}

std::uint64_t ProcessCommunicator::channel(Traffic traffic) const {
  return mixed(group_.id, static_cast<std::uint64_t>(traffic));
}

Mailbox& ProcessCommunicator::mailbox(int from, Traffic traffic) {
  Mailbox*& place = mailboxes_[static_cast<std::size_t>(traffic) * group_.members.size() +
                               static_cast<std::size_t>(from)];
  if (place == nullptr) {
    place = &engine().mailbox(channel(traffic), member(from));
  }
  return *place;
}

}  // namespace ptdp
