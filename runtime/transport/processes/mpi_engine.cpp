// Moves packets by nonblocking MPI calls, and ends the job by MPI_Abort when MPI cannot end.
#include "runtime/transport/processes/mpi_engine.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>
#include <optional>
#include <system_error>
#include <thread>

#include "runtime/transport/processes/mpi_check.h"

namespace ptdp {
namespace {

/// The largest tag that every MPI supports.
constexpr std::uint64_t kLargestTag = 32767;
constexpr int kAbortTag = 0;  ///< Tag of packets without elements.

/// Returns the MPI tag of a packet. Packets of one group, kind of traffic and sender have one tag,
/// so that MPI keeps their order. Other packets may have the same tag.
int tag_of(const PacketHeader& header) {
  return header.kind == PacketHeader::Kind::kElements
             ? static_cast<int>(1 + header.group % kLargestTag)
             : kAbortTag;
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

/// The ranks that share this rank's host.
struct RanksOnHost {
  int count = 1;  ///< Number of ranks, including this one.
  int place = 0;  ///< This rank's place among them, from 0.
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

/// How long MPI_Abort may take. It waits for a launcher, which may be gone after a cut link.
constexpr auto kAbortPatience = std::chrono::seconds(2);

/// Ends the job with MPI_Abort, or this process alone when that takes too long.
void abort_job(int status) noexcept {
  try {
    std::thread([status] {
      std::this_thread::sleep_for(kAbortPatience);
      ::_exit(status);
    }).detach();
  } catch (const std::system_error&) {  // MPI_Abort then takes as long as it takes.
  }
  MPI_Abort(MPI_COMM_WORLD, status);
}

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
  const RanksOnHost here = find_ranks_on_host();
  ProcessPlace place{.size = size_of(all_),
                     .ranks_on_host = here.count,
                     .place_on_host = here.place,
                     .host = processor_name()};
  place.address = place.ranks_on_host == place.size ? "127.0.0.1" : "";
  check_mpi(MPI_Comm_rank(all_, &place.rank), "MPI_Comm_rank");
  set_place(std::move(place));
  start_courier("mpi courier");
}

MpiEngine::~MpiEngine() {
  stop_courier();
  int is_finalized = 0;
  MPI_Finalized(&is_finalized);
  if (is_finalized == 0) {
    // A process that leaves without finish() would hang the others.
    abort_job(static_cast<int>(ExitStatus::kBug));
  }
}

void MpiEngine::start_send(Packet packet, int to) {
  const std::int64_t blocks = Packet::blocks_for(packet.elements().bytes());
  if (blocks > std::numeric_limits<int>::max()) {
    throw Error("a message of " + std::to_string(packet.elements().bytes()) +
                    " bytes; expected less than 128 GiB",
                ExitStatus::kRuntimeFault);
  }
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Isend(packet.memory(), static_cast<int>(blocks), block_, to,
                      tag_of(packet.header()), all_, &request),
            "MPI_Isend");
  int is_done = 0;
  check_mpi(MPI_Test(&request, &is_done, MPI_STATUS_IGNORE), "MPI_Test");
  // NOLINTBEGIN(clang-analyzer-optin.mpi.MPI-Checker): ended by progress()
  if (is_done != 0) {
    pool().give_back(std::move(packet));
  } else {
    send_requests_.push_back(request);
    sent_packets_.push_back(std::move(packet));
  }
  // NOLINTEND(clang-analyzer-optin.mpi.MPI-Checker)
}

void MpiEngine::spread_abort(int status) {
  for (int i = 1; i < place().size; ++i) {
    start_send(abort_notice(status, PacketHeader::Kind::kAbort), (place().rank + i) % place().size);
  }
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
  Arrival arrival{.from = status.MPI_SOURCE, .tag = status.MPI_TAG, .packet = pool().take(blocks)};
  check_mpi(MPI_Imrecv(arrival.packet.memory(), blocks, block_, &message, &arrival.request),
            "MPI_Imrecv");
  arrivals_.push_back(std::move(arrival));
}

// Packets go to sort() in the order of their probes. For one sender and tag, that is the order of
// the sends.
void MpiEngine::complete_arrivals() {
  std::vector<std::pair<int, int>> waiting;  // Sources (sender and tag) with an incomplete packet.
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
      pool().give_back(std::move(sent_packets_[i]));
    } else {
      send_requests_[kept] = send_requests_[i];
      std::swap(sent_packets_[kept], sent_packets_[i]);
      ++kept;
    }
  }
  send_requests_.resize(kept);
  sent_packets_.resize(kept);
}

// A process comes to the barrier only after its own sends are done, and receives while it waits.
// Otherwise it could leave before another process's last message arrives. Rank 0 may write files
// for long while the others wait here; after an abort no rank does.
bool MpiEngine::all_came() {
  if (place().rank > 0) {
    Packet goodbye = pool().take(1);
    goodbye.header() = {.kind = PacketHeader::Kind::kGoodbye};
    start_send(std::move(goodbye), 0);
  }
  MPI_Request request = MPI_REQUEST_NULL;
  bool has_come = false;
  return progress_until([&] {
    if (has_unsent()) {
      return false;
    }
    if (!has_come) {
      check_mpi(MPI_Ibarrier(all_, &request), "MPI_Ibarrier");
      has_come = true;
    }
    int is_done = 0;
    check_mpi(MPI_Test(&request, &is_done, MPI_STATUS_IGNORE), "MPI_Test");
    return is_done != 0;
  });
}

int MpiEngine::finish(int status) noexcept {
  stop_courier();
  const Lock lock = locked();
  const auto status_of_job = [&] { return is_aborted() ? abort_status() : status; };
  try {
    if (all_came()) {
      MPI_Type_free(&block_);
      MPI_Comm_free(&all_);
      MPI_Finalize();
      return status_of_job();
    }
  } catch (const Error&) {  // MPI no longer works.
  }
  abort_job(status_of_job());
  return status_of_job();
}

}  // namespace ptdp
