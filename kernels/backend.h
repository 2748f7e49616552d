// A device as the runtime sees it: memory, and the operations of a training step. One per rank.
//
// Matrices are row-major. Activations are [s, b, h]: `rows` = s·b tokens, the position slower than
// the sequence. A part of the sequence is therefore a block of consecutive rows. Every operation
// takes buffers of one working type (f64, f32, bf16, fp16), except for those marked `accumulator`,
// which are of accumulator_of(working type). Sums are formed in the accumulator type, in an order
// that depends on shapes alone: equal inputs give equal bits. Sizes that contradict each other are
// a bug of the caller.
#pragma once

#include <array>
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

/// The shape of a matrix product: C[m,n] = op(A)[m,k] · op(B)[k,n], or C += op(A) · op(B). A
/// transposed A is stored as [k,m], a transposed B as [n,k].
struct Matmul {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  bool transposes_a = false;
  bool transposes_b = false;
  bool accumulates = false;
};

/// Positions of a sequence that follow each other.
struct PositionRun {
  std::int64_t first = 0;  ///< First position.
  std::int64_t count = 0;  ///< Number of positions.
};

/// The most runs of positions that rows may hold.
inline constexpr int kMostPositionRuns = 2;

/// The part of the global batch that the rows of an activation hold: b sequences from
/// `first_sample` on, at the positions of all runs one after the other.
///
///   row r: position number r / b of the runs, of sequence first_sample + r mod b
///
/// Random properties of an element depend on its place in the global batch alone, so that they are
/// equal in every layout.
struct TokenRange {
  std::int64_t first_sample = 0;  ///< First sequence, in the global batch.
  std::int64_t batch = 1;         ///< Number of sequences, b.
  std::int64_t seq_length = 1;    ///< Length of whole sequences [tokens].
  /// Positions in the sequences. Runs without positions are at the end.
  std::array<PositionRun, kMostPositionRuns> runs = {};

  /// Returns the position of row number `row`.
  [[nodiscard]] constexpr std::int64_t position_of(std::int64_t row) const {
    const std::int64_t number = row / batch;
    return number < runs[0].count ? runs[0].first + number : runs[1].first + number - runs[0].count;
  }
  /// Returns the sequence of row number `row`, in the global batch.
  [[nodiscard]] constexpr std::int64_t sample_of(std::int64_t row) const {
    return first_sample + row % batch;
  }
};

/// Rows of vectors that lie side by side: vector v of row r begins at element r·stride + v·width of
/// `elements`. The operation says how many vectors a row has, and their width.
struct VectorRows {
  Buffer elements;
  std::int64_t stride = 0;  ///< Distance from row to row [elements].
};

/// Parameters of dropout, which zeroes an element with `probability` and scales the others by
/// 1/(1 − probability). Elements are numbered over the global batch. The mask of an element follows
/// from its number and `key` (counter_random.h).
struct Dropout {
  double probability = 0.0;
  std::uint64_t key = 0;
};

/// One rank's heads of causal self-attention. Query i of head h takes part with the keys j of key
/// head h / (heads/key_heads) that are in sight: i − window < j <= i. Their probabilities are the
/// softmax of x = scale·q·k, or of soft_cap·tanh(x/soft_cap).
struct Attention {
  std::int64_t seq_length = 0;    ///< Sequence length, s [tokens].
  std::int64_t batch = 1;         ///< Number of sequences.
  std::int64_t heads = 0;         ///< Number of query heads on this rank.
  std::int64_t key_heads = 0;     ///< Number of key heads on this rank; it divides `heads`.
  std::int64_t first_head = 0;    ///< Number of this rank's first head among the layer's heads.
  std::int64_t total_heads = 0;   ///< Number of heads of the layer.
  std::int64_t head_size = 0;     ///< Size of a head, d.
  std::int64_t first_sample = 0;  ///< First sequence, in the global batch.
  double scale = 1.0;             ///< Factor of scores, 1/√d as a rule.
  std::int64_t window = 0;        ///< Keys that a query sees, its own included; 0: all before it.
  double soft_cap = 0.0;          ///< Cap of scores; 0: none.
  /// Dropout of probabilities; (i, j) has number ((sample·total_heads + head)·s + i)·s + j.
  Dropout dropout = {};
};

