"""Where the memory lives; a URI with a mistake is refused by name and tells no password."""

import asyncio
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import pytest
from every_case import every_case

from adk_memory import MemoryPlugin, OpenMemoryService, PgSessionService
from langgraph_store import PgHippocampusStore, create_reflection_node
from langgraph_store.middleware import HippocampusMiddleware
from langgraph_store.server import make_store
from shared_core import InvalidInput, open_memory
from shared_core.core import environment
from shared_core.settings import load_settings, redacted
from shared_core.storage.oceanbase.connection.connections import location_of


def test_an_argument_wins_over_the_environment_and_that_over_the_home(monkeypatch, tmp_path):
    monkeypatch.setenv("HIPPOCAMPUS_HOME", str(tmp_path))
    assert tmp_path == load_settings().embedded_home
    monkeypatch.setenv("HIPPOCAMPUS_URI", "postgresql://from.environment/db")
    assert load_settings().uri == "postgresql://from.environment/db"
    assert load_settings("postgresql://argument/db").uri == "postgresql://argument/db"


@every_case(
    (Path("/data/memory"), Path("/data/memory")), ("embedded:///data/memory", Path("/data/memory")),
    ("postgresql://h/d", None), ("postgres://h/d", None), ("host=h dbname=d", None),
)  # fmt: skip
def test_a_folder_is_an_embedded_memory_in_it_and_a_dsn_names_a_server(uri, home):
    assert home == load_settings(uri).embedded_home


@every_case(
    "postgresql://user:secret@host:5432/db", "postgresql://user:sec:ret@host/db?sslmode=require",
    "host=h user=u password=secret dbname=d", "host=h password='secret with space' dbname=d",
    "host=h password=top\\ secret dbname=d", "host=h password=top&secret dbname=d",
    "host=h password='top\\' secret' dbname=d", "postgresql://host/db?user=u&password=secret",
)  # fmt: skip
def test_a_password_is_never_shown(uri):
    shown = redacted(uri)
    assert "sec" not in shown
    assert "host" in shown


@every_case(
    "seekdb://user:secret@host/db",
    "oceanbase://root@shop#east:sec@ret/x@host:2881/app",
    "oceanbase://user@tenant#cluster:password@sec@host:2881/db",
    "seekdb://user:password@sec/ret@host:2881/db",
)
def test_a_password_within_a_message_is_not_shown_either(uri):
    for shown in (redacted(uri), redacted(f"the database at '{uri}' cannot be used")):
        assert "sec" not in shown and "ret" not in shown
        assert ":***@host" in shown


@every_case("nonsense", "seekdb://nowhere")
def test_the_forms_of_a_message_stay_readable(uri):
    with pytest.raises(InvalidInput, match="password@host") as refused:
        location_of(load_settings(uri).uri)
    assert str(refused.value) == redacted(str(refused.value))


@every_case(
    ("", "embedded", 20_000), ("", "seekdb:///x", 100_000), ("", "oceanbase://root@h/x", 100_000),
    ("300", "embedded", 300), ("300", "seekdb:///x", 300), (" OFF ", "embedded", None),
)  # fmt: skip
def test_the_threshold_of_indexes_depends_on_the_engine_unless_it_is_set(text, uri, threshold):
    with mock.patch.dict("os.environ", HIPPOCAMPUS_ANN_THRESHOLD=text):
        assert threshold == load_settings(uri).ann_threshold


SERVED = lambda: asyncio.run(make_store().__aenter__())  # noqa: E731
FACES = (open_memory, OpenMemoryService, PgSessionService, PgHippocampusStore, SERVED)


