#include "runtime/transport/mpi_engine.h"

#include <pthread.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>
#include <thread>

#include "cost_model/error.h"
#include "runtime/transport/polling.h"

namespace ptdp {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kAbortTag = 0;
/// Every MPI has tags up to this.
constexpr std::uint64_t kLargestTag = 32767;

constexpr auto kLockPatience = std::chrono::milliseconds(50);
constexpr auto kNoticePatience = std::chrono::milliseconds(50);
/// How long the others get to leave an aborted world before the job is ended.
constexpr auto kFarewell = std::chrono::seconds(2);
constexpr auto kLongestNap = std::chrono::microseconds(1000);

void check(int code, const char* call) {
  if (code == MPI_SUCCESS) {
    return;
  }
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  throw Error(std::string(call) + ": " + std::string(text.data(), length),
              ExitStatus::kRuntimeFault);
}

/// Messages of a group, of a kind of traffic and of a sender have one tag, so that MPI keeps their
/// order; others may have the same.
int tag_of(std::uint64_t group) {
  return static_cast<int>(1 + group % kLargestTag);
}

std::string processor_name() {
  std::array<char, MPI_MAX_PROCESSOR_NAME> name{};
  int length = 0;
  check(MPI_Get_processor_name(name.data(), &length), "MPI_Get_processor_name");
  return {name.data(), static_cast<std::size_t>(length)};
}

int size_of(MPI_Comm comm) {
  int size = 1;
  check(MPI_Comm_size(comm, &size), "MPI_Comm_size");
  return size;
}

int count_ranks_on_host() {
  MPI_Comm here = MPI_COMM_NULL;
  check(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &here),
        "MPI_Comm_split_type");
  const int size = size_of(here);
  check(MPI_Comm_free(&here), "MPI_Comm_free");
  return size;
}

/// Measured with Open MPI on two cores: with a sixth of these two ranks sleep within messages of
/// 2 MiB, which then take twice as long, and an all-reduce of 8 bytes on eight takes five times as
/// long.
constexpr int kLooksPerCore = 3000;

/// How long a send may take by itself before the courier looks after it.
constexpr auto kSendPatience = std::chrono::microseconds(100);
/// A thread that sleeps looks for an abort at least so often.
constexpr auto kLongestSleep = std::chrono::milliseconds(5);

int looks_for(int ranks_on_host) {
  const int cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  return std::min(kLooksPerCore, kLooksPerCore * cores / ranks_on_host);
}

}  // namespace

