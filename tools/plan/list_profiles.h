// The shipped profiles as people and programs read them: a table, or `ptdp.list/1` (described in
// FORMATS.md).
#pragma once

#include <string>

namespace ptdp {

/// Models by size, each with the best published throughput of its shape.
[[nodiscard]] std::string models_table();
[[nodiscard]] std::string clusters_table();
[[nodiscard]] std::string stacks_table();

[[nodiscard]] std::string models_json();
[[nodiscard]] std::string clusters_json();
[[nodiscard]] std::string stacks_json();

}  // namespace ptdp
