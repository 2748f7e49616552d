#include "planner/clusters/node_list.h"

#include <charconv>

#include "cost_model/error.h"
#include "cost_model/text/in_quotes.h"

namespace ptdp {
namespace {

constexpr std::size_t kMostNodes = 1'000'000;
constexpr int kMostNodeNumber = 1'000'000'000;  // of a node

[[noreturn]] void refuse_list(std::string_view list, const std::string& place) {
  throw Error(place + ": expected nodes as Slurm writes them, node[001-004,007], got " +
              in_quotes(list));
}

/// Returns a whole number; nullopt for any other text.
std::optional<int> whole_number(std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return !text.empty() && error == std::errc{} && end == text.data() + text.size() && number >= 0
             ? std::optional(number)
             : std::nullopt;
}

/// Splits at commas outside brackets.
std::vector<std::string_view> parts_of_list(std::string_view list) {
  std::vector<std::string_view> parts;
  std::size_t from = 0;
  bool is_in_brackets = false;
  for (std::size_t i = 0; i <= list.size(); ++i) {
    if (i == list.size() || (list[i] == ',' && !is_in_brackets)) {
      parts.push_back(list.substr(from, i - from));
      from = i + 1;
    } else if (list[i] == '[' || list[i] == ']') {
      is_in_brackets = list[i] == '[';
    }
  }
  return parts;
}

/// Returns the numbers of "001-003": 001, 002, 003, each as wide as the first.
std::vector<std::string> numbers_of_range(std::string_view range, std::string_view list,
                                          const std::string& place) {
  const std::size_t dash = range.find('-');
  const std::string_view low = range.substr(0, dash);
  const std::string_view high = dash == std::string_view::npos ? low : range.substr(dash + 1);
  const std::optional<int> first = whole_number(low);
  const std::optional<int> last = whole_number(high);
  if (!first || !last || *last < *first || *last > kMostNodeNumber ||
      static_cast<std::size_t>(*last - *first) >= kMostNodes) {
    refuse_list(list, place);
  }
  std::vector<std::string> numbers;
  numbers.reserve(static_cast<std::size_t>(*last - *first) + 1);
  for (int i = *first; i <= *last; ++i) {
    const std::string digits = std::to_string(i);
    numbers.push_back(std::string(low.size() - std::min(low.size(), digits.size()), '0') + digits);
  }
  return numbers;
}

/// Returns the hosts of a name with any number of brackets: rack[1-2]node[1-2] has four.
// NOLINTNEXTLINE(misc-no-recursion): as deep as a name has brackets
std::vector<std::string> hosts_of_name(std::string_view name, std::string_view list,
                                       const std::string& place) {
  const std::size_t open = name.find('[');
  if (open == std::string_view::npos) {
    if (name.empty() || name.find(']') != std::string_view::npos) {
      refuse_list(list, place);
    }
    return {std::string(name)};
  }
  const std::size_t close = name.find(']', open);
  if (close == std::string_view::npos) {
    refuse_list(list, place);
  }
  const std::string_view rest = name.substr(close + 1);
  const std::vector<std::string> tails =
      rest.empty() ? std::vector<std::string>{""} : hosts_of_name(rest, list, place);
  std::vector<std::string> hosts;
  for (const std::string_view range : parts_of_list(name.substr(open + 1, close - open - 1))) {
    for (const std::string& number : numbers_of_range(range, list, place)) {
      for (const std::string& tail : tails) {
        if (hosts.size() >= kMostNodes) {
          refuse_list(list, place);
        }
        hosts.push_back(std::string(name.substr(0, open)).append(number).append(tail));
      }
    }
  }
  return hosts;
}

/// Returns the count that a variable holds; nullopt: it is not set.
std::optional<int> count_of(const EnvironmentReader& environment, const std::string& variable) {
  const std::optional<std::string> text = environment(variable);
  if (!text || text->empty()) {
    return std::nullopt;
  }
  const std::optional<int> count = whole_number(*text);
  if (!count || *count < 1) {
    throw Error(variable + ": expected a whole number from 1, got " + in_quotes(*text));
  }
  return count;
}

}  // namespace

std::vector<std::string> expand_node_list(std::string_view list, const std::string& place) {
  std::vector<std::string> hosts;
  for (const std::string_view name : parts_of_list(list)) {
    std::vector<std::string> some = hosts_of_name(name, list, place);
    if (hosts.size() + some.size() > kMostNodes) {
      refuse_list(list, place);
    }
    hosts.insert(hosts.end(), some.begin(), some.end());
  }
  return hosts;
}

SlurmJob read_slurm_job(const EnvironmentReader& environment) {
  SlurmJob job{.gpus_per_node = count_of(environment, "SLURM_GPUS_ON_NODE")};
  if (const auto list = environment("SLURM_JOB_NODELIST"); list && !list->empty()) {
    job.nodes = static_cast<int>(expand_node_list(*list, "SLURM_JOB_NODELIST").size());
  } else if (const auto nodes = count_of(environment, "SLURM_JOB_NUM_NODES")) {
    job.nodes = *nodes;
  } else {
    throw Error(
        "--slurm: expected SLURM_JOB_NODELIST or SLURM_JOB_NUM_NODES in the environment, as in a "
        "job of Slurm");
  }
  return job;
}

}  // namespace ptdp
