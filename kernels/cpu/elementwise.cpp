// Element-wise operations and biases.
#include <algorithm>
#include <cassert>
#include <cmath>

#include "kernels/cpu/column_sums.h"
#include "kernels/cpu/element.h"
#include "kernels/cpu/fill_loops.h"

namespace ptdp::PTDP_CPU_VARIANT {
namespace {

/// Calls `function` with a value of the C++ type of `type`, including kInt32.
template <class Function>
void visit_any_type(DataType type, Function&& function) {
  if (type == DataType::kInt32) {
    function(std::int32_t{});
  } else {
    visit_element_type(type, function);
  }
}

/// Returns an element in the type in which it is computed with.
template <class T>
auto arithmetic_value(T x) {
  if constexpr (std::is_same_v<T, std::int32_t>) {
    return x;
  } else {
    return widen(x);
  }
}

/// Returns a computed value as an element, rounded to nearest even.
template <class T, class Value>
T element_of(Value x) {
  if constexpr (std::is_same_v<T, std::int32_t>) {
    return static_cast<std::int32_t>(x);
  } else {
    return narrow<T>(x);
  }
}

void convert(Backend&, Buffer from, Buffer to) {
  assert(from.size == to.size);
  visit_element_type(from.type, [&]<class From>(From) {
    visit_element_type(to.type, [&]<class To>(To) {
      const From* const x = elements<From>(from);
      To* const y = elements<To>(to);
      for (std::int64_t i = 0; i < from.size; ++i) {
        y[i] = narrow<To>(widen(x[i]));
      }
    });
  });
}

void fill(Backend&, Buffer x, double value) {
  visit_any_type(x.type, [&]<class T>(T) {
    const T constant = element_of<T>(value);
    T* const to = elements<T>(x);
    for (std::int64_t i = 0; i < x.size; ++i) {
      to[i] = constant;
    }
  });
}

void add(Backend&, Buffer x, Buffer to) {
  assert(x.size == to.size && x.type == to.type);
  visit_any_type(x.type, [&]<class T>(T) {
    const T* const from = elements<T>(x);
    T* const sum = elements<T>(to);
    for (std::int64_t i = 0; i < x.size; ++i) {
      sum[i] = element_of<T>(arithmetic_value(sum[i]) + arithmetic_value(from[i]));
    }
  });
}

void maximum(Backend&, Buffer x, Buffer to) {
  assert(x.size == to.size && x.type == to.type);
  visit_any_type(x.type, [&]<class T>(T) {
    const T* const from = elements<T>(x);
    T* const most = elements<T>(to);
    for (std::int64_t i = 0; i < x.size; ++i) {
      const auto a = arithmetic_value(most[i]);
      const auto b = arithmetic_value(from[i]);
      // A NaN stays, on whichever side it is.
      most[i] = b > a || is_nan(b) ? from[i] : most[i];
    }
  });
}

void scale(Backend&, Buffer x, double factor) {
  visit_element_type(x.type, [&]<class T>(T) {
    T* const to = elements<T>(x);
    const auto by = static_cast<Accumulator<T>>(factor);
    for (std::int64_t i = 0; i < x.size; ++i) {
      to[i] = narrow<T>(widen(to[i]) * by);
    }
  });
}

void soft_cap(Backend&, Buffer x, double cap) {
  visit_element_type(x.type, [&]<class T>(T) {
    using Sum = Accumulator<T>;
    T* const to = elements<T>(x);
    const auto most = static_cast<Sum>(cap);
    const auto part = static_cast<Sum>(1.0 / cap);
    for (std::int64_t i = 0; i < x.size; ++i) {
      to[i] = narrow<T>(most * std::tanh(static_cast<Sum>(widen(to[i])) * part));
    }
  });
}

/// Adds a row: to[i] += x[i].
template <class T>
void add_row(const T* x, T* to, std::int64_t size) {
  for (std::int64_t i = 0; i < size; ++i) {
    to[i] = narrow<T>(widen(to[i]) + widen(x[i]));
  }
}

void add_bias(Backend&, Buffer x, Buffer bias, std::int64_t rows) {
  assert(x.size == rows * bias.size);
  visit_element_type(x.type, [&]<class T>(T) {
    for (std::int64_t row = 0; row < rows; ++row) {
      add_row(elements<T>(bias), elements<T>(x) + row * bias.size, bias.size);
    }
  });
}

void bias_gradient(Backend& memory, Buffer dy, Buffer gradient, std::int64_t rows) {
  const std::int64_t width = gradient.size;
  const Tensor scratch(memory, gradient.type, 2 * width);
  assert(dy.size == rows * width);
  visit_element_type(dy.type, [&]<class T>(T) {
    using Sum = Accumulator<T>;
    const T* const from = elements<T>(dy);
    auto* const numbers = elements<Sum>(scratch.buffer());
    ColumnSums<Sum> sums(width, numbers, numbers + width);
    for (std::int64_t first = 0; first < rows; first += kRowBlock) {
      sums.add_block(first, std::min(rows, first + kRowBlock),
                     [=](std::int64_t row, std::int64_t c) {
                       return static_cast<Sum>(widen(from[row * width + c]));
                     });
    }
    sums.add_to(elements<Sum>(gradient));
  });
}

}  // namespace

void add_elementwise_loops(KernelTable& loops) {
  loop_of<&Backend::convert>(loops) = convert;
  loop_of<&Backend::fill>(loops) = fill;
  loop_of<&Backend::add>(loops) = add;
  loop_of<&Backend::maximum>(loops) = maximum;
  loop_of<&Backend::scale>(loops) = scale;
  loop_of<&Backend::soft_cap>(loops) = soft_cap;
  loop_of<&Backend::add_bias>(loops) = add_bias;
  loop_of<&Backend::bias_gradient>(loops) = bias_gradient;
}

}  // namespace ptdp::PTDP_CPU_VARIANT
