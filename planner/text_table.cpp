// Pads the cells of tables.
#include "planner/text_table.h"

#include <fmt/format.h>

namespace ptdp {

std::string padded(std::string_view text, int width) {
  return width < 0 ? fmt::format("{:<{}}", text, -width) : fmt::format("{:>{}}", text, width);
}

}  // namespace ptdp
