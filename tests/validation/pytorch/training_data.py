"""The samples that runtime/data/training_data.h draws, from files of tokens and from the synthetic
language."""

import numpy as np

MASK = 0xFFFFFFFF


def philox(key, counter):
    """Philox4x32-10 (Salmon et al., SC11) of a 64-bit counter."""
    x = [counter & MASK, counter >> 32, 0, 0]
    k0, k1 = key & MASK, key >> 32
    for _ in range(10):
        a, b = 0xD2511F53 * x[0], 0xCD9E8D57 * x[2]
        x = [(b >> 32) ^ x[1] ^ k0, b & MASK, (a >> 32) ^ x[3] ^ k1, a & MASK]
        k0, k1 = (k0 + 0x9E3779B9) & MASK, (k1 + 0xBB67AE85) & MASK
    return x


def derived_key(key, number):
    x = philox(key, number)
    return x[0] << 32 | x[1]


class TokenFile:
    """Windows of a file of nanoGPT's or llm.c's."""

    def __init__(self, path, seed):
        self.tokens = np.fromfile(path, "<u2")
        if self.tokens[:2].view("<i4")[0] == 20240520:
            self.tokens = self.tokens[512:]
        self.key = derived_key(seed, 0x77696E64)

    def sample(self, number, seq_length):
        windows = len(self.tokens) - seq_length
        first = derived_key(self.key, number) * windows >> 64
        return self.tokens[first:first + seq_length + 1].astype(np.int64)


class SyntheticLanguage:
    """The Markov chain of runtime/data/synthetic_language.h; four tokens at least."""

    PROBABILITIES = (0.55, 0.25, 0.15, 0.05)

    def __init__(self, vocab_size, seed):
        self.vocab_size = vocab_size
        self.thresholds = [round(p * 2**32) for p in np.cumsum(self.PROBABILITIES)]
        self.key = derived_key(seed, 0x74657874)
        key = derived_key(seed, 0x73756363)
        self.successors = [self.choose(philox(key, token)) for token in range(vocab_size)]

    def choose(self, words):
        left = list(range(self.vocab_size))
        return [left.pop(word * len(left) >> 32) for word in words]

    def sample(self, number, seq_length):
        key = derived_key(self.key, number)
        words = [word for block in range(seq_length // 4 + 1) for word in philox(key, block)]
        tokens = [words[0] * self.vocab_size >> 32]
        for word in words[1:seq_length + 1]:
            j = sum(word >= threshold for threshold in self.thresholds)
            tokens.append(self.successors[tokens[-1]][j])
        return np.array(tokens)
