// Tests of finding a program's arguments and its number of GPUs.
#include "planner/import/launched_program.h"

#include <gmock/gmock.h>

#include "cost_model/error.h"

namespace ptdp {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

LaunchedProgram found_in(const std::string& text) {
  return find_program(text, {"--num-layers", "--hidden-size", "--seq-length"}, "launch.sh");
}

TEST(FindProgram, SplitsTheLauncherFromTheProgram) {
  const LaunchedProgram program = found_in(
      "ARGS=\"--num-layers 2\"\n"
      "ARGS+=\" --hidden-size=64\"\n"
      "torchrun --nnodes 4 --nproc_per_node=8 pretrain_gpt.py $ARGS --bf16\n");
  EXPECT_THAT(program.words, ElementsAre("--num-layers", "2", "--hidden-size=64", "--bf16"));
  EXPECT_EQ(program.gpus, 32);
}

TEST(FindProgram, CountsGpusOfEveryLauncher) {
  const std::string run = " a.py --num-layers 2 --hidden-size 64\n";
  struct Row {
    std::string text;
    std::int64_t gpus;
  };
  for (const Row& row : std::vector<Row>{
           {"#SBATCH --nodes=4\n#SBATCH --gres=gpu:a100:8\nsrun python" + run, 32},
           {"#SBATCH -N 2 # two\n#SBATCH --ntasks-per-node=4\nsrun python" + run, 8},
           {"#SBATCH --nodes=4\ntorchrun --nnodes $SLURM_NNODES --nproc-per-node 8" + run, 32},
           {"mpirun -np 16 python" + run, 16},
           {"srun --nodes=2 --ntasks-per-node=8 python" + run, 16},
           {"deepspeed --num_nodes 2 --num_gpus 4" + run, 8},
           {"torchrun --nproc_per_node 8" + run, 8},
           {"N=2; WORLD_SIZE=$((N*8)); python" + run, 16},
           {"WORLD_SIZE=4 python" + run, 4},
           {"WORLD_SIZE=4 true; python" + run, 0},
           {"srun --ntasks=4 torchrun --nnodes 4 --nproc_per_node=gpu" + run, 0},
           {"srun -n 2 torchrun --nnodes 2 --nproc-per-node $(nvidia-smi -L | wc -l)" + run, 0},
           {"#SBATCH --gres=gpu:8\n#SBATCH --nodes=4\nsrun -n 4 torchrun --nproc_per_node gpu" +
                run,
            32},
           {"#SBATCH --gpus-per-node=4\nsrun -N 2 -n 2 deepspeed --num_gpus=$(nproc)" + run, 8},
           {"#SBATCH --gres=gpu:8\nsrun -n 4 torchrun --nproc_per_node gpu" + run, 0},
           {"python" + run, 0}}) {
    EXPECT_EQ(found_in(row.text).gpus, row.gpus) << row.text;
  }
}

TEST(FindProgram, SaysWhichTurnOfALoopIsRead) {
  const std::string loop = "for N in 2 4; do\npython a.py --num-layers $N --hidden-size 64\ndone\n";
  EXPECT_THAT(found_in(loop).words, ElementsAre("--num-layers", "2", "--hidden-size", "64"));
  EXPECT_THAT(found_in(loop).notes,
              ElementsAre("line 2 runs in several turns with different arguments; the first turn "
                          "is read"));
  EXPECT_THAT(found_in(loop + "python b.py --num-layers 1 --hidden-size 64\n").notes,
              ElementsAre("line 4 starts something else; line 2 is read", HasSubstr("first turn")));
  EXPECT_THAT(found_in("for X in '' '--seq-length 8'; do\n"
                       "python a.py --num-layers 2 --hidden-size 64 $X\ndone\n")
                  .notes,
              ElementsAre(HasSubstr("; a later turn, with more known arguments, is read")));
}

TEST(FindProgram, ReadsArgumentsAlone) {
  EXPECT_THAT(
      found_in("--num-layers 2\n# --num-layers 4\n--hidden-size 64 \\\n--x '(1, 0)'\n").words,
      ElementsAre("--num-layers", "2", "--hidden-size", "64", "--x", "(1, 0)"));
}

TEST(FindProgram, ReadsTheListOfALog) {
  const LaunchedProgram program = found_in(
      "[default0]:------------ arguments ------------\n"
      "  add_bias_linear ........................... False\n"
      "  bf16 ...................................... True\n"
      "  cp_comm_type .............................. ['p2p']\n"
      "  fp16 ...................................... False\n"
      "  hidden_size ............................... 64\n"
      "  kv_channels ............................... None\n"
      "  num_layers ................................ 2\n"
      "  seq_length ................................ 128\n"
      "  lr ........................................ 0.0001\n"
      "  virtual_pipeline_model_parallel_size ...... 2\n"
      "  world_size ................................ 16\n");
  EXPECT_TRUE(program.is_dump);
  EXPECT_EQ(program.gpus, 16);
  EXPECT_THAT(program.words,
              ElementsAre("--disable-bias-linear", "--bf16", "--cp-comm-type", "p2p",
                          "--hidden-size", "64", "--num-layers", "2", "--seq-length", "128", "--lr",
                          "0.0001", "--num-virtual-stages-per-pipeline-rank", "2"));
}

TEST(FindProgram, LooksIntoHereDocumentsAndQuotedCommands) {
  EXPECT_EQ(found_in("L=2\ncat <<EOF > x.sh\npython a.py --num-layers $L --hidden-size 6\nEOF\n")
                .words[1],
            "2");
  EXPECT_EQ(found_in("ssh host \"python a.py --num-layers 3 --hidden-size 6\"\n").words[1], "3");
}

TEST(FindProgram, SaysWhereThereIsNone) {
  try {
    static_cast<void>(found_in("echo hello\n"));
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("launch.sh: no command"));
  }
}

// What Slurm sets for a job is known from its own lines; the script may change it.
TEST(LaunchedProgram, HasTheVariablesThatSlurmSets) {
  const LaunchedProgram program = find_program(
      "#SBATCH --nodes=4\n#SBATCH --gpus-per-node=8\n#SBATCH --ntasks-per-node=8\n"
      "python train.py --num-layers $SLURM_NNODES --hidden-size $SLURM_GPUS_PER_NODE "
      "--seq-length $SLURM_NTASKS\n",
      {"--num-layers", "--hidden-size", "--seq-length"}, "job.slurm");
  EXPECT_EQ(program.gpus, 32);
  EXPECT_THAT(program.words, testing::ElementsAre("--num-layers", "4", "--hidden-size", "8",
                                                  "--seq-length", "32"));
}

}  // namespace
}  // namespace ptdp
