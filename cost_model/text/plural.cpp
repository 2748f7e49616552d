#include "cost_model/text/plural.h"

namespace ptdp {

std::string plural(std::int64_t count, std::string_view one) {
  return plural(count, one, std::string(one) + "s");
}

std::string plural(std::int64_t count, std::string_view one, std::string_view many) {
  return std::to_string(count) + " " + std::string(count == 1 ? one : many);
}

}  // namespace ptdp
