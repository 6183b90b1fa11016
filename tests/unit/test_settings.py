"""Where the memory lives; a URI with a mistake is refused by name and tells no password."""

from pathlib import Path

import pytest
from every_case import every_case

from shared_core import InvalidInput
from shared_core.core import environment
from shared_core.settings import load_settings, redacted
from shared_core.storage.oceanbase.connection.connections import location_of


def test_without_anything_the_memory_is_embedded_in_the_home(monkeypatch, tmp_path):
    monkeypatch.setenv("HIPPOCAMPUS_HOME", str(tmp_path))
    assert tmp_path == load_settings().embedded_home


def test_an_argument_wins_over_the_environment(monkeypatch):
    monkeypatch.setenv("HIPPOCAMPUS_URI", "postgresql://from.environment/db")
    assert load_settings().uri == "postgresql://from.environment/db"
    assert load_settings("postgresql://argument/db").uri == "postgresql://argument/db"


@every_case(Path("/data/memory"), "embedded:///data/memory")
def test_a_folder_is_an_embedded_memory_in_it(uri):
    assert Path("/data/memory") == load_settings(uri).embedded_home


@every_case("postgresql://h/d", "postgres://h/d", "host=h dbname=d")
def test_a_dsn_names_a_server(uri):
    assert load_settings(uri).embedded_home is None


@every_case("mysql://h/d", "sqlite:///x", "nonsense", "/just/a/path")
def test_another_form_is_refused_with_the_known_ones(uri):
    with pytest.raises(InvalidInput, match="embedded:///folder"):
        load_settings(uri)


@every_case("Upper", "with space", "pg_mine", "1st", "a" * 64, 'q"uote')
def test_a_schema_name_that_needs_quotes_is_refused(schema):
    with pytest.raises(InvalidInput, match="schema"):
        load_settings(schema=schema)


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


def test_the_forms_of_a_message_stay_readable():
    for uri in ("nonsense", "seekdb://nowhere"):
        with pytest.raises(InvalidInput) as refused:
            location_of(load_settings(uri).uri)
        told = str(refused.value)
        assert "password@host" in told and told == redacted(told)


@every_case(("", 20_000), ("500", 500), (" OFF ", None))
def test_the_threshold_of_indexes_is_a_number_or_off(text, threshold, monkeypatch):
    monkeypatch.setenv("HIPPOCAMPUS_ANN_THRESHOLD", text)
    assert threshold == load_settings().ann_threshold


@every_case("0", "-5", "many", "1e4")
def test_a_threshold_of_no_known_form_is_refused(text, monkeypatch):
    monkeypatch.setenv("HIPPOCAMPUS_ANN_THRESHOLD", text)
    with pytest.raises(InvalidInput, match="HIPPOCAMPUS_ANN_THRESHOLD"):
        load_settings()


@every_case(("embedded", 20_000), ("seekdb:///x", 100_000), ("oceanbase://root@h/x", 100_000))
def test_how_many_vectors_are_many_depends_on_the_engine(uri, vectors, monkeypatch):
    monkeypatch.delenv("HIPPOCAMPUS_ANN_THRESHOLD", raising=False)
    assert load_settings(uri).ann_threshold == vectors
    monkeypatch.setenv("HIPPOCAMPUS_ANN_THRESHOLD", "300")
    assert load_settings(uri).ann_threshold == 300


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
    ("host=h dbname=d", "host=h dbname=d", True),
)
def test_a_uri_says_whether_statements_are_prepared(uri, sent, prepares):
    settings = load_settings(uri)
    assert (sent, prepares) == (settings.uri, settings.prepare)


def test_the_environment_says_whether_statements_are_prepared(monkeypatch):
    monkeypatch.setenv("HIPPOCAMPUS_PREPARE", "off")
    assert not load_settings("postgresql://h/d").prepare
    assert load_settings("postgresql://h/d?prepare=on").prepare
    with pytest.raises(InvalidInput, match="'on' or 'off', got 'no'"):
        load_settings("postgresql://h/d?prepare=no")


HERE = Path.cwd()


@every_case(
    ("mysql://u:geheim@h/db", "MySQL is not supported"),
    ("mysql+pymysql://u:ge heim@h/db", "oceanbase://user@tenant#cluster"),
    ("postgresql+psycopg://u:geheim@h/db", "write 'postgresql://'"),
    ("OceanBase://u:geheim@h/db", "write 'oceanbase://'"), ("SEEKDB:///data", "'seekdb:///data'"),
    ("sqlite:///x", "unknown form: take 'embedded'"),
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
