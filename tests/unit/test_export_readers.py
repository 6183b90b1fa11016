"""Exports of other products become records; what is no export is refused in one sentence."""

import json
import os
import zipfile
from collections import Counter
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from every_case import every_case
from langgraph.store.base import get_text_at_path, tokenize_path

from langgraph_store.operations import text_of_field
from shared_core.errors import InvalidInput, NotFound
from shared_core.transfer import lines, sources
from shared_core.transfer.importing import texts_of_fields
from shared_core.transfer.lines import opened
from shared_core.transfer.sources.json_file import CHUNK, JsonFile
from shared_core.transfer.sources.records import UNREADABLE, moment

EXPORTS = Path(__file__).parents[1] / "exports"
FILES = {
    "chatgpt": "chatgpt.json", "claude": "claude.json", "letta": "letta.af",
    "mem0": "mem0_get_all.json", "zep": "graphiti.json",
}  # fmt: skip


SAID = {"sender": "human", "text": "Hello", "created_at": "2024-01-01T00:00:00Z"}
"""A message of Claude's exports."""


def of_kind(kind: type[Any], path: Path) -> list[Any]:
    return [one for one in sources.open_source(path).records() if isinstance(one, kind)]


turns, facts = partial(of_kind, sources.TurnRecord), partial(of_kind, sources.FactRecord)
statements = partial(of_kind, sources.StatementRecord)


def skipped(path: Path) -> Counter[str]:
    return Counter(one.reason for one in of_kind(sources.SkippedRecord, path))


def written(path: Path, document: object) -> Path:
    path.write_text(json.dumps(document, ensure_ascii=False), "utf-8")
    return path


def chat(path: Path, messages: list[Any]) -> Path:
    """Write a conversation with Claude."""
    return written(path / "c.json", [{"uuid": "k", "chat_messages": messages}])


def conversation(**changes: Any) -> dict[str, Any]:
    [_, given] = json.loads((EXPORTS / "chatgpt.json").read_text("utf-8"))
    return {**given, **changes}


def answered(path: Path, text: str) -> Path:
    """Write a conversation with ChatGPT that answers first with this text."""
    odd = conversation()
    odd["mapping"]["a1"]["message"]["content"]["parts"] = [text]
    return written(path / "c.json", [odd])


@every_case(*FILES.items())
def test_a_file_shows_which_product_wrote_it(product, file):
    assert product == sources.open_source(EXPORTS / file).product


def test_chatgpts_branch_is_taken_as_far_as_a_broken_tree_reaches_and_the_rest_is_counted(tmp_path):
    found = [one for one in turns(EXPORTS / "chatgpt.json") if one.thread == "chatgpt/c-en"]
    assert [
        ("user", "I live in Porto and I work as a vet."), ("agent", "Porto is lovely."),
        ("user", "My cat is called Miso."), ("user", "And a dog called Rex."),
        ("agent", "Hello Miso and Rex!"),
    ] == [(one.role, one.text) for one in found]  # fmt: skip
    assert datetime(2023, 11, 14, 22, 13, 20, 500_000, UTC) == found[0].at
    assert found[2].at <= found[3].at  # a message without a time has that of the one before
    assert "A vet in Porto" == found[0].metadata["title"]
    assert {"tool, system and reasoning messages": 3, "messages on other branches": 2} == skipped(
        EXPORTS / "chatgpt.json"
    )
    found = [one for one in turns(EXPORTS / "chatgpt.json") if one.thread == "chatgpt/c-zh"]
    assert ["我住在上海，我对花生过敏。", "好的，我记住了。"] == [one.text for one in found]
    file = answered(tmp_path, "\ue200cite\ue202turn0search1\ue201")
    assert (4, 1) == (len(turns(file)), skipped(file)["messages without text"])
    lost = conversation(current_node="nowhere")
    circle = conversation(id="c-2", conversation_id="c-2")
    circle["mapping"]["root"]["parent"] = "a3"
    odd = [lost, circle, conversation(id=None, conversation_id=""), {"mapping": []}, 7, None]
    file = written(tmp_path / "odd.json", odd)
    found = Counter(one.thread for one in turns(file))
    assert {"chatgpt/c-en": 5, "chatgpt/c-2": 5} == found
    assert 1 == skipped(file)["conversations without an id"]
    assert 3 == skipped(file)["entries of an unknown form"]
    odd = conversation(create_time=None)
    for node in odd["mapping"].values():
        if node["message"]:
            node["message"]["create_time"] = "soon"
    file = written(tmp_path / "times.json", [odd])
    assert [] == turns(file)
    assert 5 == skipped(file)["messages without a readable time"]
    odd = conversation()
    odd["mapping"]["u1"]["message"]["content"]["parts"] = [" \x00 ", "…"]
    odd["mapping"]["u2"]["message"]["content"]["parts"] = ["Miso\x00!"]
    odd["mapping"]["a3"]["message"]["id"] = "x" * 1000
    file = written(tmp_path / "texts.json", [odd])
    assert "Miso\ufffd!" in [one.text for one in turns(file)]
    assert 1 == skipped(file)["messages without text"]
    assert 1 == skipped(file)["messages without an id"]
    messages = [
        {**SAID, "uuid": f"m{day}", "created_at": f"2024-01-0{day}", "parent_message_uuid": parent}
        for day, parent in [(1, ""), (2, "m1"), (4, None), (3, "gone"), (5, "m4")]
    ]
    found = turns(chat(tmp_path, messages))
    assert ["m1", "m2", "m3", "m4", "m5"] == [one.event_id for one in found]
    messages[2]["parent_message_uuid"] = "m5"  # a circle
    assert 5 == len(turns(chat(tmp_path, messages)))
    hello = {"author": {"role": "user"}, "content": {"content_type": "text", "parts": ["Hello"]}}
    nodes = {
        f"m{day}": {"parent": parent, "message": {
            "id": f"m{day}", "create_time": 1_700_000_000 + day, **hello}}
        for day, parent in [(1, None), (2, "m1"), (4, "gone"), (3, "m2")]
    }  # fmt: skip
    document = [{"id": "k", "current_node": "m4", "mapping": nodes}]
    file = written(tmp_path / "chatgpt.json", document)
    assert ["m1", "m2", "m3", "m4"] == [one.event_id for one in turns(file)]
    nodes["m4"]["parent"] = None
    assert 4 == len(turns(written(file, document)))
    nodes["m4"]["parent"] = "m1"
    assert ["m1", "m4"] == [one.event_id for one in turns(written(file, document))]
    assert {"messages on other branches": 2} == skipped(file)


