"""Trains what a turn does to a held fact, or asks to forget: shared_core/extraction/ends.npz.

    torchrun --nproc-per-node 2 -m benchmarks.reader.train_ends [--minutes 12] [--begin FILE]

The statement of a fact and a turn pass the first layers of e5 one by one. Their states, one after
the other, pass the layers that are trained, which begin as those of the reader, or of --begin.
Learns from pairs that were written for it, pairs_<lang>.txt ("label, slot, statement, turn", tabs
between), and from pairs that the labelled turns of the corpus make. Every ninth of the written
turns is left out to measure an epoch. The shipped weights are of six runs, each with --begin of
the one before and with more pairs: 12 minutes, 9 with --seed 11, 2 epochs each with --seed 13, 23
and 29, and one with --seed 31. The first two had none of requests to forget.
"""

from __future__ import annotations

import argparse
import random
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor, distributed, nn
from torch.nn import functional

from benchmarks.reader.corpus import VALUES, corpus, plain
from benchmarks.reader.generate import FOLDER, Generator, Labelled
from benchmarks.reader.train import (
    DROPOUT,
    HEAD_RATE,
    MOST_PIECES,
    RATE,
    SMOOTHING,
    WARM_UP,
    Example,
    Layer,
    Lower,
    batches,
    copy_layers,
    layer_arrays,
    take_step,
)
from shared_core.extraction.change_judge import ANYTHING, WEIGHTS
from shared_core.extraction.reader_rules import LANGUAGES, load_tags
from shared_core.extraction.span_tagger import WEIGHTS as READER
from shared_core.models.e5_file import E5File, shipped_file
from shared_core.models.e5_reader import LAYERS
from shared_core.models.e5_tokens import Tokenizer
from shared_core.nlp.rules import load_rules
from shared_core.nlp.text import Language

ROOM: Final = Path(__file__).parents[2] / "shared_core" / "extraction"
LABELS: Final = ("nothing", "affirm", "doubt", "end", "replace", "forget")
NOTHING, AFFIRM, END, REPLACE, FORGET = 0, 1, 3, 4, 5
SINGLE: Final = ("residence", "employer", "age", "car", "job", "diet", "rent", "weight")
"""Tags of which a new value replaces the one before."""
REPLACED: Final = 0.6
"""Share of their values that are paired with another value."""
LEFT_OUT: Final = 9
"""Every one of so many written turns is left out to measure an epoch."""
FLOORS: Final = (0.5, 0.8, 0.9)
MADE: Final = 1_200
"""Pairs of a labelled turn and what it says, in each language and epoch."""
MIXED: Final = 3_000
"""Pairs of a turn and a statement that have nothing to do with each other."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A held fact and a turn. label: its place in LABELS."""

    label: int
    slot: str
    statement: str
    turn: str


def written(lang: Language) -> list[Pair]:
    """Return the written pairs of a language."""
    lines = (FOLDER / f"pairs_{lang}.txt").read_text("utf-8").splitlines()
    rows = (line.split("\t") for line in lines)
    return [Pair(LABELS.index(label), *rest) for label, *rest in rows]


def statement_of(tag: str, value: str, lang: Language) -> str:
    """Return the statement of a tagged value, "" for one about a relative."""
    slot = load_tags()[tag].slot if tag in load_tags() else tag
    sentence = load_rules(lang).sentences.get(slot, "")
    if "{kin}" in slot or tag.startswith(("kin", "pet_name")):
        return ""
    verb = "doing" if lang == "en" else "做"
    return sentence.format_map({"value": value, "a": "a", "verb": verb})


def _asks(turn: Labelled) -> int:
    """Return FORGET for a turn that asks to forget something, else NOTHING."""
    return FORGET if any(tag == "forget" for tag, *_ in turn.spans) else NOTHING


