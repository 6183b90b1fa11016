"""Trains who vouches for a value (shared_core/nlp/vouching.py).

    python -m benchmarks.reader.train_vouching [--lang en] [--write]

Examples are the labelled values of corpus_<lang>.txt, what it names of health without a label,
the turns of vouched_<lang>.txt, and turns composed of the parts in clauses_<lang>.txt. Prints the
figures of a quarter of vouched_<lang>.txt that this fit left out: the values of each kind, and
those taken as the user's own. --write: fits all and writes shared_core/nlp/vouching_<lang>.npz.
"""

from __future__ import annotations

import argparse
import random
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.reader.corpus import corpus
from benchmarks.reader.generate import Labelled, read, sections
from shared_core.nlp.text import Language
from shared_core.nlp.vouching import BUCKETS, STRICT_OWN, Voucher, buckets

PACKAGE: Final = Path(__file__).parents[2] / "shared_core" / "nlp"
MARK: Final = re.compile(r"\[(-?[a-z_]+|[!~]):([^\[\]]+)\]")
OWN, OTHER, VOID, OVER = range(len(Voucher._fields))
NAMES: Final = frozenset(["kin", "kin_name", "pet_name"])
"""Labels of people, of whom nothing is said."""
HEALTH: Final = frozenset(["health", "allergy", "medication", "diet", "trait"])
COMPOSED: Final = 16_000
EPOCHS: Final = 10
BATCH: Final = 64
RATE: Final = 0.1
DECAY: Final = 1e-3
SEED: Final = 7
LEAST_WEIGHT: Final = 0.012
"""Weights below are not stored."""
WEIGHTS: Final = {"health": 3.0, "value": 0.5, "named": 1.0, "written": 4.0, "composed": 1.0}
"""How much an example counts, by where it comes from."""
SPACE: Final[dict[Language, str]] = {"en": " ", "zh": ""}
JOINTS: Final[dict[Language, Sequence[str]]] = {
    "en": [", but ", ". ", "; "], "zh": ["，但", "，其实", "。", "，不过"],
}  # fmt: skip
SELF: Final[dict[Language, str]] = {"en": "", "zh": "我"}
"""How a clause about the user begins behind one about somebody else."""
FILLED: Final[dict[Language, str]] = {"en": "asthma", "zh": "哮喘"}
"""What stands in the first of two clauses, whose value is not asked for."""
VALUE: Final = "qzvx"


class Example(NamedTuple):
    """A value in a turn: its place, who vouches for it, and how much that counts."""

    text: str
    start: int
    end: int
    voucher: int
    weight: float


def parsed(line: str) -> Labelled:
    """Return a line of vouched_<lang>.txt."""
    text, spans, at = "", [], 0
    for match in MARK.finditer(line):
        text += line[at : match.start()]
        spans.append((match[1], len(text), len(text) + len(match[2])))
        text, at = text + match[2], match.end()
    return Labelled(text + line[at:], tuple(spans))


def of_turn(turn: Labelled, *, written: bool) -> Iterator[Example]:
    """Yield the examples of a labelled turn."""
    for name, start, end in turn.spans:
        slot = name.removeprefix("-").removeprefix("kin_")
        weight = WEIGHTS["health" if slot in HEALTH else "value"]
        if name not in NAMES:
            kind = {"!": VOID, "~": OTHER}.get(name, OVER if name[0] == "-" else OWN)
            kind = OTHER if name.startswith("kin_") else kind
            yield Example(turn.text, start, end, kind, WEIGHTS["written"] if written else weight)


def named(turns: Sequence[Labelled]) -> Iterator[Example]:
    """Yield what turns name of health without a label: questions, sayings, strangers."""
    words = {
        turn.text[start:end].casefold()
        for turn in turns
        for name, start, end in turn.spans
        if name.removeprefix("-").removeprefix("kin_") in HEALTH - {"trait"}
    }
    known = sorted(
        (one for one in words if (3 if one.isascii() else 1) < len(one) < 26), key=len, reverse=True
    )
    bounded = (rf"\b{re.escape(one)}\b" if one.isascii() else re.escape(one) for one in known)
    expression = re.compile("|".join(bounded))
    for turn in turns:
        text = turn.text.casefold()
        for match in expression.finditer(text) if len(text) == len(turn.text) else ():
            if not any(match.start() < b and a < match.end() for _, a, b in turn.spans):
                yield Example(turn.text, match.start(), match.end(), VOID, WEIGHTS["named"])


