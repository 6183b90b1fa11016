"""The privacy class of a text: by its slot, by its words, by the nearest examples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from every_case import every_case

from shared_core.core.domain import FactDraft
from shared_core.models.embedders import UseEmbedder
from shared_core.nlp.rules import load_rules
from shared_core.nlp.text import Language, language
from shared_core.privacy.classifier import (
    Prototypes,
    class_by_example,
    examples,
    margin_between,
    private_by_slot,
    private_by_words,
    prototype_texts,
    prototypes_of,
)


def fact(slot: str, **more: Any) -> FactDraft:
    return FactDraft(**{
        "fact_type": "custom", "slot": slot, "value": "v", "statement": "s", "event_id": "e",
        "functional": False, "confidence": 1.0, "pattern": "p", "language": "en", **more,
    })  # fmt: skip


@every_case(
    "name", "employer", "relation.daughter", "relation.daughter.age", "favourite.colour",
    "about.mia.age", "about.dr._smith.job", "about.mia.relation.brother", "password", "api_key",
    "about.mia.pin", "",
)  # fmt: skip
def test_a_slot_of_a_person_or_a_secret_is_private(slot: str) -> None:
    assert private_by_slot(fact(slot))


@every_case("boiling_point", "about.paris.population", "首都")
def test_a_slot_the_rules_do_not_know_settles_nothing(slot: str) -> None:
    assert not private_by_slot(fact(slot))


@every_case("preference", "rule")
def test_preferences_and_rules_are_private(fact_type: str) -> None:
    assert private_by_slot(fact("boiling_point", fact_type=fact_type))


@every_case("en", "zh")
def test_every_slot_of_the_rules_is_one_of_a_person(spoken: Language) -> None:
    patterns = load_rules(spoken).patterns
    slots = {one.slot.replace("{kin}", "sister").replace("{thing}", "film") for one in patterns}
    assert [] == [slot for slot in slots if not private_by_slot(fact(slot))]


@every_case(
    "Paris is the capital of France and I was born there.", "User's sister is called Runa.",
    "The user works at Acme.", "It is our house.", "巴黎是法国的首都，我就出生在那里。",
    "用户的姐姐叫小兰。", "The key of the server is [REDACTED: api_key].",
    "The card 4111 1111 1111 1111 is valid.", "Write to ann@example.com.",
)  # fmt: skip
def test_the_user_and_secrets_make_a_text_private(text: str) -> None:
    assert private_by_words(text)


@every_case(
    "Lemons are sour.", "The US has fifty states.", "A username is short.", "我国的首都是北京。", ""
)
def test_the_world_is_not_private_by_words(text: str) -> None:
    assert not private_by_words(text)


@every_case("en", "zh")
def test_the_examples_are_many_and_different(spoken: Language) -> None:
    private, public = prototype_texts()[spoken]["private"], prototype_texts()[spoken]["public"]
    assert len(private) == len(public) >= 60
    assert len({*private, *public}) == len(private) + len(public)
    assert {spoken} == {language(text) for text in (*private, *public)}
    assert not [text for text in public if private_by_words(text)]


async def classes(texts: Sequence[str]) -> list[str]:
    embedder = UseEmbedder()
    near = {
        spoken: prototypes_of(spoken, await embedder.embed_passages(examples(spoken)))
        for spoken in ("en", "zh")
    }
    vectors = await embedder.embed_passages(texts)
    return [
        class_by_example(vector, near[language(text)])
        for text, vector in zip(texts, vectors, strict=True)
    ]


async def test_capitals_are_public_and_who_looks_like_one_is_private() -> None:
    public = ["Kyoto is the old capital of Japan.", "Canberra is the capital of Australia.",
              "堪培拉是澳大利亚的首都", "东京是日本的首都"]  # fmt: skip
    private = ["Clara is the mother of Ben.", "Milo was in the Hospital of Porto.",
               "林悦是上海分公司的经理", "王强是李丽的前夫"]  # fmt: skip
    assert ["public"] * 4 + ["private"] * 4 == await classes([*public, *private])


def circle(*degrees: float) -> Any:
    turns = np.radians(np.array(degrees))
    return np.stack([np.cos(turns), np.sin(turns)], axis=1).astype(np.float32)


def test_what_is_between_both_is_private() -> None:
    private, public = circle(*range(0, 20)), circle(*range(90, 110))
    near = Prototypes(private=private, public=public, margin=margin_between(private, public))
    assert ["private", "private", "private", "public"] == [
        class_by_example(one, near) for one in circle(10, 54.5, 56, 100)
    ]


def test_a_model_that_cannot_tell_leaves_everything_private() -> None:
    rng = np.random.default_rng(7)
    random = rng.normal(size=(204, 64)).astype(np.float32)
    random /= np.linalg.norm(random, axis=1, keepdims=True)
    assert float("inf") == prototypes_of("en", random).margin
    same = np.ones((204, 4), dtype=np.float32) / 2
    assert float("inf") == prototypes_of("en", same).margin
    assert "private" == class_by_example(random[-1], prototypes_of("en", random))


def test_without_examples_or_of_another_length_all_is_private() -> None:
    private, public = circle(*range(0, 20)), circle(*range(90, 110))
    near = Prototypes(private=private, public=public, margin=0.0)
    assert "private" == class_by_example(public[0], None)
    assert "private" == class_by_example(np.zeros(3, dtype=np.float32), near)
    assert "private" == class_by_example(np.zeros(2, dtype=np.float32), near)
    assert "private" == class_by_example(np.full(2, np.nan, dtype=np.float32), near)


def test_vectors_that_are_not_one_for_each_example_are_refused() -> None:
    with pytest.raises(ValueError, match="3 vectors for 204 examples"):
        prototypes_of("en", circle(1, 2, 3))
