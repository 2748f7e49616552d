// Rank 0's part of a meeting: it listens, judges who comes, and tells everybody where all are.
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "cost_model/error.h"
#include "runtime/transport/processes/tcp/keyed_digest.h"
#include "runtime/transport/processes/tcp/rendezvous_parts.h"

namespace ptdp {
namespace {

constexpr std::size_t kMostRanksNamed = 8;  ///< In messages, the rest is "...".
/// How long an earlier job may take to free the port.
constexpr auto kPortPatience = std::chrono::seconds(10);

/// Returns sorted ranks in words, with ranges: "3, 5-7".
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

/// Listens at rank 0's address and port, and retries while the port is in use. Throws
/// Error(kRuntimeFault).
Listening listen_at_port(const TcpJobOptions& options, Patience& patience) {
  const std::string address = own_address_of(options.address);
  Retries retries(std::min(patience.end(), RendezvousClock::now() + kPortPatience));
  while (true) {
    try {
      return listen_on(options.port, address);
    } catch (const Error& error) {
      if (!retries.wait()) {
        fail_to_meet(fmt::format(
            "rank 0 on host {}: the meeting: {} ({}:{}), where the other ranks expect it",
            own_host_name(), error.what(), options.address, options.port));
      }
    }
  }
}

/// A process that connected to rank 0, or a stranger.
struct Guest {
  TcpConnection connection;
  RendezvousClock::time_point since = RendezvousClock::now();
  /// The hello of a guest that was asked for the job's secret.
  std::optional<TcpHello> claim = {};
  TcpProof proof = {};  ///< The proof expected of a guest that was asked for the job's secret.
  std::optional<TcpHello> hello = {};  ///< The hello of a guest that has joined.
};

/// Returns whether two hellos come from the same process.
bool are_of_one_process(const TcpHello& a, const TcpHello& b) {
  return a.process == b.process && a.self.machine == b.self.machine && a.self.port == b.self.port;
}

/// Runs rank 0's part of a meeting.
class Host {
 public:
  Host(const TcpJobOptions& options, PacketPool& pool)
      : options_(&options),
        pool_(&pool),
        patience_(options),
        listening_(listen_at_port(options, patience_)) {}

  /// Waits until all ranks have joined, then sends the table. Throws Error(kRuntimeFault) when time
  /// is over.
  [[nodiscard]] Rendezvous gather() {
    while (true) {
      wait_for_guests();
      const bool has_room = let_in();
      for (Guest& guest : guests_) {
        look_at(guest);
      }
      std::erase_if(guests_, [](const Guest& guest) { return !guest.connection.is_open(); });
      if (!has_room) {
        make_room();
      }
      const std::vector<int> missing = missing_ranks();
      if (missing.empty()) {
        return complete();
      }
      if (patience_.is_over()) {
        end_all(fmt::format(
            "the meeting: {} of {} processes did not come to rank 0 on host {} (port {}, address "
            "{}) within {:.4g} s: rank{} {}{}",
            missing.size(), options_->size, own_host_name(), listening_.port, options_->address,
            options_->timeout->value(), missing.size() == 1 ? "" : "s", ranks_in_words(missing),
            others_in_words()));
      }
      patience_.notice([&] {
        return fmt::format("rank{} {} of {} at {}:{}{}", missing.size() == 1 ? "" : "s",
                           ranks_in_words(missing), options_->size, options_->address,
                           listening_.port, others_in_words());
      });
    }
  }

 private:
  /// Waits up to 50 ms for a new connection or a message.
  void wait_for_guests() {
    std::vector<pollfd> polled = {{.fd = listening_.socket.get(), .events = POLLIN, .revents = 0}};
    for (const Guest& guest : guests_) {
      polled.push_back({.fd = guest.connection.descriptor(), .events = POLLIN, .revents = 0});
    }
    ::poll(polled.data(), polled.size(), kPollMilliseconds);
  }

  /// Handles what a guest sent, and closes connections of silent guests.
  void look_at(Guest& guest) {
    TcpConnection& connection = guest.connection;
    connection.flush();
    const auto text = connection.receive_text(TcpConnection::kMostOfStranger);
    if (text && !guest.hello) {
      judge(guest, *text);
      return;
    }
    const bool is_silent = !guest.hello && RendezvousClock::now() - guest.since > kHelloPatience;
    if (text || is_silent) {  // A guest that has joined has nothing to say yet.
      connection.close();
    }
    if (guest.claim && !guest.hello && !connection.is_open()) {
      note_turned_away(*guest.claim, "it did not answer for PTDP_JOB_SECRET");
    }
  }

  /// Accepts all waiting connections. Returns false when the system has no descriptor left for the
  /// next one.
  bool let_in() {
    while (std::optional<Descriptor> socket = accept_next(listening_.socket)) {
      guests_.push_back({.connection = TcpConnection(std::move(*socket), *pool_)});
    }
    return errno != EMFILE && errno != ENFILE;
  }

  /// Closes the connection of the guest that has been silent longest, since processes of the job
  /// speak at once. Waits when every guest has joined.
  void make_room() {
    const auto silent = std::find_if(guests_.begin(), guests_.end(),
                                     [](const Guest& guest) { return !guest.hello; });
    if (silent != guests_.end()) {
      guests_.erase(silent);
      return;
    }
    lacks_room_ = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(kPollMilliseconds));
  }