/// One rank's columns of the logits [rows, width]. Column c is token `first + c`. Tokens from
/// `num_valid` on pad the vocabulary and take no part.
struct VocabShard {
  std::int64_t first = 0;      ///< Token of the first column.
  std::int64_t width = 0;      ///< Number of columns.
  std::int64_t num_valid = 0;  ///< Size of the vocabulary without padding [tokens].
};

/// A block of a larger matrix, whose elements are numbered row by row.
struct MatrixBlock {
  std::int64_t first_row = 0;      ///< First row, in the larger matrix.
  std::int64_t first_column = 0;   ///< First column, in the larger matrix.
  std::int64_t rows = 0;           ///< Number of rows of the block.
  std::int64_t columns = 0;        ///< Number of columns of the block.
  std::int64_t total_columns = 0;  ///< Number of columns of the larger matrix.
};

/// Arguments of a norm of vectors x of h elements, h the size of gamma. With `mean` it is a layer
/// norm, and without it a norm by the root mean square (RMS):
///
///   layer norm  y = (x − mean)·rstd·g + beta,  rstd = 1/√(variance + ε)
///   RMS norm    y = x·rstd·g + beta,           rstd = 1/√(mean of x² + ε)
///
/// with g = gamma + gamma_offset. Sources: Ba et al. (arXiv:1607.06450), Zhang & Sennrich
/// (arXiv:1910.07467).
struct NormCall {
  VectorRows x;               ///< Input [rows, vectors, h].
  Buffer gamma;               ///< Scale [h].
  double gamma_offset = 0.0;  ///< Number added to gamma: 1 where weights are stored minus 1.
  Buffer beta = {};           ///< Shift [h]; may be empty.
  double epsilon = 0.0;       ///< The ε of rstd.
  VectorRows y;               ///< Output [rows, vectors, h].
  Buffer mean = {};           ///< Mean of each vector, accumulator [rows, vectors], or empty.
  Buffer rstd;                ///< The rstd of each vector, accumulator [rows, vectors].
  std::int64_t rows = 0;
  std::int64_t vectors = 1;  ///< Number of vectors side by side in a row.
};

/// Arguments of the gradients of a norm. Those of gamma and beta are added to what is there.
struct NormBackwardCall {
  VectorRows dy;              ///< Gradient of the output [rows, vectors, h].
  VectorRows x;               ///< Input of the forward pass [rows, vectors, h].
  Buffer mean = {};           ///< Means from the forward pass; empty for an RMS norm.
  Buffer rstd;                ///< The rstd from the forward pass, accumulator [rows, vectors].
  Buffer gamma;               ///< Scale [h].
  double gamma_offset = 0.0;  ///< Number added to gamma.
  /// Gradient of x, with what is added [rows, vectors, h]. Where nothing is, it may be x or dy.
  VectorRows dx;
  /// What is added, such as a residual's gradient. It lies as dx does, and may be dx; empty:
  /// nothing.
  Buffer added = {};
  Buffer dgamma;      ///< Gradient of gamma, a sum over vectors that is added to, accumulator [h].
  Buffer dbeta = {};  ///< Gradient of beta, a sum over vectors that is added to, accumulator [h];
                      ///< empty without beta.
  /// Sum of `added` over rows, which is added to, accumulator [h]. It is the gradient of a bias at
  /// the end of the branch behind the norm. Empty: not wanted. Rows then have one vector each, and
  /// those of dx lie one after the other.
  Buffer added_sum = {};
  std::int64_t rows = 0;
  std::int64_t vectors = 1;  ///< Number of vectors side by side in a row.
};