@every_case(
    ("Ghent is beautiful. \ue200cite\ue202turn0search1\ue201", "Ghent is beautiful."),
    ("根特很美。\ue200cite\ue202turn0search1\ue202turn0news2\ue201你去过吗？",
     "根特很美。你去过吗？"),
    ('See \ue200entity\ue202["people", "Rik Wouters", 0]\ue201 there.', "See Rik Wouters there."),
    ("A \ue200entity\ue202[7\ue201 b \ue200i\ue202turn0image0\ue201 c", "A b c"),
    ("\ue203Ghent has canals.\ue204 \ue200cite\ue202turn0search1\ue201", "Ghent has canals."),
    ("Cut \ue200cite\ue202turn0", "Cut citeturn0"),
    ("I cite turn0search1 [1] and 【2】.", "I cite turn0search1 [1] and 【2】."),
    ("My icon is \uf015.", "My icon is \uf015."),
)  # fmt: skip
def test_chatgpts_citations_are_no_words(text, shown, tmp_path):
    assert shown == turns(answered(tmp_path, text))[1].text


def test_claudes_last_branch_is_taken_with_pasted_text_and_accounts_stay_apart(tmp_path):
    assert [
        ("m1", "user", "I moved to Lisbon."), ("m2", "agent", "Lisbon it is."),
        ("m3", "user", "My sister is called Mia."), ("m4", "agent", "Hello Mia."),
    ] == [(one.event_id, one.role, one.text) for one in turns(EXPORTS / "claude.json")]  # fmt: skip
    assert {
        "messages without text": 1, "attached files": 1, "messages on other branches": 1,
    } == skipped(EXPORTS / "claude.json")  # fmt: skip
    messages = [{"uuid": "1", **SAID}, {"uuid": "2", **SAID, "sender": "assistant"}]
    assert ["1", "2"] == [one.event_id for one in turns(chat(tmp_path, messages))]
    pasted = {"file_name": "", "file_type": "txt", "extracted_content": "I am a vet.\n\nI ski."}
    note = {"file_name": "paste.txt", "extracted_content": "我住在上海。"}
    report = {"file_name": "cv.pdf", "file_type": "pdf", "extracted_content": "I am Bob."}
    text = [{"type": "text", "text": "Read this:"}]
    messages = [
        {"uuid": "1", "text": "Read this:", "content": text, "attachments": [pasted, note]},
        {"uuid": "2", "text": "", "attachments": [note, 7]},
        {"uuid": "3", "text": "And?", "attachments": [report], "files": [{"a": 1}]},
        {"uuid": "4", "text": "", "attachments": [report]},
    ]
    file = chat(tmp_path, [{**SAID, **one} for one in messages])
    assert [
        ("1", "Read this:\n\nI am a vet.\n\nI ski.\n\n我住在上海。"),
        ("2", "我住在上海。"),
        ("3", "And?"),
    ] == [(one.event_id, one.text) for one in turns(file)]
    assert {"attached files": 3, "messages without text": 1} == skipped(file)

    def archive(*accounts: object) -> Path:
        with zipfile.ZipFile(tmp_path / "c.zip", "w") as packed:
            for number, account in enumerate(accounts):
                said = {"uuid": "1", **SAID}
                one = {"uuid": f"k{number}", "account": account, "chat_messages": [said]}
                packed.writestr(f"conversations-00{number}.json", json.dumps([one]))
        return tmp_path / "c.zip"

    ana, ben = {"uuid": "a"}, {"uuid": "b"}
    assert ["a", "b", "a"] == [one.user for one in turns(archive(ana, ben, ana))]
    assert [None, None, None] == [one.user for one in turns(archive(ana, ana, 7))]
    archive = tmp_path / "export.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        packed.write(EXPORTS / "claude.json", "data/conversations.json")
        packed.writestr("data/projects.json", '[{"uuid": "p1"}, {"uuid": "p2"}]')
        packed.writestr("data/memories.json", '[{"conversations_memory": "Ana is a vet."}]')
        packed.writestr("data/users.json", '[{"uuid": "a"}]')
        packed.writestr("data/projects/p3.json", '{"uuid": "p3", broken')
    assert turns(EXPORTS / "claude.json") == turns(archive)
    found = skipped(archive) - skipped(EXPORTS / "claude.json")
    assert {"projects": 3, "memories of Claude itself": 1} == found


