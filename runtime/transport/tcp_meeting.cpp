#include "runtime/transport/tcp_meeting.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <random>
#include <sstream>
#include <thread>

#include "cost_model/error.h"

namespace ptdp {
namespace {

using MeetingClock = std::chrono::steady_clock;

constexpr std::string_view kHello = "hello";
constexpr std::string_view kRefused = "refused ";
/// Rank 0 gave up, and says why.
constexpr std::string_view kEnded = "ended";
constexpr std::string_view kComplete = "complete ";

constexpr std::size_t kMostWays = 8;
constexpr std::size_t kMostRanksNamed = 8;
constexpr int kPollMilliseconds = 50;
/// For somebody who connected to say who he is, and for an answer to that.
constexpr auto kHelloPatience = std::chrono::seconds(10);
/// For rank 0 to say that it gave up.
constexpr auto kTableMargin = std::chrono::seconds(2);
/// For an earlier job to give the port free.
constexpr auto kPortPatience = std::chrono::seconds(10);
constexpr auto kOneAttempt = std::chrono::seconds(2);
constexpr std::chrono::milliseconds kFirstRetry{20};
constexpr std::chrono::milliseconds kLongestRetry{1000};

[[noreturn]] void fail_to_meet(const std::string& what) {
  throw Error(what, ExitStatus::kRuntimeFault);
}

/// Printable and without spaces.
std::string as_word(const std::string& text) {
  std::string word = text.substr(0, 255);
  std::replace_if(
      word.begin(), word.end(), [](char c) { return c <= ' ' || c > '~'; }, '_');
  return word.empty() ? "-" : word;
}

std::string own_machine() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  return as_word(own_host_name() + "/" + boot);
}

MetProcess own_process(std::uint16_t port) {
  MetProcess self{.host = as_word(own_host_name()),
                  .machine = own_machine(),
                  .port = port,
                  .addresses = own_addresses()};
  self.addresses.resize(std::min(self.addresses.size(), kMostWays));
  return self;
}

void append(std::string& line, const MetProcess& process) {
  line += fmt::format("{} {} {}", process.host, process.machine, process.port);
  for (const std::string& address : process.addresses) {
    line += ' ' + address;
  }
}

/// What is left of a line.
std::optional<MetProcess> take_process(std::istringstream& words) {
  MetProcess process;
  words >> process.host >> process.machine >> process.port;
  if (!words || process.port == 0) {
    return std::nullopt;
  }
  for (std::string address; words >> address;) {
    process.addresses.push_back(address);
  }
  return process;
}

TcpHello own_hello(const TcpJobOptions& options, std::uint16_t port) {
  return {.rank = options.rank,
          .size = options.size,
          .version = PTDP_VERSION,
          .job = as_word(options.job),
          .process = ::getpid(),
          .self = own_process(port)};
}

std::string described(const TcpHello& hello) {
  return fmt::format("rank {} (process {} on host {})", hello.rank, hello.process, hello.self.host);
}

/// The time of a meeting: how long it may take, and when to say what is waited for.
class Patience {
 public:
  explicit Patience(const TcpJobOptions& options)
      : options_(&options), next_notice_(begin_ + of(options.notice_interval)) {}

  [[nodiscard]] bool is_over() const { return MeetingClock::now() >= end(); }
  [[nodiscard]] MeetingClock::time_point end() const {
    return options_->timeout ? begin_ + of(*options_->timeout) : MeetingClock::time_point::max();
  }
  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(MeetingClock::now() - begin_).count();
  }
  static MeetingClock::duration of(Seconds time) {
    return std::chrono::duration_cast<MeetingClock::duration>(
        std::chrono::duration<double>(time.value()));
  }
  template <class What>
  void notice(const What& what) {
    if (options_->notice && MeetingClock::now() >= next_notice_) {
      next_notice_ += of(options_->notice_interval);
      const std::string limit =
          options_->timeout ? fmt::format(" of {:.4g} s", options_->timeout->value()) : "";
      options_->notice(fmt::format("waiting for {} ({:.0f} s{})", what(), seconds(), limit));
    }
  }

 private:
  const TcpJobOptions* options_;
  MeetingClock::time_point begin_ = MeetingClock::now();
  MeetingClock::time_point next_notice_;
};

/// "3, 5-7".
std::string ranks_in_words(const std::vector<int>& ranks) {
  std::string text;
  std::size_t named = 0;
  for (std::size_t i = 0; i < ranks.size(); ++named) {
    if (named == kMostRanksNamed) {
      return text + ", ...";
    }
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) {
      ++last;
    }
    text += (text.empty() ? "" : ", ") + std::to_string(ranks[i]);
    text += last == i ? "" : "-" + std::to_string(ranks[last]);
    i = last + 1;
  }
  return text;
}

