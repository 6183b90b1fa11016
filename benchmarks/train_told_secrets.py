"""Trains the network that finds secrets told in passing (shared_core.privacy.told_secrets).

    python -m benchmarks.train_told_secrets [--judge] [--write]

Learns from benchmarks/data/secrets: labelled messages (train_*.jsonl, with variants that have other
values) and lines made of frames (benchmarks.secret_lines). The lines that train the reader and the
dialogue acts are harmless. Fits by AdaGrad (Duchi et al., 2011) with dropout (Srivastava et al.,
2014). --judge: prints the figures on judge_*.jsonl, which no fit has seen, at several least scores,
and last at those of the package. --write: puts the weights into
shared_core/privacy/told_secrets.v1.npz. Figures:

told     the share of secrets that are masked, with one token of them at least
whole    the share of secrets of which no part is left
lost     the share of harmless values that are masked or cut
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

import shared_core.privacy
from benchmarks.secret_lines import DATA, Line, Maker, from_frames, varied, words_of
from shared_core.privacy import told_secrets
from shared_core.privacy.told_secrets import BAG, BITS, SecretWeights, Token, features, tokens

WEIGHTS: Final = Path(shared_core.privacy.__file__).parent / "told_secrets.v1.npz"
OTHERS: Final = Path(__file__).parent
HIDDEN: Final = 6
RATE, EPOCHS, BATCH = 0.1, 8, 1024
DROPPED: Final = 0.2
"""The share of features that a step leaves out."""
PENALTY: Final = 1.6e-5
TIMES: Final = 3
"""Number of lines made of each frame."""
VARIANTS: Final = 2
"""Number of variants of each labelled message."""
FRAME_WEIGHT, HARMLESS_FRAME_WEIGHT = 0.12, 0.3
"""SecretWeights of a line made of a frame; that of a labelled message is 1."""
LEAST: Final = (-0.4, 0.3)
"""The least scores of a secret, in a text without and with Chinese characters."""
TRIED: Final = (-2.5, -2.0, -1.0, 0.0, 1.0, 1.5)
Numbers = NDArray[np.float32]


class Examples(NamedTuple):
    """N tokens with E features in all, token by token.

    bucket, value: (E,). first: (N + 1,) where the features of each begin. is_secret, weight: (N,)
    """

    bucket: NDArray[np.uint32]
    value: Numbers
    first: NDArray[np.int64]
    is_secret: Numbers
    weight: Numbers


def read(path: Path) -> list[Line]:
    """Return the labelled messages of a file. "keep" holds values of harmless ones."""
    rows = map(json.loads, path.read_text("utf-8").splitlines())
    return [Line(tuple(row["turns"]), tuple(row.get("secrets", ()))) for row in rows]


def sentences() -> list[Line]:
    """Return the sentences by which the rules of redaction are measured."""
    data = json.loads((DATA.parent / "redaction.json").read_text("utf-8"))
    told = [row for rows in data.values() for row in rows
            if row["secret"] is None or row["form"] not in ("card", "id")]  # fmt: skip
    return [Line((row["text"],), (row["secret"],) if row["secret"] else ()) for row in told]


def other_lines() -> list[str]:
    """Return harmless lines: those that train the reader, and the dialogue acts."""
    lines: list[str] = []
    for language in ("en", "zh"):
        text = (OTHERS / "reader" / f"corpus_{language}.txt").read_text("utf-8")
        lines += re.sub(r"\[-?\w+:([^\]\n]*)\]", r"\1", text).splitlines()
    for path in sorted((OTHERS / "data" / "acts").glob("train_*.tsv")):
        lines += [line.split("\t")[1] for line in path.read_text("utf-8").splitlines()]
    return lines


def places(text: str, value: str) -> list[tuple[int, int]]:
    """Return where a value stands in a text, and is no part of a longer word or number."""
    left = r"(?<![A-Za-z0-9])" if value[0].isascii() and value[0].isalnum() else ""
    right = r"(?![A-Za-z0-9])" if value[-1].isascii() and value[-1].isalnum() else ""
    return [found.span() for found in re.finditer(left + re.escape(value) + right, text)]


class Collector:
    """Collects the features of the tokens of lines."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        self._parts: list[tuple[NDArray[Any], NDArray[Any], bool, float]] = []

    def add(self, line: Line, share: float, weight: float) -> None:
        """Add a line. share: of its harmless plain words."""
        before = ""
        for turn in line.turns:
            found = tokens(turn)
            spans = [span for secret in line.secrets for span in places(turn, secret)]
            is_secret = np.array(
                [any(one.start < stop and start < one.stop for start, stop in spans)
                 for one in found], bool,
            )  # fmt: skip
            if found:
                self._add(found, told_secrets.tokens_before(turn, before), is_secret, share, weight)
            before = f"{before}\n{turn}"

    def _add(
        self, found: Sequence[Token], before: Sequence[Token], is_secret: NDArray[np.bool_],
        share: float, weight: float,
    ) -> None:  # fmt: skip
        told, count = features(found, before), len(found)
        is_word = (told.group == told_secrets.HAN_SIGN) | (told.group == told_secrets.WORD)
        chosen = ~is_word | (self._random.random(count) < share)
        earlier = BAG * max(1.0, len(told.before) / 4) ** -0.5
        for place in np.flatnonzero((told.group > told_secrets.NEVER) & (is_secret | chosen)):
            first = max(0, place - told_secrets.AROUND)
            bag = told.around[first : place + told_secrets.AROUND + 1]
            bucket = np.concatenate([told.near[place], bag.ravel(), told.before])
            value = np.ones(len(bucket), np.float32)
            value[told.near.shape[1] :] = BAG * len(bag) ** -0.5
            value[len(bucket) - len(told.before) :] = earlier
            self._parts.append((bucket, value, bool(is_secret[place]), weight))

    def done(self) -> Examples:
        """Return all tokens."""
        buckets, values, is_secret, weights = zip(*self._parts, strict=True)
        return Examples(
            np.concatenate(buckets),
            np.concatenate(values),
            np.concatenate([[0], np.cumsum([len(one) for one in buckets])]),
            np.array(is_secret, np.float32),
            np.array(weights, np.float32),
        )