def test_mem0s_memories_keep_users_times_and_metadata_and_expired_ones_are_left_out(tmp_path):
    found = {one.text: one for one in statements(EXPORTS / "mem0_get_all.json")}
    assert 5 == len(found)
    peanuts = found["I am allergic to peanuts."]
    assert ("ben", "health") == (peanuts.user, peanuts.metadata["topic"])
    assert peanuts.created_at == peanuts.at and peanuts.at is not None
    assert "小明" == found["我住在上海，喜欢喝龙井茶。"].user
    entries = [
        {"id": "1", "memory": "old", "expiration_date": "2020-01-01"},
        {"id": "2", "memory": "new", "expiration_date": "2999-01-01"},
    ]
    file = written(tmp_path / "m.json", entries)
    [kept] = statements(file)
    assert datetime(2999, 1, 2, tzinfo=UTC) == kept.expires_at
    assert {"expired memories": 1} == skipped(file)


@every_case("graphiti.json", "zep.json")
def test_edges_are_facts_with_their_times_and_the_user_is_recognised(file):
    found = {(one.subject, one.relation, one.object): one for one in facts(EXPORTS / file)}
    leeds = found["user", "LIVES_IN", "Leeds"]
    assert datetime(2024, 3, 1, 9, tzinfo=UTC) == leeds.valid_from
    assert datetime(2024, 5, 23, 9, tzinfo=UTC) == leeds.valid_until
    assert None is found["user", "LIVES_IN", "Lisbon"].valid_until
    assert "Theo plays chess with Ana." == found["Theo", "PLAYS_CHESS_WITH", "user"].text


