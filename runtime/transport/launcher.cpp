#include "runtime/transport/launcher.h"

#include <unistd.h>

#include <charconv>
#include <optional>
#include <string_view>

#include "cost_model/error.h"

namespace ptdp {
namespace {

constexpr int kMostProcesses = 100'000'000;

/// Steps from here on are Slurm's own: the batch script (…fb), an interactive shell (…fa), extern.
constexpr std::int64_t kFirstSpecialStep = 0xFFFFFFF0;

class Variables {
 public:
  explicit Variables(const Environment& environment) : environment_(&environment) {}

  [[nodiscard]] bool has(const std::string& name) const {
    return environment_->find(name) != environment_->end();
  }
  /// Throws Error for what is no number in [0, most].
  [[nodiscard]] std::int64_t number(const std::string& name,
                                    std::int64_t most = kMostProcesses) const {
    const std::string& text = environment_->at(name);
    std::int64_t value = -1;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || value < 0 || value > most) {
      throw Error("environment: " + name + ": expected a number of processes, got \"" + text +
                  "\"");
    }
    return value;
  }
  [[nodiscard]] int count(const std::string& name) const { return static_cast<int>(number(name)); }
  /// 0 without the variable.
  [[nodiscard]] int count_or_none(const std::string& name) const {
    return has(name) ? count(name) : 0;
  }

 private:
  const Environment* environment_;
};

/// A rank and a size by name; none where the rank is missing.
std::optional<Launcher> with_variables(const Variables& variables, LauncherKind kind,
                                       const char* name, const std::string& rank,
                                       const std::string& size) {
  if (!variables.has(rank)) {
    return std::nullopt;
  }
  Launcher launcher{.kind = kind,
                    .name = name,
                    .rank = variables.count(rank),
                    .size = variables.count_or_none(size)};
  if (variables.has(size) && launcher.rank >= launcher.size) {
    throw Error("environment: " + rank + ": expected less than the " +
                std::to_string(launcher.size) + " of " + size + ", got " +
                std::to_string(launcher.rank));
  }
  return launcher;
}

bool is_in_slurm_step(const Variables& variables) {
  return variables.has("SLURM_PROCID") && variables.has("SLURM_STEP_ID") &&
         variables.number("SLURM_STEP_ID", INT64_MAX) < kFirstSpecialStep;
}

/// Tasks of the step; SLURM_NTASKS may be those of the allocation.
const char* slurm_size(const Variables& variables) {
  return variables.has("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
}

}  // namespace

Environment environment_of_this_process() {
  Environment environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::size_t equals = text.find('=');
    if (equals != std::string_view::npos) {
      environment.emplace(text.substr(0, equals), text.substr(equals + 1));
    }
  }
  return environment;
}

Launcher detect_launcher(const Environment& environment) {
  const Variables variables(environment);
  if (const auto found = with_variables(variables, LauncherKind::kMpi, "mpirun",
                                        "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE")) {
    return *found;
  }
  const bool is_step = is_in_slurm_step(variables);
  const char* const starter = is_step ? "srun" : "mpiexec";
  if (const auto found =
          with_variables(variables, LauncherKind::kMpi, starter, "PMI_RANK", "PMI_SIZE")) {
    return *found;
  }
  if (const auto found = with_variables(variables, LauncherKind::kMpi, starter, "PMIX_RANK",
                                        is_step ? slurm_size(variables) : "")) {
    return *found;
  }
  if (variables.has("MASTER_ADDR") && variables.has("WORLD_SIZE")) {
    if (const auto found =
            with_variables(variables, LauncherKind::kTorchrun, "torchrun", "RANK", "WORLD_SIZE")) {
      return *found;
    }
  }
  if (is_step) {
    return *with_variables(variables, LauncherKind::kSlurm, "srun", "SLURM_PROCID",
                           slurm_size(variables));
  }
  return {};
}

}  // namespace ptdp