// --- rank 0 ---

Listening listen_at_port(const TcpJobOptions& options, Patience& patience) {
  const auto end = std::min(patience.end(), MeetingClock::now() + kPortPatience);
  std::chrono::milliseconds pause = kFirstRetry;
  while (true) {
    try {
      return listen_on(options.port);
    } catch (const Error& error) {
      if (MeetingClock::now() + pause >= end) {
        fail_to_meet(fmt::format("rank 0 on host {}: {} ({}:{}), where the other ranks expect it",
                                 own_host_name(), error.what(), options.address, options.port));
      }
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, kLongestRetry);
  }
}

/// Somebody who connected to rank 0.
struct Guest {
  TcpConnection connection;
  MeetingClock::time_point since = MeetingClock::now();
  std::optional<TcpHello> hello;  ///< Of one who joined.
};

/// Rank 0's part.
class Host {
 public:
  Host(const TcpJobOptions& options, PacketPool& pool)
      : options_(&options),
        pool_(&pool),
        patience_(options),
        listening_(listen_at_port(options, patience_)) {}

  [[nodiscard]] Meeting gather() {
    while (true) {
      wait_for_guests();
      while (std::optional<Socket> socket = accept_next(listening_.socket)) {
        guests_.push_back({.connection = TcpConnection(std::move(*socket), *pool_)});
      }
      for (Guest& guest : guests_) {
        look_at(guest);
      }
      std::erase_if(guests_, [](const Guest& guest) { return !guest.connection.is_open(); });
      const std::vector<int> missing = missing_ranks();
      if (missing.empty()) {
        return complete();
      }
      if (patience_.is_over()) {
        end_all(fmt::format(
            "{} of {} processes did not come to rank 0 on host {} (port {}, address {}) within "
            "{:.4g} s: rank{} {}",
            missing.size(), options_->size, own_host_name(), listening_.port, options_->address,
            options_->timeout->value(), missing.size() == 1 ? "" : "s", ranks_in_words(missing)));
      }
      patience_.notice([&] {
        return fmt::format("rank{} {} of {} at {}:{}", missing.size() == 1 ? "" : "s",
                           ranks_in_words(missing), options_->size, options_->address,
                           listening_.port);
      });
    }
  }

 private:
  void wait_for_guests() {
    std::vector<pollfd> polled = {{.fd = listening_.socket.get(), .events = POLLIN, .revents = 0}};
    for (const Guest& guest : guests_) {
      polled.push_back({.fd = guest.connection.descriptor(), .events = POLLIN, .revents = 0});
    }
    ::poll(polled.data(), polled.size(), kPollMilliseconds);
  }

  void look_at(Guest& guest) {
    TcpConnection& connection = guest.connection;
    connection.flush();
    const std::optional<Packet> packet = connection.receive(TcpConnection::kMostOfStranger);
    if (packet && !guest.hello) {
      judge(guest, text_of(*packet));
      return;
    }
    const bool is_silent = !guest.hello && MeetingClock::now() - guest.since > kHelloPatience;
    if (packet || is_silent) {  // who joined has nothing to say yet
      connection.close();
    }
  }

  void judge(Guest& guest, const std::string& text) {
    std::optional<TcpHello> hello = parse_hello_text(text);
    if (!hello) {
      guest.connection.close();
      return;
    }
    if (hello->job != as_word(options_->job)) {
      guest.connection.send(
          to_packet(*pool_, refusal(fmt::format("another job meets there: expected job {}, got {}",
                                                as_word(options_->job), hello->job))));
      guest.connection.close();
      return;
    }
    check(*hello);
    const std::string seen = guest.connection.peer_address();
    std::vector<std::string>& ways = hello->self.addresses;
    if (!is_loopback(seen)) {
      std::erase(ways, seen);
      ways.insert(ways.begin(), seen);
    }
    guest.hello = std::move(hello);
    guest.connection.send(to_packet(*pool_, kWelcome));
  }

  /// Ends the meeting where the job cannot come together any more.
  void check(const TcpHello& hello) {
    if (hello.version != PTDP_VERSION) {
      end_all(fmt::format("{}: expected version {} of this program as on rank 0, got {}",
                          described(hello), PTDP_VERSION, hello.version));
    }
    if (hello.size != options_->size) {
      end_all(fmt::format("{}: expected a job of {} processes as on rank 0, got one of {}",
                          described(hello), options_->size, hello.size));
    }
    const auto same = std::find_if(guests_.begin(), guests_.end(), [&](const Guest& other) {
      return other.hello && other.hello->rank == hello.rank;
    });
    if (hello.rank == 0 || same != guests_.end()) {
      end_all(
          fmt::format("two processes are rank {}: process {} on host {}, and process {} on host {}",
                      hello.rank, hello.rank == 0 ? ::getpid() : same->hello->process,
                      hello.rank == 0 ? own_host_name() : same->hello->self.host, hello.process,
                      hello.self.host));
    }
  }