def test_episodes_of_graphiti_are_turns_and_documents_statements_each_of_its_user(tmp_path):
    found = turns(EXPORTS / "graphiti.json")
    assert [
        ("Ana", "user", "I live in Leeds and work at Acme."), ("assistant", "agent", "Noted, Ana."),
        ("Ana", "user", "I moved to Lisbon last week."), ("Ana", "user", "我的猫叫米索。"),
    ] == [(one.author, one.role, one.text) for one in found]  # fmt: skip
    assert {"zep/ana"} == {one.thread for one in found} and {"ana"} == {one.user for one in found}
    [note] = statements(EXPORTS / "graphiti.json")
    assert "Ana is allergic to peanuts." == note.text
    assert 5 == skipped(EXPORTS / "graphiti.json")["summaries of entities"]
    edge = {
        "uuid": "e", "name": "LIKES", "fact": "Ana likes tea.", "source_node_uuid": "a",
        "target_node_uuid": "b", "created_at": "2024-01-01T00:00:00Z",
    }  # fmt: skip
    ended = {**edge, "uuid": "f", "invalid_at": "2024-02-01T00:00:00Z"}
    file = written(tmp_path / "edges.json", [edge, ended])
    assert ["Ana likes tea."] == [one.text for one in statements(file)]
    assert {"ended edges whose entities are not in the file": 1} == skipped(file)
    file = tmp_path / "z.json"
    ana = {"uuid": "1", "name": "Ana", "labels": ["Entity", "User"]}
    bob = {"uuid": "2", "name": "Bob", "labels": ["Entity", "User"]}
    team = {"uuid": "3", "name": "Team", "labels": ["Entity"], "group_id": "team"}
    assert ["user"] == subjects(file, [ana])
    assert ["Ana", "Bob"] == subjects(file, [ana, bob])
    assert ["user", "Bob"] == subjects(file, [ana, bob], user_id="ana")
    assert ["Team"] == subjects(file, [team])
    apart = [{**ana, "group_id": "a"}, {**bob, "group_id": "b"}]
    assert ["user", "user"] == subjects(file, apart)  # each is the user of a graph
    episode = {"uuid": "e", "content": "search (tool): 42", "created_at": "2024-01-01"}
    assert [] == turns(written(tmp_path / "z.json", {"episodes": [episode]}))
    said = {"content": "Hello", "role": "user", "created_at": "2024-01-01"}
    threads = [
        {"thread_id": name, "user_id": name, "messages": [{"uuid": f"of {name}", **said}]}
        for name in ("ana", "bob", "")
    ]
    file = written(tmp_path / "z.json", {"user_id": "eva", "threads": threads})
    assert ["ana", "bob", "eva"] == [one.user for one in turns(file)]


def test_messages_of_a_letta_agent_are_turns_and_paragraphs_of_its_blocks_keep_their_keys(tmp_path):
    assert [
        ("user", "user", "I moved to Lisbon."),
        ("agent", "guide", "Lisbon suits you."),
        ("agent", "guide", "And Miso too."),
    ] == [(one.role, one.author, one.text) for one in turns(EXPORTS / "letta.af")]
    assert [("human", "Name: Ana"), ("human", "She is allergic to peanuts. 她喜欢喝茶。")] == [
        (one.metadata["block"], one.text) for one in statements(EXPORTS / "letta.af")
    ]
    assert 1 == skipped(EXPORTS / "letta.af")["blocks 'persona', which describe the agent"]

    def keys(*values: str, agents: int = 1) -> list[str]:
        blocks = [
            {"id": f"b{number}", "label": "human", "value": value}
            for number, value in enumerate(values)
        ]
        ids = [one["id"] for one in blocks]
        holders = [{"name": f"guide-{one}", "block_ids": ids} for one in range(agents)]
        file = written(tmp_path / "a.af", {"agents": holders, "blocks": blocks})
        return [one.key for one in statements(file)]

    tea, milk = keys("Likes tea.\n\nLikes milk.")
    assert [milk] == keys("Likes milk.")  # the first paragraph is gone
    assert [tea, milk] == keys("Likes tea.", "Likes milk.")  # two blocks have one label
    assert [tea, tea] == keys("Likes tea.", agents=2)  # agents share a block


def test_an_archive_is_read_without_unpacking_it_and_an_odd_or_damaged_one_is_named(tmp_path):
    archive = tmp_path / "export.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("chat.html", "<html>")
        first, second = json.loads((EXPORTS / "chatgpt.json").read_text("utf-8"))
        packed.writestr("conversations-000.json", json.dumps([first]))
        packed.writestr("conversations-001.json", "\ufeff" + json.dumps([second]))
    assert turns(EXPORTS / "chatgpt.json") == turns(archive)
    with pytest.raises(NotFound, match="cannot be read"):
        sources.open_source(tmp_path / "absent.json")
    with pytest.raises(NotFound, match="cannot be read"):
        sources.open_source(tmp_path)
    broken = tmp_path / "broken.zip"
    broken.write_bytes(b"PK\x03\x04 and nothing else")
    with pytest.raises(InvalidInput, match="damaged zip archive"):
        sources.open_source(broken)
    other = tmp_path / "other.zip"
    with zipfile.ZipFile(other, "w") as packed:
        packed.writestr("photo.jpg", "x")
    with pytest.raises(InvalidInput, match="holds no conversations.json, but 'photo.jpg'"):
        sources.open_source(other)
    archive = tmp_path / "export.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.write(EXPORTS / "claude.json", "conversations.json")
    content = bytearray(archive.read_bytes())
    content[60:200] = b"\xff" * 140
    archive.write_bytes(content)
    with pytest.raises(InvalidInput, match="cannot be unpacked"):
        list(sources.open_source(archive, "claude").records())


