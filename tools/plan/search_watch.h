// Ends a command's searches, by time or by a signal, and shows how far they are.
#pragma once

#include <chrono>
#include <string>

#include "planner/search/search.h"
#include "tools/shared/command_line.h"

namespace ptdp {

/// Seconds that a search may take unless --time-limit says otherwise.
inline constexpr double kUsualTimeLimit = 10.0;

/// Adds --time-limit.
void add_time_limit(boost::program_options::options_description& flags);
/// Returns --time-limit [s]; kUsualTimeLimit without the flag. Throws Error for a value that is no
/// number of seconds.
[[nodiscard]] double read_time_limit(const CommandLine& line);

/// Ends searches at the first SIGINT or SIGTERM as their time limit does; a second signal ends the
/// process. A process has at most one SearchWatch.
class SearchWatch {
 public:
  /// Starts the clock. The limit `seconds` is one for all searches of the command.
  SearchWatch(std::string program, double seconds);
  SearchWatch(const SearchWatch&) = delete;
  SearchWatch& operator=(const SearchWatch&) = delete;
  SearchWatch(SearchWatch&&) = delete;
  SearchWatch& operator=(SearchWatch&&) = delete;
  ~SearchWatch();

  /// Gives `options` the time limit and, on a terminal, the progress line.
  void watch(SearchOptions& options);
  /// Erases the progress line from the terminal.
  void clear();

  /// The signal that was received, or 0.
  [[nodiscard]] static int signal();
  /// The exit status of an answer: 0, or 128 + the signal that ended the search, as in shells.
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

/// Says on one line that a search of `program` ended before it found anything, and returns the exit
/// status. Returns 0 for a search that came to its end. Throws Error for one that ran out of time.
[[nodiscard]] int tell_unfound(const std::string& program, const SearchResult& search);

}  // namespace ptdp
