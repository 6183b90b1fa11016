"""remember, recall and forget as a model calls them, through ADK's runner."""

from typing import Any

import pytest
from every_case import every_case
from google.adk.agents import LlmAgent
from google.adk.apps import App
from google.adk.memory import InMemoryMemoryService
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.adk.tools.function_tool import FunctionTool
from google.genai import types

from adk_memory import OpenMemoryService, forget, recall, remember

PARROT = "Ann's parrot is called Rio."


class Caller(BaseLlm):
    """Calls the tool that the message names, e.g. "recall query=parrot"."""

    async def generate_content_async(self, llm_request: LlmRequest, stream: bool = False) -> Any:
        [part] = llm_request.contents[-1].parts or []
        if part.function_response:
            answer = types.Part(text="done")
        else:
            name, _, argument = (part.text or "").partition(" ")
            key, _, value = argument.partition("=")
            answer = types.Part.from_function_call(name=name, args={key: value})
        yield LlmResponse(content=types.Content(role="model", parts=[answer]))


def make(service: Any) -> Runner:
    agent = LlmAgent(name="bot", model=Caller(model="m"), tools=[remember, recall, forget])
    return Runner(
        app=App(name="support", root_agent=agent), session_service=InMemorySessionService(),
        memory_service=service, auto_create_session=True,
    )  # fmt: skip


async def call(runner: Runner, call: str, user: str = "ann") -> dict[str, Any]:
    """Let the model make a call; return what it was shown in response."""
    said = types.UserContent(call)
    run = runner.run_async(user_id=user, session_id=f"{user}-1", new_message=said)
    responses = [r.response async for event in run for r in event.get_function_responses()]
    assert 1 == len(responses) and isinstance(responses[0], dict)
    return responses[0]


@pytest.fixture
async def runner(dsn):
    async with OpenMemoryService(dsn) as service:
        yield make(service)


async def test_what_is_remembered_is_recalled_and_forgotten(runner):
    remembered = await call(runner, f"remember text={PARROT}")
    assert PARROT == remembered["remembered"]
    [found] = (await call(runner, "recall query=What is the parrot called?"))["memories"]
    assert remembered["id"] == found["id"]
    assert (PARROT, "bot") == (found["text"], found["author"])
    assert found["time"].endswith("+00:00")
    assert {"id", "text", "author", "time"} == found.keys()
    gone = await call(runner, f"forget memory_id={found['id']}")
    assert found["id"] == gone["forgotten"]
    assert {"memories": []} == await call(runner, "recall query=What is the parrot called?")


async def test_a_fact_is_one_memory_comes_back_and_is_forgotten_by_its_user_alone(runner):
    first = await call(runner, f"remember text={PARROT}")
    assert first == await call(runner, f"remember text= {PARROT} ")
    assert 1 == len((await call(runner, "recall query=parrot"))["memories"])
    await call(runner, f"forget memory_id={first['id']}")
    await call(runner, f"remember text={PARROT}")
    assert 1 == len((await call(runner, "recall query=parrot"))["memories"])
    remembered = await call(runner, f"remember text={PARROT}")
    assert {"memories": []} == await call(runner, "recall query=parrot", user="bob")
    await call(runner, f"forget memory_id={remembered['id']}", user="bob")
    assert 1 == len((await call(runner, "recall query=parrot"))["memories"])


@every_case("remember text=", "recall query=  ", "forget memory_id=\n")
async def test_an_empty_argument_is_answered(asked, runner):
    assert "is empty" in (await call(runner, asked))["error"]


@every_case(f"remember text={PARROT}", "recall query=parrot", "forget memory_id=1")
async def test_without_a_service_the_model_is_told_so(asked):
    assert "no memory service is configured" in (await call(make(None), asked))["error"]


@every_case("remember text=x", "forget memory_id=1")
async def test_a_memory_that_is_gone_is_told_to_the_model(asked):
    nowhere = OpenMemoryService("postgresql://nobody@127.0.0.1:1/nothing?connect_timeout=1")
    assert "cannot be reached" in (await call(make(nowhere), asked))["error"]


async def test_they_work_with_a_service_of_adk_as_far_as_it_goes():
    runner = make(InMemoryMemoryService())
    assert {"memories": []} == await call(runner, "recall query=parrot")
    assert "cannot remember" in (await call(runner, f"remember text={PARROT}"))["error"]


@every_case((remember, "text"), (recall, "query"), (forget, "memory_id"))
def test_a_model_is_told_what_each_is_for(tool, argument):
    declared = FunctionTool(tool)._get_declaration()
    assert declared and tool.__name__ == declared.name
    assert "memory" in (declared.description or "")
    assert [argument] == list((declared.parameters_json_schema or {})["properties"])
