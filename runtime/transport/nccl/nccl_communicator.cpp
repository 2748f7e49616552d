// Turns collectives and messages into NCCL's calls.
#include "runtime/transport/nccl/nccl_communicator.h"

#include <algorithm>
#include <cassert>
#include <tuple>
#include <utility>

#include "cost_model/error.h"
#include "runtime/transport/group_tag.h"

namespace ptdp {
namespace {

ncclDataType_t type_of(DataType type) {
  switch (type) {
    case DataType::kFloat64:
      return ncclFloat64;
    case DataType::kFloat32:
      return ncclFloat32;
    case DataType::kBFloat16:
      return ncclBfloat16;
    case DataType::kFloat16:
      return ncclFloat16;
    case DataType::kInt32:
      return ncclInt32;
  }
  return ncclNumTypes;
}

ncclRedOp_t operation_of(Reduction reduction) {
  return reduction == Reduction::kSum ? ncclSum : ncclMax;
}

/// Returns ranks in words, for error messages.
std::string name_of(std::span<const int> members) {
  constexpr std::size_t most = 8;
  std::string name = members.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < std::min(members.size(), most); ++i) {
    name += (i > 0 ? ", " : "") + std::to_string(members[i]);
  }
  return members.size() <= most ? name : name + ", ... (" + std::to_string(members.size()) + ")";
}

/// Makes several NCCL calls as one group. Returns the first error.
template <class Make>
ncclResult_t grouped(const Make& make) {
  const NcclLibrary& nccl = nccl_library();
  if (const ncclResult_t result = nccl.group_start(); result != ncclSuccess) {
    return result;
  }
  const ncclResult_t made = make();
  const ncclResult_t ended = nccl.group_end();
  return made == ncclSuccess ? ended : made;
}

/// Calls `make` for every part of a buffer that has elements, until one call fails.
template <class Make>
ncclResult_t for_parts(Buffer whole, int ranks, const Make& make) {
  ncclResult_t result = ncclSuccess;
  for (int owner = 0; owner < ranks && result == ncclSuccess; ++owner) {
    const Part part = part_of(whole.size, ranks, owner);
    if (part.count > 0) {
      result = make(whole.slice(part.first, part.count), owner);
    }
  }
  return result;
}

const char* call_name(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::kAllReduce:
      return "ncclAllReduce";
    case CollectiveKind::kReduceScatter:
      return "ncclReduceScatter";
    case CollectiveKind::kAllGather:
      return "ncclAllGather";
    case CollectiveKind::kSend:
      return "ncclSend";
  }
  return "";
}

/// Splits links into rounds whose links have no rank in common. Each link goes into the first round
/// that suits it, so that all ranks get the same rounds.
std::vector<std::vector<MessageLink>> rounds_of(std::span<const MessageLink> links) {
  std::vector<std::vector<MessageLink>> rounds;
  for (const MessageLink& link : links) {
    const auto is_apart = [&](const MessageLink& other) {
      return link.from != other.from && link.from != other.to && link.to != other.from &&
             link.to != other.to;
    };
    auto round = std::find_if(rounds.begin(), rounds.end(), [&](const auto& others) {
      return std::all_of(others.begin(), others.end(), is_apart);
    });
    if (round == rounds.end()) {
      round = rounds.emplace(rounds.end());
    }
    round->push_back(link);
  }
  return rounds;
}

}  // namespace

NcclCommunicator::NcclCommunicator(std::shared_ptr<NcclWorldState> world, Place place,
                                   const NcclBlocks& blocks, const std::shared_ptr<NcclEnd>& end,
                                   Backend& backend, Communicator& host)
    : world_(std::move(world)),
      place_(std::move(place)),
      blocks_(blocks),
      backend_(backend),
      host_(&host) {
  all_ = std::make_shared<NcclChannel>(*world_, end, backend_);
  shared_[place_.members] = all_;
}

NcclCommunicator::NcclCommunicator(const NcclCommunicator& world, Place place,
                                   std::unique_ptr<Communicator> host_group)
    : world_(world.world_),
      place_(std::move(place)),
      blocks_(world.blocks_),
      backend_(world.backend_),
      host_group_(std::move(host_group)),
      host_(host_group_.get()) {}

NcclCommunicator::~NcclCommunicator() = default;

NcclCommunicator::Place NcclCommunicator::place_among(std::span<const int> ranks) const {
  const auto own = std::find(ranks.begin(), ranks.end(), place_.rank);
  assert(own != ranks.end());
  Place place{.members = {}, .rank = static_cast<int>(own - ranks.begin())};
  for (const int rank : ranks) {
    place.members.push_back(place_.members[static_cast<std::size_t>(rank)]);
  }
  return place;
}

