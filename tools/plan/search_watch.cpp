#include "tools/plan/search_watch.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <iostream>
#include <utility>

#include "cost_model/error.h"
#include "cost_model/text/as_typed.h"
#include "cost_model/text/plural.h"
#include "planner/formatting.h"
#include "tools/shared/terminal.h"

namespace ptdp {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kShortestLimit = 1e-3;
constexpr double kLongestLimit = 1e7;  // some months
constexpr std::chrono::milliseconds kBeforeFirstLine(1000);
constexpr std::chrono::milliseconds kBetweenLines(250);

std::atomic<int> came = 0;
static_assert(std::atomic<int>::is_always_lock_free);

void request_end(int signal) {
  came = signal;
  std::signal(signal, end_by_signal);  // the second signal ends the process at once
}

/// Catches a signal. A signal that is ignored, as by nohup or for a background process of a shell,
/// stays ignored.
void handle(int signal) {
  struct sigaction before {};
  if (::sigaction(signal, nullptr, &before) == 0 && before.sa_handler != SIG_IGN) {
    std::signal(signal, request_end);
  }
}

}  // namespace

void add_time_limit(boost::program_options::options_description& flags) {
  flags.add_options()("time-limit", text_value("SECONDS"),
                      "seconds after which to answer with the best found so far (default: 10)");
}

double read_time_limit(const CommandLine& line) {
  return line.number("time-limit", kShortestLimit, kLongestLimit).value_or(kUsualTimeLimit);
}

SearchWatch::SearchWatch(std::string program, double seconds)
    : program_(std::move(program)),
      seconds_(seconds),
      start_(Clock::now()),
      next_(start_ + kBeforeFirstLine) {
  handle(SIGINT);
  handle(SIGTERM);
}

SearchWatch::~SearchWatch() {
  clear();
}

void SearchWatch::watch(SearchOptions& options) {
  options.limit = SearchLimit([start = start_, seconds = seconds_] {
    const std::chrono::duration<double> passed = Clock::now() - start;
    return came != 0 ? 1.0 : passed.count() / seconds;
  });
  if (::isatty(STDERR_FILENO) == 1) {
    options.on_progress = [this](const SearchProgress& progress) { show(progress); };
  }
}

void SearchWatch::show(const SearchProgress& progress) {
  const auto now = Clock::now();
  if (now < next_) {
    return;
  }
  next_ = now + kBetweenLines;
  has_line_ = true;
  const std::string best =
      progress.best ? fmt::format("best so far {}", duration(*progress.best)) : "nothing yet";
  write_progress(fmt::format("{}{}: {:.0f} % looked at, {}; what is left takes at least {}",
                             kEraseLine, as_typed(program_), 100.0 * progress.done, best,
                             duration(progress.least_time)));
}

void SearchWatch::clear() {
  if (std::exchange(has_line_, false)) {
    write_progress(kEraseLine);
  }
}

int SearchWatch::signal() {
  return came;
}

int tell_unfound(const std::string& program, const SearchResult& search) {
  if (!search.unseen) {
    return 0;
  }
  const std::string looked =
      fmt::format("of {} looked at, none can run", plural(search.enumerated, "candidate"));
  if (SearchWatch::signal() != 0) {
    std::cerr << fmt::format("{}: interrupted before a plan was found: {}\n", as_typed(program),
                             looked);
    return SearchWatch::status();
  }
  throw Error(
      "no plan was found within the time limit: " + looked + "; --time-limit SECONDS gives more",
      ExitStatus::kRuntimeFault);
}

}  // namespace ptdp
