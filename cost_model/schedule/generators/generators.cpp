#include "cost_model/schedule/generators/generators.h"

#include <algorithm>
#include <array>

#include "cost_model/schedule/generators/shape_conflicts.h"
#include "cost_model/schedule/generators/zb_auto.h"
#include "cost_model/schedule/generators/zero_bubble.h"

namespace ptdp {
namespace {

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

int limit_of(const ScheduleShape& shape) {
  return shape.memory_limit.value_or(shape.pp);
}

int zb_auto_activations(const ScheduleShape& shape, int /*rank*/) {
  return clamped(limit_of(shape), shape);
}

Schedule zb_auto_of_shape(const ScheduleShape& shape) {
  return zb_auto({.pp = shape.pp,
                  .num_microbatches = shape.num_microbatches,
                  .ticks = shape.ticks,
                  .message_ticks = shape.message_ticks,
                  .memory_limit = limit_of(shape),
                  .shortens_spans = shape.shortens_spans});
}

int pipedream_versions(const ScheduleShape& shape, int rank) {
  return clamped(shape.pp - rank, shape);
}

int pipedream_2bw_versions(const ScheduleShape& shape, int /*rank*/) {
  return shape.pp == 1 ? 1 : 2;
}

constexpr std::array kGenerators = {
    ScheduleGenerator{.name = "gpipe",
                      .paper = "arXiv:1811.06965",
                      .find_conflict = needs_one_stage,
                      .generate = gpipe,
                      .peak_activations = all_activations,
                      .bubble = "(p-1)(F+B)"},
    ScheduleGenerator{.name = "1f1b",
                      .paper = "arXiv:2006.09503",
                      .find_conflict = needs_one_stage,
                      .generate = one_f_one_b,
                      .peak_activations = one_f_one_b_activations,
                      .bubble = "(p-1)(F+B)"},
    ScheduleGenerator{.name = "interleaved",
                      .paper = "arXiv:2104.04473",
                      .find_conflict = find_interleaved_conflict,
                      .generate = interleaved,
                      .peak_activations = interleaved_activations,
                      .bubble = "(p-1)(F+B) with groups of p microbatches"},
    ScheduleGenerator{.name = "looped-bfs",
                      .paper = "arXiv:2211.05953",
                      .find_conflict = find_group_conflict,
                      .generate = looped_bfs,
                      .peak_activations = all_activations,
                      .bubble = "(p-1)(F+B)"},
    ScheduleGenerator{.name = "zb-h1",
                      .paper = "arXiv:2401.10241",
                      .find_conflict = needs_one_stage,
                      .generate = of_shape<zb_h1>,
                      .peak_activations = on_every_rank<zb_h1_chunks>,
                      .bubble = "(p-1)(F+I-W) for m >= p, W <= F and W <= I"},
    ScheduleGenerator{.name = "zb-h2",
                      .paper = "arXiv:2401.10241",
                      .find_conflict = needs_one_stage,
                      .generate = of_shape<zb_h2>,
                      .peak_activations = on_every_rank<zb_h2_chunks>,
                      .bubble = "(p-1)F at F = I = W and m >= 2p-1"},
    ScheduleGenerator{.name = "zb-v",
                      .paper = "arXiv:2401.10241",
                      .find_conflict = needs_two_stages,
                      .generate = of_shape<zb_v>,
                      .peak_activations = on_every_rank<zb_v_chunks>,
                      .bubble = "(p-1)F at F = I = W and m >= 2p-1"},
    ScheduleGenerator{
        .name = "v-half",
        .paper = "arXiv:2405.15362",
        .find_conflict = needs_two_stages,
        .generate = of_shape<v_half>,
        .peak_activations = on_every_rank<v_half_chunks>,
        .bubble = "(3p-7)F for even p >= 4, (3p-4)F for odd p, at F = I = W and m >= 3p"},
    ScheduleGenerator{.name = "v-min",
                      .paper = "arXiv:2405.15362",
                      .find_conflict = needs_two_stages,
                      .generate = of_shape<v_min>,
                      .peak_activations = on_every_rank<v_min_chunks>,
                      .bubble = "(4p-5)F for p = 1 mod 3, else (4p-7)F, at F = I = W and m >= 3p"},
    ScheduleGenerator{
        .name = "zb-auto",
        .paper = "arXiv:2401.10241",
        .find_conflict = find_zb_auto_conflict,
        .generate = zb_auto_of_shape,
        .peak_activations = zb_auto_activations,
        .bubble = "searched: at most that of zb-h1 and zb-h2 within the memory limit"},
    ScheduleGenerator{.name = "dualpipe",
                      .paper = "arXiv:2412.19437",
                      .find_conflict = find_dualpipe_conflict,
                      .generate = of_shape<dualpipe>,
                      .peak_activations = on_every_rank<dualpipe_chunks>,
                      .bubble = "(p/2-1)(F&B+B-3W) at F = I = W"},
    ScheduleGenerator{.name = "dualpipev",
                      .paper = "arXiv:2412.19437",
                      .find_conflict = find_dualpipev_conflict,
                      .generate = of_shape<dualpipev>,
                      .peak_activations = on_every_rank<dualpipev_chunks>,
                      .bubble = "(p-1)(F&B+B-3W) at F = I = W"},
    ScheduleGenerator{.name = "pipedream",
                      .paper = "arXiv:1806.03377",
                      .find_conflict = needs_one_stage,
                      .generate = pipedream,
                      .peak_activations = one_f_one_b_activations,
                      .bubble = "0 in steady state; (p-1)(F+B) once, from a cold start",
                      .is_synchronous = false,
                      .weight_versions = pipedream_versions},
    ScheduleGenerator{.name = "pipedream-2bw",
                      .paper = "arXiv:2006.09503",
                      .find_conflict = find_pipedream_2bw_conflict,
                      .generate = pipedream_2bw,
                      .peak_activations = one_f_one_b_activations,
                      .bubble = "0 in steady state; (p-1)(F+B) once, from a cold start",
                      .is_synchronous = false,
                      .weight_versions = pipedream_2bw_versions}};

}  // namespace

int one_weight_version(const ScheduleShape& /*shape*/, int /*rank*/) {
  return 1;
}

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

}  // namespace ptdp