@every_case(
    ("ANN_THRESHOLD", "0 -5 many 1e4", "number of vectors above 0 .* or 'off'"),
    ("CLEANUP_HOURS", "0 -1 soon nan inf 1e9", "number of hours above 0 and up to 87,600, or"),
    ("RESIDENT_MB", "-1 x", "from 0"), ("POOL_SIZE", "0 0x 2.5", "above 0 and up to 10,000"),
    *((f"{name}_MINUTES", "soon 0", "above 0") for name in ("DEFAULT_TTL", "SWEEP_INTERVAL")),
    *((it, "so", "'on'") for it in ("FORGET_REQUESTS", "GRAPH", "PROFILES", "PREPARE", "HINTS")),
    ("TIMEZONE", "Mars/Olympus", "a time zone"), ("PRIVACY", "paranoid", "'strict' or 'off'"),
    ("LLM", "gpt adk: openai:gpt foo:x langchain:openai langchain:openai:", "'adk:MODEL' or"),
    ("EMBEDDER", "? e6 e5:foo use:x adk:x google: :x", "'e5', 'use'"),
    ("SEARCH", "magic", "'vector', 'hybrid' or 'text'"), ("LANG", "fr english", "'en' or 'zh'"),
    ("SCHEMA", "Upper pg_a", "63 lower-case"), ("SESSION_TIMEOUT", "30m", "a whole number"),
    ("MEMORY_STRATEGIES", "magic", "privacy_filter"), ("LLM_RETRIES", "x", "a number"),
)  # fmt: skip
def test_a_wrong_value_of_a_setting_is_named_by_each_face(name, values, allowed):
    for value, face in product(values.split(), FACES):
        with mock.patch.dict("os.environ", {f"HIPPOCAMPUS_{name}": value}):
            with pytest.raises(InvalidInput, match=f"^HIPPOCAMPUS_{name}\\b.*{allowed}") as told:
                face()
            assert f"'{value}'" in str(told.value)


@every_case("LANG C", "LANG fr_FR.UTF-8", "LANG sr@latin", "LLM adk:a b", "EMBEDDER ollama:a b")
def test_any_locale_and_a_model_with_a_blank_in_its_name_are_taken(told):
    name, _, value = f"HIPPOCAMPUS_{told}".partition(" ")
    assert value == environment.setting(name, environment={name: value})


STORE = SimpleNamespace(engine=None)
SWITCHES = ("forget_requests", "graph_enabled", "profiles", "worker", "track_access", "create")


@every_case(
    *((open_memory, {name: "off"}, "True or False, got 'off'") for name in SWITCHES),
    (open_memory, {"pool_size": 0}, "between 1 and"), (open_memory, {"uri": 5}, "a text or a Path"),
    (open_memory, {"pool_size": True}, "a whole number"), (open_memory, {"privacy": ""}, "unknown"),
    (open_memory, {"llm_limits": {"a": 1}}, "a ModelLimits, got a dict"),
    (open_memory, {"extractor": print}, "an object with .*window_tokens"),
    (open_memory, {"strength": "x"}, "a func"), (open_memory, {"clock": 5}, "a function, got 5"),
    (open_memory, {"timezone": ""}, "a time zone"), (open_memory, {"relations": []}, "a mapping"),
    (OpenMemoryService, {"wait": "no"}, "True or"), (OpenMemoryService, {"top_k": "5"}, "whole"),
    (PgSessionService, {"delete_memories": "no"}, "True"), (MemoryPlugin, {"recall": None}, "True"),
    (PgHippocampusStore, {"pool_size": 0}, "between 1"), (PgHippocampusStore, {"ttl": 5}, "a map"),
    *((open_memory, {"schema": bad}, "63 lower-case letters")
      for bad in ("", "Upper", "with space", "pg_mine", "1st", "a" * 64, 'q"uote')),
    (MemoryPlugin, {"max_tokens": 0}, "at least 1"), (MemoryPlugin, {"place": "x"}, "or 'system'"),
    *((HippocampusMiddleware, {name: bad, "store": STORE, "app": "a"}, f"(must|between).*{bad}")
      for name, bad in (("max_tokens", 0), ("place", "state"), ("delay_s", -1))),
    (HippocampusMiddleware, {"store": 5, "app": "a"}, "an object with engine, got 5"),
    (create_reflection_node, {"store": 5, "app": "a"}, "an object with engine, got 5"),
)  # fmt: skip
def test_an_argument_of_another_type_is_named_with_what_is_allowed(face, given, allowed):
    with pytest.raises(InvalidInput, match=f"^{next(iter(given))} .*{allowed}"):
        face(**given)


