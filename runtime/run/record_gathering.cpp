#include "runtime/run/record_gathering.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "cost_model/error.h"
#include "runtime/steady_clock.h"
#include "runtime/transport/gathering.h"

namespace ptdp {
namespace {

constexpr int kRoundTrips = 50;
constexpr std::uint64_t kMagic = 0x3152'4345'5250'5450;  // "PTPRECR1"

/// Appends values to a string of bytes.
class ByteWriter {
 public:
  template <class T>
  void put(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    append(&value, sizeof value);
  }
  template <class T>
  void put_all(const std::vector<T>& values) {
    static_assert(std::is_trivially_copyable_v<T>);
    put(static_cast<std::uint64_t>(values.size()));
    append(values.data(), values.size() * sizeof(T));
  }
  [[nodiscard]] std::string take() { return std::move(bytes_); }

 private:
  void append(const void* bytes, std::size_t size) {
    bytes_.append(static_cast<const char*>(bytes), size);
  }

  std::string bytes_;
};

/// Takes values out of a string of bytes. Throws Error(kRuntimeFault) when the bytes end too early.
class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : bytes_(bytes) {}

  template <class T>
  [[nodiscard]] T get() {
    T value{};
    copy(&value, sizeof value);
    return value;
  }
  template <class T>
  [[nodiscard]] std::vector<T> get_all() {
    const auto count = get<std::uint64_t>();
    require(count <= bytes_.size() / sizeof(T));
    std::vector<T> values(count);
    copy(values.data(), count * sizeof(T));
    return values;
  }
  /// Reads a number of items of at least `least_bytes` each. Throws Error when so many do not fit.
  [[nodiscard]] std::uint64_t get_count(std::size_t least_bytes) {
    const auto count = get<std::uint64_t>();
    require(count <= bytes_.size() / least_bytes);
    return count;
  }
  /// Throws Error unless all bytes were read.
  void finish() const { require(bytes_.empty()); }
  static void require(bool is_whole) {
    if (!is_whole) {
      throw Error("the record of a rank arrived damaged", ExitStatus::kRuntimeFault);
    }
  }

 private:
  void copy(void* to, std::size_t size) {
    require(size <= bytes_.size());
    if (size > 0) {
      std::memcpy(to, bytes_.data(), size);
    }
    bytes_.remove_prefix(size);
  }

  std::string_view bytes_;
};

using OperationTimes = decltype(StepRecord::operations)::value_type;

void put(ByteWriter& writer, const StepRecord& step) {
  writer.put(step.step);
  writer.put_all(step.actions);
  writer.put_all(step.sub_spans);
  writer.put(static_cast<std::uint8_t>(step.operations.has_value() ? 1 : 0));
  writer.put(step.operations.value_or(OperationTimes{}));
  writer.put(static_cast<std::uint8_t>(step.loss.has_value() ? 1 : 0));
  writer.put(step.loss.value_or(0.0));
  writer.put(step.gradient_norm);
  writer.put(step.loss_scale);
  writer.put(static_cast<std::uint8_t>(step.is_skipped ? 1 : 0));
  writer.put(static_cast<std::uint8_t>(step.is_after_pause ? 1 : 0));
}

StepRecord get_step(ByteReader& reader) {
  StepRecord step;
  step.step = reader.get<Span>();
  step.actions = reader.get_all<Span>();
  step.sub_spans = reader.get_all<SubSpan>();
  const bool has_times = reader.get<std::uint8_t>() != 0;
  const auto times = reader.get<OperationTimes>();
  step.operations = has_times ? std::optional(times) : std::nullopt;
  const bool has_loss = reader.get<std::uint8_t>() != 0;
  const auto loss = reader.get<double>();
  step.loss = has_loss ? std::optional(loss) : std::nullopt;
  step.gradient_norm = reader.get<double>();
  step.loss_scale = reader.get<double>();
  step.is_skipped = reader.get<std::uint8_t>() != 0;
  step.is_after_pause = reader.get<std::uint8_t>() != 0;
  return step;
}

/// Moves a span to another clock.
void shift(Span& span, Seconds offset) {
  span.start = span.start + offset;
  span.end = span.end + offset;
}

void shift(RankRecord& record, Seconds offset) {
  for (StepRecord& step : record.steps) {
    shift(step.step, offset);
    for (Span& span : step.actions) {
      shift(span, offset);
    }
    for (SubSpan& sub : step.sub_spans) {
      shift(sub.span, offset);
    }
  }
}

/// Sends and receives one f64 number to or from another rank.
class ClockMessages {
 public:
  ClockMessages(Communicator& world, Backend& backend)
      : world_(&world), backend_(&backend), element_(backend, DataType::kFloat64, 1) {}