def training_examples() -> Examples:
    """Return the tokens to learn from."""
    others = other_lines()
    make, collect = Maker(words_of(others), seed=3), Collector(seed=3)
    for language in ("en", "zh"):
        around = [line for line in others if line.isascii() == (language == "en")]
        for line in from_frames(make, language, TIMES, around):
            weight = FRAME_WEIGHT if line.secrets else HARMLESS_FRAME_WEIGHT
            collect.add(line, 0.3, weight)
        for path in sorted(DATA.glob(f"train_*_{language}.jsonl")):
            for line in read(path):
                collect.add(line, 1.0, 1.0)
                for number in range(VARIANTS if line.secrets else 1):
                    other = varied(make, line, other_shape=number % 2 == 0)
                    collect.add(other, 0.3, 1 / VARIANTS)
    for line in sentences():
        collect.add(line, 1.0, 1.0)
    for one in filter(told_secrets.may_tell, others):
        collect.add(Line((one,), ()), 0.05, 1.0)
    return collect.done()


class _AdaGrad:
    """Steps along slopes, each the shorter the more the numbers have moved."""

    def __init__(self, numbers: Numbers) -> None:
        self.numbers, self._moved = numbers, np.full_like(numbers, 1e-3)

    def step(self, slope: Numbers, rows: Any = ...) -> None:
        self._moved[rows] += slope * slope
        self.numbers[rows] -= RATE * slope / np.sqrt(self._moved[rows])


