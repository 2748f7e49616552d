// The program that trains with nanotron on made-up tokens.
#include "planner/export/trainers/mock_programs.h"

namespace ptdp {

const std::string_view kNanotronTrain =
    R"python("""Trains nanotron 0.4 as config.yaml says, on made-up tokens."""

import argparse
import logging as standard_logging
import sys
import types


class Later(types.ModuleType):
    """Stands for nanotron.logging while nanotron.config is imported: the wheel's modules ask for
    one another in a circle. Functions taken from it call the real ones."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        if name == "get_logger":
            return standard_logging.getLogger
        if name.isupper():
            return getattr(standard_logging, name)
        return lambda *args, **kwargs: getattr(sys.modules["nanotron.logging"], name)(*args, **kwargs)


sys.modules["nanotron.logging"] = Later("nanotron.logging")
import nanotron.config  # noqa: E402

del sys.modules["nanotron.logging"]
import nanotron.logging  # noqa: E402
from nanotron.dataloader import dummy_infinite_data_generator  # noqa: E402
from nanotron.trainer import DistributedTrainer  # noqa: E402

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--config-file", required=True)
    trainer = DistributedTrainer(parser.parse_args().config_file)
    trainer.train(
        dummy_infinite_data_generator(
            micro_batch_size=trainer.micro_batch_size,
            sequence_length=trainer.sequence_length,
            input_pp_rank=trainer.unwrapped_model.input_pp_rank,
            output_pp_rank=trainer.unwrapped_model.output_pp_rank,
            vocab_size=trainer.model_config.vocab_size,
            seed=trainer.config.data.seed,
            parallel_context=trainer.parallel_context,
        )()
    )
)python";

}  // namespace ptdp
