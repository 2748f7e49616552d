// Writes and reads the texts of a meeting.
#include "runtime/transport/processes/tcp/tcp_hello.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <fstream>
#include <sstream>

#include "runtime/transport/processes/tcp/keyed_digest.h"
#include "runtime/transport/processes/tcp/words.h"

namespace ptdp {
namespace {

constexpr std::string_view kHello = "hello";
constexpr std::string_view kWithSecret = "secret";
constexpr std::string_view kWithoutSecret = "open";
constexpr std::string_view kComplete = "complete ";
constexpr std::string_view kProof = "proof ";
constexpr std::string_view kPeer = "peer";
constexpr std::size_t kMostWays = 8;  ///< The most addresses that a process names.

/// Returns this machine's host name and boot id, as one word.
std::string own_machine() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  return as_word(own_host_name() + "/" + boot);
}

/// Appends the words that describe a process.
void append(std::string& line, const MetProcess& process) {
  line += fmt::format("{} {} {}", process.host, process.machine, process.port);
  for (const std::string& address : process.addresses) {
    line += ' ' + address;
  }
}

/// Reads a process from the remaining words of a line.
MetProcess take_process(Words& words) {
  MetProcess process{.host = words.word(),
                     .machine = words.word(),
                     .port = words.number<std::uint16_t>(1, UINT16_MAX)};
  while (words.is_good() && !words.is_over()) {
    process.addresses.push_back(words.word());
  }
  return process;
}

}  // namespace

std::string as_word(const std::string& text) {
  std::string word = text.substr(0, 255);
  std::replace_if(
      word.begin(), word.end(), [](char c) { return c <= ' ' || c > '~'; }, '_');
  return word.empty() ? "-" : word;
}

MetProcess own_process(const Listening& listening) {
  MetProcess self{
      .host = as_word(own_host_name()),
      .machine = own_machine(),
      .port = listening.port,
      .addresses = listening.address.empty() ? own_addresses() : std::vector{listening.address}};
  self.addresses.resize(std::min(self.addresses.size(), kMostWays));
  return self;
}

TcpHello own_hello(const TcpJobOptions& options, const Listening& listening) {
  return {.rank = options.rank,
          .size = options.size,
          .version = PTDP_VERSION,
          .job = as_word(options.job),
          .process = ::getpid(),
          .has_secret = !options.secret.empty(),
          .self = own_process(listening)};
}

std::string described(const TcpHello& hello) {
  return fmt::format("rank {} (process {} on host {})", hello.rank, hello.process,
                     as_word(hello.self.host));
}

std::string to_text(const TcpHello& hello) {
  std::string text =
      fmt::format("{} {} {} {} {} {} {} ", kHello, hello.version, hello.size, hello.rank, hello.job,
                  hello.process, hello.has_secret ? kWithSecret : kWithoutSecret);
  append(text, hello.self);
  return text;
}

std::optional<TcpHello> parse_hello_text(const std::string& text) {
  Words words(text);
  words.expect(kHello);
  TcpHello hello{.version = words.word()};
  hello.size = words.number(1, INT_MAX);
  hello.rank = words.number(0, INT_MAX);
  hello.job = words.word();
  hello.process = words.number(0, INT_MAX);
  hello.has_secret = words.word() == kWithSecret;
  hello.self = take_process(words);
  return !words.is_good() || hello.rank >= hello.size ? std::nullopt : std::optional(hello);
}

std::string refusal(const std::string& why) {
  return std::string(kRefused) + why;
}

std::string TcpProof::of_guest(const std::string& secret) const {
  return fmt::format("{}{} {}", kProof, answer,
                     keyed_digest(secret, fmt::format("guest {} {} {}", challenge, answer, hello)));
}

std::string TcpProof::of_host(const std::string& secret) const {
  return fmt::format("{} {}", kWelcome,
                     keyed_digest(secret, fmt::format("host {} {} {}", challenge, answer, hello)));
}

std::string answer_in(const std::string& proof) {
  return proof.starts_with(kProof)
             ? proof.substr(kProof.size(), proof.find(' ', kProof.size()) - kProof.size())
             : "";
}

std::string to_text(const TcpTable& table) {
  std::string text = std::string(kComplete) + table.secret;
  for (const MetProcess& process : table.processes) {
    text += '\n';
    append(text, process);
  }
  return text;
}

std::optional<TcpTable> parse_table_text(const std::string& text) {
  if (!text.starts_with(kComplete)) {
    return std::nullopt;
  }
  std::istringstream lines(text);
  std::string line;
  std::getline(lines, line);
  TcpTable table{.secret = line.substr(kComplete.size())};
  while (std::getline(lines, line)) {
    Words words(line);
    table.processes.push_back(take_process(words));
    if (!words.is_good()) {
      return std::nullopt;
    }
  }
  return table;
}

bool TcpGreeting::opens(const std::string& table_secret, int rank) const {
  return are_equal_digests(secret, table_secret) && to == rank;
}

TcpGreeting own_greeting(const std::string& secret, int from, int to) {
  return {.secret = secret,
          .from = from,
          .to = to,
          .process = ::getpid(),
          .host = as_word(own_host_name())};
}

std::string to_text(const TcpGreeting& greeting) {
  return fmt::format("{} {} {} {} {} {}", kPeer, greeting.secret, greeting.from, greeting.to,
                     greeting.process, greeting.host);
}

std::optional<TcpGreeting> parse_greeting_text(const std::string& text) {
  Words words(text);
  words.expect(kPeer);
  TcpGreeting greeting{.secret = words.word(),
                       .from = words.number(0, INT_MAX),
                       .to = words.number(0, INT_MAX),
                       .process = words.number<std::int64_t>(0, INT64_MAX),
                       .host = words.word()};
  return words.is_good() && words.is_over() ? std::optional(std::move(greeting)) : std::nullopt;
}

}  // namespace ptdp
