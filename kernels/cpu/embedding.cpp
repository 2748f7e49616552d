// Rows of tables: token and position embeddings and their gradients.
#include <algorithm>
#include <cassert>

#include "kernels/cpu/element.h"
#include "kernels/cpu/fill_loops.h"

namespace ptdp::PTDP_CPU_VARIANT {
namespace {

/// Adds a row of elements to accumulators [h].
template <class T>
void add_row(const T* x, Accumulator<T>* to, std::int64_t h) {
  for (std::int64_t i = 0; i < h; ++i) {
    to[i] += widen(x[i]);
  }
}

void embedding(Backend&, Buffer ids, Buffer table, std::int64_t first, Buffer out) {
  const std::int64_t rows = ids.size;
  if (rows == 0) {
    return;
  }
  const std::int64_t h = out.size / rows;
  const std::int64_t width = table.size / h;
  const std::int32_t* const id = elements<std::int32_t>(ids);
  visit_element_type(out.type, [&]<class T>(T) {
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::int64_t entry = id[row] - first;
      T* const to = elements<T>(out) + row * h;
      if (entry >= 0 && entry < width) {
        const T* const from = elements<T>(table) + entry * h;
        std::copy(from, from + h, to);
      } else {
        std::fill(to, to + h, T{});
      }
    }
  });
}

void embedding_gradient(Backend& memory, Buffer ids, Buffer dy, std::int64_t first,
                        Buffer gradient) {
  const std::int64_t rows = ids.size;
  if (rows == 0) {
    return;
  }
  const std::int64_t h = dy.size / rows;
  const std::int64_t width = gradient.size / h;
  const std::int32_t* const id = elements<std::int32_t>(ids);
  const Tensor order(memory, DataType::kInt32, rows);
  const Tensor sum(memory, gradient.type, h);
  auto* const by_id = elements<std::int32_t>(order.buffer());
  for (std::int64_t row = 0; row < rows; ++row) {
    by_id[row] = static_cast<std::int32_t>(row);
  }
  std::sort(by_id, by_id + rows, [id](std::int32_t a, std::int32_t b) {
    return id[a] != id[b] ? id[a] < id[b] : a < b;
  });
  visit_element_type(dy.type, [&]<class T>(T) {
    using Sum = Accumulator<T>;
    Sum* const total = elements<Sum>(sum.buffer());
    for (std::int64_t i = 0; i < rows;) {
      const std::int32_t token = id[by_id[i]];
      const std::int64_t entry = token - first;
      std::fill(total, total + h, Sum{0});
      for (; i < rows && id[by_id[i]] == token; ++i) {
        add_row(elements<T>(dy) + by_id[i] * h, total, h);
      }
      if (entry >= 0 && entry < width) {
        add_row(total, elements<Sum>(gradient) + entry * h, h);
      }
    }
  });
}

void add_positions(Backend&, Buffer x, Buffer positions, const TokenRange& range,
                   std::int64_t rows) {
  if (rows == 0) {
    return;
  }
  const std::int64_t h = x.size / rows;
  visit_element_type(x.type, [&]<class T>(T) {
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::int64_t position = range.position_of(row);
      assert((position + 1) * h <= positions.size);
      const T* const from = elements<T>(positions) + position * h;
      T* const to = elements<T>(x) + row * h;
      for (std::int64_t i = 0; i < h; ++i) {
        to[i] = narrow<T>(widen(to[i]) + widen(from[i]));
      }
    }
  });
}

void position_gradient(Backend& memory, Buffer dy, Buffer gradient, const TokenRange& range,
                       std::int64_t rows) {
  if (rows == 0) {
    return;
  }
  const std::int64_t h = dy.size / rows;
  const Tensor sum(memory, gradient.type, h);
  visit_element_type(dy.type, [&]<class T>(T) {
    using Sum = Accumulator<T>;
    Sum* const total = elements<Sum>(sum.buffer());
    for (std::int64_t row = 0; row < rows;) {
      const std::int64_t step = row / range.batch;
      const std::int64_t position = range.position_of(row);
      assert((position + 1) * h <= gradient.size);
      std::fill(total, total + h, Sum{0});
      for (; row < rows && row / range.batch == step; ++row) {
        add_row(elements<T>(dy) + row * h, total, h);
      }
      add_row(total, elements<Sum>(gradient) + position * h, h);
    }
  });
}

}  // namespace

void add_embedding_loops(KernelTable& loops) {
  loop_of<&Backend::embedding>(loops) = embedding;
  loop_of<&Backend::embedding_gradient>(loops) = embedding_gradient;
  loop_of<&Backend::add_positions>(loops) = add_positions;
  loop_of<&Backend::position_gradient>(loops) = position_gradient;
}

}  // namespace ptdp::PTDP_CPU_VARIANT
