"""Trains the reader and writes its weights to shared_core/extraction/reader.npz.

    torchrun --nproc-per-node 2 -m benchmarks.reader.train [--epochs 4] [--minutes 40] [--out FILE]

Needs PyTorch beside the package. Each process uses one core and learns from its share of each
batch; python in the place of torchrun and its option runs one. Uses committed data alone:
corpus_<lang>.txt, plain_<lang>.txt, the frames and the weights of e5. The first layers of e5 stay
as they are, because a vector and a reading of a text share them; the layers above are trained.
Each epoch varies the messages anew and writes its weights.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor, distributed, nn
from torch.nn import functional

from benchmarks.reader.corpus import Varied, corpus, plain
from benchmarks.reader.generate import Generator, Labelled
from shared_core.extraction.span_tagger import CERTAIN, WEIGHTS
from shared_core.models.e5_file import E5File, shipped_file
from shared_core.models.e5_network import SHARED_LAYERS, WEIGHT_LIMIT
from shared_core.models.e5_reader import LAYERS, StoredLayers
from shared_core.models.e5_tokens import Tokenizer

OUT: Final = Path(__file__).parents[2] / "shared_core" / "extraction" / WEIGHTS
PREFIX: Final = "passage:"
MOST_PIECES: Final = 110
BATCH_PIECES: Final = 1300
RATE, HEAD_RATE = 2e-4, 2e-3
DROPOUT: Final = 0.1
SMOOTHING: Final = 1 - CERTAIN
WARM_UP: Final = 50
"""Steps in which the rate rises."""
GATE_WEIGHT, OVER_WEIGHT = 0.3, 0.5
MADE: Final = 2_000
"""Turns of the frames in each language."""
PLAIN: Final = 3
"""Times that a plain form is seen in an epoch, each time varied."""
LEFT_OUT: Final = 25
"""Every one of so many turns of the corpus is left out to measure an epoch."""
IGNORED: Final = -100
PARTS: Final = ("q", "k", "v", "ao", "fi", "fo")


@dataclass(frozen=True, slots=True)
class Example:
    """The pieces of a turn, their labels, and 1 for those that are over.

    labels: 0 outside, 2k + 1 where a value of slot k begins, 2k + 2 where it goes on.
    """

    ids: tuple[int, ...]
    labels: tuple[int, ...]
    over: tuple[int, ...]


class Layer(nn.Module):
    """A layer of e5."""

    def __init__(self, file: E5File, number: int) -> None:
        super().__init__()
        self.heads, self.epsilon, width = file.heads, file.epsilon, file.hidden
        for part in PARTS:
            inputs = file.inner if part == "fo" else width
            self._given(f"{part}w", file.matrix(f"l{number}.{part}.w", inputs))
            self._given(f"{part}b", file.vector(f"l{number}.{part}.b"))
        for norm in ("aln", "oln"):
            for one in "wb":
                self._given(norm + one, file.vector(f"l{number}.{norm}.{one}"))

    def _given(self, name: str, value: Any) -> None:
        self.register_parameter(name, nn.Parameter(torch.tensor(np.array(value))))

    def _dense(self, x: Tensor, part: str) -> Tensor:
        return functional.linear(x, getattr(self, f"{part}w"), getattr(self, f"{part}b"))

    def _norm(self, x: Tensor, name: str) -> Tensor:
        weight, bias = getattr(self, f"{name}w"), getattr(self, f"{name}b")
        return functional.layer_norm(x, x.shape[-1:], weight, bias, self.epsilon)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        rows, length, width = x.shape
        q, k, v = (
            self._dense(x, part).view(rows, length, self.heads, -1).transpose(1, 2)
            for part in "qkv"
        )
        seen = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None, None, :])
        seen = seen.transpose(1, 2).reshape(rows, length, width)
        dropout = DROPOUT if self.training else 0.0
        x = self._norm(x + functional.dropout(self._dense(seen, "ao"), dropout), "aln")
        inner = functional.gelu(self._dense(x, "fi"))
        return self._norm(x + functional.dropout(self._dense(inner, "fo"), dropout), "oln")


class Lower:
    """The first layers of e5, as they are."""

    def __init__(self, file: E5File, tokenizer: Tokenizer) -> None:
        self._file = file
        self._layers = [Layer(file, number).eval() for number in range(SHARED_LAYERS)]
        places = file.vector("emb.pos").reshape(-1, file.hidden)
        self._places = torch.tensor(places + file.vector("emb.type")[: file.hidden])
        self._norm = [torch.tensor(np.array(file.vector(f"emb.ln.{one}"))) for one in "wb"]
        self.before = [file.vocabulary.begin, *tokenizer(PREFIX)]

    @torch.no_grad()
    def __call__(self, examples: Sequence[Example]) -> list[Tensor]:
        """Return the states of the pieces of examples, those around them included."""
        file = self._file
        rows = [[*self.before, *one.ids, file.vocabulary.end] for one in examples]
        longest = max(map(len, rows))
        ids = np.full((len(rows), longest), file.vocabulary.padding)
        for place, row in enumerate(rows):
            ids[place, : len(row)] = row
        mask = torch.tensor(np.arange(longest) < np.array([[len(row)] for row in rows]))
        x = torch.tensor(file.word_vectors(ids)) + self._places[:longest]
        x = functional.layer_norm(x, x.shape[-1:], *self._norm, file.epsilon)
        with torch.autocast("cpu", torch.bfloat16):
            for layer in self._layers:
                x = layer(x, mask)
        return [x[place, : len(row)].bfloat16() for place, row in enumerate(rows)]


class Tagger(nn.Module):
    """The trained layers, and the heads: labels of pieces, what is over, and the gate."""

    def __init__(self, file: E5File, slots: int, before: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer(file, number) for number in LAYERS)
        self.tag = nn.Linear(file.hidden, 2 * slots + 1)
        self.over = nn.Linear(file.hidden, 1)
        self.gate = nn.Linear(file.hidden, 1)
        self.before = before

    def forward(self, x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        with torch.autocast("cpu", torch.bfloat16):
            for layer in self.layers:
                x = layer(x, mask)
        x = x.float()
        mean = (x * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
        x = functional.dropout(x, DROPOUT if self.training else 0.0)[:, self.before :]
        return self.tag(x), self.over(x)[..., 0], self.gate(mean)[:, 0]


def example(turn: Labelled, tokenizer: Tokenizer, slots: Mapping[str, int]) -> Example:
    """Return the pieces of a labelled turn."""
    found = tokenizer.located(turn.text)[:MOST_PIECES]
    labels, over = [0] * len(found), [0] * len(found)
    for name, start, end in turn.spans:
        slot, goes_on = slots[name.removeprefix("-")], False
        for place, (_, begin, stop) in enumerate(found):
            if begin < min(end, stop) and stop > start:
                labels[place] = 2 * slot + 1 + goes_on
                over[place], goes_on = int(name[0] == "-"), True
    return Example(tuple(one[0] for one in found), tuple(labels), tuple(over))


def turns_of(seed: int) -> tuple[list[Labelled], list[Labelled]]:
    """Return the turns to learn from, and those left out."""
    learned, left_out = [], []
    for lang in ("en", "zh"):
        own = list(corpus(lang))
        left_out += own[::LEFT_OUT]
        del own[::LEFT_OUT]
        varied, made = Varied(lang, seed), Generator(lang, seed)
        learned += [varied.turn(turn) for turn in [*own, *list(plain(lang)) * PLAIN]]
        learned += [made.turn() for _ in range(MADE)]
    return learned, left_out


def batches(examples: Sequence[Example], rng: random.Random) -> Iterator[list[int]]:
    """Yield places of examples of similar length, in random order."""
    order = sorted(range(len(examples)), key=lambda one: (len(examples[one].ids), rng.random()))
    groups: list[list[int]] = [[]]
    for place in order:
        size = len(examples[place].ids) + 6
        if (len(groups[-1]) + 1) * size > BATCH_PIECES:
            groups.append([])
        groups[-1].append(place)
    rng.shuffle(groups)
    yield from groups


def padded(states: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Return states in one tensor, and where they are no padding."""
    longest = max(map(len, states))
    x = torch.zeros(len(states), longest, states[0].shape[1], dtype=torch.bfloat16)
    mask = torch.zeros(len(states), longest, dtype=torch.bool)
    for place, one in enumerate(states):
        x[place, : len(one)] = one
        mask[place, : len(one)] = True
    return x, mask


