// A device as the runtime sees it: memory, and the operations of a training step. One per rank.
//
// Matrices are row-major. Activations are [s, b, h]: `rows` = s·b tokens, the position slower than
// the sequence, so that a part of the sequence is a block of consecutive rows. Every operation
// takes buffers of one working type (f64, f32, bf16, fp16) but for those marked `accumulator`,
// which are of accumulator_of(working type). Sums are formed in the accumulator type, in an order
// that depends on shapes alone: equal inputs give equal bits. Sizes that contradict each other are
// a bug of the caller's.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <span>
#include <stdexcept>

#include "kernels/data_type.h"

namespace ptdp {

/// C[m,n] = op(A)[m,k] · op(B)[k,n], or C += of it. A transposed operand is stored as [k,m], [n,k].
struct Matmul {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  bool transposes_a = false;
  bool transposes_b = false;
  bool accumulates = false;
};

/// Which part of the global batch the rows of an activation are: b sequences, from `first_sample`
/// on, at positions from `first_position` on. Row r is position first_position + r / b of sequence
/// first_sample + r mod b. What is random about an element depends on its place in the global batch
/// alone, so that it is the same in every layout.
struct TokenRange {
  std::int64_t first_sample = 0;
  std::int64_t first_position = 0;
  std::int64_t batch = 1;       ///< b.
  std::int64_t seq_length = 1;  ///< Of whole sequences.
};

/// Zeroes an element with `probability` and scales the others by 1/(1 − probability). Elements are
/// numbered over the global batch; mask and number belong together by `key` (counter_random.h).
struct Dropout {
  double probability = 0.0;
  std::uint64_t key = 0;
};

/// A rank's heads of causal self-attention, scores scaled by 1/√d.
struct Attention {
  std::int64_t seq_length = 0;
  std::int64_t batch = 1;
  std::int64_t heads = 0;        ///< Of this rank.
  std::int64_t first_head = 0;   ///< Their number among
  std::int64_t total_heads = 0;  ///< the heads of the layer.
  std::int64_t head_size = 0;    ///< d.
  std::int64_t first_sample = 0;
  Dropout dropout = {};  ///< Of probabilities: element ((sample·total_heads + head)·s + i)·s + j.
};

/// A rank's columns of the logits: [rows, width], token `first + c` in column c. Tokens from
/// `num_valid` on pad the vocabulary and take no part.
struct VocabShard {
  std::int64_t first = 0;
  std::int64_t width = 0;
  std::int64_t num_valid = 0;
};

/// A block of a larger matrix, whose elements are numbered row by row.
struct MatrixBlock {
  std::int64_t first_row = 0;
  std::int64_t first_column = 0;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t total_columns = 0;
};

/// A layer norm takes each row of x [rows, h] to y = (x − mean)·rstd·gamma + beta, with rstd =
/// 1/√(variance + ε).
struct LayerNormCall {
  Buffer x;
  Buffer gamma;  ///< [h], as is beta.
  Buffer beta;
  double epsilon = 0.0;  ///< ε.
  Buffer y;              ///< [rows, h].
  Buffer mean;           ///< Accumulator [rows], as is rstd.
  Buffer rstd;
  std::int64_t rows = 0;
};

/// The gradients of a layer norm are added to dx, dgamma and dbeta. dy, x and dx are [rows, h].
struct LayerNormBackwardCall {
  Buffer dy;
  Buffer x;
  Buffer mean;  ///< Accumulator [rows], as is rstd; the forward pass left them.
  Buffer rstd;
  Buffer gamma;  ///< [h].
  Buffer dx;
  Buffer dgamma;  ///< Accumulator [h], as is dbeta; both get sums over rows.
  Buffer dbeta;
  std::int64_t rows = 0;
};

/// Dropout of a sum gives y = residual + dropout(x + bias), all [rows, width]. The number of an
/// element is (sample·s + position)·width + column.
struct BiasDropoutAddCall {
  Buffer x;
  Buffer bias = {};      ///< [width]; may be empty.
  Buffer residual = {};  ///< May be empty.
  Dropout dropout = {};
  TokenRange range = {};
  Buffer y;  ///< May be x or residual.
  std::int64_t rows = 0;
};

/// Cross-entropy's gradient replaces the logits: (softmax − one at the target)·scale, 0 in columns
/// that pad.
struct CrossEntropyBackwardCall {
  Buffer logits;  ///< [rows, width].
  VocabShard shard = {};
  Buffer targets;  ///< i32 [rows].
  Buffer maxima;   ///< Accumulator [rows], of all ranks' columns.
  Buffer sums;     ///< Accumulator [2, rows]: softmax_sums' results, summed over all ranks.
  double scale = 1.0;
  std::int64_t rows = 0;
};

/// θ ← θ − lr·( m̂ / (√v̂ + ε) + λθ ), with m ← β1·m + (1−β1)·g, v ← β2·v + (1−β2)·g², m̂ =
/// m/(1−β1^t), v̂ = v/(1−β2^t). Source: Loshchilov & Hutter (arXiv:1711.05101), algorithm 2.
struct AdamW {
  double learning_rate = 0.0;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0.0;    ///< λ.
  std::int64_t step = 1;        ///< t, from 1.
  double gradient_scale = 1.0;  ///< g is the stored gradient times this: clipping, loss scaling.
};

/// Parameters that AdamW updates, and their states: equally many elements of each.
struct AdamWSlice {
  Buffer master;    ///< Accumulator, as are the moments and the gradient.
  Buffer moment1;   ///< m.
  Buffer moment2;   ///< v.
  Buffer gradient;  ///< As stored.
  Buffer weights;   ///< Get the new ones in the working type; may be `master`.
  bool decays = true;
};

/// A point in a lane's work.
struct Event {
  std::int64_t nanoseconds = 0;  ///< Of the steady clock, when it was recorded; on a host, reached.
  std::shared_ptr<void> device = {};  ///< What a device has of it; none on a host.
};

/// The memory of a backend does not suffice; the message has the bytes asked for and those in use.
class OutOfMemory : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Of a device: compute, messages of both directions, data.
inline constexpr int kNumBackendLanes = 4;

class Backend {
 public:
  Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;
  Backend(Backend&&) = delete;
  Backend& operator=(Backend&&) = delete;
  virtual ~Backend() = default;