def fitted(told: Examples) -> SecretWeights:
    """Return the weights."""
    rng = np.random.default_rng(1)
    start = rng.normal(size=(1 << BITS, 1 + HIDDEN)).astype(np.float32) * 0.05
    is_known = np.bincount(told.bucket, minlength=1 << BITS) > 1
    start[:, 0], start[~is_known] = 0, 0
    constant = np.array([-3] + [0] * HIDDEN, np.float32)
    of_bucket, constants = _AdaGrad(start), _AdaGrad(constant)
    out = _AdaGrad(rng.normal(size=HIDDEN).astype(np.float32) * 0.5)
    for _ in range(EPOCHS):
        order = rng.permutation(len(told.is_secret))
        for begin in range(0, len(order), BATCH):
            chosen = order[begin : begin + BATCH]
            lengths = told.first[chosen + 1] - told.first[chosen]
            firsts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
            rows = np.repeat(told.first[chosen] - firsts, lengths) + np.arange(lengths.sum())
            bucket, value = told.bucket[rows], told.value[rows]
            value = value * (rng.random(len(value), dtype=np.float32) >= DROPPED)
            value /= np.float32(1 - DROPPED)
            weights = SecretWeights(of_bucket.numbers, constants.numbers, out.numbers, LEAST)
            sums = np.add.reduceat(weights.of_bucket[bucket] * value[:, None], firsts, axis=0)
            score, hidden = told_secrets.combined(sums, weights)
            wrong = told.weight[chosen] * (1 / (1 + np.exp(-score)) - told.is_secret[chosen])
            wrong *= 16 / len(chosen)
            inner = wrong[:, None] * out.numbers * (1 - hidden**2)
            slope = np.concatenate([wrong[:, None], inner * told_secrets.HIDDEN_SCALE], axis=1)
            sort = np.argsort(bucket, kind="stable")
            new = np.flatnonzero(np.diff(bucket[sort], prepend=-1))
            rows = np.repeat(np.arange(len(chosen)), lengths)[sort]
            slopes = np.add.reduceat(slope[rows] * value[sort, None], new, axis=0)
            known = is_known[found := bucket[sort][new]]
            of_bucket.step(slopes[known] + PENALTY * of_bucket.numbers[found[known]], found[known])
            constants.step(np.concatenate([[wrong.sum()], inner.sum(axis=0)]).astype(np.float32))
            out.step((hidden.T @ wrong).astype(np.float32))
    return SecretWeights(of_bucket.numbers, constants.numbers, out.numbers, LEAST)


def rounded(weights: SecretWeights) -> tuple[NDArray[np.int8], Numbers]:
    """Return the weights of buckets as whole numbers to 127, and the worth of one by column."""
    unit = np.maximum(np.abs(weights.of_bucket).max(axis=0), 1e-9) / 127
    return np.round(weights.of_bucket / unit).astype(np.int8), unit.astype(np.float32)


def masked(weights: SecretWeights, line: Line) -> list[str]:
    """Return the messages of a line with marks in the place of secrets."""
    done: list[str] = []
    for turn in line.turns:
        text, end = "", 0
        for start, stop in told_secrets.told_secrets(turn, "\n".join(done[-2:]), weights):
            text, end = f"{text}{turn[end:start]}[REDACTED: password]", stop
        done.append(text + turn[end:])
    return done


def figures(weights: SecretWeights, language: str) -> dict[str, float]:
    """Return the figures on the judge's lines of a language."""
    told = whole = secrets = lost = values = 0
    for line in read(DATA / f"judge_secrets_{language}.jsonl"):
        text = "\n".join(masked(weights, line))
        parts = [re.findall(r"[A-Za-z]{3,}|\d+|[\u4e00-\u9fff]", one) for one in line.secrets]
        told += sum(not places(text, one) for one in line.secrets)
        whole += sum(not any(places(text, part) for part in one) for one in parts)
        secrets += len(line.secrets)
    harmless = (DATA / f"judge_harmless_{language}.jsonl").read_text("utf-8").splitlines()
    for row in map(json.loads, harmless):
        text = "\n".join(masked(weights, Line(tuple(row["turns"]), ())))
        lost += sum(one not in text for one in row["keep"])
        values += len(row["keep"])
    share = partial(round, ndigits=3)
    return {"secrets": secrets, "told": share(told / secrets), "whole": share(whole / secrets),
            "harmless": values, "lost": share(lost / values)}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description="Trains the weights of secrets told in passing.")
    parser.add_argument("--judge", action="store_true", help="look at the lines of judgement")
    parser.add_argument("--write", action="store_true", help="write the weights")
    given = parser.parse_args()
    weights = fitted(training_examples())
    whole, unit = rounded(weights)
    weights = weights._replace(of_bucket=whole * unit)
    for least in (*((one, one) for one in TRIED), LEAST) if given.judge else ():
        for language in ("en", "zh"):
            tried = weights._replace(least=least)
            print(least, language, json.dumps(figures(tried, language)))
    if given.write:
        known = np.flatnonzero(whole.any(axis=1))
        np.savez_compressed(
            WEIGHTS,
            # Steps between buckets are smaller numbers than the buckets, and compress better.
            steps=np.diff(known, prepend=0).astype(np.uint16),
            weights=np.ascontiguousarray(whole[known].T),
            scale=unit, constant=weights.constant, out=weights.out,
            least=np.array(LEAST, np.float32),
        )  # fmt: skip


if __name__ == "__main__":
    main()