  /// Throws it, here alone.
  [[noreturn]] void end_all(const std::string& why) {
    for (Guest& guest : guests_) {
      guest.connection.send(to_packet(*pool_, std::string(kEnded)));
    }
    fail_to_meet(why);
  }

  [[nodiscard]] std::vector<int> missing_ranks() const {
    std::vector<bool> is_here(static_cast<std::size_t>(options_->size), false);
    is_here[0] = true;
    for (const Guest& guest : guests_) {
      if (guest.hello) {
        is_here[static_cast<std::size_t>(guest.hello->rank)] = true;
      }
    }
    std::vector<int> missing;
    for (int rank = 0; rank < options_->size; ++rank) {
      if (!is_here[static_cast<std::size_t>(rank)]) {
        missing.push_back(rank);
      }
    }
    return missing;
  }

  [[nodiscard]] Meeting complete() {
    std::random_device device;
    Meeting meeting{.secret = fmt::format("{:08x}{:08x}", device(), device())};
    meeting.processes.resize(static_cast<std::size_t>(options_->size));
    meeting.processes[0] = own_process(listening_.port);
    for (Guest& guest : guests_) {
      if (guest.hello) {
        meeting.processes[static_cast<std::size_t>(guest.hello->rank)] = guest.hello->self;
        meeting.connections.emplace(guest.hello->rank, std::move(guest.connection));
      }
    }
    std::string table = std::string(kComplete) + meeting.secret;
    for (const MetProcess& process : meeting.processes) {
      table += '\n';
      append(table, process);
    }
    for (auto& [rank, connection] : meeting.connections) {
      connection.send(to_packet(*pool_, table));
    }
    meeting.listening = std::move(listening_);
    return meeting;
  }

  const TcpJobOptions* options_;
  PacketPool* pool_;
  Patience patience_;
  Listening listening_;
  std::vector<Guest> guests_;
};

// --- the others ---

Meeting parse_table(const std::string& text, int size) {
  std::istringstream lines(text);
  std::string line;
  std::getline(lines, line);
  Meeting meeting{.secret = line.substr(kComplete.size())};
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    if (std::optional<MetProcess> process = take_process(words)) {
      meeting.processes.push_back(std::move(*process));
    }
  }
  if (std::ssize(meeting.processes) != size) {
    fail_to_meet(fmt::format("rank 0 sent where {} processes are; expected {}",
                             meeting.processes.size(), size));
  }
  return meeting;
}

/// The part of a rank above 0.
class Joiner {
 public:
  Joiner(const TcpJobOptions& options, PacketPool& pool)
      : options_(&options),
        pool_(&pool),
        patience_(options),
        place_(fmt::format("{}:{}", options.address, options.port)),
        listening_(listen_on(0)) {}

  [[nodiscard]] Meeting join() {
    std::chrono::milliseconds pause = kFirstRetry;
    while (true) {
      for (const SocketAddress& address : find_host()) {
        if (std::optional<Meeting> meeting = try_at(address)) {
          return std::move(*meeting);
        }
      }
      if (MeetingClock::now() + pause >= patience_.end()) {
        fail_to_meet(fmt::format("rank {} on host {}: cannot join rank 0 at {} within {:.4g} s: {}",
                                 options_->rank, own_host_name(), place_,
                                 options_->timeout->value(), fault_));
      }
      notice();
      std::this_thread::sleep_for(pause);
      pause = std::min(2 * pause, kLongestRetry);
    }
  }

 private:
  void notice() {
    patience_.notice([&] { return fmt::format("rank 0 at {}: {}", place_, fault_); });
  }

  [[nodiscard]] std::vector<SocketAddress> find_host() {
    Resolution found = resolve(options_->address, options_->port);
    if (found.addresses.empty()) {
      note_fault(found.fault);
    }
    return std::move(found.addresses);
  }

  /// What is cut short by the end says less than what was before.
  void note_fault(const std::string& what) {
    if (fault_.empty() || !patience_.is_over()) {
      fault_ = what;
    }
  }

  [[nodiscard]] std::optional<Meeting> try_at(const SocketAddress& address) {
    PendingConnection pending(address);
    const auto end = std::min(MeetingClock::now() + kOneAttempt, patience_.end());
    PendingConnection::State state = PendingConnection::State::kUnderWay;
    while (state == PendingConnection::State::kUnderWay && MeetingClock::now() < end) {
      state = pending.look(kPollMilliseconds);
    }
    if (state != PendingConnection::State::kConnected) {
      note_fault(state == PendingConnection::State::kFailed ? pending.fault() : "no answer");
      return std::nullopt;
    }
    TcpConnection connection(pending.take(), *pool_);
    connection.send(to_packet(*pool_, to_text(own_hello(*options_, listening_.port))));
    const std::optional<std::string> answer =
        next_text(connection, std::min(patience_.end(), MeetingClock::now() + kHelloPatience));
    if (answer != kWelcome) {
      end_where_told(answer);
      note_fault(connection.is_open() ? "somebody listens there who does not answer as rank 0 does"
                                      : "somebody listens there who hangs up");
      return std::nullopt;
    }
    return wait_for_table(std::move(connection));
  }

