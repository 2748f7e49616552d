// The texts that processes exchange when they meet over TCP.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/transport/processes/tcp/socket.h"
#include "runtime/transport/processes/tcp/tcp_job_options.h"

namespace ptdp {

/// A process of the job, as other processes know it.
struct MetProcess {
  std::string host;  ///< Name of its host, as one word.
  /// Machine of the process: its host's name and boot id, equal for all processes of one machine.
  std::string machine;
  std::uint16_t port = 0;  ///< Port at which the process listens.
  /// Addresses at which the process listens, the likeliest first.
  std::vector<std::string> addresses;
};
/// Describes this process, which listens at `listening`.
[[nodiscard]] MetProcess own_process(const Listening& listening);

/// Rank 0's answer to a process that joins a meeting.
inline constexpr const char* kWelcome = "welcome";
/// Rank 0's message when it gives up, and reports why itself.
inline constexpr std::string_view kEnded = "ended";
/// Begins the answer to a process that may not join.
inline constexpr std::string_view kRefused = "refused ";

/// The hello by which a process asks to join a meeting.
struct TcpHello {
  int rank = 0;             ///< Rank of the process.
  int size = 1;             ///< Size of the job.
  std::string version;      ///< Version of this program.
  std::string job;          ///< Name of the job, as one word.
  int process = 0;          ///< Process id on its host.
  bool has_secret = false;  ///< Whether it knows a secret of the job.
  MetProcess self;          ///< Where it listens.
};
/// Returns the hello of this process, which listens at `listening`.
[[nodiscard]] TcpHello own_hello(const TcpJobOptions& options, const Listening& listening);
/// Returns a hello as one line of words.
[[nodiscard]] std::string to_text(const TcpHello& hello);
/// Reads a hello. Returns nullopt for any other text.
[[nodiscard]] std::optional<TcpHello> parse_hello_text(const std::string& text);
/// Returns the sender in words: "rank 1 (process 17 on host node-7)".
[[nodiscard]] std::string described(const TcpHello& hello);
/// Returns the answer that tells a process why it may not join.
[[nodiscard]] std::string refusal(const std::string& why);
/// Returns a name as a word of a hello: printable, without spaces, at most 255 characters.
[[nodiscard]] std::string as_word(const std::string& text);

/// Begins rank 0's question whether a process knows the job's secret. A random number, used once,
/// follows.
inline constexpr std::string_view kChallenge = "challenge ";
/// A proof that a process knows the job's secret: digests of a hello and of two random numbers,
/// each used once.
struct TcpProof {
  std::string hello;      ///< The hello as it was sent.
  std::string challenge;  ///< Rank 0's random number.
  std::string answer;     ///< The joining process's random number.

  /// Returns the joining process's proof: "proof ANSWER DIGEST".
  [[nodiscard]] std::string of_guest(const std::string& secret) const;
  /// Returns rank 0's proof to the joining process: "welcome DIGEST".
  [[nodiscard]] std::string of_host(const std::string& secret) const;
};
/// Returns the random number in a joining process's proof, or "" for any other text.
[[nodiscard]] std::string answer_in(const std::string& proof);

/// A table of where processes listen, with the secret by which they know their callers. It is rank
/// 0's last message in a meeting. The run's control channel sends one, too.
struct TcpTable {
  std::string secret;                 ///< The secret that opens connections to the processes.
  std::vector<MetProcess> processes;  ///< Processes by rank.
};
/// Returns a table as text, with one line per process.
[[nodiscard]] std::string to_text(const TcpTable& table);
/// Reads a table. Returns nullopt for any other text.
[[nodiscard]] std::optional<TcpTable> parse_table_text(const std::string& text);

/// The first message on a connection to a process of a known table, and the answer to it.
struct TcpGreeting {
  std::string secret;        ///< The secret of the table.
  int from = 0;              ///< Rank of the sender.
  int to = 0;                ///< Rank of the receiver.
  std::int64_t process = 0;  ///< Process id of the sender.
  std::string host;          ///< Host of the sender, as one word.

  /// Returns whether the sender knows `table_secret` and calls rank `rank`.
  [[nodiscard]] bool opens(const std::string& table_secret, int rank) const;
};
/// Returns this process's greeting from rank `from` to rank `to`.
[[nodiscard]] TcpGreeting own_greeting(const std::string& secret, int from, int to);
/// Returns a greeting as one line of words.
[[nodiscard]] std::string to_text(const TcpGreeting& greeting);
/// Reads a greeting. Returns nullopt for any other text.
[[nodiscard]] std::optional<TcpGreeting> parse_greeting_text(const std::string& text);

}  // namespace ptdp
