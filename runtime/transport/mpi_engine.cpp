#include "runtime/transport/mpi_engine.h"

#include <algorithm>
#include <array>
#include <limits>
#include <thread>

#include "runtime/transport/mpi_check.h"
#include "runtime/transport/polling.h"

namespace ptdp {
namespace {

/// Every MPI has tags up to this.
constexpr std::uint64_t kLargestTag = 32767;

/// Messages of a group, of a kind of traffic and of a sender have one tag, so that MPI keeps their
/// order; others may have the same.
int tag_of(std::uint64_t group) {
  return static_cast<int>(1 + group % kLargestTag);
}

std::string processor_name() {
  std::array<char, MPI_MAX_PROCESSOR_NAME> name{};
  int length = 0;
  check_mpi(MPI_Get_processor_name(name.data(), &length), "MPI_Get_processor_name");
  return {name.data(), static_cast<std::size_t>(length)};
}

int size_of(MPI_Comm comm) {
  int size = 1;
  check_mpi(MPI_Comm_size(comm, &size), "MPI_Comm_size");
  return size;
}

/// Ranks that share this one's host, and its place among them.
struct RanksOnHost {
  int count = 1;
  int place = 0;
};

RanksOnHost find_ranks_on_host() {
  MPI_Comm here = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &here),
            "MPI_Comm_split_type");
  RanksOnHost ranks{.count = size_of(here)};
  check_mpi(MPI_Comm_rank(here, &ranks.place), "MPI_Comm_rank");
  check_mpi(MPI_Comm_free(&here), "MPI_Comm_free");
  return ranks;
}

/// Measured with Open MPI on two cores: with a sixth of these two ranks sleep within messages of
/// 2 MiB, which then take twice as long, and an all-reduce of 8 bytes on eight takes five times as
/// long.
constexpr int kLooksPerCore = 3000;

}  // namespace

MpiEngine::MpiEngine() {
  int level = MPI_THREAD_SINGLE;
  check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level), "MPI_Init_thread");
  if (level < MPI_THREAD_SERIALIZED) {
    throw Error("this MPI lets only the main thread call it; expected MPI_THREAD_SERIALIZED",
                ExitStatus::kRuntimeFault);
  }
  check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &all_), "MPI_Comm_dup");
  check_mpi(MPI_Comm_set_errhandler(all_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  check_mpi(MPI_Type_contiguous(static_cast<int>(Packet::kBlockBytes), MPI_BYTE, &block_),
            "MPI_Type_contiguous");
  check_mpi(MPI_Type_commit(&block_), "MPI_Type_commit");
  check_mpi(MPI_Comm_rank(all_, &rank_), "MPI_Comm_rank");
  size_ = size_of(all_);
  const RanksOnHost here = find_ranks_on_host();
  ranks_on_host_ = here.count;
  place_on_host_ = here.place;
  host_ = processor_name();
  looks_ = looks_of_each(kLooksPerCore, ranks_on_host_);
  if (size_ > 1) {
    courier_ = std::thread([this] { deliver_sends(); });
  }
}

MpiEngine::~MpiEngine() {
  stop_courier();
  int is_finalized = 0;
  MPI_Finalized(&is_finalized);
  if (is_finalized == 0) {
    // Whoever leaves without finish() hangs the others.
    MPI_Abort(MPI_COMM_WORLD, static_cast<int>(ExitStatus::kBug));
  }
}

std::uint32_t MpiEngine::begin_world() {
  const std::lock_guard lock(mutex_);
  ++world_;
  const auto abort = aborts_.find(world_);
  is_aborted_ = abort != aborts_.end();
  abort_status_ = is_aborted_ ? abort->second : 0;
  std::deque<std::pair<int, Packet>> early = std::exchange(early_, {});
  for (auto& [from, packet] : early) {
    sort(std::move(packet), from);
  }
  return world_;
}

void MpiEngine::end_world() noexcept {
  const std::lock_guard lock(mutex_);
  mailboxes_.clear();
}

void MpiEngine::send(Packet packet, int to) {
  const std::lock_guard lock(mutex_);
  throw_if_aborted();
  const int tag = tag_of(packet.header().group);
  start_send(std::move(packet), to, tag);
}

void MpiEngine::start_send(Packet packet, int to, int tag) {
  const std::int64_t blocks = Packet::blocks_for(packet.elements().bytes());
  if (blocks > std::numeric_limits<int>::max()) {
    throw Error("a message of " + std::to_string(packet.elements().bytes()) +
                    " bytes; expected less than 128 GiB",
                ExitStatus::kRuntimeFault);
  }
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Isend(packet.memory(), static_cast<int>(blocks), block_, to, tag, all_, &request),
            "MPI_Isend");
  int is_done = 0;
  check_mpi(MPI_Test(&request, &is_done, MPI_STATUS_IGNORE), "MPI_Test");
  // NOLINTBEGIN(clang-analyzer-optin.mpi.MPI-Checker): ended by progress()
  if (is_done != 0) {
    pool_.give_back(std::move(packet));
  } else {
    send_requests_.push_back(request);
    sent_packets_.push_back(std::move(packet));
    rouse_courier();
  }
  // NOLINTEND(clang-analyzer-optin.mpi.MPI-Checker)
}