NcclChannel& NcclCommunicator::require_all() {
  if (!all_) {
    throw Error("NCCL, " + name_of(place_.members) +
                    ": a collective or a part of a group that was made for messages alone",
                ExitStatus::kRuntimeFault);
  }
  return *all_;
}

std::shared_ptr<NcclEnd> NcclCommunicator::split(int colour, int key, const std::string& name,
                                                 const SplitOptions& options) {
  std::shared_ptr<NcclEnd> part = world_->add(world_rank(), name);
  require_all().end().split(colour, key, options, *part);
  return part;
}

std::unique_ptr<Communicator> NcclCommunicator::group(std::span<const int> ranks, int tag) {
  check();
  Place place = place_among(ranks);
  std::unique_ptr<NcclCommunicator> group(
      new NcclCommunicator(*this, std::move(place), host_->group(ranks, tag)));
  if (ranks.size() > 1 || size() == 1) {
    if (all_) {
      const int colour = *std::min_element(ranks.begin(), ranks.end());
      group->all_ = channel_of(group->place_, tag, colour);
    }
  } else {  // A group of one rank needs no communicator, nor the memory of one.
    skip_group();
  }
  return group;
}

std::shared_ptr<NcclChannel> NcclCommunicator::channel_of(const Place& place, int tag, int colour) {
  std::weak_ptr<NcclChannel> unshared;
  std::weak_ptr<NcclChannel>& kept = is_within_passes(tag) ? unshared : shared_[place.members];
  if (std::shared_ptr<NcclChannel> channel = kept.lock()) {
    skip_group();  // Other ranks may make a new one at this point.
    return channel;
  }
  const std::string name = "group " + std::to_string(tag) + " of " + name_of(place.members);
  auto channel = std::make_shared<NcclChannel>(
      *world_, split(colour, place.rank, name, {.most_blocks = blocks_.collective}), backend_);
  kept = channel;
  return channel;
}

void NcclCommunicator::skip_group() {
  // NCCL writes to `none` when the split is done, which may be after this call threw.
  const std::shared_ptr<NcclEnd> none = world_->add(world_rank(), "no group");
  require_all().end().split(NCCL_SPLIT_NOCOLOR, 0, SplitOptions{}, *none);
}

std::unique_ptr<Communicator> NcclCommunicator::message_group(std::span<const int> ranks, int tag,
                                                              std::span<const MessageLink> links) {
  check();
  Place place = place_among(ranks);
  const int own = place.rank;
  std::unique_ptr<NcclCommunicator> group(
      new NcclCommunicator(*this, std::move(place), host_->group(ranks, tag)));
  for (const std::vector<MessageLink>& round : rounds_of(links)) {
    const auto link = std::find_if(round.begin(), round.end(), [&](const MessageLink& each) {
      return each.from == own || each.to == own;
    });
    if (link == round.end()) {
      skip_group();
      continue;
    }
    const auto member = [&](int rank) {
      return std::to_string(group->place_.members[static_cast<std::size_t>(rank)]);
    };
    const std::string name = "messages " + std::to_string(tag) + " from rank " +
                             member(link->from) + " to rank " + member(link->to);
    group->connect(*link, split(ranks[static_cast<std::size_t>(link->from)],
                                link->from == own ? 0 : 1, name, {.most_blocks = blocks_.link}));
  }
  return group;
}

/// Makes the channel of a link and sends one element along it. NCCL connects two ranks at their
/// first message, which waits for the other rank's thread. It is sent here because both ranks are
/// here.
void NcclCommunicator::connect(const MessageLink& link, const std::shared_ptr<NcclEnd>& end) {
  const bool sends = link.from == place_.rank;
  const int other = sends ? link.to : link.from;
  Channels& channels = sends ? to_ : from_;
  NcclChannel& channel = channels
                             .emplace(std::piecewise_construct, std::forward_as_tuple(other),
                                      std::forward_as_tuple(*world_, end, backend_))
                             .first->second;
  const Tensor element(backend_, DataType::kInt32, 1);
  if (sends) {
    backend_.fill(element, 0.0);
    wait(begin_send(channel, element, 1));
  } else {
    wait(begin_receive(channel, element, 0));
  }
}

Request NcclCommunicator::begin_send(NcclChannel& channel, Buffer buffer, int to) {
  return request_of(channel, channel.begin("ncclSend", [&](ncclComm_t communicator, auto stream) {
    return nccl_library().send(buffer.data, static_cast<std::size_t>(buffer.size),
                               type_of(buffer.type), to, communicator, stream);
  }));
}

