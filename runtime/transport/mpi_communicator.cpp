#include "runtime/transport/mpi_communicator.h"

#include <algorithm>
#include <cassert>
#include <string>

#include "cost_model/error.h"
#include "runtime/transport/combine.h"

namespace ptdp {
namespace {

/// The finaliser of SplitMix64: every bit of the result depends on every bit of both.
std::uint64_t mixed(std::uint64_t hash, std::uint64_t value) {
  std::uint64_t z = hash * 0x9E3779B97F4A7C15U + value + 0x9E3779B97F4A7C15U;
  z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
  return z ^ (z >> 31U);
}

std::string described(Buffer buffer) {
  return std::to_string(buffer.size) + " " + std::string(name_of(buffer.type));
}

}  // namespace

MpiCommunicator::MpiCommunicator(std::shared_ptr<MpiWorldState> world, MpiGroup group, int rank,
                                 Backend& backend)
    : MessageCommunicator(backend, world->algorithm()),
      world_(std::move(world)),
      group_(std::move(group)),
      rank_(rank),
      mailboxes_(2 * group_.members.size()) {}

MpiCommunicator::~MpiCommunicator() {
  for (MpiReceive& receive : receives_) {
    if (receive.mailbox != nullptr) {
      engine().withdraw(receive);
    }
  }
}

std::unique_ptr<Communicator> MpiCommunicator::group(std::span<const int> ranks, int tag) {
  engine().throw_if_aborted();
  const auto place = std::find(ranks.begin(), ranks.end(), rank_);
  assert(place != ranks.end());
  const std::uint64_t call = groups_made_[{std::vector<int>(ranks.begin(), ranks.end()), tag}]++;
  std::uint64_t id = mixed(mixed(group_.id, static_cast<std::uint64_t>(tag)), call);
  MpiGroup group;
  for (const int rank : ranks) {
    group.members.push_back(member(rank));
    id = mixed(id, static_cast<std::uint64_t>(rank));
  }
  group.id = id;
  return std::make_unique<MpiCommunicator>(world_, std::move(group),
                                           static_cast<int>(place - ranks.begin()), backend());
}

Request MpiCommunicator::start_send(Buffer buffer, int to, Traffic traffic) {
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

Request MpiCommunicator::start_receive(Buffer buffer, int from, Traffic traffic) {
  return expect(buffer, from, traffic, {});
}

Request MpiCommunicator::start_combine(Buffer to, int from, Reduction reduction) {
  return expect(to, from, Traffic::kCollectives, reduction);
}

Request MpiCommunicator::expect(Buffer buffer, int from, Traffic traffic,
                                std::optional<Reduction> reduction) {
  const Request request = free_place();
  MpiReceive& receive = receive_of(request);
  receive.buffer = buffer;
  receive.reduction = reduction;
  receive.is_collective = traffic == Traffic::kCollectives;
  receive.from = from;
  engine().expect(receive, mailbox(from, traffic));
  free_.pop_back();
  return request;
}

void MpiCommunicator::wait_all(std::span<const Request> requests) {
  engine().throw_if_aborted();
  const auto has_arrived = [&](Request request) {
    return request.id == 0 || receive_of(request).has_arrived;
  };
  if (std::all_of(requests.begin(), requests.end(), [](Request r) { return r.id == 0; })) {
    return;
  }
  engine().wait_until([&] { return std::all_of(requests.begin(), requests.end(), has_arrived); });
  for (const Request& request : requests) {
    if (request.id != 0) {
      free_.push_back(request);
      take(receive_of(request));
    }
  }
}

void MpiCommunicator::take(MpiReceive& receive) {
  MpiReceive arrived = std::exchange(receive, {});
  const Buffer sent = arrived.packet.elements();
  if (sent.size != arrived.buffer.size || sent.type != arrived.buffer.type) {
    throw Error("rank " + std::to_string(member(arrived.from)) + " sent " + described(sent) +
                    " to rank " + std::to_string(member(rank_)) + ", which expects " +
                    described(arrived.buffer),
                ExitStatus::kRuntimeFault);
  }
  if (arrived.reduction) {
    combine(sent, arrived.buffer, arrived.reduction, backend());
  } else if (!sent.empty()) {
    backend().copy_in(sent.data, arrived.buffer);
  }
  engine().pool().give_back(std::move(arrived.packet));
}

void MpiCommunicator::withdraw_collectives() noexcept {
  if (free_.size() == receives_.size()) {
    return;
  }
  for (std::size_t i = 0; i < receives_.size(); ++i) {
    MpiReceive& begun = receives_[i];
    if (begun.mailbox != nullptr && begun.is_collective) {
      engine().withdraw(begun);
      free_.push_back({i + 1});
    }
  }
}

std::uint64_t MpiCommunicator::channel(Traffic traffic) const {
  return mixed(group_.id, static_cast<std::uint64_t>(traffic));
}

Mailbox& MpiCommunicator::mailbox(int from, Traffic traffic) {
  Mailbox*& place = mailboxes_[static_cast<std::size_t>(traffic) * group_.members.size() +
                               static_cast<std::size_t>(from)];
  if (place == nullptr) {
    place = &engine().mailbox(channel(traffic), member(from));
  }
  return *place;
}

Request MpiCommunicator::free_place() {
  if (free_.empty()) {
    receives_.emplace_back();
    free_.push_back({receives_.size()});
  }
  receive_of(free_.back()) = {};
  return free_.back();
}

MpiReceive& MpiCommunicator::receive_of(Request request) {
  assert(request.id >= 1 && request.id <= receives_.size());
  return receives_[static_cast<std::size_t>(request.id - 1)];
}

}  // namespace ptdp