class Composer:
    """Composes turns of a speaker, what is told, and what the user says to it."""

    def __init__(self, lang: Language, seed: int) -> None:
        self._lang = lang
        self._rng = random.Random(seed)
        self._parts: Mapping[str, list[str]] = {
            name: " ".join(lines).split(" | ")
            for name, lines in sections(read(f"clauses_{lang}.txt")).items()
        }

    def example(self) -> Example:
        """Return one example."""
        make, kind = self._rng.choices(
            [
                (self._told, VOID), (self._hearsay, VOID), (self._confirmed, OWN),
                (self._contrasted, OWN), (self._own, OWN), (self._void, VOID),
                (self._other, OTHER), (self._over, OVER),
            ],
            [22, 5, 3, 10, 24, 16, 12, 8],
        )[0]  # fmt: skip
        text = make()
        if self._lang == "en" and self._rng.random() < 0.4:
            text = text[0].upper() + text[1:]
        if self._rng.random() < 0.25:
            text += SPACE[self._lang] + self._one("after")
        start = text.index("{}")
        return Example(
            text.replace("{}", VALUE), start, start + len(VALUE), kind, WEIGHTS["composed"]
        )

    def _one(self, name: str) -> str:
        return self._rng.choice(self._parts[name])

    def _perhaps(self, name: str) -> str:
        return self._one(name) if self._rng.random() < 0.8 else ""

    def _said(self, *names: str) -> str:
        return SPACE[self._lang].join(map(self._one, names))

    def _told(self) -> str:
        that = "that " if self._lang == "en" and self._rng.random() < 0.5 else ""
        told = self._said("speaker", "embeds") + SPACE[self._lang] + that + self._one("told")
        return told + self._perhaps("denied")

    def _hearsay(self) -> str:
        return self._one("hearsay").replace("<>", self._one("speaker")) + self._perhaps("denied")

    def _confirmed(self) -> str:
        return self._said("speaker", "embeds", "told") + self._one("confirmed")

    def _contrasted(self) -> str:
        """Return what somebody says or has, and what the user has."""
        names = ("speaker", "embeds", "told") if self._rng.random() < 0.6 else ("somebody", "other")
        first = self._said(*names).replace("{}", FILLED[self._lang])
        own = [one for one in self._parts["own"] if one.startswith(SELF[self._lang])]
        behind = self._rng.choice(JOINTS[self._lang]) + self._rng.choice(own)
        return first + behind + self._perhaps("after own")

    def _own(self) -> str:
        before = self._perhaps("before own")
        space = " " if before and self._lang == "en" else ""
        return before + space + self._one("own") + self._perhaps("after own")

    def _void(self) -> str:
        return self._one("void") + self._perhaps("denied")

    def _other(self) -> str:
        return self._said("somebody", "other") + self._perhaps("after other")

    def _over(self) -> str:
        return self._one("over")


class Fitted(NamedTuple):
    """The weights, (BUCKETS, 4), and the constant, (4,)."""

    weights: NDArray[Any]
    constant: NDArray[Any]

    def chances(self, rows: Sequence[NDArray[Any]]) -> NDArray[Any]:
        """Return the chances of examples."""
        lengths = np.array([len(one) for one in rows])
        scores = np.zeros((len(rows), self.weights.shape[1]), np.float32)
        owners = np.repeat(np.arange(len(rows)), lengths)
        np.add.at(scores, owners, self.weights[np.concatenate(rows)])
        scores = scores / np.sqrt(lengths)[:, None] + self.constant
        chances = np.exp(scores - scores.max(axis=1, keepdims=True))
        return np.asarray(chances / chances.sum(axis=1, keepdims=True))


