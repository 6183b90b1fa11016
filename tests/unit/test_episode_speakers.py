"""An episode with several speakers becomes turns, and only the user's own are the user's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from every_case import every_case

from shared_core.transfer.sources import SkippedRecord, TurnRecord, open_source

Turn = tuple[str, str, str]


def records(
    tmp_path: Path, *contents: str, user: str | None = None, names: tuple[str, ...] = (), **doc: Any
) -> list[Any]:
    episodes = [
        {
            "uuid": f"e{number}", "source": "message", "content": content,
            "created_at": f"2024-01-{number:02}T00:00:00Z",
        }
        for number, content in enumerate(contents, 1)
    ]  # fmt: skip
    nodes = [{"uuid": name, "name": name} for name in names]
    file = tmp_path / "graph.json"
    file.write_text(json.dumps({"episodes": episodes, "nodes": nodes, **doc}), "utf-8")
    return list(open_source(file).records(user))


def turns(tmp_path: Path, *contents: str, **options: Any) -> list[Turn]:
    found = records(tmp_path, *contents, **{"user_id": "rex", **options})
    return [(one.role, one.author, one.text) for one in found if isinstance(one, TurnRecord)]


def test_each_speaker_of_an_episode_has_a_turn_with_an_id_that_stays(tmp_path: Path) -> None:
    found = records(
        tmp_path,
        "Rex: I live in Malmo.\nassistant: I live in Berlin and I am allergic to nuts.\nRex: ok",
        "Rex: 我喜欢爵士乐\nOlga: I work at Volvo as a welder.",
        user_id="rex",
    )
    assert [
        ("e1", "user", "Rex", "I live in Malmo."),
        ("e1/2", "agent", "assistant", "I live in Berlin and I am allergic to nuts."),
        ("e1/3", "user", "Rex", "ok"),
        ("e2", "user", "Rex", "我喜欢爵士乐"),
        ("e2/2", "agent", "Olga", "I work at Volvo as a welder."),
    ] == [(one.event_id, one.role, one.author, one.text) for one in found]


def test_a_line_without_a_speaker_continues_the_turn_before(tmp_path: Path) -> None:
    assert [
        ("user", "Rex", "my plans\n\n- tea: 2 cups\nhttps://a.example at 12:30"),
        ("agent", "Olga", "mine\nAddress: 5 Main Street\nand so on"),
    ] == turns(
        tmp_path,
        "Rex: my plans\n\n- tea: 2 cups\nhttps://a.example at 12:30\n"
        "Olga: mine\nAddress: 5 Main Street\nand so on",
    )


@every_case(
    "One thing I love: hiking", "Note: I moved to Oslo", "Step 2: mix the eggs",
    "My new address: 5 Main Street", "https://a.example is my page", "At 12:30 I eat",
    "- Olga: a friend", "I had lunch.\nDessert: cake\nOlga paid: 20", "备注：我搬到上海了",
    "我的地址：上海", "我最喜欢的城市：上海", "Todo: call Olga\nTomorrow: call Ben",
    "Wife: Mia\nSon: Leo", "Best friend: Olga", "妻子：小美", "血型：A", "出生日期：1990年5月1日",
    "家庭住址：上海", "Blood Type: A", "Model: Tesla 3", "My car:\nModel: Tesla 3\nI love it",
    "My trip:\nLondon: 3 days", "My Trip:\nLondon: 3 days",
)  # fmt: skip
def test_other_words_before_a_colon_are_no_speaker(content: str, tmp_path: Path) -> None:
    assert [("user", "user", content)] == turns(tmp_path, content, names=("London", "Model"))


@every_case(
    ("user", "Here is my profile:\nWeight: 70 kg\nWife: Mia\nI live in York"),
    ("user", "My trip:\nLondon: 3 days\nBerlin: 2 days\nI live in York"),
    ("user", "My car:\nModel: Tesla 3\nI love it"),
    ("用户", "我的资料\n体重：70\n小美：我妻子\n我住在杭州"),
    ("Rex", "My family:\nWife: Mia\nHeight: 180 cm\nModel: Tesla 3\nI live in York"),
)
def test_a_list_of_the_user_stays_in_the_turn(speaker: str, text: str, tmp_path: Path) -> None:
    said = ("user", speaker, text)
    assert [said] == turns(tmp_path, f"{speaker}: {text}", names=("London", "Wife"))
    answered = turns(tmp_path, f"{speaker}: {text}\nassistant: Noted:\nLondon Bridge: 1 day")
    assert [said, ("agent", "assistant", "Noted:\nLondon Bridge: 1 day")] == answered


def test_a_model_answers_in_small_letters_or_among_roles_in_capitals(tmp_path: Path) -> None:
    said = [("user", "User", "hi"), ("agent", "Model", "I live in Berlin.")]
    assert said == turns(tmp_path, "User: hi\nModel: I live in Berlin.")
    said = [("user", "Rex", "hi"), ("agent", "model", "I live in Berlin.")]
    assert said == turns(tmp_path, "Rex: hi\nmodel: I live in Berlin.")
    assert said[1:] == turns(tmp_path, "model: I live in Berlin.")


@every_case(
    ("Olga: I work at Volvo.", "Olga", "I work at Volvo."),
    ("Mom: I am allergic to nuts.", "Mom", "I am allergic to nuts."),
    ("Olga van der Berg: hi", "Olga van der Berg", "hi"),
    ("Dr. O'Neill: hi", "Dr. O'Neill", "hi"),
    ("Doctor Smith: hi", "Doctor Smith", "hi"),
    ("王老师：我在华为上班", "王老师", "我在华为上班"),
    ("Anne-Marie: hi", "Anne-Marie", "hi"),
    ("王小明：我在华为上班", "王小明", "我在华为上班"),
    ("olga: hi", "olga", "hi"),
    ("Olga:\nI work at Volvo.", "Olga", "I work at Volvo."),
)
def test_another_speaker_is_not_the_user(line: str, author: str, text: str, tmp_path: Path) -> None:
    said = [("user", "Rex", "hi"), ("agent", author, text)]
    assert said == turns(tmp_path, "Rex: hi", line)
    if not author.islower():
        assert said == turns(tmp_path, f"Rex: hi\n{line}")
    assert [*said, ("user", "user", "bye")] == turns(tmp_path, "Rex: hi", line, "user: bye")


def test_lists_and_code_in_an_answer_are_no_speakers(tmp_path: Path) -> None:
    answer = "Options:\nHotel Bella: 20 EUR\n```python\nfoo: int = 3\nclass A:\n```"
    said = [("agent", "assistant", answer), ("user", "User", "Hotel Bella"), ("user", "Rex", "Ok")]
    assert said == turns(tmp_path, f"assistant: {answer}\nUser: Hotel Bella\nRex: Ok")


def test_the_user_is_known_by_the_id_the_option_the_label_and_the_role(tmp_path: Path) -> None:
    both = "Rex: hi\nOlga: hello"
    mine = [("user", "Rex", "hi"), ("agent", "Olga", "hello")]
    assert mine == turns(tmp_path, both)
    assert mine == turns(tmp_path, both, user_id="u-42", user="REX")
    assert mine == turns(tmp_path, both, user_id="Rex Stone")
    label = [{"uuid": "n", "name": "Rex", "labels": ["Entity", "User"]}]
    assert mine == turns(tmp_path, both, user_id="u-42", nodes=label)
    assert mine == turns(tmp_path, "Rex (user): hi\nOlga: hello", user_id="u-42")
    assert mine == turns(tmp_path, "Rex (user): hi\nOlga (user): hello")
    nobody = [("agent", "Rex", "hi"), ("agent", "Olga", "hello")]
    assert nobody == turns(tmp_path, both, user_id="u-42")


def test_the_only_speaker_with_a_name_is_the_user_unless_the_user_has_another(
    tmp_path: Path,
) -> None:
    talk = "Rex: hi\nassistant: hello"
    alone = [("user", "Rex", "hi"), ("agent", "assistant", "hello")]
    assert alone == turns(tmp_path, talk, user_id="u-42", names=("Rex", "Malmo"))
    other = [("agent", "Rex", "hi"), ("agent", "assistant", "hello")]
    assert other == turns(tmp_path, talk, user_id="ana", names=("Rex", "Ana"))
    assert [*other, ("user", "user", "ok")] == turns(tmp_path, talk, "user: ok", user_id="ana")


@every_case(
    ("Ana Silva", ("Ana Silva", "Ana Costa"), "Ana Silva"),
    ("Ana Silva", ("Bob", "Ana Costa"), None),
    ("Ana Silva", ("Ana", "Ana Costa"), "Ana"),
    ("Ana", ("Bob", "Ana Costa"), "Ana Costa"),
    ("Ana", ("Ana", "Ana Costa"), "Ana"),
    ("Ana", ("Ana Silva", "Ana Costa"), None),
)
def test_a_first_name_alone_tells_the_user_from_others(
    user: str, speakers: tuple[str, str], own: str | None, tmp_path: Path
) -> None:
    found = turns(tmp_path, "\n".join(f"{one}: hi" for one in speakers), user_id=user)
    assert [("user" if one == own else "agent", one, "hi") for one in speakers] == found


def test_lines_of_the_system_and_of_tools_are_skipped(tmp_path: Path) -> None:
    found = records(tmp_path, "system: be kind\nRex: hi\nsearch (tool): 42", user_id="rex")
    assert 2 == sum(isinstance(one, SkippedRecord) for one in found)
    assert ["e1/2"] == [one.event_id for one in found if isinstance(one, TurnRecord)]
