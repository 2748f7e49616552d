// Writes a struct with describe() as JSON text and reads it back.
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

/// Parses `text`, which messages call "test.json".
template <class Value>
Value parse(const std::string& text) {
  ObjectReader reader = ObjectReader::from_text(text, "test.json");
  Value value;
  describe(reader, value);
  reader.finish();
  return value;
}

/// Returns `text` with the first `from` replaced; unchanged, and so noticed, if there is none.
inline std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

}  // namespace ptdp
