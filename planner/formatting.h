// Numbers and rows as people read them, the same in every answer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cost_model/inputs/gpu_spec.h"
#include "cost_model/inputs/parallel_config.h"
#include "cost_model/units.h"

namespace ptdp {

/// Returns a time with four digits in milliseconds, seconds, hours or days: "97.4 s", "3.2 days".
[[nodiscard]] std::string duration(Seconds time);
/// Returns a size with three digits in MB, GB or TB, powers of 1000 as links are rated: "3.1 GB".
[[nodiscard]] std::string bytes(Bytes size);
/// Returns a size of memory with two decimals in GiB, or in MiB below a tenth of that: "11.30 GiB",
/// "2.50 MiB". A size that would print as nothing reads "under 0.01 MiB".
[[nodiscard]] std::string binary_size(Bytes size);
/// Returns a rate with four digits in MFLOP/s, GFLOP/s or TFLOP/s: "163.2 TFLOP/s".
[[nodiscard]] std::string rate(FlopsPerSecond flops);
/// Returns a number with all of its digits, in groups of three: "3,501,056".
[[nodiscard]] std::string with_commas(std::int64_t number);
/// Returns a number of five digits in groups of three: "289,660".
[[nodiscard]] std::string grouped(double number);
/// Returns a number with three digits and K, M, B or T: "15 T", "3.81 M", "9.52 K".
[[nodiscard]] std::string short_number(double number);
/// Returns whether a core of a processor stands for a GPU.
[[nodiscard]] bool is_core(const GpuSpec& gpu);
/// Returns what a rank runs on, as people call it: "GPU" or "core".
[[nodiscard]] std::string_view device(const GpuSpec& gpu);
/// Returns a number of GPUs, or of cores where a core of a processor stands for a GPU: "8 GPUs".
[[nodiscard]] std::string devices(std::int64_t count, const GpuSpec& gpu);
/// Returns a fraction as percent with one decimal: "12.3 %" for 0.123.
[[nodiscard]] std::string percent(double fraction);
/// Returns a fraction as percent with its sign and one decimal: "+12.3 %" for 0.123, "0.0 %" for
/// what rounds to nothing.
[[nodiscard]] std::string signed_percent(double fraction);
/// Returns predicted/measured − 1 as signed_percent(); empty when either is missing (0 or less).
template <class Value>
[[nodiscard]] std::string error_of(Value predicted, Value measured) {
  return predicted > Value{} && measured > Value{} ? signed_percent(predicted / measured - 1.0)
                                                   : "";
}
/// Returns an indented line of two columns: a name and a value.
[[nodiscard]] std::string row(std::string_view name, std::string_view value);
/// Returns an empty line, a title and the lines below it, indented; "" without lines.
[[nodiscard]] std::string titled(std::string_view title, const std::vector<std::string>& lines);
/// Returns a text as lines of at most `width` characters, as far as its words allow, each after
/// `indent` and ending in a newline.
[[nodiscard]] std::string paragraph(std::string_view text, std::string_view indent,
                                    std::size_t width = 80);
/// Returns an indented line with a time, its share of `whole`, and a bar as long as that share.
[[nodiscard]] std::string share_row(std::string_view name, Seconds time, Seconds whole);

/// Returns a remark when a pipeline turns the configuration's ZeRO-2 or -3 into ZeRO-1, else an
/// empty string.
[[nodiscard]] std::string zero_remark(const ParallelConfig& config);

}  // namespace ptdp
