#include "runtime/faults/control_channel.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

#include "cost_model/error.h"
#include "runtime/faults/control_message.h"
#include "runtime/named_thread.h"
#include "runtime/steady_clock.h"
#include "runtime/transport/processes/tcp/keyed_digest.h"

namespace ptdp {
namespace {

constexpr std::int64_t kBeatInterval = 100'000'000;        // [ns]
constexpr std::int64_t kLongestPollPause = 1'000'000'000;  // [ns] of a thread that polls
constexpr std::chrono::milliseconds kLongestGoodbye{200};
constexpr Seconds kStrangersPatience{30.0};

/// Throws Error(kRuntimeFault).
[[noreturn]] void fail(const std::string& what) {
  throw Error("control channel: " + what, ExitStatus::kRuntimeFault);
}

/// Connects to the hub. Tries its addresses in turn, again and again, until one answers. Throws
/// Error(kRuntimeFault) when none does within `timeout`.
Descriptor connect_to(const MetProcess& hub, Seconds timeout) {
  const auto end = std::chrono::steady_clock::now() + steady_duration(timeout);
  std::vector<std::string> addresses = hub.addresses;
  if (hub.host == as_word(own_host_name())) {  // the shortest way first
    std::stable_partition(addresses.begin(), addresses.end(), is_loopback);
  }
  Retries retries(end);
  std::string answers;
  do {
    answers.clear();
    for (const std::string& address : addresses) {
      const Resolution found = resolve(address, hub.port);
      Attempt attempt = found.addresses.empty() ? Attempt{.fault = found.fault}
                                                : try_to_connect(found.addresses.front(), end);
      if (attempt.socket.is_open()) {
        return std::move(attempt.socket);
      }
      answers +=
          fmt::format("{}{}:{}: {}", answers.empty() ? "" : "; ", address, hub.port, attempt.fault);
    }
  } while (retries.wait());
  fail(fmt::format("cannot connect to the process of rank 0 within {:.3g} s ({})", timeout.value(),
                   answers));
}

}  // namespace

TcpTable parse_hub_table(const std::string& text) {
  std::optional<TcpTable> table = parse_table_text(text);
  if (!table || table->processes.size() != 1 || table->processes[0].addresses.empty()) {
    fail("expected the address of rank 0's process, got \"" + text + '"');
  }
  return std::move(*table);
}

ControlHub::ControlHub(const std::string& address)
    : listening_(listen_on(0, address)),
      table_{.secret = random_digits(), .processes = {own_process(listening_)}} {}

ControlChannel::ControlChannel(ControlOptions options, ControlHub hub)
    : options_(std::move(options)),
      hub_(std::move(hub)),
      secret_(hub_->table().secret),
      started_(now_ns()),
      last_look_(started_) {
  thread_ = named_thread("control", [this] { run(); });
}

ControlChannel::ControlChannel(ControlOptions options, const TcpTable& hub)
    : options_(std::move(options)), secret_(hub.secret), started_(now_ns()), last_look_(started_) {
  const MetProcess& process = hub.processes.front();
  peers_.push_back(std::make_unique<Peer>(connect_to(process, options_.connect_timeout), pool_));
  peers_.front()->first_rank = 0;
  peers_.front()->who = "its process on " + process.host;
  peers_.front()->heard = now_ns();
  greet(*peers_.front());
  thread_ = named_thread("control", [this] { run(); });
}

ControlChannel::~ControlChannel() {
  is_ending_ = true;
  thread_.join();
}

void ControlChannel::spread(const RunFault& fault) {
  const std::lock_guard lock(mutex_);
  if (!has_failed_) {
    has_failed_ = true;
    to_spread_ = fault;
  }
}

std::optional<RunFault> ControlChannel::fault() const {
  const std::lock_guard lock(mutex_);
  return fault_;
}

std::vector<RankActivity> ControlChannel::activities() const {
  const std::lock_guard lock(mutex_);
  return activities_;
}

void ControlChannel::greet(Peer& peer) {
  peer.connection.send_text(to_text(own_greeting(secret_, options_.first_rank, peer.first_rank)));
}

void ControlChannel::run() {
  while (!is_ending_) {
    try {
      exchange();
    } catch (const std::exception&) {
      // Memory may be short for a moment, or for good. The other processes hear from this one as
      // long as it can send.
    }
  }
  try {
    say_goodbye();
  } catch (const std::exception&) {
    // The others take this for a process that died.
  }
}

/// Reads what arrived, and sends what is due.
void ControlChannel::exchange() {
  wait_for_input();
  const std::int64_t now = now_ns();
  if (now - last_look_ > kLongestPollPause) {  // this process was stopped: no other is to blame
    started_ += now - last_look_;
    for (const auto& peer : peers_) {
      peer->heard += now - last_look_;
    }
  }
  last_look_ = now;
  if (hub_) {
    while (std::optional<Descriptor> socket = accept_next(hub_->listening_.socket)) {
      peers_.push_back(std::make_unique<Peer>(std::move(*socket), pool_));
      peers_.back()->heard = now;
    }
  }
  std::optional<RunFault> own;
  {
    const std::lock_guard lock(mutex_);
    own = std::exchange(to_spread_, std::nullopt);
  }
  if (own) {
    tell_all(fault_text(*own), /*may_be_lost=*/false, nullptr);
  }
  if (now - last_beat_ >= kBeatInterval) {
    last_beat_ = now;
    tell_all(beat_text(options_.activities ? options_.activities() : std::vector<RankActivity>(),
                       now_ns()),
             /*may_be_lost=*/true, nullptr);
  }
  for (const auto& peer : peers_) {
    look_at(*peer, now);
  }
  std::erase_if(peers_, [](const auto& peer) { return !peer->connection.is_open(); });
  look_for_missing(now);
}

void ControlChannel::say_goodbye() {
  std::optional<RunFault> own;
  {
    const std::lock_guard lock(mutex_);
    own = to_spread_;
    if (!has_failed_) {
      tell_all(std::string(kGoodbye), /*may_be_lost=*/false, nullptr);
    }
  }
  if (own) {
    tell_all(fault_text(*own), /*may_be_lost=*/false, nullptr);
  }
  const auto end = std::chrono::steady_clock::now() + kLongestGoodbye;
  for (const auto& peer : peers_) {
    while (peer->connection.has_unsent() && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      peer->connection.flush();
    }
  }
}

void ControlChannel::wait_for_input() {
  std::vector<pollfd> polled;
  if (hub_) {
    polled.push_back({.fd = hub_->listening_.socket.get(), .events = POLLIN, .revents = 0});
  }
  for (const auto& peer : peers_) {
    polled.push_back({.fd = peer->connection.descriptor(), .events = POLLIN, .revents = 0});
  }
  ::poll(polled.data(), polled.size(), kPollMilliseconds);
}

/// Sends `text` to all processes that greeted, except `but`. When it may be lost, it is skipped for
/// a process that has unsent text, since that process does not read.
void ControlChannel::tell_all(const std::string& text, bool may_be_lost, const Peer* but) {
  for (const auto& peer : peers_) {
    if (peer.get() != but && peer->first_rank >= 0 &&
        !(may_be_lost && peer->connection.has_unsent())) {
      peer->connection.send_text(text);
    }
  }
}

void ControlChannel::look_at(Peer& peer, std::int64_t now) {
  peer.connection.flush();
  while (const auto text = peer.connection.receive_text(TcpConnection::kMostOfStranger)) {
    take(peer, *text, now);
  }
  if (peer.first_rank < 0 || peer.said_goodbye) {
    if (now - peer.heard > nanoseconds(std::min(options_.connect_timeout, kStrangersPatience))) {
      peer.connection.close();  // not a process of this run
    }
    return;
  }
  if (!peer.connection.is_open()) {
    return blame(peer, "has ended");
  }
  if (now - peer.heard > nanoseconds(options_.longest_silence)) {
    blame(peer, "does not answer, and may be stopped");
    peer.heard = now;
  }
}

void ControlChannel::take(Peer& peer, const std::string& text, std::int64_t now) {
  const std::optional<TcpGreeting> greeting = parse_greeting_text(text);
  if (greeting) {
    peer.who = fmt::format("its process {} on {}", greeting->process, greeting->host);
  }
  if (peer.first_rank < 0) {
    const bool is_ours =
        greeting && greeting->opens(secret_, options_.first_rank) && greeting->from > 0 &&
        std::none_of(peers_.begin(), peers_.end(),
                     [&](const auto& other) { return other->first_rank == greeting->from; });
    if (!is_ours) {
      return peer.connection.close();
    }
    peer.first_rank = greeting->from;
    peer.heard = now;
    joined_.insert(peer.first_rank);
    return greet(peer);
  }
  if (text == kGoodbye) {
    peer.said_goodbye = true;
    peer.activities.clear();
  } else if (std::optional<RunFault> fault = parse_fault(text)) {
    fault->is_told_elsewhere = true;
    note_fault(*fault, &peer);
  } else if (std::optional<std::vector<RankActivity>> activities = parse_beat(text, now)) {
    peer.activities = std::move(*activities);
  } else if (!greeting) {
    return blame(peer, "sent what is no message of ptdp-run");
  }
  peer.heard = now;
  std::vector<RankActivity> all;
  for (const auto& each : peers_) {
    all.insert(all.end(), each->activities.begin(), each->activities.end());
  }
  const std::lock_guard lock(mutex_);
  activities_ = std::move(all);
}

/// Notes a fault of a process that is gone or silent. It names the process's rank that worked, as
/// last heard; a process that never told what its ranks are in was starting.
void ControlChannel::blame(const Peer& peer, const std::string& what) {
  RunFault fault{.rank = peer.first_rank,
                 .place = peer.activities.empty() ? place_of({.phase = Phase::kStarting}) : "",
                 .what = fmt::format("{} {}", peer.who, what)};
  bool was_heard = false;
  bool is_working = false;
  for (const RankActivity& activity : peer.activities) {
    if (activity.state.is_active && !(was_heard && is_working)) {
      was_heard = true;
      is_working = activity.state.is_working();
      fault.rank = activity.rank;
      fault.place = place_of(activity.state.now);
    }
  }
  if (was_heard) {
    fault.what += fmt::format(" (last heard of {:.1f} s before)",
                              1e-9 * static_cast<double>(now_ns() - peer.heard));
  }
  note_fault(fault, &peer);
}

/// Notes the first fault of another process, and on the hub tells all processes except its sender.
void ControlChannel::note_fault(const RunFault& fault, const Peer* from) {
  {
    const std::lock_guard lock(mutex_);
    if (has_failed_) {
      return;
    }
    has_failed_ = true;
    fault_ = fault;
  }
  if (hub_) {
    tell_all(fault_text(fault), /*may_be_lost=*/false, from);
  }
}

/// Notes a fault, once, for a process that did not join in time.
void ControlChannel::look_for_missing(std::int64_t now) {
  if (!hub_ || now - started_ < nanoseconds(options_.connect_timeout)) {
    return;
  }
  started_ = INT64_MAX / 2;  // so that it happens once
  for (int rank = 0; rank < options_.world_size; rank += options_.num_ranks) {
    if (!joined_.contains(rank)) {
      return note_fault({.rank = rank,
                         .place = place_of({.phase = Phase::kStarting}),
                         .what = fmt::format("its process did not join the control channel within "
                                             "{:.3g} s",
                                             options_.connect_timeout.value())},
                        nullptr);
    }
  }
}

}  // namespace ptdp
