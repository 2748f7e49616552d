#include "runtime/transport/processes/tcp/tcp_hello.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "cost_model/error.h"
#include "runtime/transport/processes/tcp/keyed_digest.h"

namespace ptdp {
namespace {

constexpr std::string_view kHello = "hello";
constexpr std::string_view kWithSecret = "secret";
constexpr std::string_view kWithoutSecret = "open";
constexpr std::string_view kComplete = "complete ";
constexpr std::string_view kProof = "proof ";
constexpr std::size_t kMostWays = 8;

std::string own_machine() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  return as_word(own_host_name() + "/" + boot);
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
  std::istringstream words(text);
  std::string kind;
  std::string secret;
  TcpHello hello;
  words >> kind >> hello.version >> hello.size >> hello.rank >> hello.job >> hello.process >>
      secret;
  hello.has_secret = secret == kWithSecret;
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

std::optional<TcpTable> parse_table_text(const std::string& text, int size) {
  if (!text.starts_with(kComplete)) {
    return std::nullopt;
  }
  std::istringstream lines(text);
  std::string line;
  std::getline(lines, line);
  TcpTable table{.secret = line.substr(kComplete.size())};
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    if (std::optional<MetProcess> process = take_process(words)) {
      table.processes.push_back(std::move(*process));
    }
  }
  if (std::ssize(table.processes) != size) {
    throw Error(fmt::format("rank 0 sent where {} processes are; expected {}",
                            table.processes.size(), size),
                ExitStatus::kRuntimeFault);
  }
  return table;
}

}  // namespace ptdp