class Maker:
    """Makes pairs of the labelled turns of the corpus."""

    def __init__(self, lang: Language, seed: int) -> None:
        self._lang: Language = lang
        self._rng, self._words = random.Random(seed), Generator(lang, seed)
        self._turns = [*corpus(lang), *plain(lang)]
        self._told = [turn for turn in self._turns if turn.spans]
        self._values: dict[str, list[str]] = {}
        for turn in self._told:
            for tag, start, end in turn.spans:
                self._values.setdefault(tag.removeprefix("-"), []).append(turn.text[start:end])
        self._tags = [one for one in self._values if statement_of(one, "x", lang)]

    def retyped(self, text: str) -> str:
        """Return a text as somebody else might type it."""
        return self._words.typed(Labelled(text, ())).text

    def said(self) -> Iterator[Pair]:
        """Yield pairs of a turn and what it says: affirmed, replaced or over."""
        count = 0
        while count < MADE:
            turn = self._rng.choice(self._told)
            tag, start, end = self._rng.choice(turn.spans)
            slot, value = tag.removeprefix("-"), turn.text[start:end]
            if slot not in self._tags:
                continue
            count += 1
            label = END if tag[0] == "-" else AFFIRM
            is_moved = any(one[0] == f"-{slot}" for one in turn.spans)
            if slot in SINGLE and not is_moved and self._rng.random() < REPLACED:
                other = self._words.value(VALUES[slot]) if slot in VALUES else ""
                other = other or self._rng.choice(self._values[slot])
                if other.casefold() != value.casefold():
                    label, value = REPLACE, other
            yield Pair(label, slot, statement_of(slot, value, self._lang), self.retyped(turn.text))

    def mixed(self, statements: Sequence[Pair]) -> Iterator[Pair]:
        """Yield turns with statements of other slots, of the corpus or of written pairs."""
        for _ in range(MIXED):
            turn = self._rng.choice(self._turns if self._is_heads() else self._told)
            other = self._rng.choice(statements)
            if self._is_heads():
                tag = self._rng.choice(self._tags)
                value = self._rng.choice(self._values[tag])
                other = Pair(NOTHING, tag, statement_of(tag, value, self._lang), "")
            if other.slot not in {one[0].removeprefix("-") for one in turn.spans}:
                yield Pair(NOTHING, other.slot, other.statement, self.retyped(turn.text))

    def epoch(self, own: Sequence[Pair]) -> Iterator[Pair]:
        """Yield the pairs of an epoch. own: the written pairs to learn from."""
        labels: dict[str, set[int]] = {}
        for one in own:
            labels.setdefault(one.turn, set()).add(one.label)
        for one in own:
            is_asked = FORGET in labels[one.turn]
            if is_asked or self._is_heads():
                yield one
            if is_asked or self._is_heads():
                yield replace(one, turn=self.retyped(one.turn))
            held, told = self._rng.choice(own), self._rng.choice(own)
            is_other = held.slot != told.slot and labels[told.turn] != {FORGET}
            if is_other and held.statement != ANYTHING and self._is_heads():
                yield replace(held, label=NOTHING, turn=told.turn)
        for turn, given in labels.items():
            if self._is_heads():
                label = FORGET if FORGET in given else NOTHING
                yield Pair(label, "", ANYTHING, self.retyped(turn))
        yield from self.asked()
        yield from self.said()
        yield from self.mixed(own)

    def asked(self) -> Iterator[Pair]:
        """Yield turns of the corpus with the statement of all that is held."""
        asking = [one for one in self._turns if _asks(one) and self._is_heads()]
        for turn in [*self._rng.sample(self._turns, MADE), *asking]:
            yield Pair(_asks(turn), "", ANYTHING, self.retyped(turn.text))

    def _is_heads(self) -> bool:
        return self._rng.random() < 0.5