/// Arguments of the products of two matrices row by row: sums[r] = Σ_c a[r,c]·b[r,c]·g[c], with g =
/// weights + weights_offset, or 1 without weights.
struct RowProductsCall {
  VectorRows a;                 ///< First factors [rows, width].
  VectorRows b;                 ///< Second factors [rows, width]; may be a.
  Buffer weights = {};          ///< Weights of columns [width]; may be empty.
  double weights_offset = 0.0;  ///< Number added to weights, where there are any.
  Buffer sums;                  ///< Sum of each row, accumulator [rows].
  std::int64_t width = 0;
  std::int64_t rows = 0;
};

/// Arguments of an RMS norm of rows of `whole_width` elements, of which this rank has w columns, w
/// the size of gamma:
///
///   y = x·rstd·g,  rstd = 1/√(squares/whole_width + ε),  g = gamma + gamma_offset
struct SplitNormCall {
  VectorRows x;               ///< Input [rows, w].
  Buffer gamma;               ///< Scale of these columns [w].
  double gamma_offset = 0.0;  ///< Number added to gamma: 1 where weights are stored minus 1.
  double epsilon = 0.0;       ///< The ε of rstd.
  Buffer squares;             ///< Sums of x² over whole rows, accumulator [rows].
  std::int64_t whole_width = 0;
  VectorRows y;  ///< Output [rows, w]; may be x.
  Buffer rstd;   ///< The rstd of each row, accumulator [rows].
  std::int64_t rows = 0;
};

/// Arguments of the gradients of an RMS norm of rows of which this rank has w columns:
///
///   dx = rstd·(dy·g − x·rstd²·products/whole_width),  dgamma += Σ over rows of dy·x·rstd
struct SplitNormBackwardCall {
  VectorRows dy;              ///< Gradient of the output [rows, w].
  VectorRows x;               ///< Input of the forward pass [rows, w].
  Buffer rstd;                ///< The rstd from the forward pass, accumulator [rows].
  Buffer gamma;               ///< Scale of these columns [w].
  double gamma_offset = 0.0;  ///< Number added to gamma.
  Buffer products;            ///< Sums of dy·g·x over whole rows, accumulator [rows].
  std::int64_t whole_width = 0;
  VectorRows dx;  ///< Gradient of x, which replaces what is there [rows, w]; may be x or dy.
  Buffer dgamma;  ///< Gradient of gamma, which is added to, accumulator [w].
  std::int64_t rows = 0;
};

/// The activation a(x) of an MLP. Names and formulas are those of Hugging Face transformers
/// (activations.py).
enum class ActivationKind : std::uint8_t {
  kTanhGelu,  ///< 0.5·x·(1 + tanh(√(2/π)·(x + 0.044715·x³))), as in GPT-2 (arXiv:1606.08415).
  kGelu,      ///< x·Φ(x), with Φ the normal distribution.
  kRelu,      ///< max(x, 0).
  kSilu,      ///< x/(1 + e^(−x)).
  kTanh,      ///< tanh x.
  kSquaredRelu,  ///< max(x, 0)².
  kQuickGelu     ///< x/(1 + e^(−1.702·x)).
};

/// Arguments of an activation behind a bias: x += bias, then y = a(x), or y = a(gate)·value for a
/// gated one, whose rows of x are w gates and w values.
struct ActivationCall {
  ActivationKind kind = ActivationKind::kTanhGelu;
  bool is_gated = false;
  Buffer x;          ///< Input, to which the bias is added [rows, w], gated [rows, 2w].
  Buffer bias = {};  ///< Bias of a row of x; may be empty.
  Buffer y;          ///< Output [rows, w].
  std::int64_t rows = 0;
};

/// Arguments of the gradient of an activation.
struct ActivationBackwardCall {
  ActivationKind kind = ActivationKind::kTanhGelu;
  bool is_gated = false;
  Buffer x;   ///< Input with its bias [rows, w], gated [rows, 2w].
  Buffer dy;  ///< Gradient of the output [rows, w].
  Buffer dx;  ///< Gradient of the input, like x; may be x, and dy if it is not gated.
  std::int64_t rows = 0;
};

