"""What a URI on ADK's command line means, and what ADK's registry makes of it."""

import pytest
from every_case import every_case

from adk_memory.uri import OPTIONS, engine_arguments, parse_uri
from shared_core import ExtractionStrategy, InvalidInput, ModelLimits, open_memory

PASSWORD = "s3cret"


@every_case(
    ("hippocampus://", (None, {})), ("hippocampus://?", (None, {})),
    ("HIPPOCAMPUS://?top_k=5", (None, {"top_k": 5})), ("embedded", ("embedded", {})),
    ("hippocampus:///srv/memory", ("embedded:///srv/memory", {})),
    ("hippocampus:///srv/my%20memory", ("embedded:///srv/my memory", {})),
    ("hippocampus:///srv/m?schema=bot&", ("embedded:///srv/m", {"schema": "bot"})),
    ("hippocampus+postgresql://h/db", ("postgresql://h/db", {})),
    ("hippocampus+postgresql://", ("postgresql://", {})),
    ("hippocampus+postgresql://u:p%40%2F%3F@h:5433/db?sslmode=require&top_k=7&options=a%20b",
     ("postgresql://u:p%40%2F%3F@h:5433/db?sslmode=require&options=a%20b", {"top_k": 7})),
    ("hippocampus+postgresql://u:p?top_k=1@h1,h2:5433/db?top_k=2",
     ("postgresql://u:p?top_k=1@h1,h2:5433/db", {"top_k": 2})),
    ("hippocampus+postgresql:///db?host=/tmp&user=a@b&wait=no",
     ("postgresql:///db?host=/tmp&user=a@b", {"wait": False})),
    ("embedded:///folder?top_k=1", ("embedded:///folder?top_k=1", {})),
    ("postgresql://u:p@h/db?sslmode=require", ("postgresql://u:p@h/db?sslmode=require", {})),
    ("host=localhost dbname=db", ("host=localhost dbname=db", {})),
)  # fmt: skip
def test_a_uri_names_a_memory_and_its_options(uri, expected):
    assert expected == parse_uri(uri)


def test_options_come_with_their_types_and_a_value_that_the_service_refuses_is_an_error():
    query = (
        "schema=a_b&embedder=google%3Agemini-embedding-001&top_k=3&max_chars=200&pool_size=2"
        "&min_relevance=0.25&deadline_s=2&include_tool_results=TRUE&wait=0&fail_open=yes"
        "&delete_memories=1&llm=gemini-3.5-flash&memories=turns&delay_s=60&event_count=20"
        "&timezone=Asia%2FTokyo&token_threshold=off&llm_timeout_s=30&llm_concurrency=2&llm_retries=1&llm_max_tokens=900"
    )
    _, options = parse_uri(f"hippocampus://?{query}")
    expected = {
        "schema": "a_b", "embedder": "google:gemini-embedding-001", "top_k": 3, "max_chars": 200,
        "pool_size": 2, "min_relevance": 0.25, "deadline_s": 2.0, "include_tool_results": True,
        "wait": False, "fail_open": True, "delete_memories": True, "llm": "adk:gemini-3.5-flash",
        "memories": "turns", "delay_s": 60.0, "event_count": 20, "token_threshold": None,
        "llm_timeout_s": 30.0, "llm_concurrency": 2, "llm_retries": 1, "llm_max_tokens": 900,
        "timezone": "Asia/Tokyo",
    }  # fmt: skip
    assert expected == options
    arguments = engine_arguments(options)
    of_engine = ["embedder", "llm", "llm_limits", "pool_size", "schema", "strategy", "timezone"]
    assert of_engine == sorted(arguments)
    strategy = ExtractionStrategy(delay_s=60, event_count=20, token_threshold=None)
    assert strategy == arguments["strategy"]
    limits = ModelLimits(timeout_s=30, concurrency=2, retries=1, max_tokens=900)
    assert limits == arguments["llm_limits"]
    assert {"llm": "langchain:openai:m"} == parse_uri("hippocampus://?llm=langchain:openai:m")[1]
    assert OPTIONS.keys() == options.keys()
    from adk_memory.registry import make_memory_service

    with pytest.raises(InvalidInput, match="top_k"):
        make_memory_service("hippocampus://?top_k=0")


@every_case(
    ("topk=5", "'topk'.*top_k"), ("sslmode=require", "'sslmode'.*schema"),
    ("top_k=five", "'top_k'.*whole number.*'five'"), ("top_k=-1", "whole number"),
    ("top_k=", "whole number"), ("top_k=²", "whole number"), ("top_k", "whole number"),
    ("wait=maybe", "'wait'.*true or false"), ("deadline_s=nan", "a number"),
    ("deadline_s=inf", "a number"), ("min_relevance=-0.1", "a number"),
    ("schema=", "'schema'.*a text"), ("top_k=1&top_k=2", "twice"),
)  # fmt: skip
def test_an_option_that_cannot_be_meant_is_refused(option, hint):
    with pytest.raises(InvalidInput, match=hint):
        parse_uri(f"hippocampus://?{option}")


@every_case(
    f"hippocampus://u:{PASSWORD}@host/db",
    f"hippocampus+postgresql://u:{PASSWORD}@host/db?top_k=many",
    f"hippocampus+postgresql://u:{PASSWORD}@host/db?password={PASSWORD}&wait=perhaps",
    "hippocampus://folder/without/slash",
)
def test_no_message_tells_a_password(uri):
    with pytest.raises(InvalidInput) as refused:
        parse_uri(uri)
    assert PASSWORD not in str(refused.value)
    assert refused.value.__cause__ is None


@pytest.mark.parametrize(
    "uri", ["hippocampus://", "hippocampus+postgresql://u:p@h/db?connect_timeout=1"]
)
async def test_memory_and_sessions_of_one_uri_share_one_memory(uri):
    from google.adk.cli.service_registry import ServiceRegistry

    from adk_memory import OpenMemoryService, PgSessionService, register
    from adk_memory.registry import close_shared

    registry = ServiceRegistry()
    register(registry)
    uri += "&top_k=3&delete_memories=yes" if "?" in uri else "?top_k=3&delete_memories=yes"
    memory = registry.create_memory_service(uri, agents_dir="agents")
    sessions = registry.create_session_service(uri, agents_dir="agents")
    assert isinstance(memory, OpenMemoryService) and isinstance(sessions, PgSessionService)
    assert memory.engine is sessions.engine
    await close_shared()


async def test_other_addresses_are_other_memories_and_an_engine_in_place_of_one_is_refused():
    from adk_memory.registry import close_shared, make_memory_service

    uris = ["hippocampus://", "hippocampus:///a", "hippocampus:///b", "hippocampus://?schema=other"]
    assert 4 == len({id(make_memory_service(uri).engine) for uri in uris})
    first, second = make_memory_service("hippocampus://?top_k=1"), make_memory_service(uris[0])
    assert first.engine is second.engine and first is not second
    await first.close()
    await close_shared()
    from adk_memory import OpenMemoryService, PgSessionService
    from adk_memory.registry import close_shared, make_memory_service
    from langgraph_store import PgHippocampusStore

    engine = make_memory_service("hippocampus://").engine
    for service in (OpenMemoryService, PgSessionService):
        with pytest.raises(InvalidInput, match="by its name: engine=memory"):
            service(engine)
        with pytest.raises(InvalidInput, match="either a uri or an engine"):
            service("embedded", engine=engine)
    with pytest.raises(InvalidInput, match="by its name: engine=memory"):
        PgHippocampusStore(engine)
    with pytest.raises(InvalidInput, match="use it as it is"):
        open_memory(engine)
    await close_shared()