  void send(double value, int to) {
    backend_->copy_in(&value, element_);
    world_->wait(world_->send(element_, to));
  }
  [[nodiscard]] double receive(int from) {
    world_->wait(world_->receive(element_, from));
    double value = 0.0;
    backend_->copy_out(element_, &value);
    return value;
  }

 private:
  Communicator* world_;
  Backend* backend_;
  Tensor element_;
};

/// Returns by how much rank 0's clock is ahead of that of `rank` [s]. Rank 0 calls it.
double measured_offset(ClockMessages& messages, int rank, const ReadClock& clock) {
  double fastest = std::numeric_limits<double>::infinity();
  double offset = 0.0;
  for (int i = 0; i < kRoundTrips; ++i) {
    const double asked = clock();
    messages.send(0.0, rank);
    const double theirs = messages.receive(rank);
    const double answered = clock();
    if (answered - asked < fastest) {
      fastest = answered - asked;
      offset = 0.5 * (asked + answered) - theirs;
    }
  }
  return std::abs(offset) <= 0.5 * fastest ? 0.0 : offset;
}

}  // namespace

double read_steady_clock() {
  return 1e-9 * static_cast<double>(now_ns());
}

std::string to_bytes(const RankRecord& record) {
  ByteWriter writer;
  writer.put(kMagic);
  writer.put(static_cast<std::uint64_t>(record.steps.size()));
  for (const StepRecord& step : record.steps) {
    put(writer, step);
  }
  writer.put(record.peak_bytes);
  writer.put(record.bytes_beside);
  writer.put(record.peak_activations);
  for (const SentBytes* sent : {&record.tensor, &record.pipeline_forward, &record.pipeline_backward,
                                &record.data, &record.tied, &record.model}) {
    writer.put(*sent);
  }
  writer.put_all(record.estimates);
  writer.put(kMagic);
  return writer.take();
}

RankRecord parse_record(std::string_view bytes) {
  ByteReader reader(bytes);
  ByteReader::require(reader.get<std::uint64_t>() == kMagic);
  RankRecord record;
  const std::uint64_t num_steps = reader.get_count(sizeof(Span));
  for (std::uint64_t i = 0; i < num_steps; ++i) {
    record.steps.push_back(get_step(reader));
  }
  record.peak_bytes = reader.get<std::int64_t>();
  record.bytes_beside = reader.get<std::int64_t>();
  record.peak_activations = reader.get<int>();
  for (SentBytes* sent : {&record.tensor, &record.pipeline_forward, &record.pipeline_backward,
                          &record.data, &record.tied, &record.model}) {
    *sent = reader.get<SentBytes>();
  }
  record.estimates = reader.get_all<CallEstimate>();
  ByteReader::require(reader.get<std::uint64_t>() == kMagic);
  reader.finish();
  return record;
}

double clock_offset(Communicator& world, Backend& backend, const ReadClock& clock) {
  ClockMessages messages(world, backend);
  if (world.rank() != 0) {
    for (int i = 0; i < kRoundTrips; ++i) {
      (void)messages.receive(0);
      messages.send(clock(), 0);
    }
    return messages.receive(0);
  }
  for (int rank = 1; rank < world.size(); ++rank) {
    messages.send(measured_offset(messages, rank, clock), rank);
  }
  return 0.0;
}

std::vector<RankRecord> gather_records(Communicator& world, Backend& backend, RankRecord own,
                                       const ReadClock& clock) {
  shift(own, Seconds(clock_offset(world, backend, clock)));
  std::vector<RankRecord> records;
  for (const std::string& bytes : gather_bytes(world, backend, to_bytes(own))) {
    records.push_back(parse_record(bytes));
  }
  return records;
}

}  // namespace ptdp