  /// Handles a text of a guest that has not joined yet. A guest that does not belong here does not
  /// end the meeting.
  void judge(Guest& guest, const std::string& text) {
    if (guest.claim) {
      return judge_proof(guest, text);
    }
    std::optional<TcpHello> hello = parse_hello_text(text);
    if (!hello || guest.connection.was_hung_up()) {
      guest.connection.close();
      return;
    }
    if (const std::string fault = mismatch(*hello); !fault.empty()) {
      return turn_away(guest, *hello, fault);
    }
    if (options_->secret.empty()) {
      return welcome(guest, std::move(*hello), kWelcome);
    }
    guest.claim = std::move(hello);
    guest.proof = {.hello = text, .challenge = random_digits()};
    guest.connection.send_text(std::string(kChallenge) + guest.proof.challenge);
  }

  /// Handles a guest's proof that it knows the secret.
  void judge_proof(Guest& guest, const std::string& text) {
    guest.proof.answer = answer_in(text);
    if (!are_equal_digests(text, guest.proof.of_guest(options_->secret))) {
      return turn_away(guest, *guest.claim, "expected the PTDP_JOB_SECRET of rank 0, got another");
    }
    welcome(guest, std::move(*guest.claim), guest.proof.of_host(options_->secret));
  }

  /// Returns why the sender is no process of this job, or "" if it may be one.
  [[nodiscard]] std::string mismatch(const TcpHello& hello) const {
    if (hello.job != as_word(options_->job)) {
      return fmt::format("another job meets there: expected job {}, got {}", as_word(options_->job),
                         as_word(hello.job));
    }
    if (hello.version != PTDP_VERSION) {
      return fmt::format("expected version {} of this program as on rank 0, got {}", PTDP_VERSION,
                         as_word(hello.version));
    }
    if (hello.size != options_->size) {
      return fmt::format("expected a job of {} processes as on rank 0, got one of {}",
                         options_->size, hello.size);
    }
    if (hello.has_secret && options_->secret.empty()) {
      return "it has a PTDP_JOB_SECRET, rank 0 has none";
    }
    return hello.rank == 0
               ? fmt::format("process {} on host {} is rank 0", ::getpid(), own_host_name())
               : "";
  }

  void turn_away(Guest& guest, const TcpHello& hello, const std::string& why) {
    guest.connection.send_text(refusal(why));
    guest.connection.close();
    note_turned_away(hello, why);
  }

  void note_turned_away(const TcpHello& hello, const std::string& why) {
    constexpr std::size_t most_told = 4;
    if (turned_away_.size() < most_told) {
      turned_away_.insert(fmt::format("{}: {}", described(hello), why));
    }
  }

  /// Lets a guest join. A process that hung up and comes again takes the place of its former
  /// connection.
  void welcome(Guest& guest, TcpHello hello, const std::string& word) {
    const auto same = std::find_if(guests_.begin(), guests_.end(), [&](const Guest& other) {
      return other.hello && other.connection.is_open() && other.hello->rank == hello.rank;
    });
    if (same != guests_.end() && !are_of_one_process(*same->hello, hello) &&
        !same->connection.was_hung_up()) {
      return turn_away(
          guest, hello,
          fmt::format("two processes are rank {}: process {} on host {} came first", hello.rank,
                      same->hello->process, as_word(same->hello->self.host)));
    }
    if (same != guests_.end()) {
      same->connection.close();
    }
    const std::string seen = guest.connection.peer_address();
    std::vector<std::string>& ways = hello.self.addresses;
    if (!is_loopback(seen)) {
      std::erase(ways, seen);
      ways.insert(ways.begin(), seen);
    }
    guest.hello = std::move(hello);
    guest.connection.send_text(word);
  }

  /// Returns what may explain missing ranks, as text to follow their names.
  [[nodiscard]] std::string others_in_words() const {
    std::string text = lacks_room_ ? "; this process may not have more connections open" : "";
    for (const std::string& other : turned_away_) {
      text += "; turned away " + other;
    }
    return text;
  }

  /// Ends the meeting for all guests, and throws Error(kRuntimeFault) with `why` here alone.
  [[noreturn]] void end_all(const std::string& why) {
    for (Guest& guest : guests_) {
      guest.connection.send_text(std::string(kEnded));
    }
    fail_to_meet(why);
  }

  /// Returns the ranks that have not joined.
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

  /// Sends the table to every guest that joined, and returns the meeting.
  [[nodiscard]] Rendezvous complete() {
    Rendezvous rendezvous{.secret = random_digits()};
    rendezvous.processes.resize(static_cast<std::size_t>(options_->size));
    rendezvous.processes[0] = own_process(listening_);
    for (Guest& guest : guests_) {
      if (guest.hello) {
        rendezvous.processes[static_cast<std::size_t>(guest.hello->rank)] = guest.hello->self;
        rendezvous.connections.emplace(guest.hello->rank, std::move(guest.connection));
      }
    }
    const std::string table =
        to_text(TcpTable{.secret = rendezvous.secret, .processes = rendezvous.processes});
    for (auto& [rank, connection] : rendezvous.connections) {
      connection.send_text(table);
    }
    rendezvous.listening = std::move(listening_);
    return rendezvous;
  }

  const TcpJobOptions* options_;
  PacketPool* pool_;
  Patience patience_;
  Listening listening_;
  std::vector<Guest> guests_;
  std::set<std::string> turned_away_;  ///< The first few guests turned away, with the reasons.
  bool lacks_room_ = false;            ///< No descriptor was left, although every guest had joined.
};

}  // namespace

Rendezvous host_rendezvous(const TcpJobOptions& options, PacketPool& pool) {
  return Host(options, pool).gather();
}

}  // namespace ptdp
