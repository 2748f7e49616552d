#include "tools/run/prepare_together.h"

#include <fmt/format.h>

#include <atomic>
#include <charconv>
#include <cstdint>
#include <memory>
#include <new>
#include <string_view>

#include "cost_model/error.h"
#include "kernels/cpu/cpu_backend.h"
#include "runtime/phase_limit.h"
#include "runtime/transport/gathering.h"

namespace ptdp {
namespace {

/// How a process's preparation ended, with digests of the inputs that all must agree on.
struct Outcome {
  int status = 0;
  std::string host;
  std::vector<std::uint64_t> digests;
};

/// Returns the 64-bit FNV-1a digest of a text: it tells apart files that differ by accident.
std::uint64_t digest(std::string_view text) {
  std::uint64_t hash = 0xCBF29CE484222325U;
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3U;
  }
  return hash;
}

std::string to_text(const Outcome& outcome) {
  std::string text = std::to_string(outcome.status);
  for (const std::uint64_t digest : outcome.digests) {
    text += ' ' + std::to_string(digest);
  }
  return text + '\n' + outcome.host;
}

template <class Number>
Number take_number(std::string_view& text) {
  Number number{};
  const auto end = std::from_chars(text.data(), text.data() + text.size(), number).ptr;
  // and the character after it
  text.remove_prefix(static_cast<std::size_t>(end - text.data()) + 1);
  return number;
}

Outcome parse_outcome(const std::string& text) {
  const std::size_t end = text.find('\n');
  std::string_view numbers = std::string_view(text).substr(0, end + 1);
  Outcome outcome{.status = take_number<int>(numbers), .host = text.substr(end + 1)};
  while (!numbers.empty()) {
    outcome.digests.push_back(take_number<std::uint64_t>(numbers));
  }
  return outcome;
}

/// What rank 0 concludes from all outcomes: the status of all ranks, and the rank that reports the
/// fault.
struct Verdict {
  int status = 0;
  int speaker = 0;
  std::string mismatch;  ///< What rank 0 reports when inputs differ.
};

Verdict judge(const std::vector<Outcome>& outcomes, const std::vector<SharedInput>& inputs) {
  for (std::size_t rank = 0; rank < outcomes.size(); ++rank) {
    if (outcomes[rank].status != 0) {
      return {.status = outcomes[rank].status, .speaker = static_cast<int>(rank)};
    }
  }
  for (std::size_t rank = 1; rank < outcomes.size(); ++rank) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (outcomes[rank].digests.at(i) != outcomes[0].digests[i]) {
        return {
            .status = static_cast<int>(ExitStatus::kBadInput),
            .mismatch = fmt::format("rank {} on host {}: expected {} to be that of rank 0 on "
                                    "host {}, got another",
                                    rank, outcomes[rank].host, inputs[i].name, outcomes[0].host)};
      }
    }
  }
  return {};
}

/// Throws this rank's own fault, with its rank and host unless it is rank 0.
[[noreturn]] void speak(const JobProcess& process, const std::exception_ptr& failure) {
  if (process.rank() == 0) {
    std::rethrow_exception(failure);
  }
  try {
    std::rethrow_exception(failure);
  } catch (const Error& error) {
    throw Error(fmt::format("rank {} on host {}: {}", process.rank(), process.host(), error.what()),
                error.status());
  }
}

Verdict exchange_outcomes(const JobProcess& process, Communicator& all, const Outcome& own,
                          const std::vector<SharedInput>& inputs, std::atomic<int>& awaited) {
  CpuBackend backend;
  std::vector<Outcome> outcomes;
  for (const std::string& text :
       gather_bytes(all, backend, to_text(own), [&](int rank) { awaited = rank; })) {
    outcomes.push_back(parse_outcome(text));
  }
  const Verdict verdict = process.rank() == 0 ? judge(outcomes, inputs) : Verdict{};
  const std::string told =
      broadcast_bytes(all, backend, fmt::format("{} {}\n", verdict.status, verdict.speaker));
  std::string_view numbers = told;
  const int status = take_number<int>(numbers);
  return {.status = status, .speaker = take_number<int>(numbers), .mismatch = verdict.mismatch};
}

Verdict agree(JobProcess& process, std::optional<Seconds> limit, const Outcome& own,
              const std::vector<SharedInput>& inputs) {
  CpuBackend backend;
  const std::unique_ptr<JobWorld> world =
      process.make_world(process.size(), CollectiveAlgorithm::kRing);
  const std::unique_ptr<Communicator> all = world->communicator(backend);
  std::atomic<int> awaited = 0;
  const PhaseLimit limited(own_limit(limit, process.rank()),
                           [&] { world->abort(static_cast<int>(ExitStatus::kRuntimeFault)); });
  try {
    return exchange_outcomes(process, *all, own, inputs, awaited);
  } catch (const PeerLost& lost) {
    throw PeerLost(fmt::format("the start: {}", lost.what()));
  } catch (const Aborted&) {
    if (!limited.has_expired()) {
      throw;
    }
    throw Error(waited(fmt::format("rank {}: its start", awaited.load()), process.rank(),
                       process.host(), "to hear of its plan and flags", *limit),
                ExitStatus::kRuntimeFault);
  }
}

}  // namespace

int status_of(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const Error& error) {
    return static_cast<int>(error.status());
  } catch (const std::bad_alloc&) {
    return static_cast<int>(ExitStatus::kRuntimeFault);
  } catch (...) {
    return static_cast<int>(ExitStatus::kBug);
  }
}

std::string waited(const std::string& place, int rank, const std::string& host,
                   const std::string& what, Seconds limit) {
  return fmt::format("{}: rank {} on host {} waits {}; expected at most {:.4g} s (--deadline)",
                     place, rank, host, what, limit.value());
}

std::optional<Seconds> own_limit(std::optional<Seconds> limit, int rank) {
  constexpr Seconds later(0.5);
  return limit && rank > 0 ? *limit + later : limit;
}

void prepare_together(JobProcess* process, std::optional<Seconds> limit,
                      const std::function<std::vector<SharedInput>()>& prepare) {
  if (process == nullptr) {
    static_cast<void>(prepare());
    return;
  }
  Outcome own{.host = process->host()};
  std::vector<SharedInput> inputs;
  std::exception_ptr failure;
  try {
    inputs = prepare();
    for (const SharedInput& input : inputs) {
      own.digests.push_back(digest(input.content));
    }
  } catch (...) {
    failure = std::current_exception();
    own.status = status_of(failure);
  }
  const Verdict verdict = agree(*process, limit, own, inputs);
  if (verdict.status == 0) {
    return;
  }
  if (verdict.speaker != process->rank()) {
    throw SpokenElsewhere{verdict.status};
  }
  if (failure) {
    speak(*process, failure);
  }
  throw Error(verdict.mismatch);
}

}  // namespace ptdp