/// What a device may do on the way of a matrix product, so that no other pass reads its result.
/// With c the result and a(x) an activation:
enum class Epilogue : std::uint8_t {
  kBias,                ///< Adds a bias to each row: c = op(A)·op(B) + bias.
  kActivation,          ///< Keeps x = op(A)·op(B) + bias, or without a bias, and gives c = a(x).
  kActivationGradient,  ///< Multiplies by the derivative at a kept x: c = (op(A)·op(B))·a′(x).
  kBiasGradient         ///< Sums A, stored as [k,m], too: bias_gradient[i] += Σ over k of A[k,i].
};

/// Arguments of a matrix product with an epilogue.
struct EpilogueCall {
  Matmul product;  ///< Shape; only kBiasGradient may add to c, and A is transposed there.
  Buffer a;        ///< First operand.
  Buffer b;        ///< Second operand.
  Buffer c;        ///< Result [m,n].
  Epilogue epilogue = Epilogue::kBias;
  Buffer bias = {};  ///< Bias [n], for kBias, and for kActivation if there is one.
  ActivationKind activation = ActivationKind::kTanhGelu;
  /// Input x of the activation [m,n], apart from c. kActivation writes it, kActivationGradient
  /// reads it.
  Buffer x = {};
  Buffer bias_gradient = {};  ///< Sum for kBiasGradient, accumulator [m].
};

/// Arguments of rotary positions, which turn pairs of elements of each head in place. With c and s
/// the cosine and sine of the row's position and pair i, and r the width that is turned:
///
///   x[i] ← x[i]·c − x[i + r/2]·s,  x[i + r/2] ← x[i + r/2]·c + x[i]·s
///
/// Source: Su et al. (arXiv:2104.09864), in the order of halves of GPT-NeoX.
struct RotaryCall {
  VectorRows x;  ///< Vectors of heads [rows, heads, head_size].
  /// Cosines, then sines, of each position of whole sequences, accumulator [s, 2, width/2].
  Buffer angles;
  std::int64_t heads = 0;      ///< Number of heads side by side in a row.
  std::int64_t head_size = 0;  ///< Size of a head.
  std::int64_t width = 0;      ///< Number r of elements that are turned, an even number.
  TokenRange range = {};
  std::int64_t rows = 0;
  bool turns_back = false;  ///< Whether sines are negated, which gives the gradient.
};

/// Arguments of causal self-attention, with memory linear in s. Queries, keys and values may lie
/// in one buffer or apart.
struct AttentionCall {
  Attention shape;
  VectorRows q;    ///< Queries [s, b, heads, d].
  VectorRows k;    ///< Keys [s, b, key_heads, d].
  VectorRows v;    ///< Values [s, b, key_heads, d].
  Buffer out;      ///< Output [s, b, heads, d].
  Buffer log_sum;  ///< Log of the sum of exponentials of scores, accumulator [b, heads, s].
};

/// Arguments of the gradients of causal self-attention, which replace what is in dq, dk and dv.
struct AttentionBackwardCall {
  Attention shape;
  VectorRows q;    ///< Queries [s, b, heads, d].
  VectorRows k;    ///< Keys [s, b, key_heads, d].
  VectorRows v;    ///< Values [s, b, key_heads, d].
  Buffer out;      ///< Output of the forward pass [s, b, heads, d].
  Buffer log_sum;  ///< Logs of sums from the forward pass, accumulator [b, heads, s].
  Buffer dout;     ///< Gradient of the output [s, b, heads, d].
  VectorRows dq;   ///< Gradient of queries; may be q.
  VectorRows dk;   ///< Gradient of keys; may be k.
  VectorRows dv;   ///< Gradient of values; may be v.
};

/// Arguments of a dropout of a sum: y = residual + scale·dropout(x + bias), all [rows, width]. The
/// number of an element is (sample·s + position)·width + column.
struct BiasDropoutAddCall {
  Buffer x;              ///< Input [rows, width].
  Buffer bias = {};      ///< Bias [width]; may be empty.
  Buffer residual = {};  ///< Residual [rows, width]; may be empty.
  Dropout dropout = {};
  double scale = 1.0;  ///< Factor of what dropout leaves.
  TokenRange range = {};
  Buffer y;  ///< Output [rows, width]; may be x or residual.
  std::int64_t rows = 0;
};

