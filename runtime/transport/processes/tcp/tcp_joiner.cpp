// The part of a rank above 0 in a meeting: it looks for rank 0, says who it is, and learns where
// all are.
#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "cost_model/error.h"
#include "runtime/transport/processes/tcp/keyed_digest.h"
#include "runtime/transport/processes/tcp/rendezvous_parts.h"

namespace ptdp {
namespace {

/// How much longer than its own timeout a process waits for rank 0, which says when it gives up.
constexpr auto kTableMargin = std::chrono::seconds(2);

/// Runs the part of a rank above 0 in a meeting.
class Joiner {
 public:
  Joiner(const TcpJobOptions& options, PacketPool& pool)
      : options_(&options),
        pool_(&pool),
        patience_(options),
        place_(fmt::format("{}:{}", options.address, options.port)) {}

  /// Tries to join until rank 0 sends the table. Throws as join_tcp_job() does.
  [[nodiscard]] Rendezvous join() {
    Retries retries(patience_.end());
    while (true) {
      for (const SocketAddress& address : find_host()) {
        if (std::optional<Rendezvous> rendezvous = try_at(address)) {
          return std::move(*rendezvous);
        }
      }
      if (!retries.wait()) {
        fail_to_meet(fmt::format(
            "rank {} on host {}: the meeting: cannot join rank 0 at {} within "
            "{:.4g} s: {}",
            options_->rank, own_host_name(), place_, options_->timeout->value(), fault_));
      }
      patience_.notice([&] { return fmt::format("rank 0 at {}: {}", place_, fault_); });
    }
  }

 private:
  [[nodiscard]] std::vector<SocketAddress> find_host() {
    Resolution found = resolve(options_->address, options_->port);
    if (found.addresses.empty()) {
      note_fault(found.fault);
    }
    return std::move(found.addresses);
  }

  /// Keeps the reason of the latest failed attempt. An attempt cut short by the time limit does not
  /// replace an earlier reason.
  void note_fault(const std::string& what) {
    if (fault_.empty() || !patience_.is_over()) {
      fault_ = what;
    }
  }

  /// Tries to join at one address. Returns nullopt when the attempt failed but others may succeed.
  [[nodiscard]] std::optional<Rendezvous> try_at(const SocketAddress& address) {
    Attempt attempt = try_to_connect(address, patience_.end());
    if (!attempt.socket.is_open()) {
      note_fault(attempt.fault);
      return std::nullopt;
    }
    listen_where_reached(local_address(attempt.socket));
    TcpConnection connection(std::move(attempt.socket), *pool_);
    TcpProof proof{.hello = to_text(own_hello(*options_, listening_)), .answer = random_digits()};
    std::optional<std::string> answer = ask(connection, proof.hello);
    if (answer && answer->starts_with(kChallenge)) {
      if (options_->secret.empty()) {
        fail_to_meet(
            fmt::format("rank {} on host {}: the meeting: rank 0 at {} asks for the job's "
                        "secret: expected PTDP_JOB_SECRET in the environment",
                        options_->rank, own_host_name(), place_));
      }
      proof.challenge = answer->substr(kChallenge.size());
      answer = ask(connection, proof.of_guest(options_->secret));
    }
    const bool is_welcome =
        answer &&
        (options_->secret.empty() ? *answer == kWelcome
                                  : are_equal_digests(*answer, proof.of_host(options_->secret)));
    if (is_welcome) {
      return wait_for_table(std::move(connection));
    }
    end_where_told(answer);
    if (answer && answer->starts_with(kWelcome)) {
      fail_to_meet(
          fmt::format("rank {} on host {}: the meeting: rank 0 at {} does not prove to "
                      "know PTDP_JOB_SECRET: expected that of this process",
                      options_->rank, own_host_name(), place_));
    }
    note_fault(connection.is_open() ? "somebody listens there who does not answer as rank 0 does"
                                    : "somebody listens there who hangs up");
    return std::nullopt;
  }

  /// Listens at the address by which this process reaches rank 0. It listens at all addresses when
  /// that one is reachable on this host alone, but other hosts may know rank 0 by the same name.
  void listen_where_reached(const std::string& local) {
    const bool is_for_all =
        local.starts_with("fe80:") || (is_loopback(local) && !is_loopback(options_->address));
    const std::string address = is_for_all ? "" : local;
    if (!listening_.socket.is_open() || listening_.address != address) {
      listening_ = listen_on(0, address);
    }
  }

  /// Sends `text` and returns the other side's next text, or nullopt when none came in time.
  [[nodiscard]] std::optional<std::string> ask(TcpConnection& connection,
                                               const std::string& text) const {
    connection.send_text(text);
    return next_text(connection,
                     std::min(patience_.end(), RendezvousClock::now() + kHelloPatience));
  }

  /// Waits for the table. Rank 0 knows this process by now, and its time began earlier, so rank 0
  /// is the one to give up.
  [[nodiscard]] std::optional<Rendezvous> wait_for_table(TcpConnection connection) {
    const auto end = options_->timeout ? RendezvousClock::now() +
                                             steady_duration(*options_->timeout) + kTableMargin
                                       : RendezvousClock::time_point::max();
    const std::optional<std::string> answer = next_text(connection, end);
    end_where_told(answer);
    std::optional<TcpTable> table = answer ? parse_table_text(*answer) : std::nullopt;
    if (!table) {
      note_fault(connection.is_open() ? "rank 0 did not say that all processes came"
                                      : "rank 0 was there, and is gone");
      return std::nullopt;
    }
    if (std::ssize(table->processes) != options_->size) {
      fail_to_meet(fmt::format("rank 0 sent where {} processes are; expected {}",
                               table->processes.size(), options_->size));
    }
    Rendezvous rendezvous{.secret = std::move(table->secret),
                          .processes = std::move(table->processes)};
    rendezvous.connections.emplace(0, std::move(connection));
    rendezvous.listening = std::move(listening_);
    return rendezvous;
  }

  /// Throws when rank 0's answer says that it gave up, or that it refuses this process.
  void end_where_told(const std::optional<std::string>& answer) {
    if (answer == kEnded) {
      throw Aborted();
    }
    if (answer && answer->starts_with(kRefused)) {
      fail_to_meet(fmt::format("rank {} on host {}: the meeting: rank 0 at {} refuses it: {}",
                               options_->rank, own_host_name(), place_,
                               answer->substr(kRefused.size())));
    }
  }

  /// Returns the next text, or nullopt when the connection ended or the time is over.
  [[nodiscard]] static std::optional<std::string> next_text(TcpConnection& connection,
                                                            RendezvousClock::time_point end) {
    while (connection.is_open() && RendezvousClock::now() < end) {
      connection.flush();
      if (std::optional<std::string> text = connection.receive_text(TcpConnection::kMost)) {
        return text;
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
  std::string fault_;  ///< Why the latest attempt failed.
};

}  // namespace

Rendezvous join_rendezvous(const TcpJobOptions& options, PacketPool& pool) {
  return Joiner(options, pool).join();
}

}  // namespace ptdp