class Judge(nn.Module):
    """The trained layers, a mark of the turn's side, and the head."""

    def __init__(self, file: E5File) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer(file, number) for number in LAYERS)
        self.side = nn.Parameter(torch.zeros(file.hidden))
        self.verdict = nn.Linear(2 * file.hidden, len(LABELS))

    def forward(self, x: Tensor, mask: Tensor, turn: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            x = x + turn[..., None] * self.side
            for layer in self.layers:
                x = layer(x, mask)
        x = x.float()
        sides = [mask & ~turn, mask & turn]
        means = [(x * one[..., None]).sum(1) / one.sum(1, keepdim=True) for one in sides]
        means = functional.dropout(torch.cat(means, 1), DROPOUT if self.training else 0.0)
        return self.verdict(means)

    def begin(self, path: Path) -> None:
        """Take stored layers, and the head if they have one."""
        with np.load(path) as arrays, torch.no_grad():
            copy_layers(self.layers, arrays)
            if "side" in arrays:
                self.side.copy_(torch.tensor(arrays["side"]))
                known = len(arrays["verdict.b"])  # fewer where a label is new
                weight = torch.tensor(arrays["verdict.w"].astype(np.float32).T)
                self.verdict.weight[:known].copy_(weight)
                self.verdict.bias[:known].copy_(torch.tensor(arrays["verdict.b"]))

    def packed(self) -> dict[str, Any]:
        """Return the arrays to store."""
        weight, bias = self.verdict.weight.detach().numpy(), self.verdict.bias.detach().numpy()
        head = {"side": self.side.detach().numpy(), "verdict.b": bias}
        return {**layer_arrays(self.layers), **head, "verdict.w": weight.T.astype(np.float16)}


class Data:
    """Pairs as states of the first layers."""

    def __init__(self, file: E5File) -> None:
        self._tokenizer = Tokenizer(file.vocabulary)
        self._lower = Lower(file, self._tokenizer)

    def example(self, text: str) -> Example:
        """Return the pieces of a text."""
        return Example(tuple(one[0] for one in self._tokenizer.located(text)[:MOST_PIECES]), (), ())

    def states(self, pairs: Sequence[Pair]) -> tuple[Tensor, Tensor, Tensor]:
        """Return the states of statements and turns, where they are no padding, and the turns."""
        held = self._lower([self.example(one.statement) for one in pairs])
        told = self._lower([self.example(one.turn) for one in pairs])
        lengths = [len(one) + len(two) for one, two in zip(held, told, strict=True)]
        x = torch.zeros(len(pairs), max(lengths), held[0].shape[1], dtype=torch.bfloat16)
        mask = torch.zeros(len(pairs), max(lengths), dtype=torch.bool)
        side = torch.zeros_like(mask)
        for place, (one, two) in enumerate(zip(held, told, strict=True)):
            x[place, : lengths[place]] = torch.cat([one, two])
            mask[place, : lengths[place]] = True
            side[place, len(one) : lengths[place]] = True
        return x, mask, side


@torch.no_grad()
def score(model: Judge, data: Data, left_out: Sequence[Pair]) -> str:
    """Return how often each label is read as each, and how many ends are read at which floor."""
    model.eval()
    read, sure = Counter[tuple[int, int]](), Counter[tuple[float, int]]()
    for first in range(0, len(left_out), 32):
        some = left_out[first : first + 32]
        rows = model(*data.states(some)).softmax(-1).tolist()
        for pair, row in zip(some, rows, strict=True):
            read[pair.label, max(range(len(LABELS)), key=row.__getitem__)] += 1
            for floor in FLOORS:
                sure[floor, pair.label] += row[END] + row[REPLACE] >= floor
                sure[-floor, pair.label] += row[FORGET] >= floor
    places = range(len(LABELS))
    lines = [f"{LABELS[one]:>8} read as {[read[one, other] for other in places]}" for one in places]
    lines += [
        f"{name} at {floor}: {[sure[sign * floor, one] for one in places]}"
        for name, sign in (("end", 1), ("forget", -1))
        for floor in FLOORS
    ]
    return "\n".join(lines)


def divided(lang: Language) -> tuple[list[Pair], list[Pair]]:
    """Return the written pairs to learn from, and those left out; all of one turn or none."""
    pairs = written(lang)
    turns = {*sorted({one.turn for one in pairs})[::LEFT_OUT]}
    return [one for one in pairs if one.turn not in turns], [
        one for one in pairs if one.turn in turns
    ]


def train(given: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    rank, processes = 0, 1
    if distributed.is_torchelastic_launched():
        distributed.init_process_group("gloo")
        rank, processes = distributed.get_rank(), distributed.get_world_size()
    rng = random.Random(given.seed)
    file = E5File(shipped_file())
    data, model = Data(file), Judge(file)
    model.begin(given.begin)
    heads = [model.side, *model.verdict.parameters()]
    groups = [(model.layers.parameters(), RATE), (heads, HEAD_RATE)]
    optimizer = torch.optim.AdamW(
        [{"params": list(some), "lr": rate} for some, rate in groups], weight_decay=0.01
    )
    torch.manual_seed(given.seed + rank)  # other dropout in each process
    parts = {lang: divided(lang) for lang in LANGUAGES}
    began, step, spent = time.monotonic(), 0, 0.0
    for epoch in range(given.epochs):
        pairs = [
            pair for lang in LANGUAGES
            for pair in Maker(lang, given.seed + epoch).epoch(parts[lang][0])
        ]  # fmt: skip
        sizes = [data.example(f"{one.statement} {one.turn}") for one in pairs]
        order = list(batches(sizes, rng))
        order = order[rank : len(order) // processes * processes : processes]
        steps = step + len(order) * (given.epochs - epoch)
        for group in order:
            step += 1
            some = [pairs[place] for place in group]
            done = max(step / steps, spent / given.minutes)
            share = min(step / WARM_UP, 1.0) * max(0.02, 1 - done)
            for one, (_, rate) in zip(optimizer.param_groups, groups, strict=True):
                one["lr"] = rate * share
            model.train()
            gold = torch.tensor([one.label for one in some])
            read = model(*data.states(some))
            loss = functional.cross_entropy(read, gold, label_smoothing=SMOOTHING)
            spent = take_step(model, optimizer, loss, began)
            if step % 50 == 0 and not rank:
                print(f"{step} of {steps}: {loss.item():.3f}, {spent:.1f} minutes", flush=True)
            if spent > given.minutes:
                break
        if not rank:
            save: Any = np.savez_compressed  # its types take no array by name
            save(given.out, **model.packed())
            left_out = [pair for lang in LANGUAGES for pair in parts[lang][1]]
            print(f"epoch {epoch + 1}\n{score(model, data, left_out)}", flush=True)
        if spent > given.minutes:
            break


def main() -> None:
    parser = argparse.ArgumentParser(description="Trains what a turn does to a held fact.")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=12.0, help="the most time to take")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--begin", type=Path, default=ROOM / READER, help="stored weights to train")
    parser.add_argument("--out", type=Path, default=ROOM / WEIGHTS)
    train(parser.parse_args())


if __name__ == "__main__":
    main()