/// Arguments of cross-entropy's gradient, which replaces the logits. It is (softmax − one at the
/// target)·scale, and 0 in columns that pad. Where logits y were capped, it is multiplied by the
/// cap's derivative, 1 − (y/soft_cap)².
struct CrossEntropyBackwardCall {
  Buffer logits;  ///< Logits on entry, gradients on return [rows, width].
  VocabShard shard = {};
  Buffer targets;      ///< Tokens to predict, i32 [rows].
  Buffer maxima;       ///< Maxima of each row over all ranks' columns, accumulator [rows].
  Buffer sums;         ///< Results of softmax_sums() summed over all ranks, accumulator [2, rows].
  double scale = 1.0;  ///< Factor of the gradient.
  double soft_cap = 0.0;  ///< Cap of the logits; 0: none.
  std::int64_t rows = 0;
};

/// What is added to a norm before something is divided by it, so that nothing is divided by zero.
inline constexpr double kNormGuard = 1e-6;

/// Settings of a step of AdamW:
///
///   θ ← θ − lr·( m̂ / (√v̂ + ε) + λθ )
///   m ← β1·m + (1−β1)·g,  v ← β2·v + (1−β2)·g²,  m̂ = m/(1−β1^t),  v̂ = v/(1−β2^t)
///
/// Source: Loshchilov & Hutter (arXiv:1711.05101), algorithm 2.
struct AdamW {
  double learning_rate = 0.0;  ///< Learning rate, lr.
  double beta1 = 0.9;          ///< Decay of the first moment, β1.
  double beta2 = 0.95;         ///< Decay of the second moment, β2.
  double epsilon = 1e-8;       ///< Summand of the denominator, ε.
  double weight_decay = 0.0;   ///< Weight decay, λ.
  std::int64_t step = 1;       ///< Number of the step, t, from 1.
  /// Factor of the stored gradient that gives g before clipping: the loss scale's inverse.
  double gradient_scale = 1.0;
  /// Largest norm of all g; g is multiplied by min(1, largest_norm/(norm + 10^-6)). 0: no limit.
  /// Source: clip_grad_norm_ of PyTorch, as Megatron-LM.
  double largest_norm = 0.0;
  /// Sum of the squares of all stored gradients (f64, one element), read when the step runs. Where
  /// it is not finite, the step changes nothing. Empty: neither clipped nor looked at.
  Buffer squares = {};
};

/// Parameters that AdamW updates, with their states. All buffers have equally many elements.
struct AdamWSlice {
  Buffer master;       ///< Master weights θ, accumulator.
  Buffer moment1;      ///< First moments m, accumulator.
  Buffer moment2;      ///< Second moments v, accumulator.
  Buffer gradient;     ///< Stored gradient, accumulator; g is this times AdamW's factors.
  Buffer weights;      ///< Updated weights in the working type; may be `master`.
  bool decays = true;  ///< Whether weight decay applies.
};

/// A point in the work of a lane.
struct Event {
  /// Steady-clock time of the recording [ns], which on a host is when it was reached.
  std::int64_t nanoseconds = 0;
  std::shared_ptr<void> device = {};  ///< The device's own event; null on a host.
};

/// Thrown when the memory of a backend does not suffice. The message has the bytes asked for and
/// those in use.
class OutOfMemory : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Number of lanes of a device: one for compute, one for messages in each direction, one for data.
inline constexpr int kNumBackendLanes = 4;

/// One rank's device: memory, lanes, and the operations of a training step.
class Backend {
 public:
  Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;
  Backend(Backend&&) = delete;
  Backend& operator=(Backend&&) = delete;
  virtual ~Backend() = default;

  // --- memory: every byte that a step uses comes from here; any thread may call these ---

