// Prints the report of a run for people.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cost_model/text/as_typed.h"
#include "cost_model/text/plural.h"
#include "planner/formatting.h"
#include "planner/runs/run_report.h"

namespace ptdp {
namespace {

/// Returns "2 threads", or "4 processes of a, b over mpi"; then the device, unless it is the CPU.
std::string ranks_text(const RunExecution& run) {
  std::string ranks = run.hosts.empty()
                          ? plural(run.ranks, "thread")
                          : fmt::format("{} of {}", plural(run.ranks, "process", "processes"),
                                        fmt::join(run.hosts, ", "));
  if (run.transport != "threads") {
    ranks += " over " + run.transport;
  }
  if (run.collective_blocks > 0) {
    ranks += fmt::format(" (at most {} multiprocessors for a collective, {} for a message)",
                         run.collective_blocks, run.message_blocks);
  }
  return run.device == "cpu" ? ranks : fmt::format("{} ({})", ranks, run.device);
}

/// Returns a remark when the stack keeps or reduces gradients in fewer bytes than the runtime, else
/// an empty string.
std::string gradient_remark(const StackSpec& stack, Precision precision) {
  const double bytes = accumulator_bytes(precision);
  const bool is_its_own = stack.precision == precision;
  if (!is_its_own || (stack.gradient_bytes >= bytes && stack.reduced_gradient_bytes >= bytes)) {
    return "";
  }
  return fmt::format(
      "Gradients are kept and reduced in {:.0f} bytes a parameter here, but in {:.3g} and {:.3g} "
      "by {}, which the plan counts; the bytes below are this runtime's.\n",
      bytes, stack.gradient_bytes, stack.reduced_gradient_bytes, stack.name);
}

std::string heading(const RunReport& report) {
  const RunExecution& run = report.execution;
  std::string text = fmt::format(
      "{} on {} with {}: {} of {} in {}, data {}\n", report.plan.scenario.job.model_name,
      ranks_text(run), to_string(report.plan.config), plural(run.steps, "step"),
      plural(run.global_batch_size, "sequence"), name_of(run.precision), run.data);
  if (run.steps < run.requested_steps) {
    text += fmt::format("Ended after {} of {}.\n", run.first_step + run.steps,
                        plural(run.first_step + run.requested_steps, "step"));
  }
  if (run.straggler.rank >= 0) {
    text += fmt::format(
        "Straggler: rank {} takes {:.1f} times as long to compute as the others, which loses up to "
        "{} of {} per step; {} --slow rank=R,factor={:.1f} shows what another plan would "
        "lose.\n",
        run.straggler.rank, run.straggler.factor, duration(run.straggler.lost),
        duration(report.measured_time), as_typed("ptdp-sim"), run.straggler.factor);
  }
  text += run.basis + '\n';
  text += gradient_remark(report.plan.scenario.stack, run.precision);
  if (const std::string remark = zero_remark(report.plan.config); !remark.empty()) {
    text += fmt::format("ZeRO-{}{}\n", report.plan.config.zero_stage, remark);
  }
  if (run.is_shrunk) {
    text += fmt::format(
        "Shrunk to hidden size {}, {}, sequences of {}, {}, dp 1, {} of {}: orders and messages "
        "are the plan's, times are not.\n",
        run.model.hidden_size, plural(run.model.num_attention_heads, "head"),
        plural(run.model.seq_length, "token"), plural(run.model.num_layers, "layer"),
        run.global_batch_size,
        plural(report.plan.schedule.num_microbatches, "microbatch", "microbatches"));
  }
  return text;
}

std::string iteration_text(const RunReport& report) {
  const Flops flops = report.hardware_flops / static_cast<double>(report.execution.ranks);
  const auto rate_in = [&](Seconds time) {
    return time.value() > 0.0 ? rate(flops / time) : std::string("-");
  };
  const double tokens =
      static_cast<double>(report.execution.global_batch_size) * report.execution.model.seq_length;
  const auto tokens_per_second = [&](Seconds time) {
    return time.value() > 0.0 ? fmt::format("{:.0f}", tokens / time.value()) : "-";
  };
  const Seconds predicted = report.predicted_time.value;
  std::string text = measured_row("", "predicted", "measured", "pred/meas");
  text += measured_row("time per iteration", {predicted, report.measured_time});
  text += measured_row("per rank", rate_in(predicted), rate_in(report.measured_time));
  text += measured_row("tokens/s", tokens_per_second(predicted),
                       tokens_per_second(report.measured_time));
  text += fmt::format("  measured from {} to {} over {}", duration(report.fastest),
                      duration(report.slowest),
                      plural(report.execution.steps - report.execution.warm_up, "step"));
  if (predicted.value() > 0.0) {
    text += fmt::format("; predicted {} to {}", duration(report.predicted_time.low),
                        duration(report.predicted_time.high));
  }
  return text + '\n';
}

std::string terms_text(const RunReport& report) {
  std::string text =
      "Where the time goes, on the rank that computes longest; collectives include waiting\n";
  for (const TermComparison& term : report.terms) {
    if (term.time.predicted.value() > 0.0 || term.time.measured.value() > 0.0) {
      text += measured_row(term.name, term.time);
    }
    if (term.high.value() > 0.0 &&
        (term.time.measured < term.low || term.time.measured > term.high)) {
      text += fmt::format("    outside of its 90 % interval, {} to {}\n", duration(term.low),
                          duration(term.high));
    }
  }
  return text;
}

/// Returns a line for each kind of action, averaged over all virtual stages.
std::string actions_text(const RunReport& report) {
  std::string text =
      "Actions: the median of each, averaged over stages; those that meet other ranks include "
      "waiting\n";
  std::vector<std::string> kinds;
  for (const ActionComparison& action : report.actions) {
    if (std::find(kinds.begin(), kinds.end(), action.kind) == kinds.end()) {
      kinds.push_back(action.kind);
    }
  }
  for (const std::string& kind : kinds) {
    Measured<Seconds> total;
    std::int64_t count = 0;
    for (const ActionComparison& action : report.actions) {
      if (action.kind == kind) {
        total.predicted += static_cast<double>(action.count) * action.time.predicted;
        total.measured += static_cast<double>(action.count) * action.time.measured;
        count += action.count;
      }
    }
    const double each = 1.0 / static_cast<double>(count);
    text += measured_row(fmt::format("{} x{}", kind, count),
                         {each * total.predicted, each * total.measured});
  }
  return text;
}

std::string memory_text(const RunReport& report) {
  std::string text =
      "Peak memory by rank of the pipeline, as the allocator counts it, and microbatches in "
      "flight\n";
  for (std::size_t rank = 0; rank < report.memory.size(); ++rank) {
    const MemoryComparison& memory = report.memory[rank];
    const bool is_shown =
        report.memory.size() <= 8 || rank == 0 || rank + 1 == report.memory.size();
    if (is_shown) {
      text += measured_row(fmt::format("rank {}, {} in flight", rank, memory.activations.measured),
                           memory.size);
      if (memory.beside.measured > Bytes(0.0)) {
        text += measured_row("  the driver, NCCL and others beside it", memory.beside);
      }
    }
  }
  return text;
}

/// Returns a number of bytes as a size of memory; one below a tenth of a MiB exactly, in "B".
std::string counted_size(std::int64_t count) {
  constexpr std::int64_t least = 100 << 10;
  return count < least ? fmt::format("{} B", count)
                       : binary_size(Bytes(static_cast<double>(count)));
}

std::string traffic_text(const RunReport& report) {
  std::string text = "Sent per step by all ranks\n";
  for (const TrafficComparison& row : report.traffic) {
    const auto [predicted, measured] = row.bytes;
    if (predicted > 0 || measured > 0) {
      text += measured_row(row.group + " " + row.collective, counted_size(predicted),
                           counted_size(measured), predicted == measured ? "equal" : "differs");
    }
  }
  return text;
}

std::string calls_text(const RunReport& report) {
  std::string text =
      fmt::format("{:<40}{:>16}{:>16}{:>16}{:>11}\n", "The largest calls; measured with waiting",
                  "predicted", "NCCL's estimate", "measured", "pred/meas");
  for (const CallComparison& call : report.calls) {
    text += fmt::format("  {:<38}{:>16}{:>16}{:>16}{:>11}\n",
                        fmt::format("{} {}, {}", call.group, call.collective, bytes(call.size)),
                        duration(call.predicted), duration(call.estimated), duration(call.measured),
                        error_of(call.predicted, call.measured));
  }
  return text;
}

}  // namespace

std::string to_text(const RunReport& report) {
  std::string text = heading(report);
  if (!report.losses.empty()) {
    text += fmt::format("Loss {:.4f} -> {:.4f}", report.losses.front(), report.losses.back());
    text += report.skipped_steps > 0 ? fmt::format("; {} skipped, as gradients overflowed\n",
                                                   plural(report.skipped_steps, "step"))
                                     : "\n";
  }
  text += '\n' + iteration_text(report);
  text += '\n' + terms_text(report);
  text += '\n' + actions_text(report);
  text += '\n' + memory_text(report);
  if (!report.traffic.empty()) {
    text += '\n' + traffic_text(report);
  }
  if (!report.calls.empty()) {
    text += '\n' + calls_text(report);
  }
  for (const std::string& warning : report.warnings) {
    text += "\nWarning: " + warning + '\n';
  }
  if (!report.differences.empty()) {
    text +=
        fmt::format("\nDiffers from what the plan says: {}\n", fmt::join(report.differences, "; "));
  }
  return text;
}

}  // namespace ptdp
