// What ends a command's searches, by time or by a signal, and the line that says how far they are.
#pragma once

#include <chrono>
#include <string>

#include "planner/search/search.h"
#include "tools/shared/command_line.h"

namespace ptdp {

/// Seconds that a search may take unless --time-limit says otherwise.
inline constexpr double kUsualTimeLimit = 10.0;

void add_time_limit(boost::program_options::options_description& flags);
/// Throws Error for what is no number of seconds.
[[nodiscard]] double read_time_limit(const CommandLine& line);

/// The first SIGINT or SIGTERM ends searches as their time limit does, and a second one the
/// process. There is one of this a process.
class SearchWatch {
 public:
  /// Starts the clock: the limit is one for all searches of the command.
  SearchWatch(std::string program, double seconds);
  SearchWatch(const SearchWatch&) = delete;
  SearchWatch& operator=(const SearchWatch&) = delete;
  SearchWatch(SearchWatch&&) = delete;
  SearchWatch& operator=(SearchWatch&&) = delete;
  ~SearchWatch();

  /// Gives the options the limit, and on a terminal the line.
  void watch(SearchOptions& options);
  /// Takes the line off the terminal.
  void clear();

  /// The signal that came, or 0.
  [[nodiscard]] static int signal();
  /// The exit status of an answer: where a signal came, what shells have for it.
  [[nodiscard]] static int status() { return signal() == 0 ? 0 : kSignalled + signal(); }

 private:
  static constexpr int kSignalled = 128;

  void show(const SearchProgress& progress);

  std::string program_;
  double seconds_;
  std::chrono::steady_clock::time_point start_;
  std::chrono::steady_clock::time_point next_;  // when the line is written again
  bool has_line_ = false;
};

}  // namespace ptdp