Request NcclCommunicator::begin_receive(NcclChannel& channel, Buffer buffer, int from) {
  return request_of(channel, channel.begin("ncclRecv", [&](ncclComm_t communicator, auto stream) {
    return nccl_library().receive(buffer.data, static_cast<std::size_t>(buffer.size),
                                  type_of(buffer.type), from, communicator, stream);
  }));
}

Request NcclCommunicator::request_of(NcclChannel& channel, std::shared_ptr<void> event) {
  begun_[++last_request_] = {.channel = &channel, .event = std::move(event)};
  return {.id = last_request_};
}

void NcclCommunicator::throw_without_link(int from, int to) const {
  throw Error("NCCL, " + name_of(place_.members) + ": a message from rank " + std::to_string(from) +
                  " to rank " + std::to_string(to) + ": the group was made without this link",
              ExitStatus::kRuntimeFault);
}

Request NcclCommunicator::send(Buffer buffer, int to) {
  check();
  sent_.bytes[static_cast<std::size_t>(CollectiveKind::kSend)] += buffer.bytes();
  ++sent_.messages[static_cast<std::size_t>(CollectiveKind::kSend)];
  if (buffer.empty()) {
    return {};
  }
  // The sender is rank 0 and the receiver rank 1 of a link.
  if (const auto link = to_.find(to); link != to_.end()) {
    return begin_send(link->second, buffer, 1);
  }
  if (!all_) {
    throw_without_link(place_.rank, to);
  }
  if (to == place_.rank) {
    own_messages_.push_back({.buffer = buffer, .request = ++last_request_});
    return {.id = last_request_};
  }
  return begin_send(*all_, buffer, to);
}

Request NcclCommunicator::receive(Buffer buffer, int from) {
  check();
  if (buffer.empty()) {
    return {};
  }
  if (const auto link = from_.find(from); link != from_.end()) {
    return begin_receive(link->second, buffer, 0);
  }
  if (!all_) {
    throw_without_link(from, place_.rank);
  }
  return from == place_.rank ? receive_own(buffer) : begin_receive(*all_, buffer, from);
}

/// Sends and receives a message of this rank to itself in one group of NCCL calls.
Request NcclCommunicator::receive_own(Buffer buffer) {
  if (own_messages_.empty()) {
    throw_without_link(place_.rank, place_.rank);
  }
  const OwnMessage message = own_messages_.front();
  own_messages_.pop_front();
  const Request request = request_of(
      *all_, all_->begin("ncclSend and ncclRecv", [&](ncclComm_t communicator, auto stream) {
        const NcclLibrary& nccl = nccl_library();
        return grouped([&] {
          const ncclResult_t result =
              nccl.send(message.buffer.data, static_cast<std::size_t>(message.buffer.size),
                        type_of(message.buffer.type), place_.rank, communicator, stream);
          return result != ncclSuccess
                     ? result
                     : nccl.receive(buffer.data, static_cast<std::size_t>(buffer.size),
                                    type_of(buffer.type), place_.rank, communicator, stream);
        });
      }));
  begun_[message.request] = begun_.at(request.id);
  return request;
}

void NcclCommunicator::wait(Request request) {
  check();
  if (request.id == 0) {
    return;
  }
  const auto found = begun_.find(request.id);
  if (found == begun_.end()) {
    throw Error("NCCL, " + name_of(place_.members) +
                    ": a message to oneself is waited for before it is received",
                ExitStatus::kRuntimeFault);
  }
  found->second.channel->wait(found->second.event);
  begun_.erase(found);
}

/// Makes NCCL's calls for one collective in place. NCCL's own calls need equal parts. When the
/// ranks do not divide a buffer, each part is reduced to its owner, or sent by it, in one group.
ncclResult_t NcclCommunicator::issue(ncclComm_t communicator, cudaStream_t stream,
                                     CollectiveKind kind, Buffer whole,
                                     ncclRedOp_t operation) const {
  const NcclLibrary& nccl = nccl_library();
  const ncclDataType_t type = type_of(whole.type);
  const auto count = [](const Buffer& buffer) { return static_cast<std::size_t>(buffer.size); };
  if (kind == CollectiveKind::kAllReduce) {
    return nccl.all_reduce(whole.data, whole.data, count(whole), type, operation, communicator,
                           stream);
  }
  const bool is_scatter = kind == CollectiveKind::kReduceScatter;
  if (whole.size % size() == 0) {
    const Part part = part_of(whole.size, size(), rank());
    const Buffer own = whole.slice(part.first, part.count);
    return is_scatter
               ? nccl.reduce_scatter(whole.data, own.data, count(own), type, operation,
                                     communicator, stream)
               : nccl.all_gather(own.data, whole.data, count(own), type, communicator, stream);
  }
  return grouped([&] {
    return for_parts(whole, size(), [&](Buffer part, int owner) {
      return is_scatter ? nccl.reduce(part.data, part.data, count(part), type, operation, owner,
                                      communicator, stream)
                        : nccl.broadcast(part.data, part.data, count(part), type, owner,
                                         communicator, stream);
    });
  });
}