MpiEngine::MpiEngine() {
  int level = MPI_THREAD_SINGLE;
  check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level), "MPI_Init_thread");
  if (level < MPI_THREAD_SERIALIZED) {
    throw Error("this MPI lets only the main thread call it; expected MPI_THREAD_SERIALIZED",
                ExitStatus::kRuntimeFault);
  }
  check(MPI_Comm_dup(MPI_COMM_WORLD, &all_), "MPI_Comm_dup");
  check(MPI_Comm_set_errhandler(all_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  check(MPI_Type_contiguous(static_cast<int>(Packet::kBlockBytes), MPI_BYTE, &block_),
        "MPI_Type_contiguous");
  check(MPI_Type_commit(&block_), "MPI_Type_commit");
  check(MPI_Comm_rank(all_, &rank_), "MPI_Comm_rank");
  size_ = size_of(all_);
  ranks_on_host_ = count_ranks_on_host();
  host_ = processor_name();
  looks_ = looks_for(ranks_on_host_);
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

void MpiEngine::abort(int status) noexcept {
  int expected = 0;
  abort_status_.compare_exchange_strong(expected, status);
  if (is_aborted_.exchange(true)) {
    return;
  }
  changed_.notify_all();
  // Whoever holds the lock gives it up soon, unless MPI itself hangs.
  std::unique_lock lock(mutex_, std::defer_lock);
  const Clock::time_point deadline = Clock::now() + kLockPatience;
  while (!lock.try_lock()) {
    if (Clock::now() > deadline) {
      return;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  try {
    tell_of_abort(abort_status_);
  } catch (...) {  // The others end with the job.
  }
}

void MpiEngine::tell_of_abort(int status) {
  for (int i = 1; i < size_; ++i) {
    Packet notice = pool_.take(1);
    notice.header() = {.size = status, .world = world_, .kind = PacketHeader::Kind::kAbort};
    start_send(std::move(notice), (rank_ + i) % size_, kAbortTag);
  }
  const Clock::time_point deadline = Clock::now() + kNoticePatience;
  while (!send_requests_.empty() && Clock::now() < deadline) {
    progress();
    std::this_thread::yield();
  }
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
  check(MPI_Isend(packet.memory(), static_cast<int>(blocks), block_, to, tag, all_, &request),
        "MPI_Isend");
  int is_done = 0;
  check(MPI_Test(&request, &is_done, MPI_STATUS_IGNORE), "MPI_Test");
  if (is_done != 0) {
    pool_.give_back(std::move(packet));
  } else {
    send_requests_.push_back(request);
    sent_packets_.push_back(std::move(packet));
    rouse_courier();
  }
}

Mailbox& MpiEngine::mailbox(std::uint64_t group, int from) {
  const std::lock_guard lock(mutex_);
  return mailboxes_[{group, from}];
}

void MpiEngine::expect(MpiReceive& receive, Mailbox& mailbox) {
  const std::lock_guard lock(mutex_);
  throw_if_aborted();
  receive.mailbox = &mailbox;
  if (mailbox.packets.empty()) {
    mailbox.receives.push_back(&receive);
  } else {
    receive.packet = std::move(mailbox.packets.front());
    receive.has_arrived = true;
    mailbox.packets.pop_front();
  }
}

void MpiEngine::withdraw(MpiReceive& receive) noexcept {
  const std::lock_guard lock(mutex_);
  if (!receive.has_arrived) {
    std::erase(receive.mailbox->receives, &receive);
  }
  receive = {};
}

void MpiEngine::wait_until(const std::function<bool()>& is_over) {
  Lock lock(mutex_);
  ++num_waits_;
  while (true) {
    throw_if_aborted();
    if (is_over()) {
      return;
    }
    if (!is_polled_) {
      poll_until(lock, looks_, is_over);
      continue;
    }
    ++num_followers_;
    changed_.notify_all();  // whoever polls may sleep
    changed_.wait_for(lock, kLongestSleep);
    --num_followers_;
  }
}

// Returns early where the world is aborted.
void MpiEngine::poll_until(Lock& lock, int looks, const std::function<bool()>& is_over) {
  is_polled_ = true;
  Polling polling(looks);
  std::uint64_t waits_seen = num_waits_;
  try {
    while (!is_aborted()) {
      progress();
      if (std::exchange(has_news_, false) && num_followers_ > 0) {
        changed_.notify_all();
      }
      if (is_over()) {
        break;
      }
      if (std::exchange(waits_seen, num_waits_) != num_waits_) {
        polling = Polling(looks_);
      }
      polling.pause(lock, changed_);
    }
  } catch (...) {
    is_polled_ = false;
    changed_.notify_all();
    throw;
  }
  is_polled_ = false;
  if (num_followers_ > 0) {
    changed_.notify_all();
  } else {
    rouse_courier();
  }
}

void MpiEngine::rouse_courier() {
  if (!is_courier_awake_ && !is_polled_ && !send_requests_.empty()) {
    is_courier_awake_ = true;
    courier_work_.notify_one();
  }
}

void MpiEngine::deliver_sends() {
  pthread_setname_np(pthread_self(), "mpi courier");
  Lock lock(mutex_);
  while (!is_finishing_) {
    courier_work_.wait(lock, [this] { return is_finishing_ || is_courier_awake_; });
    // Most sends are done soon, and somebody waits for something soon.
    lock.unlock();
    std::this_thread::sleep_for(kSendPatience);
    lock.lock();
    is_courier_awake_ = false;
    if (!is_polled_ && !is_aborted() && !is_finishing_) {
      try {
        poll_until(lock, /*looks=*/0, [this] { return is_finishing_ || send_requests_.empty(); });
      } catch (const Error&) {  // The next call of a rank meets it too.
        return;
      }
    }
  }
}

void MpiEngine::stop_courier() noexcept {
  {
    const std::lock_guard lock(mutex_);
    is_finishing_ = true;
  }
  courier_work_.notify_all();
  changed_.notify_all();
  if (courier_.joinable()) {
    courier_.join();
  }
}

void MpiEngine::progress() {
  while (true) {
    int is_there = 0;
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Status status;
    check(MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, all_, &is_there, &message, &status),
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
  check(MPI_Get_count(&status, block_, &blocks), "MPI_Get_count");
  Arrival arrival{.from = status.MPI_SOURCE, .tag = status.MPI_TAG, .packet = pool_.take(blocks)};
  check(MPI_Imrecv(arrival.packet.memory(), blocks, block_, &message, &arrival.request),
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
      check(MPI_Test(&arrival.request, &is_done, MPI_STATUS_IGNORE), "MPI_Test");
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
    const int status = static_cast<int>(header.size);
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
  check(MPI_Testsome(static_cast<int>(send_requests_.size()), send_requests_.data(), &num_done,
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

// Takes in what still comes meanwhile, so that whoever sent it gets done with it. Rank 0 may write
// for long what the others wait for here; after an abort nobody does.
bool MpiEngine::all_came() {
  MPI_Request request = MPI_REQUEST_NULL;
  check(MPI_Ibarrier(all_, &request), "MPI_Ibarrier");
  std::optional<Clock::time_point> deadline;
  auto sleep = std::chrono::microseconds(20);
  while (true) {
    int is_done = 0;
    check(MPI_Test(&request, &is_done, MPI_STATUS_IGNORE), "MPI_Test");
    progress();
    if (is_done != 0 && send_requests_.empty()) {
      return true;
    }
    if (is_aborted() && !deadline) {
      deadline = Clock::now() + kFarewell;
    }
    if (deadline && Clock::now() > *deadline) {
      return false;
    }
    std::this_thread::sleep_for(sleep);
    sleep = std::min(2 * sleep, kLongestNap);
  }
}

int MpiEngine::finish(int status) noexcept {
  stop_courier();
  const std::lock_guard lock(mutex_);
  const auto status_of_job = [&] { return is_aborted() ? abort_status() : status; };
  try {
    if (all_came()) {
      MPI_Type_free(&block_);
      MPI_Comm_free(&all_);
      MPI_Finalize();
      return status_of_job();
    }
  } catch (const Error&) {  // MPI does not work any more.
  }
  MPI_Abort(MPI_COMM_WORLD, status_of_job());
  return status_of_job();
}

}  // namespace ptdp
