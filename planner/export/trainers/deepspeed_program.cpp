// The program that starts Megatron-DeepSpeed on made-up tokens.
#include "planner/export/trainers/mock_programs.h"

namespace ptdp {

const std::string_view kDeepspeedPretrain =
    R"python("""Starts pretrain_gpt.py of the Megatron-DeepSpeed that the first argument names.

Without --data-path, the first process writes a corpus of made-up tokens, which all must see."""

import array
import os
import random
import runpy
import struct
import sys
import time


def write_corpus(prefix, vocabulary, documents=64, tokens=65536):
    """Writes .bin and .idx as megatron/data/indexed_dataset.py reads them: int32 tokens, version 1."""
    numbers = random.Random(1234)
    with open(prefix + ".bin", "wb") as out:
        for _ in range(documents):
            array.array("i", (numbers.randrange(vocabulary) for _ in range(tokens))).tofile(out)
    with open(prefix + ".idx.part", "wb") as out:
        out.write(b"MMIDIDX\x00\x00" + struct.pack("<QBQQ", 1, 4, documents, documents + 1))
        array.array("i", [tokens] * documents).tofile(out)
        array.array("q", [4 * tokens * i for i in range(documents)]).tofile(out)
        array.array("q", range(documents + 1)).tofile(out)
    os.replace(prefix + ".idx.part", prefix + ".idx")  # the others wait for this file


if __name__ == "__main__":
    program = os.path.join(os.path.abspath(sys.argv.pop(1)), "pretrain_gpt.py")
    if "--data-path" not in sys.argv:
        prefix = os.path.join(os.path.dirname(os.path.abspath(__file__)), "made_up_tokens")
        if os.environ["RANK"] == "0" and not os.path.exists(prefix + ".idx"):
            write_corpus(prefix, int(sys.argv[sys.argv.index("--vocab-size") + 1]))
        while not os.path.exists(prefix + ".idx"):
            time.sleep(1)
        sys.argv += ["--data-path", prefix, "--split", "100,0,0"]
    sys.argv[0] = program
    sys.path.insert(0, os.path.dirname(program))
    runpy.run_path(program, run_name="__main__")
)python";

}  // namespace ptdp
