// Rank 0's part of a meeting: it listens, hears who comes, and tells all where all are.
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <random>
#include <thread>
#include <utility>

#include "cost_model/error.h"
#include "runtime/transport/meeting_parts.h"

namespace ptdp {
namespace {

constexpr std::size_t kMostRanksNamed = 8;
/// For an earlier job to give the port free.
constexpr auto kPortPatience = std::chrono::seconds(10);

[[noreturn]] void fail_to_host(const std::string& what) {
  throw Error(what, ExitStatus::kRuntimeFault);
}

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

Listening listen_at_port(const TcpJobOptions& options, Patience& patience) {
  const auto end = std::min(patience.end(), MeetingClock::now() + kPortPatience);
  std::chrono::milliseconds pause = kFirstRetry;
  while (true) {
    try {
      return listen_on(options.port);
    } catch (const Error& error) {
      if (MeetingClock::now() + pause >= end) {
        fail_to_host(fmt::format("rank 0 on host {}: {} ({}:{}), where the other ranks expect it",
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
    fail_to_host(why);
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
    const std::string table =
        to_text(TcpTable{.secret = meeting.secret, .processes = meeting.processes});
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

}  // namespace

Meeting host_meeting(const TcpJobOptions& options, PacketPool& pool) {
  return Host(options, pool).gather();
}

}  // namespace ptdp
