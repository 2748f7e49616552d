// The optimizer's step and the norm of gradients.
#include <cassert>
#include <cmath>

#include "kernels/cpu/element.h"
#include "kernels/cpu/fill_loops.h"
#include "kernels/cpu/math.h"

namespace ptdp::PTDP_CPU_VARIANT {
namespace {

void add_squares(Backend&, Buffer x, Buffer total) {
  assert(total.size == 1);
  visit_element_type(x.type, [&]<class T>(T) {
    const T* const from = elements<T>(x);
    *elements<double>(total) += sum_over<double>(x.size, [=](std::int64_t i) {
      const auto value = static_cast<double>(widen(from[i]));
      return value * value;
    });
  });
}

/// Makes one step of AdamW on `size` parameters; AdamW (backend.h) has the formulas.
template <class Sum, class T>
void step(const AdamW& settings, Sum* theta, Sum* m, Sum* v, const Sum* gradient, T* weights,
          std::int64_t size) {
  const auto beta1 = static_cast<Sum>(settings.beta1);
  const auto beta2 = static_cast<Sum>(settings.beta2);
  const auto rest1 = static_cast<Sum>(1.0 - settings.beta1);
  const auto rest2 = static_cast<Sum>(1.0 - settings.beta2);
  const auto t = static_cast<double>(settings.step);
  const auto correction1 = static_cast<Sum>(1.0 / (1.0 - std::pow(settings.beta1, t)));
  const auto correction2 = static_cast<Sum>(1.0 / (1.0 - std::pow(settings.beta2, t)));
  const auto rate = static_cast<Sum>(settings.learning_rate);
  const auto epsilon = static_cast<Sum>(settings.epsilon);
  const auto decay = static_cast<Sum>(settings.weight_decay);
  const auto scale = static_cast<Sum>(settings.gradient_scale);
  for (std::int64_t i = 0; i < size; ++i) {
    const Sum g = gradient[i] * scale;
    const Sum m_next = beta1 * m[i] + rest1 * g;
    const Sum v_next = beta2 * v[i] + rest2 * g * g;
    const Sum direction = m_next * correction1 / (std::sqrt(v_next * correction2) + epsilon);
    const Sum next = theta[i] - rate * (direction + decay * theta[i]);
    m[i] = m_next;
    v[i] = v_next;
    theta[i] = next;
    weights[i] = narrow<T>(next);
  }
}

void adamw_slice(const AdamW& settings, const AdamWSlice& slice) {
  const std::int64_t size = slice.master.size;
  assert(slice.moment1.size == size && slice.moment2.size == size);
  assert(slice.gradient.size == size && slice.weights.size == size);
  visit_element_type(slice.weights.type, [&]<class T>(T) {
    using Sum = Accumulator<T>;
    step(settings, elements<Sum>(slice.master), elements<Sum>(slice.moment1),
         elements<Sum>(slice.moment2), elements<Sum>(slice.gradient), elements<T>(slice.weights),
         size);
  });
}

}  // namespace

void add_optimizer_loops(KernelTable& loops) {
  loop_of<&Backend::add_squares>(loops) = add_squares;
  loops.adamw_slice = adamw_slice;
}

}  // namespace ptdp::PTDP_CPU_VARIANT
