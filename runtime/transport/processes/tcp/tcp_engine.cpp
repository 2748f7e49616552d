// Moves packets over the connections of a meeting and over routes, and notices processes that died.
#include "runtime/transport/processes/tcp/tcp_engine.h"

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "cost_model/error.h"

namespace ptdp {
namespace {

/// The most that is taken from one connection before others get their turn [B].
constexpr std::int64_t kMostAtOnce = std::int64_t{4} << 20;
/// How long a caller may take to say who it is.
constexpr auto kStrangersPatience = std::chrono::seconds(10);
/// How long the other processes may take to hang up after the last goodbye.
constexpr auto kHangUpPatience = std::chrono::seconds(2);

/// Raises the limit of open files: rank 0 has a connection to every process, and many systems allow
/// 1024 by default.
void allow_many_connections() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &limit);
  }
}

}  // namespace

TcpEngine::TcpEngine(const TcpJobOptions& options) {
  allow_many_connections();
  rendezvous_ = rendezvous(options, pool());
  complete_since_ = Clock::now();
  events_ = Descriptor(::epoll_create1(EPOLL_CLOEXEC));
  if (!events_.is_open()) {
    throw Error(std::string("cannot watch connections: ") + std::strerror(errno),
                ExitStatus::kRuntimeFault);
  }
  watch(rendezvous_.listening.socket.get(), nullptr);
  for (auto& [rank, connection] : rendezvous_.connections) {
    inlets_.push_back(std::make_unique<Inlet>(
        Inlet{.connection = std::move(connection), .rank = rank, .is_of_meeting = true}));
    Inlet& inlet = *inlets_.back();
    of_meeting_.emplace(rank, &inlet);
    watch(inlet.connection.descriptor(), &inlet);
    if (inlet.connection.has_unsent()) {
      busy_inlets_.insert(&inlet);
    }
  }
  rendezvous_.connections.clear();
  set_place(place_in(rendezvous_, options.rank));
  start_courier("tcp courier");
}

TcpEngine::~TcpEngine() {
  stop_courier();
  if (is_leaving_) {
    return;
  }
  // A process that leaves without finish() would hang the others.
  const Lock lock = locked();
  try {
    tell_all_but(place().rank, static_cast<int>(ExitStatus::kBug), PacketHeader::Kind::kAbort);
  } catch (...) {  // They see the connections end.
  }
}

void TcpEngine::watch(int descriptor, void* what) const {
  epoll_event event{.events = EPOLLIN, .data = {.ptr = what}};
  if (::epoll_ctl(events_.get(), EPOLL_CTL_ADD, descriptor, &event) != 0) {
    throw Error(std::string("cannot watch a connection: ") + std::strerror(errno),
                ExitStatus::kRuntimeFault);
  }
}

std::string TcpEngine::described(int rank) const {
  return fmt::format("rank {} on host {}", rank,
                     rendezvous_.processes[static_cast<std::size_t>(rank)].host);
}

void TcpEngine::start_send(Packet packet, int to) {
  if (to == place().rank) {
    sort(std::move(packet), to);
    return;
  }
  if (const auto found = of_meeting_.find(to); found != of_meeting_.end()) {
    found->second->connection.send(std::move(packet));
    if (found->second->connection.has_unsent()) {
      busy_inlets_.insert(found->second);
    }
    return;
  }
  TcpRoute& route = route_to(to);
  route.send(std::move(packet));
  if (route.has_unsent() || !route.fault().empty()) {
    busy_routes_.insert(&route);
  }
}

TcpRoute& TcpEngine::route_to(int rank) {
  const auto found = routes_.find(rank);
  if (found != routes_.end()) {
    return found->second;
  }
  const MetProcess& to = rendezvous_.processes[static_cast<std::size_t>(rank)];
  const MetProcess& own = rendezvous_.processes[static_cast<std::size_t>(place().rank)];
  return routes_
      .try_emplace(rank, ways_to(to, own), to.port,
                   own_greeting(rendezvous_.secret, place().rank, rank), pool())
      .first->second;
}

bool TcpEngine::has_unsent() const {
  return !busy_routes_.empty() || !busy_inlets_.empty();
}

