"""The code on each page runs as it is printed, and prints what the page says."""

import fcntl
import tempfile
from pathlib import Path

import pytest
from pages import (
    MARKS,
    PAGES,
    PARSERS,
    PROGRAMS,
    ROOT,
    SHOWN,
    PageRun,
    blocks_of,
    is_port_free,
    language_of,
)
from practised import practised  # noqa: F401

NAMES = {str(page.relative_to(ROOT)): page for page in PAGES}
WITH_PROGRAMS = [name for name, page in NAMES.items() if any(b.runs for b in blocks_of(page))]


@pytest.mark.tail
@pytest.mark.timeout(900)
@pytest.mark.usefixtures("practised")
@pytest.mark.parametrize("name", WITH_PROGRAMS)
def test_the_code_of_a_page_runs_as_it_is_printed(name, postgres, tmp_path):
    blocks = blocks_of(NAMES[name])
    ports = [int(block.value) for block in blocks if block.mark == "background"]
    with (Path(tempfile.gettempdir()) / "hippocampus-pages.lock").open("w") as lock:
        if ports:
            fcntl.flock(lock, fcntl.LOCK_EX)
        if taken := [port for port in ports if not is_port_free(port)]:
            pytest.skip(f"another program uses port {taken[0]}")
        with PageRun(tmp_path / "page", language_of(NAMES[name]), postgres.lend) as page:
            page.copy_example(NAMES[name])
            for block in blocks:
                if block.mark == "file":
                    page.save(block)
                elif block.runs:
                    page.run(block)


@pytest.mark.parametrize("name", NAMES)
def test_every_block_of_a_page_has_a_known_kind(name):
    for block in blocks_of(NAMES[name]):
        where = f"line {block.line}: {block.language!r}"
        assert block.mark in MARKS, f"{where} {block.mark!r}"
        assert block.language in {*PROGRAMS, *PARSERS, *SHOWN} or block.mark == "file", where
        assert block.mark != "not run" or len(block.value.encode()) > 10, (
            f"{where}: say why it is not run"
        )
        if block.language in PARSERS and block.mark != "not run":
            assert PARSERS[block.language](block.text) is not None, where
