// Numbers and rows as people read them, the same in every answer.
#pragma once

#include <string>
#include <string_view>

#include "cost_model/inputs/parallel_config.h"
#include "cost_model/units.h"

namespace ptdp {

/// "97.4 s", "812 ms", "3.2 days": four digits in the unit that suits.
[[nodiscard]] std::string duration(Seconds time);
/// "3.1 GB", in powers of 1000 as links are rated.
[[nodiscard]] std::string bytes(Bytes size);
/// "163.2 TFLOP/s", "2.48 GFLOP/s": four digits in the unit that suits.
[[nodiscard]] std::string rate(FlopsPerSecond flops);
/// "12.3 %" of 0.123.
[[nodiscard]] std::string percent(double fraction);
/// "+12.3 %" of 0.123.
[[nodiscard]] std::string signed_percent(double fraction);
/// signed_percent of what was predicted over what was measured; nothing where one is missing.
template <class Value>
[[nodiscard]] std::string error_of(Value predicted, Value measured) {
  return predicted > Value{} && measured > Value{} ? signed_percent(predicted / measured - 1.0)
                                                   : "";
}
/// A line of two columns.
[[nodiscard]] std::string row(std::string_view name, std::string_view value);
/// A line with a time, its share of the whole and a bar as long.
[[nodiscard]] std::string share_row(std::string_view name, Seconds time, Seconds whole);

/// Says where a pipeline makes ZeRO-2 and -3 what ZeRO-1 is; else nothing.
[[nodiscard]] std::string zero_remark(const ParallelConfig& config);

}  // namespace ptdp