  // --- memory: every byte that a step uses comes from here; of any thread ---

  /// Uninitialised memory, aligned to 64 bytes, in which nothing may be assumed. Throws
  /// OutOfMemory. `bytes` may be 0.
  [[nodiscard]] void* allocate(std::int64_t bytes);
  void release(void* memory, std::int64_t bytes) noexcept;
  /// Bytes that are allocated and not released, and the most that were since the last reset.
  [[nodiscard]] std::int64_t bytes_in_use() const { return in_use_; }
  [[nodiscard]] std::int64_t peak_bytes() const { return peak_; }
  void reset_peak() { peak_.store(in_use_); }
  /// Memory for a message on its way between ranks of the device, aligned to 64 bytes; not counted.
  /// It may outlive the backend. Throws OutOfMemory.
  [[nodiscard]] virtual std::shared_ptr<void> message_memory(std::int64_t bytes);

  // --- lanes and events ---

  /// What the calling thread asks for from here on is queued on this lane (numbered from 0, below
  /// kNumBackendLanes; 0 at first). Operations of a lane run in order. On a host every operation is
  /// done when its call returns.
  virtual void use_lane(int lane) = 0;
  /// Marks the present end of the lane in use.
  [[nodiscard]] virtual Event record() = 0;
  /// The lane in use goes on once `event` was reached, which may be another backend's of the same
  /// device.
  virtual void wait(const Event& event) = 0;
  /// Blocks the calling thread until all lanes are empty.
  virtual void synchronize() = 0;
  /// Time [s] from `first` to `second`, both reached: after synchronize().
  [[nodiscard]] virtual double seconds_between(const Event& first, const Event& second) = 0;
  /// Runs `issue`, whose operations all go to the lane in use. A device may launch them as one
  /// graph, and change the one of the last call with the same key rather than make another.
  virtual void run_as_graph(std::int64_t key, const std::function<void()>& issue);
  /// The lane in use as libraries of the device know it: on a GPU a cudaStream_t; null on a host.
  [[nodiscard]] virtual void* native_lane() { return nullptr; }

  // --- transfers ---

  /// Between equal types and sizes; copy_in and copy_out have one end in the host's memory, and the
  /// latter blocks until it is done.
  virtual void copy(Buffer from, Buffer to) = 0;
  virtual void copy_in(const void* from, Buffer to) = 0;
  virtual void copy_out(Buffer from, void* to) = 0;
  /// The same elements in another type, rounded to nearest even.
  virtual void convert(Buffer from, Buffer to) = 0;
  virtual void fill(Buffer x, double value) = 0;

  // --- element by element ---

  virtual void add(Buffer x, Buffer to) = 0;        ///< to += x; any one type.
  virtual void maximum(Buffer x, Buffer to) = 0;    ///< to = max(to, x).
  virtual void scale(Buffer x, double factor) = 0;  ///< x *= factor.
  /// x[rows, width] += bias[width].
  virtual void add_bias(Buffer x, Buffer bias, std::int64_t rows) = 0;
  /// gradient[width] (accumulator) += Σ over rows of dy[rows, width].
  virtual void bias_gradient(Buffer dy, Buffer gradient, std::int64_t rows) = 0;
  /// x += bias, then y = GELU(x), the tanh form: 0.5·x·(1 + tanh(√(2/π)·(x + 0.044715·x³))).
  /// Source: Hendrycks & Gimpel (arXiv:1606.08415), as in GPT-2. `bias` may be empty.
  virtual void bias_gelu(Buffer x, Buffer bias, Buffer y, std::int64_t rows) = 0;
  /// dx = dy·GELU'(x); dx may be x or dy.
  virtual void gelu_backward(Buffer x, Buffer dy, Buffer dx) = 0;
  virtual void bias_dropout_add(const BiasDropoutAddCall& call) = 0;
  /// dx = dy·mask/(1 − p); dx may be dy.
  virtual void dropout_backward(Buffer dy, const Dropout& dropout, const TokenRange& range,
                                Buffer dx, std::int64_t rows) = 0;