  /// Allocates uninitialized memory, aligned to 64 bytes, for which the caller may assume no
  /// contents. `bytes` may be 0. Throws OutOfMemory.
  [[nodiscard]] void* allocate(std::int64_t bytes);
  /// Releases memory that allocate() returned for the same number of bytes.
  void release(void* memory, std::int64_t bytes) noexcept;
  /// Returns the bytes that are allocated and not released.
  [[nodiscard]] std::int64_t bytes_in_use() const { return in_use_; }
  /// Returns the largest bytes_in_use() since the last reset_peak().
  [[nodiscard]] std::int64_t peak_bytes() const { return peak_; }
  /// Returns the memory of the device [B] that is taken beside what this backend holds: by the
  /// driver, by libraries such as NCCL, and by other processes. It is 0 on a host.
  [[nodiscard]] virtual std::int64_t bytes_beside() { return 0; }
  /// Sets peak_bytes() to bytes_in_use().
  void reset_peak() { peak_.store(in_use_); }
  /// Allocates memory for a message in flight between ranks of the device, aligned to 64 bytes. It
  /// is not counted as bytes in use, and may outlive the backend. Throws OutOfMemory.
  [[nodiscard]] virtual std::shared_ptr<void> message_memory(std::int64_t bytes);

  // --- lanes and events ---

  /// Makes the calling thread queue its later operations on lane `lane`, 0 <= lane <
  /// kNumBackendLanes. A thread begins with lane 0. Operations of a lane run in order. On a host
  /// every operation is done when its call returns.
  virtual void use_lane(int lane) = 0;
  /// Returns an event that marks the present end of the lane in use.
  [[nodiscard]] virtual Event record() = 0;
  /// Returns an event for wait() alone, not for seconds_between(). A GPU then writes no time, which
  /// takes it about a microsecond.
  [[nodiscard]] virtual Event mark() { return record(); }
  /// Makes the lane in use wait until `event` is reached, which may be another backend's event of
  /// the same device.
  virtual void wait(const Event& event) = 0;
  /// Blocks the calling thread until all lanes are empty.
  virtual void synchronize() = 0;
  /// Sets what hears when an operation begins and ends to wait for work that was asked for before,
  /// so that nobody takes the thread for stuck. Only a device that runs behind its host calls it.
  virtual void tell_waits(const std::function<void(bool begins)>& /*listener*/) {}
  /// Returns the time from `first` to `second` [s]. Both must have been reached, for example after
  /// synchronize().
  [[nodiscard]] virtual double seconds_between(const Event& first, const Event& second) = 0;
  /// Runs `issue`, whose operations all go to the lane in use. A device may launch them as one
  /// graph. It may then change the graph of the last call with the same key rather than make
  /// another.
  virtual void run_as_graph(std::int64_t key, const std::function<void()>& issue);
  /// Returns the lane in use as libraries of the device know it: a cudaStream_t on a GPU, null on a
  /// host.
  [[nodiscard]] virtual void* native_lane() { return nullptr; }

  // --- transfers ---

  /// Copies elements between buffers of equal type and size.
  virtual void copy(Buffer from, Buffer to) = 0;
  /// Copies the first `width` elements of each row between buffers of one type that do not overlap.
  virtual void copy_columns(const VectorRows& from, const VectorRows& to, std::int64_t width,
                            std::int64_t rows) = 0;
  /// Copies elements of a buffer's type from host memory into it.
  virtual void copy_in(const void* from, Buffer to) = 0;
  /// Copies the elements of a buffer to host memory, and blocks until that is done.
  virtual void copy_out(Buffer from, void* to) = 0;
  /// Converts elements to the type of `to`, rounded to nearest even.
  virtual void convert(Buffer from, Buffer to) = 0;
  /// Sets every element of x to `value`.
  virtual void fill(Buffer x, double value) = 0;

  // --- element by element ---