@every_case(
    (1_700_000_000, "2023-11-14T22:13:20+00:00"), (1_700_000_000_000, "2023-11-14T22:13:20+00:00"),
    ("2024-05-01T10:00:00+02:00", "2024-05-01T10:00:00+02:00"),
    ("2024-05-01", "2024-05-01T00:00:00+00:00"), ("yesterday", None),
    ("0001-01-01T00:00:00+23:59", None), (True, None), (-1, None), (float("nan"), None),
    (1e300, None), (10**400, None), (None, None), ([], None),
)  # fmt: skip
def test_what_is_no_time_is_none(given, moments):
    found = moment(given)
    assert moments == (found and found.isoformat())


def test_a_cut_off_file_one_of_another_product_and_a_huge_number_are_named_and_not_quoted(tmp_path):
    for file in FILES.values():
        text = (EXPORTS / file).read_text("utf-8")
        cut = tmp_path / file
        for length in (1, len(text) // 2, len(text.rstrip()) - 1):
            cut.write_text(text[:length], "utf-8")
            with pytest.raises(InvalidInput, match=f"^{file} was cut off, its end is missing"):
                list(sources.open_source(cut).records())
    file = tmp_path / "c.json"
    file.write_bytes(b'[{"uuid": "k", "chat_messages": [{"text": "My PIN is 4711 \xff"}]}]')
    with pytest.raises(InvalidInput, match=r"is not UTF-8 \(byte 59\): convert it") as caught:
        sources.open_source(file)
    assert "4711" not in str(caught.value) and "b'" not in str(caught.value)
    with pytest.raises(InvalidInput, match="an export of claude, not of chatgpt.*--from claude"):
        sources.open_source(EXPORTS / "claude.json", "chatgpt")
    digits = "1" * 5_000
    file = tmp_path / "numbers.json"
    file.write_text(f'[{{"a": "{digits}"}}]', "utf-8")
    assert [{"a": digits}] == list(JsonFile(file).items("item"))
    file.write_text(f'[{{"a": {digits}}}]', "utf-8")
    with pytest.raises(InvalidInput, match="is no valid JSON") as known:
        list(JsonFile(file).items("item"))
    assert len(str(known.value)) < 300


@every_case(
    (b"", "is empty: export it again"),
    (b"hello", "is no JSON: give the export as it was downloaded"),
    (b"7", "holds one JSON value"), (b"[]", "is of no product"), (b"[1, 2]", "is of no product"),
    (b'{"a": 1, "b": 2}', ".*has 'a', 'b'"), (b'[{"mapping": {}}] trailing', "is no valid JSON"),
    (b"\x00", "is no JSON"),
    ('[{"mapping": {}}]'.encode("utf-16"), "is UTF-16, not UTF-8: convert it"),
    ('[{"mapping": {}}]'.encode("utf-16-be"), "is UTF-16, not UTF-8: convert it"),
    ('[{"mapping": "上海"}]'.encode("gb18030"), "is not UTF-8 .byte 15.: convert it"),
    ('[{"mapping": "上'.encode()[:-1], "was cut off"),
    (b'"{\\"results\\": ', "was cut off"), (b"SQLite format 3\x00", "is no JSON"),
    (b'[{"mapping" 1}]', "is no valid JSON"), (b" " * 3_000_000, "is empty"),
    (b" " * 2_000_000 + b'{"a":' * 40_000, "is nested more than 500 levels deep"),
    (b'[{"mapping": "' + b"a" * 4_000_001, "holds a text of more than 4 MB"),
    (b'["' + b'\\"' * CHUNK + b'"]', "is of no product"),  # takes hours if it is not linear
    (b'["' + b"a" * (CHUNK - 3) + b'\\"' + b"[" * 600 + b'"]', "is of no product"),
    (b'"{' + b" " * 4_000_001, "is one text of more than 4 MB"),
)  # fmt: skip
def test_why_a_file_of_nobody_cannot_be_parsed_is_told(content, told, tmp_path, monkeypatch):
    monkeypatch.setattr("shared_core.transfer.sources.json_file.LONGEST_TEXT", 4_000_000)
    file = tmp_path / "odd.json"
    file.write_bytes(content)
    with pytest.raises(InvalidInput, match=f"^odd.json {told}") as caught:
        list(sources.open_source(file).records())
    assert "\n" not in str(caught.value)


def test_what_has_no_end_or_hides_its_size_is_refused_before_it_is_read(tmp_path, monkeypatch):
    with zipfile.ZipFile(bomb := tmp_path / "b.zip", "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("conversations.json", b" " * 3_000_000)
    with pytest.raises(InvalidInput, match="unpacks to 3,000,000 bytes, more than 200 times"):
        sources.open_source(bomb)
    os.mkfifo(pipe := tmp_path / "pipe")
    for endless in (Path("/dev/zero"), pipe):
        with pytest.raises(InvalidInput, match="is a device or a pipe"):
            sources.open_source(endless)
    with pytest.raises(NotFound, match="'/proc/self/mem' cannot be read"):
        opened(Path("/proc/self/mem"))
    monkeypatch.setattr(lines, "LONGEST_LINE", 1_000_000)
    (long := tmp_path / "long.jsonl").write_bytes(b"a" * 1_000_001)
    with opened(long) as file, pytest.raises(InvalidInput, match="a line of more than 1 MB"):
        list(lines.lines_of(file, "long.jsonl"))


@every_case(
    ("One thing I love: hiking", "user", "user", "One thing I love: hiking"),
    ("Tool: I bought a drill", "user", "user", "Tool: I bought a drill"),
    ("One thing (really): hiking", "user", "user", "One thing (really): hiking"),
    ("Ana: I love hiking", "Ana", "user", "I love hiking"),
    ("THEO: I love hiking", "THEO", "user", "I love hiking"),
    ("Sam (assistant): Noted: Ana", "Sam", "agent", "Noted: Ana"),
    ("(assistant): Noted", "assistant", "agent", "Noted"),
    ("assistant: Noted", "assistant", "agent", "Noted"), ("Human: hello", "Human", "user", "hello"),
)  # fmt: skip
def test_only_a_speaker_is_cut_off_an_episode(content, author, role, text, tmp_path):
    episode = {"uuid": "e", "content": content, "created_at": "2024-01-01"}
    nodes = [{"uuid": "n", "name": "Theo"}]
    document = {"user_id": "ana", "episodes": [episode], "nodes": nodes}
    [found] = turns(written(tmp_path / "z.json", document))
    assert (author, role, text) == (found.author, found.role, found.text)


def subjects(path: Path, nodes: list[dict[str, Any]], **document: Any) -> list[str]:
    edges = [
        {"uuid": f"edge-{node['uuid']}", "name": "LIVES_IN", "fact": "lives in Oslo",
         "group_id": node.get("group_id"), "created_at": "2024-01-01",
         "source_node_uuid": node["uuid"], "target_node_uuid": "oslo"}
        for node in nodes
    ]  # fmt: skip
    oslo = {"uuid": "oslo", "name": "Oslo"}
    file = written(path, {**document, "nodes": [*nodes, oslo], "edges": edges})
    return [one.subject for one in facts(file)]


Turn = tuple[str, str, str]


def records(
    tmp_path: Path, *contents: str, user: str | None = None, names: tuple[str, ...] = (), **doc: Any
) -> list[Any]:
    episodes = [
        {"uuid": f"e{number}", "source": "message", "content": content,
         "created_at": f"2024-01-{number:02}T00:00:00Z"}
        for number, content in enumerate(contents, 1)
    ]  # fmt: skip
    nodes = [{"uuid": name, "name": name} for name in names]
    file = written(tmp_path / "graph.json", {"episodes": episodes, "nodes": nodes, **doc})
    return list(sources.open_source(file).records(user))


def spoken(tmp_path: Path, *contents: str, **options: Any) -> list[Turn]:
    found = records(tmp_path, *contents, **{"user_id": "rex", **options})
    return [
        (one.role, one.author, one.text) for one in found if isinstance(one, sources.TurnRecord)
    ]


def test_each_speaker_of_an_episode_has_a_turn_with_an_id_that_stays_and_all_its_lines(tmp_path):
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
    assert [
        ("user", "Rex", "my plans\n\n- tea: 2 cups\nhttps://a.example at 12:30"),
        ("agent", "Olga", "mine\nAddress: 5 Main Street\nand so on"),
    ] == spoken(
        tmp_path,
        "Rex: my plans\n\n- tea: 2 cups\nhttps://a.example at 12:30\n"
        "Olga: mine\nAddress: 5 Main Street\nand so on",
    )
    found = records(tmp_path, "system: be kind\nRex: hi\nsearch (tool): 42", user_id="rex")
    assert 2 == sum(isinstance(one, sources.SkippedRecord) for one in found)
    assert ["e1/2"] == [one.event_id for one in found if isinstance(one, sources.TurnRecord)]
    answer = "Options:\nHotel Bella: 20 EUR\n```python\nfoo: int = 3\nclass A:\n```"
    said = [("agent", "assistant", answer), ("user", "User", "Hotel Bella"), ("user", "Rex", "Ok")]
    assert said == spoken(tmp_path, f"assistant: {answer}\nUser: Hotel Bella\nRex: Ok")
    said = [("user", "User", "hi"), ("agent", "Model", "I live in Berlin.")]
    assert said == spoken(tmp_path, "User: hi\nModel: I live in Berlin.")
    said = [("user", "Rex", "hi"), ("agent", "model", "I live in Berlin.")]
    assert said == spoken(tmp_path, "Rex: hi\nmodel: I live in Berlin.")
    assert said[1:] == spoken(tmp_path, "model: I live in Berlin.")


@every_case(
    "One thing I love: hiking", "Note: I moved to Oslo", "Step 2: mix the eggs",
    "My new address: 5 Main Street", "https://a.example is my page", "At 12:30 I eat",
    "- Olga: a friend", "I had lunch.\nDessert: cake\nOlga paid: 20", "备注：我搬到上海了",
    "我的地址：上海", "我最喜欢的城市：上海", "Todo: call Olga\nTomorrow: call Ben",
    "Wife: Mia\nSon: Leo", "Best friend: Olga", "妻子：小美", "血型：A", "出生日期：1990年5月1日",
    "家庭住址：上海", "Blood Type: A", "Model: Tesla 3", "My car:\nModel: Tesla 3\nI love it",
    "My trip:\nLondon: 3 days", "My Trip:\nLondon: 3 days",
)  # fmt: skip
def test_other_words_before_a_colon_are_no_speaker(content, tmp_path):
    assert [("user", "user", content)] == spoken(tmp_path, content, names=("London", "Model"))


@every_case(
    ("user", "Here is my profile:\nWeight: 70 kg\nWife: Mia\nI live in York"),
    ("user", "My trip:\nLondon: 3 days\nBerlin: 2 days\nI live in York"),
    ("user", "My car:\nModel: Tesla 3\nI love it"),
    ("用户", "我的资料\n体重：70\n小美：我妻子\n我住在杭州"),
    ("Rex", "My family:\nWife: Mia\nHeight: 180 cm\nModel: Tesla 3\nI live in York"),
)
def test_a_list_of_the_user_stays_in_the_turn(speaker, text, tmp_path):
    said = ("user", speaker, text)
    assert [said] == spoken(tmp_path, f"{speaker}: {text}", names=("London", "Wife"))
    answered = spoken(tmp_path, f"{speaker}: {text}\nassistant: Noted:\nLondon Bridge: 1 day")
    assert [said, ("agent", "assistant", "Noted:\nLondon Bridge: 1 day")] == answered


@every_case(
    ("Olga: I work at Volvo.", "Olga", "I work at Volvo."),
    ("Mom: I am allergic to nuts.", "Mom", "I am allergic to nuts."),
    ("Olga van der Berg: hi", "Olga van der Berg", "hi"), ("Dr. O'Neill: hi", "Dr. O'Neill", "hi"),
    ("Doctor Smith: hi", "Doctor Smith", "hi"), ("王老师：我在华为上班", "王老师", "我在华为上班"),
    ("Anne-Marie: hi", "Anne-Marie", "hi"), ("王小明：我在华为上班", "王小明", "我在华为上班"),
    ("olga: hi", "olga", "hi"), ("Olga:\nI work at Volvo.", "Olga", "I work at Volvo."),
)  # fmt: skip
def test_another_speaker_is_not_the_user(line, author, text, tmp_path):
    said = [("user", "Rex", "hi"), ("agent", author, text)]
    assert said == spoken(tmp_path, "Rex: hi", line)
    if not author.islower():
        assert said == spoken(tmp_path, f"Rex: hi\n{line}")
    assert [*said, ("user", "user", "bye")] == spoken(tmp_path, "Rex: hi", line, "user: bye")


def test_the_user_is_known_by_the_id_the_option_the_label_and_the_role(tmp_path):
    both = "Rex: hi\nOlga: hello"
    mine = [("user", "Rex", "hi"), ("agent", "Olga", "hello")]
    assert mine == spoken(tmp_path, both)
    assert mine == spoken(tmp_path, both, user_id="u-42", user="REX")
    assert mine == spoken(tmp_path, both, user_id="Rex Stone")
    label = [{"uuid": "n", "name": "Rex", "labels": ["Entity", "User"]}]
    assert mine == spoken(tmp_path, both, user_id="u-42", nodes=label)
    assert mine == spoken(tmp_path, "Rex (user): hi\nOlga: hello", user_id="u-42")
    assert mine == spoken(tmp_path, "Rex (user): hi\nOlga (user): hello")
    nobody = [("agent", "Rex", "hi"), ("agent", "Olga", "hello")]
    assert nobody == spoken(tmp_path, both, user_id="u-42")
    talk, answer = "Rex: hi\nassistant: hello", ("agent", "assistant", "hello")
    alone = [("user", "Rex", "hi"), answer]
    assert alone == spoken(tmp_path, talk, user_id="u-42", names=("Rex", "Malmo"))
    other = [("agent", "Rex", "hi"), answer]
    assert other == spoken(tmp_path, talk, user_id="ana", names=("Rex", "Ana"))
    assert [*other, ("user", "user", "ok")] == spoken(tmp_path, talk, "user: ok", user_id="ana")


@every_case(
    ("Ana Silva", ("Ana Silva", "Ana Costa"), "Ana Silva"),
    ("Ana Silva", ("Bob", "Ana Costa"), None), ("Ana Silva", ("Ana", "Ana Costa"), "Ana"),
    ("Ana", ("Bob", "Ana Costa"), "Ana Costa"), ("Ana", ("Ana", "Ana Costa"), "Ana"),
    ("Ana", ("Ana Silva", "Ana Costa"), None),
)  # fmt: skip
def test_a_first_name_alone_tells_the_user_from_others(user, speakers, own, tmp_path):
    found = spoken(tmp_path, "\n".join(f"{one}: hi" for one in speakers), user_id=user)
    assert [("user" if one == own else "agent", one, "hi") for one in speakers] == found


def test_fields_are_read_at_their_paths_by_each_documented_name_and_odd_ones_skipped(tmp_path):
    value = {"a": {"b": "text"}, "list": ["x"], "n": 3, "two": [{"b": "one"}, {"b": "other"}]}
    for fields, texts in (
        ({"a.b"}, {"a.b": "text"}),
        ({"a.b", "gone", "n.x"}, {"a.b": "text"}),
        ({"list[*]"}, {"list[*]": "x"}),
        ({"two[*].b.0", "two[*].b.1"}, {"two[*].b.0": "one", "two[*].b.1": "other"}),
        ({"two[-1].b"}, {"two[-1].b": "other"}),
        ({"n"}, {"n": "3"}),
        ({"$", "a.b"}, {"$": "a.b: text\nlist: x\nn: 3\ntwo.b: one\ntwo.b: other", "a.b": "text"}),
    ):
        assert texts == texts_of_fields(value, fields, text_of_field)
    for unknown in ({"$"}, {"gone"}, {"n.x"}, {"list[*].0"}, {"two[*].b.2"}, set[str]()):
        assert texts_of_fields(value, unknown, text_of_field) is None
    value = {"text": "t", "a": [{"b": "x"}, {"b": "y"}]}
    for path in ("text", "a[*].b", "a[0].b", "a.*.b", "a[*]", "a", "{text,a}", "*"):
        texts = get_text_at_path(value, tokenize_path(path))
        assert texts
        for number, text in enumerate(texts):
            name = f"{path}.{number}" if len(texts) > 1 else path
            assert text == text_of_field(value, name)
    file = chat(tmp_path, [{"uuid": "1", **SAID, "sender": ["x"]}, {"uuid": "2", **SAID}])
    assert (["2"], 1) == ([one.event_id for one in turns(file)], skipped(file)[UNREADABLE])
    odd = conversation()
    odd["mapping"]["u1"]["message"]["author"]["role"] = ["user"]
    odd["mapping"]["a1"]["message"]["content"]["content_type"] = {}
    file = written(tmp_path / "chatgpt.json", [odd])
    assert (3, 2) == (len(turns(file)), skipped(file)[UNREADABLE])
    deep = '{"a": ' * 490 + "7" + "}" * 490
    file = tmp_path / "m.json"
    tea = '{"id": "1", "memory": "tea", "metadata": {"a": 1E+5000, "b": 7}}'
    file.write_text(f'[{tea}, {{"id": "2", "memory": "milk", "metadata": {deep}}}]', "utf-8")
    [kept] = statements(file)
    assert ("1E+5000", 7) == (kept.metadata["a"], kept.metadata["b"])
    assert 1 == skipped(file)[UNREADABLE]
