"""When a run counts as settled, and which of its events go to the memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from every_case import every_case

if TYPE_CHECKING:
    from google.adk.events import Event


def test_a_run_is_settled_by_an_answer_to_the_user_and_a_live_conversation_at_any_time():
    from adk_events import ANSWERED, ASKED, SUMMARY, WAITING, Part, call, event, response, spoken

    from adk_memory.events import is_settled

    @every_case(
        (False, []), (False, [ASKED]), (True, [ASKED, ANSWERED]),
        (True, [ASKED, event("bot", Part.from_bytes(data=b"", mime_type="image/png"))]),
        (False, [ASKED, event("bot", Part(text="hm", thought=True))]),
        (False, [ASKED, event("bot")]), (False, [ASKED, event("bot", "h", partial=True)]),
        (True, [ASKED, ANSWERED, event("bot")]),  # e.g. a state change after the answer
        (False, [ASKED, call()]), (False, [ASKED, call(), response()]),
        (True, [ASKED, call(), response(), ANSWERED]),
        (True, [ASKED, call(), response(actions=SUMMARY)]),  # a tool's result is the answer
        (False, [ASKED, ANSWERED, call()]),
        (False, [ASKED, WAITING]),
        (False, [ASKED, WAITING, ANSWERED]),  # answered beside a call that is still open
        (True, [ASKED, WAITING, response(), ANSWERED]),
        (False, [ASKED, WAITING, response("user")]),
        (True, [ASKED, WAITING, response("user"), ANSWERED]),
        (False, [ASKED, event("bot", error_code="SAFETY")]),
        (False, [ASKED, ANSWERED, event("bot", error_code="SAFETY")]),
        (True, [ASKED, event("bot", error_code="503"), ANSWERED]),  # the second try
        (False, [ASKED, event("bot", "hi", interrupted=True)]),
        (True, [spoken("user", "hello"), spoken("bot", "hi")]),
        (True, [spoken("bot", "hi"), spoken("user", "hello")]),  # transcriptions cross
        (False, [spoken("user", "hello"), spoken("bot", "h", partial=True)]),
        (False, [ASKED, ANSWERED, event("user", "and?")]),
    )  # fmt: skip
    def check(expected: bool, events: list[Event]) -> None:
        assert expected == is_settled(events)

    check()
    from adk_events import ANSWERED, ASKED, WAITING, event, spoken

    @every_case(
        (True, [spoken("user", "hello"), spoken("bot", "hi"), event("bot", interrupted=True)]),
        (True, [ASKED, ANSWERED, event("user", "and?")]),
        (False, [spoken("user", "hello")]),
        (False, [ASKED, ANSWERED, WAITING]),
    )
    def check(expected: bool, events: list[Event]) -> None:
        assert expected == is_settled(events, live=True)

    check()
    from adk_events import ANSWERED, ASKED, WAITING, event, response

    from adk_memory.events import is_answered

    assert is_answered([ASKED, ANSWERED])
    assert not is_answered([ASKED])
    assert not is_answered([ASKED, event("helper", "hi", isolation_scope="c")])
    assert not is_answered([ASKED, WAITING, response()])


def test_a_run_gives_its_own_events_and_those_that_may_be_missing_and_after_a_rewind_all():
    from adk_events import ANSWERED, ASKED, event

    from adk_memory.events import events_to_remember

    old, settled = ([event(who, "said", invocation_id=run) for who in ("user", "bot")]
                    for run in ("f", "g"))  # fmt: skip
    failed = event("user", "before", invocation_id="h")
    inner = event("user", "for a helper", invocation_id="")
    session = [*old, *settled, failed, ASKED, inner, ANSWERED]
    assert [*settled, failed, ASKED, ANSWERED] == events_to_remember(session, "i")
    from adk_events import ANSWERED, ASKED, EventActions, event

    from adk_memory.events import events_to_remember

    before = event("user", "before", invocation_id="h")
    inner = event("user", "for a helper", invocation_id="")
    actions = EventActions(rewind_before_invocation_id="h")
    rewind = event("user", invocation_id="r", actions=actions)
    session = [before, rewind, ASKED, inner, ANSWERED]
    assert [before, rewind, ASKED, ANSWERED] == events_to_remember(session, "i")


def test_a_message_is_its_text_and_a_turn_is_shown_where_whole_lines_of_the_request_are_it():
    from adk_events import Part, types

    from adk_memory.events import spoken_text

    image = Part.from_bytes(data=b"", mime_type="image/png")
    thought = Part(text="hm", thought=True)
    message = types.Content(parts=[Part(text="what is"), image, thought, Part(text="this?")])
    assert "what is this?" == spoken_text(message)
    for nothing in (None, types.Content(), types.Content(parts=[image, Part(text=" ")])):
        assert "" == spoken_text(nothing)
    from adk_events import event

    from adk_memory.recall_block import shown_ids

    room, long = event("user", "42", id="room"), event("bot", "Yes.\nIn Ghent.", id="long")
    turns = [room, long, event("bot", "Yes.", "No.", id="both")]

    def ids(*shown: str) -> set[str]:
        return set(shown_ids(frozenset(shown), turns))

    assert set() == ids("In 1420 what happened?", "Room 42", "42 is it", "Yes. In Ghent.")
    assert {"room"} == ids("42") == ids("Tell me.\n 42 \nPlease.") == ids("1420\n[bot] said: 42")
    assert {"long"} == ids("[bot] said:\n<<<BEGIN>>>\nYes.\nIn Ghent.\n<<<END>>>")
    assert {"long"} == ids("Oh Yes.\nIn Ghent.\nYes.\nIn Ghent.")
    assert {"both"} == ids("Yes.", "[bot] said: No.")