/// Counts what a ring would send: in a reduce-scatter all parts but this rank's, in an all-gather
/// all but the next rank's, in an all-reduce both.
void NcclCommunicator::count(CollectiveKind kind, Buffer whole) {
  if (size() == 1) {
    return;
  }
  const auto without = [&](int owner) {
    return whole.bytes() - part_of(whole.size, size(), owner % size()).count * bytes_of(whole.type);
  };
  std::int64_t& bytes = sent_.bytes[static_cast<std::size_t>(kind)];
  bytes += kind != CollectiveKind::kAllGather ? without(rank()) : 0;
  bytes += kind != CollectiveKind::kReduceScatter ? without(rank() + 1) : 0;
  ++sent_.messages[static_cast<std::size_t>(kind)];
}

void NcclCommunicator::collect(CollectiveKind kind, Buffer whole, ncclRedOp_t operation) {
  check();
  count(kind, whole);
  if ((all_ || size() > 1) && !whole.empty()) {
    require_all().queue(call_name(kind), [&](ncclComm_t communicator, auto stream) {
      return issue(communicator, stream, kind, whole, operation);
    });
  }
}

Request NcclCommunicator::begin(CollectiveKind kind, Buffer whole, ncclRedOp_t operation) {
  check();
  count(kind, whole);
  if ((!all_ && size() == 1) || whole.empty()) {
    return {};
  }
  return request_of(require_all(),
                    all_->begin(call_name(kind), [&](ncclComm_t communicator, auto stream) {
                      return issue(communicator, stream, kind, whole, operation);
                    }));
}

void NcclCommunicator::all_reduce(Buffer whole, Reduction reduction) {
  collect(CollectiveKind::kAllReduce, whole, operation_of(reduction));
}

void NcclCommunicator::reduce_scatter(Buffer whole) {
  collect(CollectiveKind::kReduceScatter, whole, ncclSum);
}

void NcclCommunicator::all_gather(Buffer whole) {
  collect(CollectiveKind::kAllGather, whole, ncclSum);
}

Request NcclCommunicator::begin_all_reduce(Buffer whole, Reduction reduction) {
  return begin(CollectiveKind::kAllReduce, whole, operation_of(reduction));
}

Request NcclCommunicator::begin_reduce_scatter(Buffer whole) {
  return begin(CollectiveKind::kReduceScatter, whole, ncclSum);
}

Request NcclCommunicator::begin_all_gather(Buffer whole) {
  return begin(CollectiveKind::kAllGather, whole, ncclSum);
}

void NcclCommunicator::barrier() {
  check();
  host_->barrier();
}

/// Estimates a call with a communicator that blocks, made for it, which launches nothing and is
/// given back at once with its memory. On one that does not block, NCCL launches what a group
/// should only simulate (group.cc of 2.28). It estimates no messages.
std::optional<double> NcclCommunicator::estimate(CollectiveKind kind, Buffer whole) {
  check();
  const Buffer divided = whole.slice(0, whole.size / size() * size());
  if (!all_ || size() == 1 || kind == CollectiveKind::kSend || divided.empty()) {
    return std::nullopt;
  }
  const std::shared_ptr<NcclEnd> estimator =
      split(0, place_.rank, "estimates for " + name_of(place_.members),
            {.most_blocks = blocks_.collective});
  ncclSimInfo_t information = NCCL_SIM_INFO_INITIALIZER;
  estimator->call("ncclGroupSimulateEnd", [&](ncclComm_t communicator) {
    const NcclLibrary& nccl = nccl_library();
    if (const ncclResult_t result = nccl.group_start(); result != ncclSuccess) {
      return result;
    }
    const ncclResult_t made = issue(communicator, static_cast<cudaStream_t>(backend_.native_lane()),
                                    kind, divided, ncclSum);
    const ncclResult_t ended = nccl.group_simulate_end(&information);
    return made == ncclSuccess ? ended : made;
  });
  world_->close(estimator);
  constexpr double microsecond = 1e-6;
  return information.estimatedTime > 0.0F
             ? std::optional(static_cast<double>(information.estimatedTime) * microsecond)
             : std::nullopt;
}

void NcclCommunicator::abort(ExitStatus status) noexcept {
  world_->abort();
  host_->abort(status);
}

}  // namespace ptdp
