#include "runtime/faults/control_channel.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <random>
#include <sstream>
#include <utility>

#include "cost_model/error.h"
#include "runtime/faults/control_message.h"
#include "runtime/named_thread.h"
#include "runtime/steady_clock.h"

namespace ptdp {
namespace {

constexpr int kPollInterval = 50;                          // [ms]
constexpr std::int64_t kBeatInterval = 100'000'000;        // [ns]
constexpr std::int64_t kLongestPollPause = 1'000'000'000;  // [ns] of a thread that polls
constexpr std::chrono::milliseconds kLongestGoodbye{200};
constexpr std::size_t kMostAddresses = 8;
constexpr Seconds kStrangersPatience{30.0};

std::uint64_t new_secret() {
  std::random_device device;
  return (std::uint64_t{device()} << 32) | device();
}

}  // namespace

std::string to_line(const HubAddress& address) {
  std::string line = fmt::format("{} {} {}", address.secret, address.port,
                                 address.host.empty() ? "?" : address.host.substr(0, 255));
  for (std::size_t i = 0; i < std::min(address.addresses.size(), kMostAddresses); ++i) {
    line += ' ' + address.addresses[i];
  }
  return line;
}

HubAddress parse_hub_address(const std::string& line) {
  std::istringstream words(line);
  HubAddress address;
  words >> address.secret >> address.port >> address.host;
  for (std::string each; words >> each;) {
    address.addresses.push_back(each);
  }
  if (address.port == 0 || address.addresses.empty()) {
    throw Error("control channel: expected the address of rank 0's process, got \"" + line + '"',
                ExitStatus::kRuntimeFault);
  }
  return address;
}

ControlHub::ControlHub(const std::string& address)
    : listening_(listen_on(0, address)),
      address_{.secret = new_secret(),
               .port = listening_.port,
               .host = own_host_name(),
               .addresses = address.empty() ? own_addresses() : std::vector{address}} {}

ControlChannel::ControlChannel(ControlOptions options, ControlHub hub)
    : options_(std::move(options)),
      hub_(std::move(hub)),
      secret_(hub_->address().secret),
      started_(now_ns()),
      last_look_(started_) {
  thread_ = named_thread("control", [this] { run(); });
}

ControlChannel::ControlChannel(ControlOptions options, const HubAddress& hub)
    : options_(std::move(options)), secret_(hub.secret), started_(now_ns()), last_look_(started_) {
  std::vector<std::string> addresses = hub.addresses;
  if (hub.host == own_host_name()) {  // the shortest way first
    std::stable_partition(addresses.begin(), addresses.end(), is_loopback);
  }
  peers_.push_back(std::make_unique<Peer>(
      LineSocket(connect_to(addresses, hub.port, options_.connect_timeout))));
  peers_.front()->first_rank = 0;
  peers_.front()->who = "its process on " + hub.host;
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
  peer.socket.send(to_line(Hello{.secret = secret_,
                                 .first_rank = options_.first_rank,
                                 .process = ::getpid(),
                                 .host = own_host_name()}),
                   /*may_be_lost=*/false);
}

void ControlChannel::run() {
  while (!is_ending_) {
    try {
      exchange();
    } catch (const std::exception&) {
      // Memory lacks for a moment, or for good: the others hear from this process as long as it
      // can.
    }
  }
  try {
    say_goodbye();
  } catch (const std::exception&) {
    // Then it is a process that died.
  }
}

/// Takes what came, and sends what is due.
void ControlChannel::exchange() {
  wait_for_input();
  const std::int64_t now = now_ns();
  if (now - last_look_ > kLongestPollPause) {  // this process was stopped: nobody else is to blame
    started_ += now - last_look_;
    for (const auto& peer : peers_) {
      peer->heard += now - last_look_;
    }
  }
  last_look_ = now;
  if (hub_) {
    while (std::optional<Descriptor> socket = accept_next(hub_->listening_.socket)) {
      peers_.push_back(std::make_unique<Peer>(LineSocket(std::move(*socket))));
      peers_.back()->heard = now;
    }
  }
  std::optional<RunFault> own;
  {
    const std::lock_guard lock(mutex_);
    own = std::exchange(to_spread_, std::nullopt);
  }
  if (own) {
    tell_all(fault_line(*own), /*may_be_lost=*/false, nullptr);
  }
  if (now - last_beat_ >= kBeatInterval) {
    last_beat_ = now;
    tell_all(beat_line(options_.activities ? options_.activities() : std::vector<RankActivity>(),
                       now_ns()),
             /*may_be_lost=*/true, nullptr);
  }
  for (const auto& peer : peers_) {
    look_at(*peer, now);
  }
  std::erase_if(peers_, [](const auto& peer) { return !peer->socket.is_open(); });
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
    tell_all(fault_line(*own), /*may_be_lost=*/false, nullptr);
  }
  const auto end = std::chrono::steady_clock::now() + kLongestGoodbye;
  for (const auto& peer : peers_) {
    while (peer->socket.has_unsent() && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      peer->socket.flush();
    }
  }
}

