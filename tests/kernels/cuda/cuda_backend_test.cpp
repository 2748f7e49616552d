// Memory, lanes, events and graphs of a GPU's backend.
#include <gmock/gmock.h>

#include <array>
#include <stdexcept>
#include <thread>

#include "kernels/cuda/cuda_backend.h"
#include "tests/kernels/tested_backend.h"

namespace ptdp {
namespace {

class CudaBackend : public OnBackend {
 protected:
  [[nodiscard]] Backend& gpu() const { return backend(); }
};

TEST_F(CudaBackend, CountsWhatIsAskedFor) {
  const std::int64_t before = gpu().bytes_in_use();
  {
    const Tensor a(gpu(), DataType::kFloat32, 100);
    const Tensor b(gpu(), DataType::kBFloat16, 7);
    const Tensor none(gpu(), DataType::kFloat32, 0);
    EXPECT_EQ(gpu().bytes_in_use() - before, 414);
  }
  EXPECT_EQ(gpu().bytes_in_use(), before);
  EXPECT_GE(gpu().peak_bytes(), before + 414);
}

// Blocks of one segment: the two halves of a block that was released are handed out again, joined.
TEST_F(CudaBackend, JoinsReleasedMemory) {
  constexpr std::int64_t half = 4 << 20U;
  Tensor first(gpu(), DataType::kFloat32, half / 4);
  Tensor second(gpu(), DataType::kFloat32, half / 4);
  const void* const place = std::min(first.buffer().data, second.buffer().data);
  first.reset();
  second.reset();
  const Tensor whole(gpu(), DataType::kFloat32, half / 2);
  EXPECT_EQ(whole.buffer().data, place);
}

TEST_F(CudaBackend, KeepsBlocksApart) {
  constexpr int num_blocks = 40;
  std::vector<Tensor> blocks;
  for (int i = 0; i < num_blocks; ++i) {
    blocks.emplace_back(gpu(), DataType::kFloat32, 1 + 37 * i);
    gpu().fill(blocks.back(), i);
    if (i % 3 == 0) {
      blocks[static_cast<std::size_t>(i / 2)].reset();
    }
  }
  for (int i = 0; i < num_blocks; ++i) {
    const Tensor& block = blocks[static_cast<std::size_t>(i)];
    if (!block.empty()) {
      EXPECT_EQ(get(block), Values(static_cast<std::size_t>(1 + 37 * i), i)) << i;
    }
  }
}

TEST_F(CudaBackend, SaysHowMuchMemoryIsMissing) {
  try {
    const Tensor tensor(gpu(), DataType::kFloat32, std::int64_t{1} << 50U);
    FAIL() << "allocated";
  } catch (const OutOfMemory& error) {
    EXPECT_NE(std::string(error.what()).find("4503599627370496 bytes asked for"), std::string::npos)
        << error.what();
  }
  EXPECT_EQ(get(put(DataType::kFloat32, {1.0})), Values{1.0});
}

// Lane 1 overwrites what lane 0 wrote only because it waits for it.
TEST_F(CudaBackend, OrdersLanesByEvents) {
  const Tensor tensor(gpu(), DataType::kFloat32, 1 << 20U);
  gpu().fill(tensor, 1.0);
  const Event filled = gpu().record();
  gpu().use_lane(1);
  gpu().wait(filled);
  gpu().scale(tensor, 2.0);
  const Event scaled = gpu().record();
  gpu().use_lane(0);
  gpu().wait(scaled);
  gpu().scale(tensor, 3.0);
  EXPECT_EQ(get(tensor.buffer().slice(0, 2)), Values({6.0, 6.0}));
}

// A block that lane 1 released while lane 0 had not yet read it would be overwritten.
TEST_F(CudaBackend, HandsMemoryFromLaneToLaneInOrder) {
  constexpr std::int64_t size = 1 << 20U;
  const Tensor result(gpu(), DataType::kFloat32, size);
  auto source = std::make_unique<Tensor>(gpu(), DataType::kFloat32, size);
  gpu().fill(*source, 1.0);
  const void* const place = source->buffer().data;
  gpu().copy(*source, result);
  source.reset();  // on lane 0, whose copy is still queued
  gpu().use_lane(1);
  const Tensor reused(gpu(), DataType::kFloat32, size);
  EXPECT_EQ(reused.buffer().data, place);
  gpu().fill(reused, 2.0);
  gpu().synchronize();
  gpu().use_lane(0);
  EXPECT_EQ(get(result.buffer().slice(0, 1)), Values{1.0});
}

TEST_F(CudaBackend, OrdersTheLanesOfTwoRanksOnOneGpu) {
  const std::unique_ptr<Backend> other = make_cuda_backend({});
  const Tensor tensor(gpu(), DataType::kFloat32, 1 << 20U);
  gpu().fill(tensor, 1.0);
  const Event filled = gpu().record();
  Event doubled;
  std::thread([&] {
    other->use_lane(0);
    other->wait(filled);
    other->scale(tensor, 2.0);
    doubled = other->record();
  }).join();
  gpu().wait(doubled);
  EXPECT_EQ(get(tensor.buffer().slice(0, 1)), Values{2.0});
}

TEST_F(CudaBackend, OrdersLanesByMarksThatTellNoTime) {
  const Tensor x(gpu(), DataType::kFloat32, 1);
  gpu().fill(x, 1.0);
  const Event mark = gpu().mark();
  gpu().use_lane(1);
  gpu().wait(mark);
  gpu().add(x, x);
  gpu().synchronize();
  gpu().use_lane(0);
  EXPECT_THAT([&] { static_cast<void>(gpu().seconds_between(mark, gpu().record())); },
              testing::Throws<std::runtime_error>());
}

TEST(CudaBackendAhead, TellsWhenItWaitsForItsGpu) {
  if (num_cuda_devices() == 0) {
    GTEST_SKIP() << "no GPU";
  }
  const std::unique_ptr<Backend> own = make_cuda_backend({.most_operations_ahead = 4});
  // A GPU takes longer to fill this than its host to ask for it; an emulated one is as late as it
  // may be.
  const Tensor x(*own, DataType::kFloat32, bounds_each_element() ? 16 : 64 << 20);
  std::vector<bool> told;
  own->tell_waits([&](bool begins) { told.push_back(begins); });
  for (int i = 0; i < 40; ++i) {
    own->fill(x, i);
  }
  ASSERT_GE(told.size(), 2U);
  for (std::size_t i = 0; i < told.size(); ++i) {
    EXPECT_EQ(told[i], i % 2 == 0) << i;
  }
}

// NCCL asks for the lane and queues on it, unseen by the backend: ten times between two fills.
TEST(CudaBackendAhead, CountsWhatLibrariesQueue) {
  if (num_cuda_devices() == 0) {
    GTEST_SKIP() << "no GPU";
  }
  const std::unique_ptr<Backend> own = make_cuda_backend({.most_operations_ahead = 40});
  const Tensor x(*own, DataType::kFloat32, bounds_each_element() ? 16 : 64 << 20);
  int waits = 0;
  own->tell_waits([&](bool begins) { waits += begins ? 1 : 0; });
  for (int i = 0; i < 4; ++i) {
    own->fill(x, i);
    for (int call = 0; call < 10; ++call) {
      EXPECT_NE(own->native_lane(), nullptr);
    }
  }
  EXPECT_GE(waits, 1);
}

TEST_F(CudaBackend, SaysWhatOthersTakeOfTheMemory) {
  const std::int64_t before = gpu().bytes_beside();
  EXPECT_GE(before, 0);
  const Tensor large(gpu(), DataType::kFloat32, 16 << 20);
  if (bounds_each_element()) {  // Nobody else uses the emulated GPU.
    EXPECT_EQ(gpu().bytes_beside(), before);
  }
}

TEST_F(CudaBackend, TimesWhatLiesBetweenEvents) {
  const Tensor tensor(gpu(), DataType::kFloat32, 1 << 22U);
  const Event before = gpu().record();
  gpu().fill(tensor, 1.0);
  const Event after = gpu().record();
  EXPECT_GT(gpu().seconds_between(before, after), 0.0);
  EXPECT_LE(gpu().seconds_between(after, before), 0.0);
  EXPECT_GE(after.nanoseconds, before.nanoseconds);
}

// The second and later calls are graphs, of other arguments each time.
TEST_F(CudaBackend, RunsGraphsWithTheArgumentsOfEachCall) {
  const std::unique_ptr<Backend> graphing = make_cuda_backend({.uses_graphs = true});
  const Tensor sum(*graphing, DataType::kFloat32, 3);
  graphing->fill(sum, 0.0);
  Event start;
  Event end;
  for (int call = 1; call <= 4; ++call) {
    graphing->run_as_graph(7, [&] {
      const Tensor term(*graphing, DataType::kFloat32, 3);
      start = graphing->record();
      graphing->fill(term, call);
      graphing->add(term, sum);
      end = graphing->record();
    });
  }
  std::array<float, 3> result{};
  graphing->copy_out(sum, result.data());
  EXPECT_EQ(result, (std::array<float, 3>{10.0F, 10.0F, 10.0F}));
  EXPECT_GE(graphing->seconds_between(start, end), 0.0);
}

TEST_F(CudaBackend, MakesAnotherGraphWhereTheOperationsDiffer) {
  const std::unique_ptr<Backend> graphing = make_cuda_backend({.uses_graphs = true});
  const Tensor x(*graphing, DataType::kFloat32, 1);
  graphing->fill(x, 1.0);
  for (int call = 0; call < 6; ++call) {
    graphing->run_as_graph(1, [&] {
      graphing->scale(x, 2.0);
      if (call % 2 == 1) {
        graphing->add(x, x);
      }
    });
  }
  float result = 0.0F;
  graphing->copy_out(x, &result);
  EXPECT_EQ(result, 512.0F);  // 2^6 · 2^3
}

// What another lane released is waited for by an event, which a graph would look at too late.
TEST_F(CudaBackend, ExchangesNoMemoryWithOtherLanesInAGraph) {
  const std::unique_ptr<Backend> graphing = make_cuda_backend({.uses_graphs = true});
  const auto place_of_block = [&] {
    const Tensor block(*graphing, DataType::kFloat32, 1000);
    graphing->fill(block, 1.0);
    return block.buffer().data;
  };
  void* in_graph = nullptr;
  graphing->run_as_graph(1, [&] { in_graph = place_of_block(); });
  graphing->use_lane(1);
  const void* const of_other = place_of_block();
  graphing->use_lane(0);
  EXPECT_EQ(place_of_block(), of_other);
  graphing->use_lane(1);
  EXPECT_EQ(place_of_block(), of_other);
  graphing->use_lane(0);
  graphing->run_as_graph(1, [&] { in_graph = place_of_block(); });
  EXPECT_NE(in_graph, of_other);
}

TEST_F(CudaBackend, PassesOnWhatIsThrownWhileAGraphIsMade) {
  const std::unique_ptr<Backend> graphing = make_cuda_backend({.uses_graphs = true});
  const Tensor x(*graphing, DataType::kFloat32, 1);
  graphing->run_as_graph(1, [&] { graphing->fill(x, 1.0); });
  EXPECT_THROW(graphing->run_as_graph(1,
                                      [&] {
                                        graphing->fill(x, 2.0);
                                        throw std::runtime_error("fault");
                                      }),
               std::runtime_error);
  graphing->run_as_graph(1, [&] { graphing->scale(x, 3.0); });
  float result = 0.0F;
  graphing->copy_out(x, &result);
  EXPECT_EQ(result, 3.0F);
}

}  // namespace
}  // namespace ptdp
