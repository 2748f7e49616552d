#include "cost_model/text/object_writer.h"

#include <array>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "cost_model/error.h"

namespace ptdp {
namespace {

constexpr int kSignificantDigits = 15;

void check_finite(const std::string& key, double value) {
  if (!std::isfinite(value)) {
    throw Error("\"" + key + "\" is not a finite number", ExitStatus::kBug);
  }
}

nlohmann::ordered_json checked(const std::string& key, double value) {
  check_finite(key, value);
  return as_written(value);
}

}  // namespace

double as_written(double value) {
  std::array<char, 40> digits{};
  const auto written = std::to_chars(digits.data(), digits.data() + digits.size(), value,
                                     std::chars_format::scientific, kSignificantDigits - 1);
  double result = 0.0;
  const auto read = std::from_chars(digits.data(), written.ptr, result);
  return read.ec == std::errc() ? result : value;  // the largest doubles round beyond the largest
}

struct ObjectWriter::State {
  nlohmann::ordered_json object = nlohmann::ordered_json::object();
};

ObjectWriter::ObjectWriter() : state_(std::make_unique<State>()) {}
ObjectWriter::ObjectWriter(ObjectWriter&&) noexcept = default;
ObjectWriter& ObjectWriter::operator=(ObjectWriter&&) noexcept = default;
ObjectWriter::~ObjectWriter() = default;

void ObjectWriter::text(const std::string& key, const std::string& value) {
  state_->object[key] = value;
}

void ObjectWriter::texts(const std::string& key, const std::vector<std::string>& values) {
  state_->object[key] = values;
}

void ObjectWriter::flag(const std::string& key, bool value) {
  state_->object[key] = value;
}

void ObjectWriter::count(const std::string& key, std::int64_t value, std::int64_t /*low*/,
                         std::int64_t /*high*/) {
  state_->object[key] = value;
}

void ObjectWriter::counts(const std::string& key, const std::vector<int>& values,
                          std::int64_t /*low*/, std::int64_t /*high*/) {
  state_->object[key] = values;
}

void ObjectWriter::number(const std::string& key, double value, const Range& /*range*/) {
  state_->object[key] = checked(key, value);
}

void ObjectWriter::exact_number(const std::string& key, double value, const Range& /*range*/) {
  check_finite(key, value);
  state_->object[key] = value;
}

void ObjectWriter::exact_numbers(const std::string& key, const std::vector<double>& values,
                                 const Range& /*range*/) {
  for (const double value : values) {
    check_finite(key, value);
  }
  state_->object[key] = values;
}

void ObjectWriter::numbers(const std::string& key, const std::vector<double>& values,
                           const Range& /*range*/) {
  nlohmann::ordered_json array = nlohmann::ordered_json::array();
  for (const double value : values) {
    array.push_back(checked(key, value));
  }
  state_->object[key] = std::move(array);
}

void ObjectWriter::child(const std::string& key, ObjectWriter nested) {
  state_->object[key] = std::move(nested.state_->object);
}

void ObjectWriter::children(const std::string& key, std::vector<ObjectWriter> nested) {
  nlohmann::ordered_json array = nlohmann::ordered_json::array();
  for (ObjectWriter& writer : nested) {
    array.push_back(std::move(writer.state_->object));
  }
  state_->object[key] = std::move(array);
}

std::string ObjectWriter::dump() const {
  return state_->object.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) +
         "\n";
}

}  // namespace ptdp
