// Matrix products by oneDNN, versions 2 and 3.
#include <sys/mman.h>

#include <dnnl.hpp>

#include <compare>
#include <map>
#include <utility>

#include "kernels/cpu/library_products.h"

// From the OpenMP that oneDNN is built with. Its header belongs to a compiler, not to the library.
extern "C" void omp_set_num_threads(int num_threads);

namespace ptdp {
namespace {

/// The shape and types for which a primitive is made.
struct Key {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  bool transposes_a = false;
  bool transposes_b = false;
  bool accumulates = false;
  DataType type = DataType::kFloat32;
  DataType c_type = DataType::kFloat32;

  // NOLINTNEXTLINE(readability-implicit-bool-conversion): seen in what is defaulted
  friend auto operator<=>(const Key&, const Key&) = default;
};

dnnl::memory::data_type type_of(DataType type) {
  return type == DataType::kBFloat16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
}

/// Returns the description of a row-major matrix, stored transposed or not.
dnnl::memory::desc description(std::int64_t rows, std::int64_t columns, bool transposed,
                               DataType type) {
  return {{rows, columns},
          type_of(type),
          transposed ? dnnl::memory::dims{1, rows} : dnnl::memory::dims{columns, 1}};
}

/// Returns the description of the primitive for `key`.
dnnl::matmul::primitive_desc primitive_description(const dnnl::engine& engine, const Key& key) {
  const dnnl::memory::desc a = description(key.m, key.k, key.transposes_a, key.type);
  const dnnl::memory::desc b = description(key.k, key.n, key.transposes_b, key.type);
  const dnnl::memory::desc c = description(key.m, key.n, false, key.c_type);
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (key.accumulates) {
    dnnl::post_ops sum;
    sum.append_sum(1.0F);
    attributes.set_post_ops(sum);
  }
#if DNNL_VERSION_MAJOR >= 3
  return {engine, a, b, c, attributes};
#else
  return {{a, b, c}, attributes, engine};
#endif
}

/// A primitive with its arguments, whose addresses are set at each call.
struct Primitive {
  Primitive(const dnnl::engine& engine, const dnnl::matmul::primitive_desc& made)
      : matmul(made),
        a(made.src_desc(), engine, nullptr),
        b(made.weights_desc(), engine, nullptr),
        c(made.dst_desc(), engine, nullptr),
        scratch(made.scratchpad_desc(), engine, nullptr),
        scratch_bytes(static_cast<std::int64_t>(made.scratchpad_desc().get_size())) {}

  dnnl::matmul matmul;
  dnnl::memory a;
  dnnl::memory b;
  dnnl::memory c;
  dnnl::memory scratch;
  std::int64_t scratch_bytes;
};

/// Makes OpenMP use one thread, since ranks are threads of one core each. The setting holds for the
/// calling thread.
void use_one_thread() {
  thread_local bool is_set = false;
  if (!is_set) {
    omp_set_num_threads(1);
    is_set = true;
  }
}

/// Throws OutOfMemory when a primitive's code may find no room. oneDNN takes 256 KiB for each of
/// its kernels, usually three, and writes through a null pointer when it gets none.
void require_room_for_code() {
  constexpr std::size_t room = std::size_t{1} << 20;
  void* const probe =
      ::mmap(nullptr, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (probe == MAP_FAILED) {
    throw OutOfMemory("out of memory: no address space for the code of oneDNN");
  }
  ::munmap(probe, room);
}

}  // namespace

struct OneDnnCache {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  std::map<Key, Primitive> primitives;
};

void OneDnnCacheDeleter::operator()(OneDnnCache* cache) const noexcept {
  delete cache;
}

bool has_one_dnn(DataType type) {
#if defined(__x86_64__)
  // Without such instructions oneDNN converts, which own loops do too.
  static const bool has_bf16 = __builtin_cpu_supports("avx512bf16");
  return type == DataType::kFloat32 || (type == DataType::kBFloat16 && has_bf16);
#else
  return type == DataType::kFloat32;
#endif
}

void multiply_by_one_dnn(Backend& backend, std::unique_ptr<OneDnnCache, OneDnnCacheDeleter>& cache,
                         const Matmul& product, const Buffer& a, const Buffer& b, const Buffer& c) {
  use_one_thread();
  if (cache == nullptr) {
    cache.reset(new OneDnnCache());
  }
  const Key key{
      product.m,           product.n, product.k, product.transposes_a, product.transposes_b,
      product.accumulates, a.type,    c.type};
  auto found = cache->primitives.find(key);
  if (found == cache->primitives.end()) {
    require_room_for_code();
    found = cache->primitives
                .emplace(
                    std::piecewise_construct, std::forward_as_tuple(key),
                    std::forward_as_tuple(cache->engine, primitive_description(cache->engine, key)))
                .first;
  }
  Primitive& primitive = found->second;
  const Tensor scratch(backend, DataType::kFloat32, (primitive.scratch_bytes + 3) / 4);
  primitive.a.set_data_handle(a.data);
  primitive.b.set_data_handle(b.data);
  primitive.c.set_data_handle(c.data);
  primitive.scratch.set_data_handle(scratch.buffer().data);
  primitive.matmul.execute(cache->stream, {{DNNL_ARG_SRC, primitive.a},
                                           {DNNL_ARG_WEIGHTS, primitive.b},
                                           {DNNL_ARG_DST, primitive.c},
                                           {DNNL_ARG_SCRATCHPAD, primitive.scratch}});
  cache->stream.wait();
}

}  // namespace ptdp
