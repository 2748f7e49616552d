#include "runtime/launch/slurm_hosts.h"

#include <algorithm>

#include "cost_model/error.h"

namespace ptdp {
namespace {

/// Throws Error that names the list.
[[noreturn]] void refuse_hosts(std::string_view list) {
  throw Error("expected a list of hosts as Slurm writes it, such as gpu[001-004,7],login1, got \"" +
              std::string(list) + '"');
}

/// Returns the first number of a list such as "001-004,7".
std::string_view first_number(std::string_view numbers, std::string_view list) {
  const std::string_view number = numbers.substr(0, numbers.find_first_of(",-"));
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  if (number.empty() || !std::all_of(number.begin(), number.end(), is_digit)) {
    refuse_hosts(list);
  }
  return number;
}

}  // namespace

std::string first_slurm_host(std::string_view list) {
  std::string host;
  for (std::size_t i = 0; i < list.size() && list[i] != ','; ++i) {
    if (list[i] != '[') {
      host += list[i];
      continue;
    }
    const std::size_t end = list.find(']', i);
    if (end == std::string_view::npos) {
      refuse_hosts(list);
    }
    host += first_number(list.substr(i + 1, end - i - 1), list);
    i = end;
  }
  const bool is_name = std::none_of(
      host.begin(), host.end(), [](char c) { return c <= ' ' || c > '~' || c == '[' || c == ']'; });
  if (host.empty() || !is_name) {
    refuse_hosts(list);
  }
  return host;
}

}  // namespace ptdp
