"""What `hippocampus doctor` finds out about an OceanBase or a SeekDB. Asks only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from shared_core.cli.findings import CheckResult, Model, problem, queue_finding, vectors_finding
from shared_core.errors import InvalidInput, StorageUnavailable
from shared_core.settings import Settings
from shared_core.storage._migrations import WAY_OUT_OF_DEVELOPMENT, is_of_development
from shared_core.storage.oceanbase.connection.connections import Location
from shared_core.storage.oceanbase.connection.database import OceanBaseDatabase
from shared_core.storage.oceanbase.connection.migrate import applied, checked_version, migrations


def examine_oceanbase(settings: Settings, model: Model) -> Iterator[CheckResult]:
    """Look at a server, or at the folder of an embedded one and the server in it.

    Creates nothing; an embedded server that exists is started for the time of the examination.
    """
    database = OceanBaseDatabase(settings)
    folder = database.location.folder
    if folder is not None and not (folder.is_dir() and any(folder.iterdir())):
        advice = "it is made at the first use, or now with --start"
        found = f"nothing there yet: {folder}"
        yield CheckResult(check="folder", status="note", found=found, advice=advice)
        return
    try:
        with database.looked_at() as cursor:
            yield from list(_looked(cursor, database.location, model))
    except (StorageUnavailable, InvalidInput) as error:
        advice = "check the uri, that the server runs, and that this user may read there"
        yield problem("server", str(error), advice)


def _looked(cursor: Any, location: Location, model: Model) -> Iterator[CheckResult]:
    engine, version = checked_version(_rows(cursor, "SELECT version()")[0][0])
    found = f"reachable, {engine} {'.'.join(map(str, version))}"
    yield CheckResult(check="server", status="ok", found=found)
    there = applied(cursor, location.database)
    yield _schema(there, location)
    if there and not is_of_development(there, migrations()):
        cursor.execute(f"USE {location.database}")
        query = "SELECT model, dimensions FROM embedding_models WHERE active = 1"
        yield vectors_finding(_rows(cursor, query), model)
        yield _queue(cursor)


def _schema(there: dict[int, str] | None, location: Location) -> CheckResult:
    known, name = migrations(), location.database
    later = "at the next use, or now with 'hippocampus migrate'"
    if not there:
        found = f"database {name!r} has no tables yet"
        return CheckResult(
            check="schema", status="note", found=found, advice=f"they are made {later}"
        )
    found = f"database {name!r}, version {max(there)} of {len(known)}"
    if is_of_development(there, known):
        found = f"{found}, but made by a development version"
        return problem("schema", found, WAY_OUT_OF_DEVELOPMENT)
    if max(there) > len(known):
        return problem("schema", found, "upgrade with pip install -U pg-hippocampus")
    if len(there) < len(known):
        return CheckResult(
            check="schema", status="note", found=found, advice=f"it is upgraded {later}"
        )
    return CheckResult(check="schema", status="ok", found=found)


def _queue(cursor: Any) -> CheckResult:
    [(waiting, callbacks, failed)] = _rows(
        cursor,
        "SELECT count(CASE WHEN is_due AND job_type <> 'callback' THEN 1 END),"
        " count(CASE WHEN is_due AND job_type = 'callback' THEN 1 END),"
        " count(CASE WHEN status = 'failed' THEN 1 END) FROM (SELECT status, job_type,"
        " status = 'pending' AND run_after <= utc_timestamp(6) OR status = 'running' AND"
        " lease_until <= utc_timestamp(6) AS is_due FROM consolidation_jobs) jobs",
    )
    return queue_finding(waiting, callbacks, failed)


def _rows(cursor: Any, query: str) -> list[tuple[Any, ...]]:
    cursor.execute(query)
    return list(cursor.fetchall())