void ControlChannel::wait_for_input() {
  std::vector<pollfd> polled;
  if (hub_) {
    polled.push_back({.fd = hub_->listening_.socket.get(), .events = POLLIN, .revents = 0});
  }
  for (const auto& peer : peers_) {
    polled.push_back({.fd = peer->socket.descriptor(), .events = POLLIN, .revents = 0});
  }
  ::poll(polled.data(), polled.size(), kPollInterval);
}

void ControlChannel::tell_all(const std::string& line, bool may_be_lost, const Peer* but) {
  for (const auto& peer : peers_) {
    if (peer.get() != but && peer->first_rank >= 0) {
      peer->socket.send(line, may_be_lost);
    }
  }
}

void ControlChannel::look_at(Peer& peer, std::int64_t now) {
  peer.socket.flush();
  for (const std::string& line : peer.socket.receive()) {
    take(peer, line, now);
  }
  if (peer.first_rank < 0 || peer.said_goodbye) {
    if (now - peer.heard > nanoseconds(std::min(options_.connect_timeout, kStrangersPatience))) {
      peer.socket.close();  // no process of ours
    }
    return;
  }
  if (!peer.socket.is_open()) {
    return blame(peer, "has ended");
  }
  if (now - peer.heard > nanoseconds(options_.longest_silence)) {
    blame(peer, "does not answer, and may be stopped");
    peer.heard = now;
  }
}

void ControlChannel::take(Peer& peer, const std::string& line, std::int64_t now) {
  if (peer.first_rank < 0) {
    const std::optional<Hello> hello = parse_hello(line);
    const bool is_ours = hello && hello->secret == secret_ && hello->first_rank > 0 &&
                         std::none_of(peers_.begin(), peers_.end(), [&](const auto& other) {
                           return other->first_rank == hello->first_rank;
                         });
    if (!is_ours) {
      return peer.socket.close();
    }
    peer.first_rank = hello->first_rank;
    peer.who = fmt::format("its process {} on {}", hello->process, hello->host);
    peer.heard = now;
    joined_.insert(peer.first_rank);
    return greet(peer);
  }
  if (line == kGoodbye) {
    peer.said_goodbye = true;
    peer.activities.clear();
  } else if (std::optional<RunFault> fault = parse_fault(line)) {
    fault->is_told_elsewhere = true;
    note_fault(*fault, &peer);
  } else if (std::optional<std::vector<RankActivity>> activities = parse_beat(line, now)) {
    peer.activities = std::move(*activities);
  } else if (const std::optional<Hello> hello = parse_hello(line)) {
    peer.who = fmt::format("its process {} on {}", hello->process, hello->host);
  } else {
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

/// A process that is gone or silent: of its ranks, the one that worked, as last heard, is named.
/// One that never told what its ranks are in was starting.
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
    tell_all(fault_line(fault), /*may_be_lost=*/false, from);
  }
}

/// Processes that did not come.
void ControlChannel::look_for_missing(std::int64_t now) {
  if (!hub_ || now - started_ < nanoseconds(options_.connect_timeout)) {
    return;
  }
  started_ = INT64_MAX / 2;  // once
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
