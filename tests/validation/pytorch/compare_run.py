#!/usr/bin/env python3
"""Trains in PyTorch what ptdp-run trained, without dropout: from a checkpoint of that run, on the
same tokens, and prints how far the losses of both are apart. Exit status 1 beyond --tolerance.

  ptdp-run plan.json --save DIR --save-every 5 --steps 20 --dropout 0 --data tokens.bin -o run.json
  compare_run.py --checkpoint DIR/step-00000005 --losses run.json --data tokens.bin \\
      --global-batch 8 --lr 6e-4 --min-lr 6e-5 --decay-steps 20 --weight-decay 0.1 --clip 1"""

import argparse
import json
import pathlib
import sys

import torch

import gpt2
from read_checkpoint import read_checkpoint
from training_data import SyntheticLanguage, TokenFile


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--checkpoint", required=True, help="of the step before the first loss that is compared")
    add("--losses", required=True, help='run.json, or any JSON with a list "losses"')
    add("--first-loss", type=int, default=0, help="the step of the first loss there, from 0")
    add("--data", help="a file of tokens; else the synthetic language")
    add("--global-batch", type=int, required=True)
    add("--lr", type=float, required=True)
    add("--min-lr", type=float, default=0.0)
    add("--warm-up", type=int, default=0)
    add("--decay-steps", type=int, default=0, help="0: no decay")
    add("--beta1", type=float, default=0.9)
    add("--beta2", type=float, default=0.95)
    add("--epsilon", type=float, default=1e-8)
    add("--weight-decay", type=float, default=0.0)
    add("--clip", type=float, default=0.0, help="0: no clipping")
    add("--dtype", choices=["f64", "f32"], default="f64")
    add("--tolerance", type=float, help="of the largest relative difference")
    return parser.parse_args()


def load(directory, arguments):
    """Model, optimizer and manifest, as the checkpoint has them."""
    manifest, states = read_checkpoint(directory)
    dtype = {"f64": torch.float64, "f32": torch.float32}[arguments.dtype]
    model = gpt2.GPT2(manifest["model"]).to(dtype)
    parameters = model.parameters_by_name()
    if parameters.keys() != states.keys():
        sys.exit(f"{directory}: parameters differ: {sorted(parameters.keys() ^ states.keys())}")
    optimizer = gpt2.adamw(list(parameters.values()), arguments.beta1, arguments.beta2,
                           arguments.epsilon, arguments.weight_decay)
    for name, parameter in parameters.items():
        master, moment1, moment2 = (
            torch.tensor(state).reshape(parameter.shape).to(dtype) for state in states[name])
        with torch.no_grad():
            parameter.copy_(master)
        optimizer.state[parameter] = {"step": torch.tensor(float(manifest["optimizer_steps"])),
                                      "exp_avg": moment1, "exp_avg_sq": moment2}
    return model, optimizer, manifest


def main():
    arguments = parse_arguments()
    model, optimizer, manifest = load(arguments.checkpoint, arguments)
    losses = json.loads(pathlib.Path(arguments.losses).read_text())["losses"]
    seed = manifest["seed"] % 2**64
    seq_length = manifest["model"]["seq_length"]
    source = (TokenFile(arguments.data, seed) if arguments.data
              else SyntheticLanguage(manifest["model"]["vocab_size"], seed))

    largest = 0.0
    sample = manifest["next_sample"]
    print("step  ptdp                 PyTorch              relative difference")
    for step in range(manifest["step"], arguments.first_loss + len(losses)):
        text = torch.stack([torch.from_numpy(source.sample(sample + i, seq_length))
                            for i in range(arguments.global_batch)])
        sample += arguments.global_batch
        rate = gpt2.learning_rate(step + 1, arguments.lr, arguments.min_lr, arguments.warm_up,
                                  arguments.decay_steps)
        loss, _ = gpt2.train_step(model, optimizer, rate, arguments.clip,
                                  text[:, :-1], text[:, 1:])
        found = losses[step - arguments.first_loss]
        difference = abs(found - loss) / abs(loss)
        largest = max(largest, difference)
        print(f"{step + 1:4}  {found:<20.16g} {loss:<20.16g} {difference:.2e}")
    print(f"largest relative difference: {largest:.3g}")
    if arguments.tolerance is not None and not largest <= arguments.tolerance:
        sys.exit(1)


if __name__ == "__main__":
    main()