  /// Rank 0 knows this process, and its patience began before this: it is the one to give up.
  [[nodiscard]] std::optional<Meeting> wait_for_table(TcpConnection connection) {
    const auto end = options_->timeout
                         ? MeetingClock::now() + Patience::of(*options_->timeout) + kTableMargin
                         : MeetingClock::time_point::max();
    const std::optional<std::string> answer = next_text(connection, end);
    end_where_told(answer);
    if (!answer || !answer->starts_with(kComplete)) {
      note_fault(connection.is_open() ? "rank 0 did not say that all processes came"
                                      : "rank 0 was there, and is gone");
      return std::nullopt;
    }
    Meeting meeting = parse_table(*answer, options_->size);
    meeting.connections.emplace(0, std::move(connection));
    meeting.listening = std::move(listening_);
    return meeting;
  }

  void end_where_told(const std::optional<std::string>& answer) {
    if (answer == kEnded) {
      throw Aborted();
    }
    if (answer && answer->starts_with(kRefused)) {
      fail_to_meet(fmt::format("rank {} on host {}: rank 0 at {} refuses it: {}", options_->rank,
                               own_host_name(), place_, answer->substr(kRefused.size())));
    }
  }

  /// None where the connection ended, or the time.
  [[nodiscard]] static std::optional<std::string> next_text(TcpConnection& connection,
                                                            MeetingClock::time_point end) {
    while (connection.is_open() && MeetingClock::now() < end) {
      connection.flush();
      if (const std::optional<Packet> packet = connection.receive(TcpConnection::kMost)) {
        return packet->header().kind == PacketHeader::Kind::kText ? std::optional(text_of(*packet))
                                                                  : std::nullopt;
      }
      pollfd polled{.fd = connection.descriptor(), .events = POLLIN, .revents = 0};
      ::poll(&polled, 1, kPollMilliseconds);
    }
    return std::nullopt;
  }

  const TcpJobOptions* options_;
  PacketPool* pool_;
  Patience patience_;
  std::string place_;
  Listening listening_;
  std::string fault_;  ///< Of the last attempt.
};

}  // namespace

std::string to_text(const TcpHello& hello) {
  std::string text = fmt::format("{} {} {} {} {} {} ", kHello, hello.version, hello.size,
                                 hello.rank, hello.job, hello.process);
  append(text, hello.self);
  return text;
}

std::optional<TcpHello> parse_hello_text(const std::string& text) {
  std::istringstream words(text);
  std::string kind;
  TcpHello hello;
  words >> kind >> hello.version >> hello.size >> hello.rank >> hello.job >> hello.process;
  std::optional<MetProcess> self = take_process(words);
  if (kind != kHello || !self || hello.rank < 0 || hello.rank >= hello.size) {
    return std::nullopt;
  }
  hello.self = std::move(*self);
  return hello;
}

std::string refusal(const std::string& why) {
  return std::string(kRefused) + why;
}

Meeting meet(const TcpJobOptions& options, PacketPool& pool) {
  if (options.size == 1) {
    Meeting alone{.listening = listen_on(0)};
    alone.processes.push_back(own_process(alone.listening.port));
    return alone;
  }
  return options.rank == 0 ? Host(options, pool).gather() : Joiner(options, pool).join();
}

ProcessPlace place_in(const Meeting& meeting, int rank) {
  const MetProcess& own = meeting.processes[static_cast<std::size_t>(rank)];
  ProcessPlace place{.rank = rank,
                     .size = static_cast<int>(std::ssize(meeting.processes)),
                     .ranks_on_host = 0,
                     .host = own.host};
  for (int other = 0; other < place.size; ++other) {
    if (meeting.processes[static_cast<std::size_t>(other)].machine == own.machine) {
      place.ranks_on_host += 1;
      place.place_on_host += other < rank ? 1 : 0;
    }
  }
  return place;
}

std::vector<std::string> ways_to(const MetProcess& to, const MetProcess& from) {
  std::vector<std::string> ways = to.addresses;
  if (to.machine == from.machine) {
    std::stable_partition(ways.begin(), ways.end(), is_loopback);
  } else {
    std::erase_if(ways, is_loopback);
  }
  return ways;
}

}  // namespace ptdp