def loss_of(model: Tagger, states: Sequence[Tensor], examples: Sequence[Example]) -> Tensor:
    """Return the loss of the three heads."""
    tags, over, gate = model(*padded(states))
    labels = torch.full(tags.shape[:2], IGNORED)
    is_over = torch.zeros(tags.shape[:2])
    for place, one in enumerate(examples):
        labels[place, : len(one.ids)] = torch.tensor(one.labels)
        is_over[place, : len(one.ids)] = torch.tensor(one.over, dtype=torch.float32)
    holds = torch.tensor([float(any(one.labels)) for one in examples])
    of_tags = functional.cross_entropy(
        tags.flatten(0, 1), labels.flatten(), ignore_index=IGNORED, label_smoothing=SMOOTHING
    )
    loss = of_tags + GATE_WEIGHT * functional.binary_cross_entropy_with_logits(gate, holds)
    values = labels > 0
    if values.any():
        loss = loss + OVER_WEIGHT * functional.binary_cross_entropy_with_logits(
            over[values], is_over[values]
        )
    return loss


def spans(labels: Sequence[int]) -> set[tuple[int, int, int]]:
    """Return the slot, start and end of each value."""
    found: list[tuple[int, int, int]] = []
    for place, label in enumerate(labels):
        if label and label % 2 == 0 and found and found[-1][::2] == ((label - 1) // 2, place):
            found[-1] = (*found[-1][:2], place + 1)
        elif label:
            found.append(((label - 1) // 2, place, place + 1))
    return set(found)


@torch.no_grad()
def score(model: Tagger, lower: Lower, left_out: Sequence[Example]) -> str:
    """Return precision and recall of the values of turns that were left out."""
    model.eval()
    right = found = wanted = placed = gates = 0
    for group in batches(left_out, random.Random(0)):
        some = [left_out[place] for place in group]
        tags, _, gate = model(*padded(lower(some)))
        for one, best, holds in zip(some, tags.argmax(-1).tolist(), gate.tolist(), strict=True):
            is_, gold = spans(best[: len(one.ids)]), spans(one.labels)
            right, found, wanted = right + len(is_ & gold), found + len(is_), wanted + len(gold)
            placed += len({span[1:] for span in is_} & {span[1:] for span in gold})
            gates += (holds > 0) == bool(gold)
    return (
        f"slot and words: precision {right / max(found, 1):.3f} recall {right / wanted:.3f};"
        f" words: precision {placed / max(found, 1):.3f} recall {placed / wanted:.3f};"
        f" gate right {gates / len(left_out):.3f}"
    )


def layer_arrays(layers: nn.ModuleList) -> dict[str, Any]:
    """Return the parts of layers as E5File names them.

    Matrices are stored in 8 bits, with a scale for each output.
    """
    arrays: dict[str, Any] = {}
    for number, layer in zip(LAYERS, layers, strict=True):
        for name, value in layer.named_parameters():
            part = f"l{number}.{name[:-1]}.{name[-1]}"
            one = value.detach().numpy()
            if one.ndim == 2:
                scale = np.maximum(np.abs(one).max(axis=1), 1e-8) / WEIGHT_LIMIT
                arrays[f"{part}.scale"] = scale.astype(np.float32)
                arrays[part] = np.rint(one / scale[:, None]).astype(np.int8)
            else:
                arrays[part] = one
    return arrays


def packed(model: Tagger, slots: Sequence[str]) -> dict[str, Any]:
    """Return the arrays to store: those of the layers, the slots and the heads."""
    arrays = {"slots": np.frombuffer("\n".join(slots).encode(), np.uint8)}
    arrays |= layer_arrays(model.layers)
    for name in ("tag", "over", "gate"):
        head = getattr(model, name)
        arrays[f"{name}.w"] = head.weight.detach().numpy().T.astype(np.float16)
        arrays[f"{name}.b"] = head.bias.detach().numpy()
    return arrays


@torch.no_grad()
def copy_layers(layers: nn.ModuleList, arrays: Any) -> None:
    """Copy stored layers into a model."""
    stored = StoredLayers(arrays)
    for number, layer in zip(LAYERS, layers, strict=True):
        for name, value in layer.named_parameters():
            part = f"l{number}.{name[:-1]}.{name[-1]}"
            one = stored.matrix(part, 0) if value.ndim == 2 else stored.vector(part)
            value.copy_(torch.tensor(one))


@torch.no_grad()
def unpack(model: Tagger, path: Path, slots: Sequence[str]) -> None:
    """Read stored weights into a model, to train them on. It may have more slots."""
    with np.load(path) as arrays:
        known = bytes(arrays["slots"]).decode().split("\n")
        if not set(known) <= set(slots):
            raise SystemExit(f"{path} was trained for other slots: train anew, without --begin")
        places = [0, *(1 + 2 * slots.index(one) + at for one in known for at in (0, 1))]
        copy_layers(model.layers, arrays)
        for name in ("tag", "over", "gate"):
            head, rows = getattr(model, name), places if name == "tag" else [0]
            head.weight[rows] = torch.tensor(arrays[f"{name}.w"].astype(np.float32).T)
            head.bias[rows] = torch.tensor(arrays[f"{name}.b"])


def averaged(model: nn.Module, minutes: float) -> float:
    """Average the gradients over all processes. Returns the average of minutes."""
    if not distributed.is_initialized():
        return minutes
    grads = [one.grad for one in model.parameters() if one.grad is not None]
    flat = torch.cat([*(one.flatten() for one in grads), torch.tensor([minutes])])
    distributed.all_reduce(flat)
    flat /= distributed.get_world_size()
    *parts, last = flat.split([*(one.numel() for one in grads), 1])
    for grad, part in zip(grads, parts, strict=True):
        grad.copy_(part.view_as(grad))
    return float(last)


def take_step(model: nn.Module, optimizer: Any, loss: Tensor, began: float) -> float:
    """Take one step in all processes. Returns their mean of the minutes since began."""
    optimizer.zero_grad()
    loss.backward()
    minutes = averaged(model, (time.monotonic() - began) / 60)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return minutes


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
    names = sorted(
        {span[0].removeprefix("-") for turns in turns_of(given.seed) for one in turns
         for span in one.spans}
    )  # fmt: skip
    slots = {name: place for place, name in enumerate(names)}
    model = Tagger(file, len(slots), len(lower.before))
    body = list(model.layers.parameters())
    heads = [one for name, one in model.named_parameters() if not name.startswith("layers")]
    optimizer = torch.optim.AdamW(
        [{"params": body, "lr": RATE}, {"params": heads, "lr": HEAD_RATE}], weight_decay=0.01
    )
    if given.begin:
        unpack(model, given.begin, names)
    torch.manual_seed(given.seed + rank)  # other dropout in each process
    began, step, spent = time.monotonic(), 0, 0.0
    for epoch in range(given.epochs):
        plain.cache_clear()
        learned, left_out = ([example(one, tokenizer, slots) for one in turns]
                             for turns in turns_of(given.seed + epoch))  # fmt: skip
        groups = list(batches(learned, rng))
        groups = groups[rank : len(groups) // processes * processes : processes]
        steps = step + len(groups) * (given.epochs - epoch)
        total = 0.0
        for group in groups:
            step += 1
            some = [learned[place] for place in group]
            done = max(step / steps, spent / given.minutes)
            share = min(step / WARM_UP, 1.0) * max(0.02, 1 - done)
            for one, rate in zip(optimizer.param_groups, (RATE, HEAD_RATE), strict=True):
                one["lr"] = rate * share
            model.train()
            loss = loss_of(model, lower(some), some)
            spent = take_step(model, optimizer, loss, began)
            total += loss.item()
            if step % 50 == 0 and not rank:
                print(f"{step} of {steps}: {total / 50:.3f}, {spent:.1f} minutes", flush=True)
                total = 0.0
            if spent > given.minutes:
                break
        if not rank:
            save: Any = np.savez_compressed  # its types take no array by name
            save(given.out, **packed(model, names))
            print(f"epoch {epoch + 1}: {score(model, lower, left_out)}", flush=True)
        if spent > given.minutes:
            break


def main() -> None:
    parser = argparse.ArgumentParser(description="Trains the reader.")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--minutes", type=float, default=40.0, help="the most time to take")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--begin", type=Path, help="stored weights to train on, not those of e5")
    parser.add_argument("--out", type=Path, default=OUT)
    train(parser.parse_args())


if __name__ == "__main__":
    main()