def rows_of(examples: Sequence[Example], lang: Language) -> list[NDArray[Any]]:
    """Return the buckets of each example."""
    return [np.array(sorted(buckets(*one[:3], lang))) for one in examples]


def fit(examples: Sequence[Example], lang: Language) -> Fitted:
    """Fit the regression by AdaGrad, with an L2 penalty on the weights an example uses."""
    rng = np.random.default_rng(SEED)
    rows = rows_of(examples, lang)
    right = np.array([one.voucher for one in examples])
    counts = np.array([one.weight for one in examples], np.float32)
    fitted = Fitted(np.zeros((BUCKETS, 4), np.float32), np.zeros(4, np.float32))
    seen = np.full((BUCKETS, 1), 1e-4, np.float32)
    for _ in range(EPOCHS):
        order = rng.permutation(len(rows))
        for begin in range(0, len(rows), BATCH):
            batch = order[begin : begin + BATCH]
            found = [rows[at] for at in batch]
            delta = fitted.chances(found)
            delta[np.arange(len(batch)), right[batch]] -= 1
            delta *= counts[batch, None]
            lengths = np.array([len(one) for one in found])
            spread = np.repeat(delta / np.sqrt(lengths)[:, None], lengths, axis=0)
            used, place = np.unique(np.concatenate(found), return_inverse=True)
            step = np.zeros((len(used), 4), np.float32)
            np.add.at(step, place, spread)
            step = step / 8 + DECAY * fitted.weights[used]
            seen[used] += (step**2).mean(axis=1, keepdims=True)
            fitted.weights[used] -= RATE * step / np.sqrt(seen[used])
            fitted.constant[:] -= 0.002 * delta.mean(axis=0)
    return fitted


def figures(fitted: Fitted, examples: Sequence[Example], lang: Language) -> str:
    """Return the values of each kind, and how many of them are taken as the user's own."""
    taken = fitted.chances(rows_of(examples, lang))[:, OWN] >= STRICT_OWN
    total = Counter(one.voucher for one in examples)
    own = Counter(one.voucher for one, is_own in zip(examples, taken, strict=True) if is_own)
    return ", ".join(f"{name} {own[at]} of {total[at]}" for at, name in enumerate(Voucher._fields))


def stored(fitted: Fitted) -> dict[str, NDArray[Any]]:
    """Return the arrays to store: the weights that count, in 8 bits."""
    used = np.flatnonzero(np.abs(fitted.weights).max(axis=1) > LEAST_WEIGHT)
    weights = fitted.weights[used]
    scale = np.abs(weights).max() / 127
    return {
        "buckets": used.astype(np.int32),
        "weights": np.round(weights / scale).astype(np.int8),
        "scale": np.array(scale, np.float32),
        "constant": fitted.constant,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Trains who vouches for a value.")
    parser.add_argument("--lang", choices=["en", "zh"], help="only this language")
    parser.add_argument("--write", action="store_true", help="fit all and write the weights")
    given = parser.parse_args()
    languages: list[Language] = [given.lang] if given.lang else ["en", "zh"]
    for lang in languages:
        turns = corpus(lang)
        lines = [one for one in read(f"vouched_{lang}.txt") if not one.startswith("#")]
        written = [[*of_turn(parsed(line), written=True)] for line in lines]
        composer = Composer(lang, SEED)
        known = [one for turn in turns for one in of_turn(turn, written=False)]
        known += [*named(turns), *(composer.example() for _ in range(COMPOSED))]
        learned = [one for at, found in enumerate(written) if at % 4 for one in found]
        unseen = [one for found in written[::4] for one in found]
        print(lang, "own taken of left out:", figures(fit([*known, *learned], lang), unseen, lang))
        if given.write:
            arrays: Any = stored(fit([*known, *learned, *unseen], lang))
            np.savez_compressed(PACKAGE / f"vouching_{lang}.npz", **arrays)


if __name__ == "__main__":
    main()
