"""The memory follows a LangGraph conversation: edits, forks, removals, and what a run cuts away."""

from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import (
    AgentMiddleware,
    ModelCallLimitMiddleware,
    PIIMiddleware,
    SummarizationMiddleware,
    ToolCallLimitMiddleware,
)
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, RemoveMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.message import REMOVE_ALL_MESSAGES

from langgraph_store import HippocampusMiddleware, PgHippocampusStore, create_reflection_node
from shared_core import run_sync
from tests.integration.scripted_chat import ScriptedChatModel, calls

GHENT, TURIN = "I live in Ghent.", "My brother lives in Ghent, I live in Turin."


@tool
def look(q: str) -> str:
    """Looks something up."""
    return f"found {q}"


class Chat:
    """A conversation with an agent, or with a graph that has a reflection node."""

    def __init__(self, memory: Any, scope: Any, *middleware: Any, **more: Any) -> None:
        self.memory, self.scope, self.model = memory, scope, ScriptedChatModel()
        self.store = PgHippocampusStore(engine=memory)
        self.config: Any = {"configurable": {"thread_id": "t", "user_id": scope.user}}
        saver = more.pop("checkpointer", InMemorySaver())
        if more.pop("node", False):
            builder = StateGraph(MessagesState)
            builder.add_node("answer", lambda s: {"messages": self.model.invoke(s["messages"])})
            builder.add_node("reflect", create_reflection_node(self.store, app=scope.app))
            builder.add_edge(START, "answer").add_edge("answer", "reflect")
            self.agent: Any = builder.compile(checkpointer=saver)
            return
        own = HippocampusMiddleware(self.store, app=scope.app)
        self.agent = create_agent(
            self.model, middleware=[*middleware, own], checkpointer=saver, **more
        )

    def say(self, text: str, message_id: str | None = None, at: Any = None) -> None:
        said = {"messages": [HumanMessage(text, id=message_id)]}
        self.agent.invoke(said, at or self.config)

    def change(self, *messages: AnyMessage) -> None:
        self.agent.update_state(self.config, {"messages": list(messages)})

    def before(self, message_id: str) -> Any:
        """Return the checkpoint before a message was there."""
        states = self.agent.get_state_history(self.config)
        found = [one for one in states
                 if message_id not in {m.id for m in one.values.get("messages", [])}]  # fmt: skip
        return {**self.config, "configurable": {**self.config["configurable"],
                **found[0].config["configurable"]}}  # fmt: skip

    def turns(self, role: str = "user") -> list[str]:
        assert run_sync(self.memory.flush(60))
        kept = run_sync(self.memory.thread_turns(self.scope, "t"))
        return [turn.text for turn in kept if turn.role == role]


def same_id(chat: Chat) -> None:
    chat.change(HumanMessage(TURIN, id="m1"))
    chat.say("thanks")


def fork(chat: Chat) -> None:
    chat.say(TURIN, "m2", chat.before("m1"))


def removed(chat: Chat) -> None:
    chat.change(RemoveMessage(id="m1"))
    chat.say(TURIN)


def removed_end(chat: Chat) -> None:
    chat.say("I live in Pisa.", "m2")
    last = chat.agent.get_state(chat.config).values["messages"][-1]
    chat.change(RemoveMessage(id="m2"), RemoveMessage(id=last.id))
    chat.say(TURIN)


def cleared(chat: Chat) -> None:
    chat.change(RemoveMessage(id=REMOVE_ALL_MESSAGES))
    chat.say(TURIN)


@pytest.mark.parametrize(
    ("change", "node", "said"),
    [
        (same_id, False, [TURIN, "thanks"]), (same_id, True, [TURIN, "thanks"]),
        (fork, False, [TURIN]), (fork, True, [TURIN]),
        (removed, False, [TURIN]), (removed_end, False, [GHENT, TURIN]),
        (removed_end, True, [GHENT, TURIN]), (cleared, False, [GHENT, TURIN]),
    ],
)  # fmt: skip
def test_the_memory_holds_what_the_conversation_holds(shared_memory, scope, change, node, said):
    chat = Chat(shared_memory, scope, node=node)
    chat.say(GHENT, "m1")
    assert chat.turns() == [GHENT]
    change(chat)
    assert chat.turns() == said
    homes = run_sync(shared_memory.facts(scope, "residence"))
    assert [one.value for one in homes] == ["Turin"]


@pytest.mark.parametrize("node", [False, True])
def test_a_client_that_sends_a_window_loses_no_turn(shared_memory, scope, node):
    chat = Chat(shared_memory, scope, node=node, checkpointer=None)
    sent: list[Any] = []
    for number, text in enumerate((GHENT, "I keep bees.", "I like tea.")):
        asked = {"messages": [*sent[:2], HumanMessage(text, id=f"m{number}")]}
        sent += chat.agent.invoke(asked, chat.config)["messages"][-2:]
    assert chat.turns() == [GHENT, "I keep bees.", "I like tea."]


def summarising() -> Any:
    model = ScriptedChatModel(answers=[AIMessage(f"SUMMARY {number}") for number in range(9)])
    return SummarizationMiddleware(model=model, trigger=("messages", 4), keep=("messages", 2))


class Moderating(AgentMiddleware):
    """Says something else in the place of what the model answered."""

    def after_model(self, state: Any, runtime: Any) -> Any:
        notice = {"content": "I'm sorry, but that breaks our policy."}
        return {"messages": [state["messages"][-1].model_copy(update=notice)]}


@pytest.mark.parametrize(
    ("middleware", "agent"),
    [
        (summarising, ["Let me see.", "Done."]),
        (lambda: ModelCallLimitMiddleware(run_limit=2), ["Let me see."]),
        (lambda: ToolCallLimitMiddleware(run_limit=1, exit_behavior="end"), ["Let me see."]),
        (lambda: PIIMiddleware("email", apply_to_output=True), ["Let me see.", "Done."]),
        (Moderating, []),
    ],
)  # fmt: skip
def test_a_run_keeps_what_was_said_in_it_and_no_more(shared_memory, scope, middleware, agent):
    chat = Chat(shared_memory, scope, middleware(), tools=[look])
    asked = [calls("look", q=str(number)) for number in range(3)]
    asked[0].content = "Let me see."
    for number, one in enumerate(asked):
        one.tool_calls[0]["id"] = f"c{number}"
    chat.model.answers = [*asked, AIMessage("Done.")]
    chat.say("I keep bees in Tartu, write to an@example.com.")
    [said] = chat.turns()
    assert said.startswith("I keep bees in Tartu, write to ")
    assert ("REDACTED" in said) is isinstance(middleware(), PIIMiddleware)
    assert chat.turns("agent") == agent
    chat.say("thanks a lot")
    assert len(chat.turns()) == 2 and chat.turns("agent")[: len(agent)] == agent


def test_a_failed_run_is_stored(shared_memory, scope):
    class Failing(ScriptedChatModel):
        def _generate(self, *_: Any, **__: Any) -> Any:
            raise RuntimeError("no quota")

    chat = Chat(shared_memory, scope)
    failing = create_agent(Failing(), middleware=[HippocampusMiddleware(chat.store, app=scope.app)])
    with pytest.raises(RuntimeError, match="no quota"):
        failing.invoke({"messages": [HumanMessage(GHENT)]}, chat.config)
    assert chat.turns() == [GHENT]
