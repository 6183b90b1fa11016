"""Trains what a turn does to a held fact, and writes shared_core/extraction/ends.npz.

    torchrun --nproc-per-node 2 -m benchmarks.reader.train_ends [--minutes 20] [--out FILE]

The statement of a fact and a turn pass the first layers of e5 one by one. Their states, one after
the other, pass the layers that are trained, which begin as those of the reader. Learns from pairs
that were written for it, pairs_<lang>.txt ("label, slot, statement, turn", tabs between), and from
pairs that the labelled turns of the corpus make.
"""

from __future__ import annotations

import argparse
import random
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor, distributed, nn
from torch.nn import functional

from benchmarks.reader.corpus import VALUES, corpus, plain
from benchmarks.reader.generate import FOLDER, Generator, Labelled
from benchmarks.reader.train import (
    DROPOUT, HEAD_RATE, MOST_PIECES, PREFIX, RATE, WARM_UP, Example, Layer, Lower, averaged, batches,
    copy_layers, layer_arrays,
)  # fmt: skip
from shared_core.extraction.reader_rules import load_tags
from shared_core.nlp.rules import load_rules
from shared_core.nlp.text import Language
from shared_core.models.e5_file import E5File, shipped_file
from shared_core.models.e5_reader import LAYERS
from shared_core.models.e5_tokens import Tokenizer

LABELS: Final = ("nothing", "affirm", "doubt", "end", "replace")
FUNCTIONAL: Final = ("residence", "employer", "age", "car", "job", "diet", "rent", "weight")
LEFT_OUT: Final = 9
SMOOTHING: Final = 0.05
WRITTEN: Final = 2
"""Times that a written pair is seen in an epoch, each time typed another way."""
MADE: Final = 1_200
"""Pairs from the corpus in each language and epoch."""
MIXED: Final = 5_000
"""Pairs of a turn and a statement that have nothing to do with each other."""


@dataclass(frozen=True, slots=True)
class Pair:
    label: int
    statement: str
    turn: str
    lang: Language
    slot: str


def written(lang: Language) -> list[Pair]:
    found = []
    for line in (FOLDER / f"pairs_{lang}.txt").read_text("utf-8").splitlines():
        label, slot, statement, turn = line.split("\t")
        found.append(Pair(LABELS.index(label), statement, turn, lang, slot))
    return found


def statement_of(tag: str, value: str, lang: Language) -> str | None:
    """Return the statement of a value of the reader, or None for one about relatives."""
    found = load_tags().get(tag)
    slot = found.slot if found else tag
    sentence = load_rules(lang).sentences.get(slot)
    if sentence is None or tag.startswith(("kin", "pet_name")) or "{kin}" in slot:
        return None
    return sentence.format_map({"value": value, "a": "a", "verb": "doing" if lang == "en" else "做"})


def made(
    lang: Language, rng: random.Random, seed: int, statements: Sequence[Pair]
) -> Iterator[Pair]:
    """Yield pairs of labelled turns: what they state is affirmed, what is over ends."""
    words, turns = Generator(lang, seed), [*corpus(lang), *plain(lang)]
    of_tag: dict[str, list[str]] = {}
    for turn in turns:
        for tag, start, end in turn.spans:
            of_tag.setdefault(tag.removeprefix("-"), []).append(turn.text[start:end])
    told = [turn for turn in turns if turn.spans]
    names = [one for one in of_tag if statement_of(one, "x", lang)]
    count = 0
    while count < MADE:
        turn = rng.choice(told)
        tag, start, end = rng.choice(turn.spans)
        slot, value = tag.removeprefix("-"), turn.text[start:end]
        statement = statement_of(slot, value, lang)
        if statement is None:
            continue
        count += 1
        text = retyped(turn, words, rng)
        if tag[0] == "-":
            yield Pair(3, statement, text, lang, slot)
            continue
        has_end = any(one[0] == "-" + slot for one in turn.spans)
        if slot in FUNCTIONAL and rng.random() < 0.6 and not has_end:
            other = words.value(VALUES[slot]) if slot in VALUES else rng.choice(of_tag[slot])
            if other.casefold() != value.casefold():
                yield Pair(4, str(statement_of(slot, other, lang)), text, lang, slot)
                continue
        yield Pair(1, statement, text, lang, slot)
    for _ in range(MIXED):
        turn = rng.choice(turns if rng.random() < 0.5 else told)
        if rng.random() < 0.5:
            other = rng.choice(statements)
            if other.slot not in {one[0].removeprefix("-") for one in turn.spans}:
                yield Pair(0, other.statement, retyped(turn, words, rng), lang, other.slot)
            continue
        slot = rng.choice(names)
        if slot in {one[0].removeprefix("-") for one in turn.spans}:
            continue
        yield Pair(0, str(statement_of(slot, rng.choice(of_tag[slot]), lang)),
                   retyped(turn, words, rng), lang, slot)