  // --- products ---

  /// a and b of the working type; c of the same or its accumulator type.
  virtual void matmul(const Matmul& product, Buffer a, Buffer b, Buffer c) = 0;

  // --- layer norm: the shapes are its arguments' ---

  virtual void layer_norm(const LayerNormCall& call) = 0;
  virtual void layer_norm_backward(const LayerNormBackwardCall& call) = 0;

  // --- attention: qkv [s, b, heads, 3, d], out [s, b, heads, d], memory linear in s ---

  /// log_sum [b, heads, s] (accumulator): log of the sum of exponentials of scaled scores.
  virtual void attention(const Attention& shape, Buffer qkv, Buffer out, Buffer log_sum) = 0;
  /// dqkv may be qkv: it then replaces it.
  virtual void attention_backward(const Attention& shape, Buffer qkv, Buffer out, Buffer log_sum,
                                  Buffer dout, Buffer dqkv) = 0;

  // --- embedding: ids i32 [rows] ---

  /// out[r] = table[ids[r] − first] of this rank's rows of the table [width, h], or 0 where another
  /// rank holds it.
  virtual void embedding(Buffer ids, Buffer table, std::int64_t first, Buffer out) = 0;
  /// gradient[ids[r] − first] (accumulator) += dy[r]; what falls on one row is summed by itself, in
  /// ascending r, before it is added.
  virtual void embedding_gradient(Buffer ids, Buffer dy, std::int64_t first, Buffer gradient) = 0;
  /// x[r] += positions[position of r], positions [s, h].
  virtual void add_positions(Buffer x, Buffer positions, const TokenRange& range,
                             std::int64_t rows) = 0;
  /// gradient[position of r] (accumulator) += dy[r], summed as above.
  virtual void position_gradient(Buffer dy, Buffer gradient, const TokenRange& range,
                                 std::int64_t rows) = 0;

  // --- cross-entropy over logits [rows, width] that ranks share column by column ---

  /// maxima[r] (accumulator): of this rank's valid columns; −∞ where there is none.
  virtual void row_maxima(Buffer logits, const VocabShard& shard, Buffer maxima,
                          std::int64_t rows) = 0;
  /// sums [2, rows] (accumulator): Σ exp(logit − maximum), and the target's logit − maximum, or 0
  /// where another rank has it.
  virtual void softmax_sums(Buffer logits, const VocabShard& shard, Buffer targets, Buffer maxima,
                            Buffer sums, std::int64_t rows) = 0;
  /// total (f64, one element) += Σ over rows of log(sum) − target's logit.
  virtual void add_losses(Buffer sums, Buffer total, std::int64_t rows) = 0;
  virtual void cross_entropy_backward(const CrossEntropyBackwardCall& call) = 0;

  // --- optimizer and initial values ---

  /// total (f64, one element) += Σ x²; x accumulator. Not a number or infinite where x is.
  virtual void add_squares(Buffer x, Buffer total) = 0;
  /// One step of all slices, which do not overlap; all have weights of one type.
  virtual void adamw(const AdamW& settings, std::span<const AdamWSlice> slices) = 0;
  /// Normal variates of mean 0, element by element of the block of a matrix (counter_random.h): the
  /// same number gives the same value, whoever holds it. Rounded from f64.
  virtual void fill_normal(Buffer x, const MatrixBlock& block, std::uint64_t key,
                           double deviation) = 0;

 protected:
  // One at a time.
  [[nodiscard]] virtual void* allocate_memory(std::int64_t bytes) = 0;
  virtual void release_memory(void* memory, std::int64_t bytes) noexcept = 0;

 private:
  std::mutex memory_mutex_;
  std::atomic<std::int64_t> in_use_ = 0;
  std::atomic<std::int64_t> peak_ = 0;
};

/// Memory of a backend, released with the object.
class Tensor {
 public:
  Tensor() = default;
  Tensor(Backend& backend, DataType type, std::int64_t size);
  Tensor(const Tensor&) = delete;
  Tensor& operator=(const Tensor&) = delete;
  Tensor(Tensor&& other) noexcept { swap(other); }
  Tensor& operator=(Tensor&& other) noexcept;
  ~Tensor();

  /// Releases the memory at once.
  void reset() noexcept;
  [[nodiscard]] const Buffer& buffer() const { return buffer_; }
  // A tensor is passed wherever its elements are meant.
  // NOLINTNEXTLINE(google-explicit-constructor,hicpp-explicit-conversions)
  operator Buffer() const { return buffer_; }
  [[nodiscard]] bool empty() const { return buffer_.empty(); }

 private:
  void swap(Tensor& other) noexcept;

  Backend* backend_ = nullptr;
  Buffer buffer_ = {};
};

}  // namespace ptdp
