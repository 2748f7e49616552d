// Tests of lists of layers: read and refused.
#include "planner/partition_report/layer_list.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/thrown.h"

namespace ptdp {
namespace {

using nlohmann::ordered_json;

ordered_json small_document() {
  return {{"schema", "ptdp.layers/1"},
          {"name", "vision"},
          {"embedding", {{"name", "patches"}, {"time_s", 0.5}, {"memory_GiB", 2}}},
          {"layers",
           {{{"name", "local"}, {"forward_s", 1}, {"backward_s", 2}, {"count", 3}},
            {{"name", "cross"}, {"time_s", 4}, {"memory_GiB", 1.5}}}},
          {"logits", {{"name", "head"}, {"time_s", 2}}}};
}

/// Returns the message about the list with `literal` at the JSON pointer.
std::string message_with(const std::string& pointer, const std::string& literal) {
  ordered_json document = small_document();
  document[ordered_json::json_pointer(pointer)] = "@here@";
  std::string text = document.dump();
  text.replace(text.find("\"@here@\""), 8, literal);
  return message_of([&] { return parse_layer_list(text, "l.json"); });
}

std::string message_without(const std::string& object, const std::string& key) {
  ordered_json document = small_document();
  document[ordered_json::json_pointer(object)].erase(key);
  return message_of([&] { return parse_layer_list(document.dump(), "l.json"); });
}

TEST(LayerList, HoldsLayersAndEnds) {
  const LayerList list = parse_layer_list(small_document().dump(), "l.json");
  EXPECT_EQ(list.name, "vision");
  ASSERT_EQ(list.layers.size(), 2U);
  EXPECT_EQ(list.layers[0].name, "local");
  EXPECT_EQ(list.layers[0].time, Seconds(3.0));
  EXPECT_EQ(list.layers[0].count, 3);
  EXPECT_EQ(list.layers[1].memory, gibibytes(1.5));
  EXPECT_EQ(list.layers[1].count, 1);
  ASSERT_TRUE(list.embedding && list.logits);
  EXPECT_EQ(list.embedding->time, Seconds(0.5));
  EXPECT_EQ(list.embedding->memory, gibibytes(2.0));
  EXPECT_EQ(list.logits->name, "head");
}

TEST(LayerList, NeedsNoEndsNorMemory) {
  const LayerList list = parse_layer_list(
      R"({"schema":"ptdp.layers/1","name":"n","source":"s","layers":[{"name":"a","time_s":1}]})",
      "l.json");
  EXPECT_FALSE(list.embedding || list.logits);
  EXPECT_EQ(list.source, "s");
  EXPECT_EQ(list.layers[0].memory, Bytes(0.0));
}

TEST(LayerList, RefusesTimesThatAreNone) {
  const std::string expected =
      "l.json: layers[1].time_s: expected a number from 0.0 to 1000000.0 (seconds per microbatch), "
      "got ";
  for (const char* literal : {"-1", "1e7", "\"4\"", "null", "[1]", "1e-320"}) {
    EXPECT_EQ(message_with("/layers/1/time_s", literal).substr(0, expected.size()), expected)
        << literal;
  }
  for (const char* literal : {"NaN", "Infinity", "1e999"}) {
    EXPECT_EQ(message_with("/layers/1/time_s", literal).substr(0, 6), "l.json") << literal;
  }
}

TEST(LayerList, RefusesTwoWaysOfGivingATimeAndNone) {
  EXPECT_EQ(message_with("/layers/0/time_s", "3"),
            "l.json: layers[0].forward_s: expected either time_s, or forward_s and backward_s, got "
            "both");
  EXPECT_EQ(message_without("/layers/0", "backward_s"), "l.json: layers[0].backward_s: missing");
  EXPECT_EQ(message_without("/layers/1", "time_s"), "l.json: layers[1].time_s: missing");
}

TEST(LayerList, RefusesOtherBadValuesByName) {
  EXPECT_EQ(message_with("/layers/1/memory_GiB", "-1"),
            "l.json: layers[1].memory_GiB: expected a number from 0.0 to 10000.0 (GiB), got -1");
  EXPECT_EQ(message_with("/layers/0/count", "0"),
            "l.json: layers[0].count: expected a whole number from 1 to 100000, got 0");
  EXPECT_EQ(message_with("/layers/0/count", "1.5"),
            "l.json: layers[0].count: expected a whole number from 1 to 100000, got 1.5");
  EXPECT_EQ(message_with("/embedding/name", "3"),
            "l.json: embedding.name: expected printable text, got 3");
  EXPECT_EQ(message_with("/logits/count", "2"), "l.json: logits.\"count\": unknown key");
  EXPECT_EQ(message_with("/layers", "{}"), "l.json: layers: expected an array, got {}");
  EXPECT_EQ(message_with("/schema", "\"ptdp.layers/2\""),
            R"(l.json: schema: expected "ptdp.layers/1", got "ptdp.layers/2")");
  EXPECT_EQ(message_without("", "layers"), "l.json: layers: missing");
  EXPECT_EQ(message_without("", "schema"), "l.json: schema: missing");
  EXPECT_EQ(message_with("/layer", "1"), R"(l.json: "layer": unknown key; did you mean "layers"?)");
}

TEST(LayerList, RefusesADuplicateKey) {
  EXPECT_EQ(message_with("/name", R"("a", "name": "b")"), R"(l.json: duplicate key "name")");
}

TEST(LayerList, RefusesNoLayersTooManyAndSuchAsTakeNoTime) {
  EXPECT_EQ(message_with("/layers", "[]"), "l.json: layers: expected 1 to 100000 layers, got 0");
  EXPECT_EQ(message_with("/layers/0/count", "100000"),
            "l.json: layers: expected 1 to 100000 layers, got 100001");
  EXPECT_EQ(message_of([] {
              return parse_layer_list(
                  R"({"schema":"ptdp.layers/1","name":"n","layers":[{"name":"a","time_s":0}]})",
                  "l.json");
            }),
            "l.json: layers: expected one or more that take time, got none");
}

// What a search over degrees needs, and what a list leaves to its defaults.
TEST(LayerList, SaysWhatASearchOverDegreesNeeds) {
  ordered_json document = small_document();
  EXPECT_EQ(
      message_of([&] { check_searchable(parse_layer_list(document.dump(), "l.json"), "l.json"); }),
      "l.json: embedding.parameters, embedding.activation_GiB, embedding.output_MiB and 8 "
      "more: missing; a search over degrees needs what each layer holds, keeps and hands on "
      "(`ptdp-plan partition` does not)");
  for (ordered_json* layer : {&document["embedding"], &document["layers"][0],
                              &document["layers"][1], &document["logits"]}) {
    (*layer)["parameters"] = 1.5e6;
    (*layer)["activation_GiB"] = 0.5;
  }
  document["layers"][1]["output_MiB"] = 3;
  document["output_MiB"] = 2;
  const LayerList list = parse_layer_list(document.dump(), "l.json");
  check_searchable(list, "l.json");
  EXPECT_EQ(list.tp, 1);
  EXPECT_EQ(list.micro_batch_size, 1);
  EXPECT_EQ(list.embedding->output, Bytes(2.0 * 1024 * 1024));
  EXPECT_EQ(list.layers[1].output, Bytes(3.0 * 1024 * 1024));
  EXPECT_EQ(list.layers[0].activations, gibibytes(0.5));
  EXPECT_EQ(list.layers[0].forward, Seconds(1.0));
  EXPECT_EQ(list.layers[1].forward, std::nullopt);
  EXPECT_EQ(list.weight_bytes, std::nullopt);
}

}  // namespace
}  // namespace ptdp
