#include "cost_model/schedule/generators.h"

#include <algorithm>
#include <array>

#include "cost_model/schedule/zero_bubble.h"

namespace ptdp {
namespace {

/// A group size is of use to interleaved schedules only.
std::optional<ShapeConflict> find_group_conflict(const ScheduleShape& shape) {
  if (shape.microbatch_group_size != 0) {
    return ShapeConflict{"microbatch-group-size", shape.microbatch_group_size, "none"};
  }
  return std::nullopt;
}

/// For schedules of one stage per rank.
std::optional<ShapeConflict> needs_one_stage(const ScheduleShape& shape) {
  if (shape.vpp != 1) {
    return ShapeConflict{"vpp", shape.vpp, "1"};
  }
  return find_group_conflict(shape);
}

/// For schedules of two stages per rank, in a V.
std::optional<ShapeConflict> needs_two_stages(const ScheduleShape& shape) {
  if (shape.vpp != 2) {
    return ShapeConflict{"vpp", shape.vpp, "2"};
  }
  return find_group_conflict(shape);
}

/// Both of DualPipe's kinds fill the pipeline twice.
std::optional<ShapeConflict> needs_two_fillings(const ScheduleShape& shape) {
  if (shape.num_microbatches < 2 * std::int64_t{shape.pp}) {
    return ShapeConflict{"microbatches", shape.num_microbatches, "at least 2 pp"};
  }
  return std::nullopt;
}

std::optional<ShapeConflict> find_dualpipe_conflict(const ScheduleShape& shape) {
  if (auto conflict = needs_one_stage(shape)) {
    return conflict;
  }
  if (shape.pp % 2 != 0) {
    return ShapeConflict{"pp", shape.pp, "an even number"};
  }
  if (shape.num_microbatches % 2 != 0) {
    return ShapeConflict{"microbatches", shape.num_microbatches, "an even number"};
  }
  return needs_two_fillings(shape);
}

std::optional<ShapeConflict> find_dualpipev_conflict(const ScheduleShape& shape) {
  const auto conflict = needs_two_stages(shape);
  return conflict.has_value() ? conflict : needs_two_fillings(shape);
}

bool is_group_size(int size, int pp, int num_microbatches) {
  const int rest = num_microbatches % size;
  return size >= pp && (rest == 0 || rest >= pp);
}

std::optional<ShapeConflict> find_interleaved_conflict(const ScheduleShape& shape) {
  if (shape.vpp < 2) {
    return ShapeConflict{"vpp", shape.vpp, "at least 2 (1f1b has one stage per rank)"};
  }
  const int size = shape.microbatch_group_size;
  const int microbatches = shape.num_microbatches;
  if (size == 0 || (size == microbatches && microbatches < shape.pp)) {
    return std::nullopt;
  }
  if (size > microbatches || !is_group_size(size, shape.pp, microbatches)) {
    return ShapeConflict{"microbatch-group-size", size,
                         "at least pp and at most the microbatches, which it leaves a rest of 0 or "
                         "at least pp, such as " +
                             std::to_string(default_microbatch_group_size(shape.pp, microbatches))};
  }
  return std::nullopt;
}

int clamped(std::int64_t activations, const ScheduleShape& shape) {
  return static_cast<int>(std::min(activations, std::int64_t{shape.num_microbatches} * shape.vpp));
}

int all_activations(const ScheduleShape& shape, int /*rank*/) {
  return shape.num_microbatches * shape.vpp;
}

int one_f_one_b_activations(const ScheduleShape& shape, int rank) {
  return clamped(shape.pp - rank, shape);
}

int interleaved_activations(const ScheduleShape& shape, int rank) {
  const int size = shape.microbatch_group_size != 0
                       ? shape.microbatch_group_size
                       : default_microbatch_group_size(shape.pp, shape.num_microbatches);
  const std::int64_t warm_up =
      (shape.vpp - 1) * std::int64_t{size} + 2 * std::int64_t{shape.pp - 1 - rank};
  return clamped(warm_up + 1, shape);
}

/// A generator that takes ranks and microbatches only.
template <Schedule (*generate)(int pp, int num_microbatches)>
Schedule of_shape(const ScheduleShape& shape) {
  return generate(shape.pp, shape.num_microbatches);
}

/// The formula of a peak that every rank has.
template <std::int64_t (*chunks)(std::int64_t pp)>
int on_every_rank(const ScheduleShape& shape, int /*rank*/) {
  return clamped(chunks(shape.pp), shape);
}
constexpr std::int64_t zb_h1_chunks(std::int64_t pp) {
  return pp;
}
constexpr std::int64_t zb_h2_chunks(std::int64_t pp) {
  return 2 * pp - 1;
}
constexpr std::int64_t zb_v_chunks(std::int64_t pp) {
  return 2 * pp;
}
constexpr std::int64_t v_half_chunks(std::int64_t pp) {
  return 2 * ((pp + 2) / 2);
}
constexpr std::int64_t v_min_chunks(std::int64_t pp) {
  return 2 * ((pp + 4) / 3);
}
constexpr std::int64_t dualpipe_chunks(std::int64_t pp) {
  return pp + 1;
}
constexpr std::int64_t dualpipev_chunks(std::int64_t pp) {
  return 2 * pp + 1;
}

constexpr std::array kGenerators = {
    ScheduleGenerator{"gpipe", "arXiv:1811.06965", needs_one_stage, gpipe, all_activations},
    ScheduleGenerator{"1f1b", "arXiv:2006.09503", needs_one_stage, one_f_one_b,
                      one_f_one_b_activations},
    ScheduleGenerator{"interleaved", "arXiv:2104.04473", find_interleaved_conflict, interleaved,
                      interleaved_activations},
    ScheduleGenerator{"looped-bfs", "arXiv:2211.05953", find_group_conflict, looped_bfs,
                      all_activations},
    ScheduleGenerator{"zb-h1", "arXiv:2401.10241", needs_one_stage, of_shape<zb_h1>,
                      on_every_rank<zb_h1_chunks>},
    ScheduleGenerator{"zb-h2", "arXiv:2401.10241", needs_one_stage, of_shape<zb_h2>,
                      on_every_rank<zb_h2_chunks>},
    ScheduleGenerator{"zb-v", "arXiv:2401.10241", needs_two_stages, of_shape<zb_v>,
                      on_every_rank<zb_v_chunks>},
    ScheduleGenerator{"v-half", "arXiv:2405.15362", needs_two_stages, of_shape<v_half>,
                      on_every_rank<v_half_chunks>},
    ScheduleGenerator{"v-min", "arXiv:2405.15362", needs_two_stages, of_shape<v_min>,
                      on_every_rank<v_min_chunks>},
    ScheduleGenerator{"dualpipe", "arXiv:2412.19437", find_dualpipe_conflict, of_shape<dualpipe>,
                      on_every_rank<dualpipe_chunks>},
    ScheduleGenerator{"dualpipev", "arXiv:2412.19437", find_dualpipev_conflict, of_shape<dualpipev>,
                      on_every_rank<dualpipev_chunks>}};

}  // namespace

std::span<const ScheduleGenerator> schedule_generators() {
  return kGenerators;
}

std::vector<std::string> schedule_names() {
  std::vector<std::string> names;
  names.reserve(kGenerators.size());
  for (const ScheduleGenerator& generator : kGenerators) {
    names.emplace_back(generator.name);
  }
  return names;
}

const ScheduleGenerator* find_schedule_generator(std::string_view name) {
  for (const ScheduleGenerator& generator : kGenerators) {
    if (generator.name == name) {
      return &generator;
    }
  }
  return nullptr;
}

int default_microbatch_group_size(int pp, int num_microbatches) {
  int size = std::min(pp, num_microbatches);
  // Ends at the latest with one group of all.
  while (size < num_microbatches && !is_group_size(size, pp, num_microbatches)) {
    ++size;
  }
  return size;
}

}  // namespace ptdp