def retyped(turn: Labelled, words: Generator, rng: random.Random) -> str:
    return words.typed(turn).text if rng.random() < 0.4 else turn.text


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


def joined(statements: Sequence[Tensor], turns: Sequence[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    lengths = [len(one) + len(two) for one, two in zip(statements, turns, strict=True)]
    x = torch.zeros(len(turns), max(lengths), turns[0].shape[1], dtype=torch.bfloat16)
    mask = torch.zeros(len(turns), max(lengths), dtype=torch.bool)
    side = torch.zeros_like(mask)
    for place, (one, two) in enumerate(zip(statements, turns, strict=True)):
        x[place, : lengths[place]] = torch.cat([one, two])
        mask[place, : lengths[place]] = True
        side[place, len(one) : lengths[place]] = True
    return x, mask, side


def pieces(text: str, tokenizer: Tokenizer) -> Example:
    return Example(tuple(one[0] for one in tokenizer.located(text)[:MOST_PIECES]), (), ())


@torch.no_grad()
def score(model: Judge, lower: Lower, left_out: Sequence[tuple[Pair, Example, Example]]) -> str:
    model.eval()
    table: Counter[tuple[int, int]] = Counter()
    sure: Counter[tuple[float, int]] = Counter()
    for first in range(0, len(left_out), 32):
        some = left_out[first : first + 32]
        out = model(*joined(lower([one[1] for one in some]), lower([one[2] for one in some])))
        chances = out.softmax(-1)
        for (pair, _, _), row in zip(some, chances.tolist(), strict=True):
            best = max(range(5), key=row.__getitem__)
            table[pair.label, best] += 1
            for least in (0.5, 0.7, 0.8, 0.9):
                sure[least, pair.label] += row[3] + row[4] >= least
    lines = ["gold \\ read  " + " ".join(f"{one:>8}" for one in LABELS)]
    for gold, name in enumerate(LABELS):
        lines.append(f"{name:>12} " + " ".join(f"{table[gold, one]:8}" for one in range(5)))
    for least in (0.5, 0.7, 0.8, 0.9):
        lines.append(f"ends at {least}: {[sure[least, one] for one in range(5)]}")
    return "\n".join(lines)


def packed(model: Judge) -> dict[str, Any]:
    arrays = layer_arrays(model.layers)
    arrays["side"] = model.side.detach().numpy()
    arrays["verdict.w"] = model.verdict.weight.detach().numpy().T.astype(np.float16)
    arrays["verdict.b"] = model.verdict.bias.detach().numpy()
    return arrays


def train(given: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    rank, processes = 0, 1
    if distributed.is_torchelastic_launched():
        distributed.init_process_group("gloo")
        rank, processes = distributed.get_rank(), distributed.get_world_size()
    torch.manual_seed(given.seed)
    rng = random.Random(given.seed)
    file = E5File(shipped_file())
    tokenizer = Tokenizer(file.vocabulary)
    lower = Lower(file, tokenizer)
    model = Judge(file)
    with np.load(given.begin) as arrays:
        copy_layers(model.layers, arrays)
    heads = [model.side, *model.verdict.parameters()]
    optimizer = torch.optim.AdamW(
        [{"params": list(model.layers.parameters()), "lr": RATE}, {"params": heads, "lr": HEAD_RATE}],
        weight_decay=0.01,
    )
    learned, left_out = [], []
    for lang in ("en", "zh"):
        kept_out: set[str] = set()
        for place, text in enumerate(sorted({one.turn for one in written(lang)})):
            if place % LEFT_OUT == 0 and not given.all:
                kept_out.add(text)
        for one in written(lang):
            (left_out if one.turn in kept_out else learned).append(one)
    tried = [(one, pieces(one.statement, tokenizer), pieces(one.turn, tokenizer)) for one in left_out]
    torch.manual_seed(given.seed + rank)
    began, step, spent = time.monotonic(), 0, 0.0
    for epoch in range(given.epochs):
        pairs: list[Pair] = []
        for lang in ("en", "zh"):
            words = Generator(lang, given.seed + epoch)
            for one in learned:
                if one.lang != lang:
                    continue
                for again in range(WRITTEN):
                    turn = one.turn
                    if again:
                        turn = words.typed(Labelled(turn, ())).text
                    pairs.append(Pair(one.label, one.statement, turn, lang, one.slot))
            mine = [one for one in learned if one.lang == lang]
            for _ in range(len(mine)):  # of other writers' pairs: another slot has nothing to do
                a, b = rng.choice(mine), rng.choice(mine)
                if a.slot != b.slot:
                    pairs.append(Pair(0, a.statement, b.turn, lang, a.slot))
            pairs += made(lang, rng, given.seed + epoch, mine)
        data = [(one, pieces(one.statement, tokenizer), pieces(one.turn, tokenizer)) for one in pairs]
        sizes = [Example(two.ids + three.ids, (), ()) for _, two, three in data]
        groups = list(batches(sizes, rng))
        groups = groups[rank : len(groups) // processes * processes : processes]
        steps = step + len(groups) * (given.epochs - epoch)
        total = 0.0
        for group in groups:
            step += 1
            some = [data[place] for place in group]
            done = max(step / steps, spent / given.minutes)
            share = min(step / WARM_UP, 1.0) * max(0.02, 1 - done)
            for one, rate in zip(optimizer.param_groups, (RATE, HEAD_RATE), strict=True):
                one["lr"] = rate * share
            model.train()
            states = joined(lower([one[1] for one in some]), lower([one[2] for one in some]))
            gold = torch.tensor([one[0].label for one in some])
            loss = functional.cross_entropy(model(*states), gold, label_smoothing=SMOOTHING)
            optimizer.zero_grad()
            loss.backward()
            spent = averaged(model, (time.monotonic() - began) / 60)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            total += loss.item()
            if step % 50 == 0 and not rank:
                print(f"{step} of {steps}: {total / 50:.3f}, {spent:.1f} minutes", flush=True)
                total = 0.0
            if spent > given.minutes:
                break
        if not rank:
            save: Any = np.savez_compressed
            save(given.out, **packed(model))
            if tried:
                print(f"epoch {epoch + 1}\n{score(model, lower, tried)}", flush=True)
        if spent > given.minutes:
            break


def main() -> None:
    parser = argparse.ArgumentParser(description="Trains what a turn does to a held fact.")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=20.0, help="the most time to take")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--begin", type=Path, default=Path("shared_core/extraction/reader.npz"))
    parser.add_argument("--all", action="store_true", help="leave no pair out")
    parser.add_argument("--out", type=Path, default=Path("/tmp/ends.npz"))
    train(parser.parse_args())


if __name__ == "__main__":
    main()