  /// Adds: to += x. Both have one type, which may be any.
  virtual void add(Buffer x, Buffer to) = 0;
  virtual void maximum(Buffer x, Buffer to) = 0;    ///< Takes maxima: to = max(to, x).
  virtual void scale(Buffer x, double factor) = 0;  ///< Scales: x *= factor.
  /// Caps smoothly: x = cap·tanh(x/cap).
  virtual void soft_cap(Buffer x, double cap) = 0;
  /// Adds a bias: x[rows, width] += bias[width].
  virtual void add_bias(Buffer x, Buffer bias, std::int64_t rows) = 0;
  /// Sums a bias gradient: gradient[width] (accumulator) += Σ over rows of dy[rows, width].
  virtual void bias_gradient(Buffer dy, Buffer gradient, std::int64_t rows) = 0;
  /// Adds a bias, then applies an activation, gated or not. The arguments of `call` have the
  /// shapes.
  virtual void activation(const ActivationCall& call) = 0;
  /// Computes the gradient of an activation. The arguments of `call` have the shapes.
  virtual void activation_backward(const ActivationBackwardCall& call) = 0;
  /// Computes y = residual + scale·dropout(x + bias), with the arguments of `call`.
  virtual void bias_dropout_add(const BiasDropoutAddCall& call) = 0;
  /// Computes the gradient of scaled dropout, dx = scale·dy·mask/(1 − p), with buffers
  /// [rows, width]. dx may be dy.
  virtual void dropout_backward(Buffer dy, const Dropout& dropout, double scale,
                                const TokenRange& range, Buffer dx, std::int64_t rows) = 0;

  // --- products ---

  /// Multiplies matrices. a and b are of the working type, c is of the same type or its accumulator
  /// type.
  virtual void matmul(const Matmul& product, Buffer a, Buffer b, Buffer c) = 0;
  /// Returns whether matmul_with_epilogue() takes a call. Otherwise the caller runs the operations
  /// one by one (epilogue.h). The first call of a shape may take time, to find out.
  [[nodiscard]] virtual bool has_epilogue(const EpilogueCall& call);
  /// Multiplies matrices with an epilogue, for which has_epilogue() returned true.
  virtual void matmul_with_epilogue(const EpilogueCall& call);

  // --- norms and attention: the shapes are their arguments' ---

  /// Computes a layer norm or an RMS norm. The arguments of `call` have the shapes.
  virtual void norm(const NormCall& call) = 0;
  /// Computes a sum as bias_dropout_add() does, then its norm as norm() does, with the same bits.
  /// `call.x` is the sum's y, row by row. The norm's y is apart from all else.
  virtual void sum_and_norm(const BiasDropoutAddCall& sum, const NormCall& call) = 0;
  /// Computes the gradients of a norm. The arguments of `call` have the shapes.
  virtual void norm_backward(const NormBackwardCall& call) = 0;
  /// Multiplies two matrices row by row. The arguments of `call` have the shapes.
  virtual void row_products(const RowProductsCall& call) = 0;
  /// Computes this rank's columns of an RMS norm whose rows are split over ranks.
  virtual void split_norm(const SplitNormCall& call) = 0;
  /// Computes the gradients of this rank's columns of such a norm.
  virtual void split_norm_backward(const SplitNormBackwardCall& call) = 0;
  /// Turns heads by the angles of their positions. The arguments of `call` have the shapes.
  virtual void rotate(const RotaryCall& call) = 0;
  /// Computes causal self-attention. The arguments of `call` have the shapes.
  virtual void attention(const AttentionCall& call) = 0;
  /// Computes the gradients of causal self-attention. The arguments of `call` have the shapes.
  virtual void attention_backward(const AttentionBackwardCall& call) = 0;
  /// Returns whether attention_backward() replaces its inputs without more memory or copies.
  [[nodiscard]] virtual bool replaces_attention_inputs() const = 0;

  // --- embedding: ids i32 [rows] ---

