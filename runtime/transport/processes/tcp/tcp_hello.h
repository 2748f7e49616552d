// What processes that meet over TCP say to each other.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/transport/processes/tcp/socket.h"
#include "runtime/transport/processes/tcp/tcp_job_options.h"

namespace ptdp {

/// A process as the others know it.
struct MetProcess {
  std::string host;
  /// Equal for processes of one machine: the host's name, and what it was given when it booted.
  std::string machine;
  std::uint16_t port = 0;              ///< Where it listens,
  std::vector<std::string> addresses;  ///< at these, the likeliest first.
};
/// This process, as one that listens there.
[[nodiscard]] MetProcess own_process(const Listening& listening);

/// Rank 0's answer to a process that joins a meeting.
inline constexpr const char* kWelcome = "welcome";
/// Rank 0's word where it gave up, and says why itself.
inline constexpr std::string_view kEnded = "ended";
/// Begins the answer to a process that may not join.
inline constexpr std::string_view kRefused = "refused ";

/// A process that wants to join.
struct TcpHello {
  int rank = 0;
  int size = 1;
  std::string version;
  std::string job;
  int process = 0;  ///< Its number on its host.
  bool has_secret = false;
  MetProcess self;
};
/// The hello of this process, which listens there.
[[nodiscard]] TcpHello own_hello(const TcpJobOptions& options, const Listening& listening);
[[nodiscard]] std::string to_text(const TcpHello& hello);
[[nodiscard]] std::optional<TcpHello> parse_hello_text(const std::string& text);
/// A sender in words: "rank 1 (process 17 on host node-7)".
[[nodiscard]] std::string described(const TcpHello& hello);
/// An answer that tells the process that it is for why it may not join.
[[nodiscard]] std::string refusal(const std::string& why);
/// A name as a word of a hello: printable and without spaces.
[[nodiscard]] std::string as_word(const std::string& text);

/// Begins rank 0's question whether a process knows the job's secret; a number used once follows.
inline constexpr std::string_view kChallenge = "challenge ";
/// What is proven to know the job's secret: that a hello and two numbers used once were seen.
struct TcpProof {
  std::string hello;  ///< As it was sent.
  std::string challenge;
  std::string answer;  ///< The number of the process that joins.

  /// "proof ANSWER DIGEST": the word of the process that joins.
  [[nodiscard]] std::string of_guest(const std::string& secret) const;
  /// "welcome DIGEST": the word of rank 0 to it.
  [[nodiscard]] std::string of_host(const std::string& secret) const;
};
/// The number in the word of a process that joins; empty in another text.
[[nodiscard]] std::string answer_in(const std::string& proof);

/// Where processes are, and what they know their callers by: rank 0's last word in a meeting, and
/// what the others of a run hear of the control channel.
struct TcpTable {
  std::string secret;                 ///< Opens connections to the processes.
  std::vector<MetProcess> processes;  ///< By rank.
};
[[nodiscard]] std::string to_text(const TcpTable& table);
/// None for another text.
[[nodiscard]] std::optional<TcpTable> parse_table_text(const std::string& text);

/// The first word of a process on a connection to another whose table it has, and the answer.
struct TcpGreeting {
  std::string secret;  ///< The table's.
  int from = 0;        ///< Ranks of both processes.
  int to = 0;
  std::int64_t process = 0;
  std::string host;

  /// Whether whoever knows this secret calls this rank.
  [[nodiscard]] bool opens(const std::string& table_secret, int rank) const;
};
[[nodiscard]] TcpGreeting own_greeting(const std::string& secret, int from, int to);
[[nodiscard]] std::string to_text(const TcpGreeting& greeting);
[[nodiscard]] std::optional<TcpGreeting> parse_greeting_text(const std::string& text);

}  // namespace ptdp