void TcpEngine::progress() {
  for (auto each = busy_inlets_.begin(); each != busy_inlets_.end();) {
    (*each)->connection.flush();
    each = (*each)->connection.has_unsent() ? std::next(each) : busy_inlets_.erase(each);
  }
  for (auto each = busy_routes_.begin(); each != busy_routes_.end();) {
    TcpRoute& route = **each;
    route.progress();
    if (!route.fault().empty() && !is_lost()) {
      const auto entry = std::find_if(routes_.begin(), routes_.end(),
                                      [&](const auto& other) { return &other.second == &route; });
      report_loss(fmt::format("{} cannot be reached from {}: {}", described(entry->first),
                              described(place().rank), route.fault()));
    }
    each = route.has_unsent() ? std::next(each) : busy_routes_.erase(each);
  }
  std::array<epoll_event, 64> events{};
  const int count =
      ::epoll_wait(events_.get(), events.data(), static_cast<int>(events.size()), /*timeout=*/0);
  bool has_callers = false;
  for (int i = 0; i < count; ++i) {
    if (auto* const inlet = static_cast<Inlet*>(events[static_cast<std::size_t>(i)].data.ptr)) {
      read_from(*inlet);
    } else {
      has_callers = true;
    }
  }
  if (has_callers) {
    accept_all();
  }
  if (count > 0) {
    std::erase_if(inlets_, [](const auto& inlet) {
      return !inlet->is_of_meeting && !inlet->connection.is_open();
    });
  }
  if (num_strangers_ > 0) {
    drop_silent_strangers();
  }
}

void TcpEngine::accept_all() {
  while (std::optional<Descriptor> socket = accept_next(rendezvous_.listening.socket)) {
    inlets_.push_back(
        std::make_unique<Inlet>(Inlet{.connection = TcpConnection(std::move(*socket), pool())}));
    ++num_strangers_;
    watch(inlets_.back()->connection.descriptor(), inlets_.back().get());
  }
}

void TcpEngine::drop_silent_strangers() {
  const Clock::time_point now = Clock::now();
  num_strangers_ = 0;
  std::erase_if(inlets_, [&](const auto& inlet) {
    if (inlet->rank >= 0 || now - inlet->since <= kStrangersPatience) {
      num_strangers_ += inlet->rank < 0 ? 1 : 0;
      return false;
    }
    return true;
  });
}

void TcpEngine::read_from(Inlet& inlet) {
  std::int64_t taken = 0;
  while (taken < kMostAtOnce) {
    std::optional<Packet> packet = inlet.connection.receive(
        inlet.rank < 0 ? TcpConnection::kMostOfStranger : TcpConnection::kMost);
    if (!packet) {
      break;
    }
    taken += packet->elements().bytes() + Packet::kBlockBytes;
    take(inlet, std::move(*packet));
  }
  if (!inlet.connection.is_open()) {
    note_end(inlet);
  }
}

void TcpEngine::take(Inlet& inlet, Packet packet) {
  const PacketHeader header = packet.header();
  if (header.kind == PacketHeader::Kind::kText) {
    if (inlet.rank < 0) {
      greet(inlet, text_of(packet));
    }
    pool().give_back(std::move(packet));
    return;
  }
  if (inlet.rank < 0) {
    inlet.connection.close();
    return;
  }
  if (header.kind == PacketHeader::Kind::kGoodbye) {
    inlet.said_goodbye = true;
    sort(std::move(packet), inlet.rank);
    return;
  }
  const bool is_end =
      header.kind == PacketHeader::Kind::kAbort || header.kind == PacketHeader::Kind::kLost;
  const int from = inlet.rank;
  if (is_end && place().rank == 0) {
    for (const auto& [rank, other] : of_meeting_) {
      if (rank != from) {
        Packet notice = pool().take(1);
        notice.header() = header;
        start_send(std::move(notice), rank);
      }
    }
  }
  sort(std::move(packet), from);
}

