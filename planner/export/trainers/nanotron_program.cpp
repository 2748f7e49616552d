// The program that trains with nanotron on made-up tokens.
#include "planner/export/trainers/mock_programs.h"

namespace ptdp {

const std::string_view kNanotronTrain =
    R"python("""Trains nanotron 0.4 as config.yaml says, on made-up tokens, with the plan's layers per stage."""

import argparse
import itertools
import json
import logging as standard_logging
import os
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


class PlannedCosts:
    """Stands for the costs of the model's parts: a rank ends with the part by which the costs so far
    exceed its share. nanotron asks once for each part: embedding, layers, norm, logits, loss."""

    def __init__(self, layers):
        ends = list(itertools.accumulate(layers))[:-1]
        costs = [0.0] * (1 + sum(layers)) + [0.5 if ends else 1.0]
        for end in ends:  # a share is 1, and these sums are 1.5, 2.5 ...
            costs[end] = 1.5 if end == ends[0] else 1.0
        self.costs = iter(costs)

    def __contains__(self, part):
        return True

    def __getitem__(self, part):
        return next(self.costs, 0.0)


sys.modules["nanotron.logging"] = Later("nanotron.logging")
import nanotron.config  # noqa: E402

del sys.modules["nanotron.logging"]
import nanotron.logging  # noqa: E402
from nanotron.dataloader import dummy_infinite_data_generator  # noqa: E402
from nanotron.models.llama import LlamaForTraining  # noqa: E402
from nanotron.trainer import DistributedTrainer  # noqa: E402

if __name__ == "__main__":
    here = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(here, "layers_per_stage.json")) as file:
        layers = json.load(file)
    LlamaForTraining.get_block_compute_costs = lambda model: PlannedCosts(layers)
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