@every_case("postgresql", "oceanbase")
def test_a_long_token_for_a_password_is_masked(scheme):
    """Tokens of cloud identities have some thousand characters."""
    token = "aB3" * 2_000
    assert token[:9] not in redacted(f"no server at {scheme}://ann:{token}@host/db, said ann@host")
    with pytest.raises(InvalidInput) as raised:
        load_settings(f"mysql://ann:{token}@host/db")
    assert token[:9] not in str(raised.value)


@pytest.mark.parametrize(("uid", "is_shared"), [(0, True), (1000, False)])
def test_root_has_a_default_folder_that_its_server_can_reach(monkeypatch, uid, is_shared):
    monkeypatch.delenv("HIPPOCAMPUS_HOME")
    monkeypatch.setattr("os.geteuid", lambda: uid)
    assert (load_settings().home == Path("/var/lib/hippocampus")) is is_shared


def test_a_folder_that_depends_on_where_one_stands_is_refused(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HIPPOCAMPUS_HOME", "记忆/home")
    with pytest.raises(InvalidInput, match=f"from the root, got .*: write '{tmp_path}/记忆/home'"):
        load_settings()
    assert load_settings("postgresql:///shop").embedded_home is None


def test_an_os_user_without_a_home_is_asked_for_a_folder(monkeypatch):
    for name in ("HIPPOCAMPUS_HOME", "HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("os.geteuid", lambda: 12345)
    monkeypatch.setattr("os.getuid", lambda: 12345)
    with pytest.raises(InvalidInput, match="set HIPPOCAMPUS_HOME"):
        load_settings()
    assert load_settings("postgresql:///shop").embedded_home is None


@every_case(
    ("postgresql://h/d?prepare=off", "postgresql://h/d", False),
    ("postgresql://h/d?prepare=off&sslmode=require", "postgresql://h/d?sslmode=require", False),
    ("postgres://h/d?sslmode=require&prepare=on", "postgres://h/d?sslmode=require", True),
    ("postgresql://h/d?a=1&prepare=off&b=2", "postgresql://h/d?a=1&b=2", False),
    ("host=h dbname=d", "host=h dbname=d", None),
)
def test_a_uri_says_whether_statements_are_prepared_else_the_environment(uri, sent, prepares):
    for text in ("on", "off"):
        with mock.patch.dict("os.environ", HIPPOCAMPUS_PREPARE=text):
            settings = load_settings(uri)
        expected = text == "on" if prepares is None else prepares
        assert (sent, expected) == (settings.uri, settings.prepare)


HERE = Path.cwd()


@every_case(
    ("mysql://u:geheim@h/db", "MySQL is not supported"),
    ("mysql+pymysql://u:ge heim@h/db", "oceanbase://user@tenant#cluster"),
    ("postgresql+psycopg://u:geheim@h/db", "write 'postgresql://'"),
    ("OceanBase://u:geheim@h/db", "write 'oceanbase://'"), ("SEEKDB:///data", "'seekdb:///data'"),
    ("sqlite:///x", "unknown form: take 'embedded'"), ("/just/a/path", "embedded:///folder"),
    ("", "embedded:///folder"), ("postgresql://h/d?prepare=no", "'on' or 'off', got 'no'"),
    ("embedded://memory", f"'embedded://{HERE}/memory'"),
    ("embedded:memory", f"'embedded://{HERE}/memory'"), ("./memory", f"'embedded://{HERE}/memory'"),
    ("~/memory", f"'embedded://{Path.home()}/memory'"),
    ("seekdb:memory", f"'seekdb://{HERE}/memory'"), ("embedded:///", "root of all files"),
    ("embedded:///memory?schema=a", "takes no options after"),
    ("postgresql://u:***@h/db", "stars"), ("oceanbase://root@shop#east:********@h/db", "stars"),
    ("host=h password=*** user=u", "stars"),
    ("postgresql://h/db?user=u&password=***&sslmode=require", "stars"),
    ("postgresql://u:ge@heim@h:5432/db", "'@' as %40"),
    ("postgresql://u:ge/heim@h/db", "'/' as %2F"), ("postgresql://u:g@e/heim@h/db", "'/' as %2F"),
    ("postgresql://u:ge/he?im@h/db", "'/' as %2F"), ("postgresql://u:ge%heim@h/db", "'%' as %25"),
    ("postgresql://u:ge heim@h/db", "a blank as %20"),
    ("oceanbase://u:ge\theim@h/db", "a blank as %20"),
    ("host=h password=ge heim user=u", "goes in quotes"),
    ("host=h password=ge heim", "goes in quotes"),
)  # fmt: skip
def test_a_mistake_is_named_with_the_way_out(uri, said):
    with pytest.raises(InvalidInput) as refused:
        load_settings(uri)
    assert said in str(refused.value)
    assert "heim" not in str(refused.value)


@every_case(
    "embedded", "embedded:///data/my memory", "seekdb:///data/my memory?database=app",
    "seekdb:///my folder@home/x", "seekdb://host/db?ssl_ca=/my certs/ca@x.pem",
    "seekdb://u:p/w@host/db?ssl_ca=/my certs/ca@x.pem", "postgresql://",
    "postgresql:///db?host=/tmp&user=a@b", "postgresql://u:p%40%2F%3F@h:5433/db?sslmode=require",
    "postgresql://u:p?top_k=1@h1,h2:5433/db", "postgresql://u:a:b#c*@[::1]:5432,[::2]/db",
    "postgresql://u:%2A@h1:1,h2:2/db?options=-c%20a=b@c",
    "oceanbase://root@shop#east:p@w/d:#@h:2881/db?ssl_ca=/ca@x.pem",
    "host = h password = 'with a blank' user = u", "host=h password=with\\ a\\ blank user=u",
    "password=*a* host=h",
)  # fmt: skip
def test_what_is_read_as_it_is_meant_is_left_alone(uri):
    assert uri == load_settings(uri).uri


@pytest.mark.parametrize("suffix", ["URL", "DSN", "DATABASE_URL", "uri"])
def test_an_address_in_a_variable_that_nothing_reads_stops_the_start(monkeypatch, suffix):
    monkeypatch.delenv("HIPPOCAMPUS_URI", raising=False)
    monkeypatch.setenv(f"HIPPOCAMPUS_{suffix}", "host=db.example dbname=app password=secret")
    with pytest.raises(InvalidInput, match=f"_{suffix} is no setting.* HIPPOCAMPUS_URI") as refused:
        load_settings()
    assert "secret" not in str(refused.value)
    assert load_settings("postgresql://argument/db").uri == "postgresql://argument/db"


@pytest.mark.parametrize(
    ("suffix", "hint"),
    [("PRIVCY", "did you mean HIPPOCAMPUS_PRIVACY?"),
     ("SESION_TIMEOUT", "did you mean HIPPOCAMPUS_SESSION_TIMEOUT?"),
     ("COLOUR", "docs/reference/settings.md lists all settings")],
)  # fmt: skip
def test_a_variable_that_nothing_reads_is_named_once(monkeypatch, caplog, suffix, hint):
    monkeypatch.setenv(f"HIPPOCAMPUS_{suffix}", "on")
    monkeypatch.setattr(environment, "_warned", set())
    load_settings()
    load_settings()
    assert caplog.messages == [f"HIPPOCAMPUS_{suffix} is no setting and has no effect: {hint}"]
