// A struct with describe() as JSON text and back.
#pragma once

#include <string>

#include "cost_model/text/object_reader.h"
#include "cost_model/text/object_writer.h"

namespace ptdp {

template <class Value>
std::string dump(const Value& value) {
  ObjectWriter writer;
  describe(writer, value);
  return writer.dump();
}

/// `text` stands as "test.json" in messages.
template <class Value>
Value parse(const std::string& text) {
  ObjectReader reader = ObjectReader::from_text(text, "test.json");
  Value value;
  describe(reader, value);
  reader.finish();
  return value;
}

/// `text` with the first `from` replaced; unchanged, and so noticed, where there is none.
inline std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

}  // namespace ptdp