Mailbox& MpiEngine::mailbox(std::uint64_t group, int from) {
  const std::lock_guard lock(mutex_);
  return mailboxes_[{group, from}];
}

void MpiEngine::expect(MpiReceive& receive, Mailbox& mailbox) {
  const std::lock_guard lock(mutex_);
  throw_if_aborted();
  if (mailbox.packets.empty()) {
    mailbox.receives.push_back(&receive);
  } else {
    receive.packet = std::move(mailbox.packets.front());
    receive.has_arrived = true;
    mailbox.packets.pop_front();
  }
  receive.mailbox = &mailbox;  // last: without it nothing has begun
}

void MpiEngine::withdraw(MpiReceive& receive) noexcept {
  const std::lock_guard lock(mutex_);
  if (!receive.has_arrived) {
    std::erase(receive.mailbox->receives, &receive);
  }
  receive = {};
}

void MpiEngine::progress() {
  while (true) {
    int is_there = 0;
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Status status;
    check_mpi(MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, all_, &is_there, &message, &status),
              "MPI_Improbe");
    if (is_there == 0) {
      break;
    }
    accept(message, status);
  }
  complete_arrivals();
  complete_sends();
}

void MpiEngine::accept(MPI_Message message, const MPI_Status& status) {
  int blocks = 0;
  check_mpi(MPI_Get_count(&status, block_, &blocks), "MPI_Get_count");
  Arrival arrival{.from = status.MPI_SOURCE, .tag = status.MPI_TAG, .packet = pool_.take(blocks)};
  check_mpi(MPI_Imrecv(arrival.packet.memory(), blocks, block_, &message, &arrival.request),
            "MPI_Imrecv");
  arrivals_.push_back(std::move(arrival));
}

// In the order of their probes, which for a sender and a tag is that of the sends.
void MpiEngine::complete_arrivals() {
  std::vector<std::pair<int, int>> waiting;  // Senders and tags of which one is incomplete.
  for (std::size_t i = 0; i < arrivals_.size();) {
    Arrival& arrival = arrivals_[i];
    if (!arrival.is_complete) {
      int is_done = 0;
      check_mpi(MPI_Test(&arrival.request, &is_done, MPI_STATUS_IGNORE), "MPI_Test");
      arrival.is_complete = is_done != 0;
    }
    const std::pair source = {arrival.from, arrival.tag};
    if (!arrival.is_complete ||
        std::find(waiting.begin(), waiting.end(), source) != waiting.end()) {
      waiting.push_back(source);
      ++i;
      continue;
    }
    sort(std::move(arrival.packet), arrival.from);
    arrivals_.erase(arrivals_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

void MpiEngine::sort(Packet packet, int from) {
  const PacketHeader header = packet.header();
  if (header.world < world_) {
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

void MpiEngine::deliver(Packet packet, Mailbox& mailbox) {
  if (mailbox.receives.empty()) {
    mailbox.packets.push_back(std::move(packet));
    return;
  }
  MpiReceive& receive = *mailbox.receives.front();
  mailbox.receives.pop_front();
  receive.packet = std::move(packet);
  receive.has_arrived = true;
  has_news_ = true;
}

void MpiEngine::complete_sends() {
  if (send_requests_.empty()) {
    return;
  }
  done_.resize(send_requests_.size());
  int num_done = 0;
  check_mpi(MPI_Testsome(static_cast<int>(send_requests_.size()), send_requests_.data(), &num_done,
                         done_.data(), MPI_STATUSES_IGNORE),
            "MPI_Testsome");
  if (num_done <= 0) {
    return;
  }
  std::size_t kept = 0;
  for (std::size_t i = 0; i < send_requests_.size(); ++i) {
    if (send_requests_[i] == MPI_REQUEST_NULL) {
      pool_.give_back(std::move(sent_packets_[i]));
    } else {
      send_requests_[kept] = send_requests_[i];
      std::swap(sent_packets_[kept], sent_packets_[i]);
      ++kept;
    }
  }
  send_requests_.resize(kept);
  sent_packets_.resize(kept);
}

}  // namespace ptdp