  /// Looks up embeddings: out[r] = table[ids[r] − first], with ids i32 [rows] and this rank's rows
  /// of the table [width, h]. out[r] is 0 when another rank holds the row.
  virtual void embedding(Buffer ids, Buffer table, std::int64_t first, Buffer out) = 0;
  /// Sums embedding gradients: gradient[ids[r] − first] (accumulator) += dy[r]. All dy of one row
  /// of the table are summed by themselves, in ascending r, and then added.
  virtual void embedding_gradient(Buffer ids, Buffer dy, std::int64_t first, Buffer gradient) = 0;
  /// Adds position embeddings: x[r] += positions[position of r], with positions [s, h].
  virtual void add_positions(Buffer x, Buffer positions, const TokenRange& range,
                             std::int64_t rows) = 0;
  /// Sums gradients of position embeddings: gradient[position of r] (accumulator) += dy[r]. All dy
  /// of one position are summed by themselves, in ascending r, and then added.
  virtual void position_gradient(Buffer dy, Buffer gradient, const TokenRange& range,
                                 std::int64_t rows) = 0;

  // --- cross-entropy over logits [rows, width] that ranks share column by column ---

  /// Computes maxima[r] (accumulator): the maximum of row r over this rank's valid columns, or −∞
  /// when it has none.
  virtual void row_maxima(Buffer logits, const VocabShard& shard, Buffer maxima,
                          std::int64_t rows) = 0;
  /// Computes sums [2, rows] (accumulator) over this rank's valid columns. The first row of `sums`
  /// is Σ exp(logit − maximum). The second is the target's logit − maximum, or 0 when another rank
  /// has the target.
  virtual void softmax_sums(Buffer logits, const VocabShard& shard, Buffer targets, Buffer maxima,
                            Buffer sums, std::int64_t rows) = 0;
  /// Adds losses: total (f64, one element) += Σ over rows of log(sum) − target's logit, from the
  /// `sums` [2, rows] of all ranks.
  virtual void add_losses(Buffer sums, Buffer total, std::int64_t rows) = 0;
  /// Replaces logits by the gradients of cross-entropy, with the arguments of `call`.
  virtual void cross_entropy_backward(const CrossEntropyBackwardCall& call) = 0;

  // --- optimizer and initial values ---

  /// Adds squares: total (f64, one element) += Σ x², with x accumulator. The total becomes NaN or
  /// infinite when an element of x is.
  virtual void add_squares(Buffer x, Buffer total) = 0;
  /// Makes one AdamW step on all slices, which do not overlap. All slices have weights of one type.
  /// The sum of squares stays on the device, so that no host waits for it.
  virtual void adamw(const AdamW& settings, std::span<const AdamWSlice> slices) = 0;
  /// Fills a block of a matrix with normal variates of mean 0 and standard deviation `deviation`
  /// (counter_random.h), rounded from f64.
  /// An element's value depends on `key` and its number in the matrix alone, whichever rank holds
  /// it.
  virtual void fill_normal(Buffer x, const MatrixBlock& block, std::uint64_t key,
                           double deviation) = 0;

 protected:
  // Called one at a time, under a lock.
  [[nodiscard]] virtual void* allocate_memory(std::int64_t bytes) = 0;
  virtual void release_memory(void* memory, std::int64_t bytes) noexcept = 0;

 private:
  std::mutex memory_mutex_;  ///< Guards allocation and release.
  std::atomic<std::int64_t> in_use_ = 0;
  std::atomic<std::int64_t> peak_ = 0;
};

/// Memory of a backend, which is released with the object.
class Tensor {
 public:
  Tensor() = default;
  /// Allocates `size` elements of `type`. Throws OutOfMemory.
  Tensor(Backend& backend, DataType type, std::int64_t size);
  Tensor(const Tensor&) = delete;
  Tensor& operator=(const Tensor&) = delete;
  Tensor(Tensor&& other) noexcept { swap(other); }
  Tensor& operator=(Tensor&& other) noexcept;
  ~Tensor();

  /// Releases the memory at once.
  void reset() noexcept;
  [[nodiscard]] const Buffer& buffer() const { return buffer_; }
  // The conversion is implicit, since a tensor is passed wherever its elements are meant.
  // NOLINTNEXTLINE(google-explicit-constructor,hicpp-explicit-conversions)
  operator Buffer() const { return buffer_; }
  [[nodiscard]] bool empty() const { return buffer_.empty(); }

 private:
  void swap(Tensor& other) noexcept;

  Backend* backend_ = nullptr;
  Buffer buffer_ = {};
};

}  // namespace ptdp
