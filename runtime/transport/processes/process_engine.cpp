// Sorts arrived packets into mailboxes, and keeps track of worlds, aborts and losses.
#include "runtime/transport/processes/process_engine.h"

#include "runtime/named_thread.h"
#include "runtime/transport/polling.h"
#include "runtime/transport/processes/job.h"

namespace ptdp {
namespace {

/// How often a rank with a core of its own looks before it sleeps. Measured with Open MPI on two
/// cores: with a sixth of these, two ranks sleep within messages of 2 MiB, which then take twice as
/// long. An all-reduce of 8 bytes on eight ranks then takes five times as long.
constexpr int kLooksPerCore = 3000;

}  // namespace

void ProcessEngine::set_place(ProcessPlace place) {
  place_ = std::move(place);
  looks_ = looks_of_each(kLooksPerCore, place_.ranks_on_host);
  if (place_.rank == 0) {
    note_goodbye(0);
  }
}

void ProcessEngine::start_courier(const char* name) {
  if (place_.size > 1) {
    courier_ = named_thread(name, [this] { deliver_sends(); });
  }
}

std::uint32_t ProcessEngine::begin_world() {
  const std::lock_guard lock(mutex_);
  ++world_;
  const auto abort = aborts_.find(world_);
  if (!is_lost()) {
    is_aborted_ = abort != aborts_.end();
    abort_status_ = is_aborted_ ? abort->second : 0;
  }
  std::deque<std::pair<int, Packet>> early = std::exchange(early_, {});
  for (auto& [from, packet] : early) {
    sort(std::move(packet), from);
  }
  return world_;
}

void ProcessEngine::end_world() noexcept {
  const std::lock_guard lock(mutex_);
  mailboxes_.clear();
}

void ProcessEngine::send(Packet packet, int to) {
  const std::lock_guard lock(mutex_);
  throw_if_aborted();
  start_send(std::move(packet), to);
  rouse_courier();
}

Mailbox& ProcessEngine::mailbox(std::uint64_t group, int from) {
  const std::lock_guard lock(mutex_);
  return mailboxes_[{group, from}];
}

void ProcessEngine::expect(ProcessReceive& receive, Mailbox& mailbox) {
  const std::lock_guard lock(mutex_);
  throw_if_aborted();
  if (mailbox.packets.empty()) {
    mailbox.receives.push_back(&receive);
  } else {
    receive.packet = std::move(mailbox.packets.front());
    receive.has_arrived = true;
    mailbox.packets.pop_front();
  }
  receive.mailbox = &mailbox;  // Set last: the receive counts as begun from here on.
}

void ProcessEngine::withdraw(ProcessReceive& receive) noexcept {
  const std::lock_guard lock(mutex_);
  if (!receive.has_arrived) {
    std::erase(receive.mailbox->receives, &receive);
  }
  receive = {};
}

void ProcessEngine::sort(Packet packet, int from) {
  const PacketHeader header = packet.header();
  if (header.kind == PacketHeader::Kind::kLost) {
    lose("");
    pool_.give_back(std::move(packet));
  } else if (header.kind == PacketHeader::Kind::kGoodbye) {
    note_goodbye(from);
    pool_.give_back(std::move(packet));
  } else if (header.world < world_) {
    pool_.give_back(std::move(packet));
  } else if (header.kind == PacketHeader::Kind::kAbort) {
    const int status = header.status;
    if (header.world > world_) {
      aborts_.emplace(header.world, status);
    } else {
      int expected = 0;
      abort_status_.compare_exchange_strong(expected, status);
      is_aborted_ = true;
    }
    pool_.give_back(std::move(packet));
  } else if (header.world > world_) {
    early_.emplace_back(from, std::move(packet));
  } else {
    deliver(std::move(packet), mailboxes_[{header.group, from}]);
  }
}

void ProcessEngine::note_goodbye(int rank) {
  goodbyes_.insert(rank);
  int awaited = awaited_at_end_;
  while (goodbyes_.contains(awaited)) {
    ++awaited;
  }
  awaited_at_end_ = awaited;
}

void ProcessEngine::deliver(Packet packet, Mailbox& mailbox) {
  if (mailbox.receives.empty()) {
    mailbox.packets.push_back(std::move(packet));
    return;
  }
  ProcessReceive& receive = *mailbox.receives.front();
  mailbox.receives.pop_front();
  receive.packet = std::move(packet);
  receive.has_arrived = true;
  has_news_ = true;
}

Packet ProcessEngine::abort_notice(int status, PacketHeader::Kind kind) {
  Packet notice = pool_.take(1);
  notice.header() = {.world = world_, .status = status, .kind = kind};
  return notice;
}

void ProcessEngine::lose(const std::string& why) {
  if (is_lost()) {
    return;
  }
  lost_ = why;
  is_lost_ = true;
  int expected = 0;
  abort_status_.compare_exchange_strong(expected, static_cast<int>(ExitStatus::kRuntimeFault));
  is_aborted_ = true;
}

std::string ProcessEngine::loss() {
  const Lock lock = locked();
  return lost_;
}

void ProcessEngine::throw_aborted() const {
  if (is_lost() && !lost_.empty()) {
    throw PeerLost(lost_);
  }
  throw Aborted();
}

}  // namespace ptdp
