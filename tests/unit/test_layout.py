"""How lines and tables of the command line fit a terminal, and in which language texts are."""

import re

from every_case import every_case
from rich.cells import cell_len
from rich.text import Text

from shared_core.cli.layout import UNBROKEN, Grid, Typed, lines_of, wrapped
from shared_core.core.locale import language_of, speaking, spoken_language, t

ID = "0198f2c4-1111-7222-8333-444455556666"
ENGLISH = "Ana has lived in Lisbon since May, and works as a translator for a small publisher."
CHINESE = "林晓雨五月起住在里斯本，她在一家小出版社做翻译。周末她常去海边，也喜欢拉大提琴！"


def shown(piece: str | Text | Grid | Typed, width: int) -> list[str]:
    return [line.plain for line in lines_of(piece, width)]


@every_case(20, 37, 60, 80)
@every_case(ENGLISH, CHINESE, f"{CHINESE} {ENGLISH}", ID, "x" * 200)
def test_no_line_is_wider_than_the_terminal_and_nothing_is_lost(text, width):
    lines = shown(f"   {text}", width)
    assert max(map(cell_len, lines)) <= width
    assert re.sub(r"\s", "", text) == re.sub(r"\s", "", "".join(lines))
    assert all(line.startswith("   ") for line in lines)


def test_words_styles_and_commands_survive_wrapping_and_a_wide_table_becomes_blocks(monkeypatch):
    assert set(ENGLISH.split()) == {word for line in shown(ENGLISH, 30) for word in line.split()}
    assert all(line[0] not in "，。！" for width in range(10, 60) for line in shown(CHINESE, width))
    table = Grid(names=("key", "value", "since"), rows=[(ID, "x", "2026"), (ID, "y", "")])
    block = [f"key    {ID}", "value  x", "since  2026", ""]
    assert [*block, f"key    {ID}", "value  y"] == shown(table, 48)
    assert f"{ID}  x      2026" in shown(table, 60)
    table = Grid(names=("n", "memory"), rows=[("1", CHINESE * 20), ("2", "")], right=frozenset({0}))
    assert [f"n  {'memory'}", f"1  {CHINESE * 20}", "2"] == [
        line for line in shown(table, UNBROKEN) if "─" not in line
    ]
    lines = wrapped(Text.assemble("plain words and ", ("bold words at the end", "bold")), 16)
    assert ["plain words and", "bold words at", "the end"] == [line.plain for line in lines]
    assert all(line.spans and line.spans[0].style == "bold" for line in lines[1:])
    [line] = wrapped(Text("evil \x1b[31mred\x1b]0;title\x07 \u202e还"), 80)
    assert "evil \ufffd[31mred\ufffd]0;title \ufffd还" == line.plain
    command = "hippocampus recall my_app ana 'Where do I live?' --uri postgresql://user@host/db"
    assert [f"  {command}"] == shown(Typed(command), 100)
    lines = shown(Typed(command), 50)
    assert max(map(cell_len, lines)) <= 50
    assert all(line.endswith(" \\") for line in lines[:-1])
    assert command == " ".join(line.removesuffix("\\").strip() for line in lines)
    monkeypatch.setenv("HIPPOCAMPUS_LANG", "zh")
    with speaking("en"):
        assert "memory" == t("memory", "记忆")
        with speaking(None):
            assert "en" == spoken_language()
    assert "记忆" == t("memory", "记忆")


@every_case(50, 60, 80, 120)
def test_a_table_keeps_ids_whole_at_every_width(width):
    rows = [(ID, "2026-05-01", "fact", ENGLISH), ("cello", "2026-05-02", "fact", CHINESE)]
    table = Grid(names=("key", "since", "kind", "memory"), rows=rows)
    lines = shown(table, width)
    assert max(map(cell_len, lines)) <= width
    assert any(ID in line for line in lines)
    assert all("…" not in line for line in lines)


@every_case(
    ({}, "en"), ({"LANG": "en_GB.UTF-8"}, "en"), ({"LANG": "fr_FR.UTF-8"}, "en"),
    ({"LANG": "zh_CN.UTF-8"}, "zh"), ({"LANG": "zh_TW"}, "zh"),
    ({"LANG": "zh_CN.UTF-8", "LC_MESSAGES": "en_US.UTF-8"}, "en"),
    ({"LANG": "en_US.UTF-8", "LC_MESSAGES": "zh_CN.UTF-8"}, "zh"),
    ({"LC_ALL": "C", "LC_MESSAGES": "zh_CN.UTF-8", "LANG": "zh_CN.UTF-8"}, "en"),
    ({"LC_ALL": "", "LANG": "zh_CN.UTF-8"}, "zh"),
    ({"LC_ALL": "zh_CN.UTF-8", "LANG": "en_US.UTF-8"}, "zh"),
    ({"LANG": "en_US.UTF-8", "LANGUAGE": "zh_CN:en"}, "zh"),
    ({"LANG": "C.UTF-8", "LANGUAGE": "zh_CN:en"}, "en"),
    ({"LANG": "en_US.UTF-8", "HIPPOCAMPUS_LANG": "zh"}, "zh"),
    ({"LANG": "zh_CN.UTF-8", "HIPPOCAMPUS_LANG": "en"}, "en"),
    ({"LANG": "zh_CN.UTF-8", "HIPPOCAMPUS_LANG": ""}, "zh"),
)  # fmt: skip
def test_the_language_is_chinese_only_where_the_environment_says_so(environment, expected):
    assert expected == language_of(environment)