/// Handles the first text of a caller: answers a greeting, and refuses anything else.
void TcpEngine::greet(Inlet& inlet, const std::string& text) {
  const std::optional<TcpGreeting> greeting = parse_greeting_text(text);
  if (greeting && greeting->opens(rendezvous_.secret, place().rank) &&
      greeting->from < place().size) {
    inlet.rank = greeting->from;
    inlet.connection.send_text(
        to_text(own_greeting(rendezvous_.secret, place().rank, greeting->from)));
    return;
  }
  if (const std::optional<TcpHello> hello = parse_hello_text(text)) {
    const double seconds = std::chrono::duration<double>(Clock::now() - complete_since_).count();
    inlet.connection.send_text(
        refusal(fmt::format("it comes too late: the job of {} processes there is complete "
                            "since {:.1f} s",
                            place().size, seconds)));
  }
  inlet.connection.close();
}

/// Handles a connection that the other side closed.
void TcpEngine::note_end(Inlet& inlet) {
  busy_inlets_.erase(&inlet);
  if (inlet.is_of_meeting && !inlet.said_goodbye && !is_lost()) {
    report_loss(fmt::format("{}: its process has ended without a word", described(inlet.rank)));
  }
}

/// Reports a loss in this process and tells the other processes.
void TcpEngine::report_loss(const std::string& why) {
  lose(why);
  tell_all_but(place().rank, static_cast<int>(ExitStatus::kRuntimeFault),
               PacketHeader::Kind::kLost);
}

/// Sends a notice to all neighbors of the meeting but `rank`. Rank 0 thus tells all; others tell
/// rank 0, which passes it on.
void TcpEngine::tell_all_but(int rank, int status, PacketHeader::Kind kind) {
  for (const auto& [other, inlet] : of_meeting_) {
    if (other != rank && inlet->connection.is_open()) {
      start_send(abort_notice(status, kind), other);
    }
  }
}

void TcpEngine::spread_abort(int status) {
  tell_all_but(place().rank, status, PacketHeader::Kind::kAbort);
}

void TcpEngine::say_goodbye(Inlet& inlet) {
  if (inlet.connection.is_open()) {
    Packet goodbye = pool().take(1);
    goodbye.header() = {.kind = PacketHeader::Kind::kGoodbye};
    start_send(std::move(goodbye), inlet.rank);
  }
}

// What a process sent is in the system's hands when it says goodbye, and all others receive it
// before they say theirs. No process hangs up before all have said goodbye. Rank 0 may write files
// for long while the others wait here; after an abort no rank does.
void TcpEngine::leave() {
  if (is_aborted()) {  // Told again: the process that aborted may not have had time to tell all.
    tell_all_but(place().rank, abort_status(), PacketHeader::Kind::kAbort);
  }
  const auto has_ended = [](const auto& entry) { return !entry.second->connection.is_open(); };
  const auto is_done = [](const auto& entry) {
    return entry.second->said_goodbye || !entry.second->connection.is_open();
  };
  if (place().rank > 0) {
    static_cast<void>(progress_until([this] { return !has_unsent(); }));
    say_goodbye(*of_meeting_.begin()->second);
    static_cast<void>(progress_until(
        [&] { return std::all_of(of_meeting_.begin(), of_meeting_.end(), is_done); }));
    return;
  }
  static_cast<void>(progress_until([&] {
    return !has_unsent() && std::all_of(of_meeting_.begin(), of_meeting_.end(), is_done);
  }));
  for (const auto& [rank, inlet] : of_meeting_) {
    say_goodbye(*inlet);
  }
  // A connection that is closed before the other side has read everything may lose its last
  // packets.
  static_cast<void>(
      progress_until([&] { return std::all_of(of_meeting_.begin(), of_meeting_.end(), has_ended); },
                     Clock::now() + kHangUpPatience));
}

int TcpEngine::finish(int status) noexcept {
  stop_courier();
  const Lock lock = locked();
  try {
    leave();
  } catch (const std::exception&) {  // The others see the connections end.
  }
  is_leaving_ = true;
  for (const auto& inlet : inlets_) {
    inlet->connection.close();
  }
  routes_.clear();
  rendezvous_.listening.socket.close();
  return is_aborted() ? abort_status() : status;
}

}  // namespace ptdp
