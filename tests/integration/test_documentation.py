"""The code on each page runs as it is printed, and prints what the page says."""

import fcntl
import tempfile
from pathlib import Path

import pages
import pytest
from long_forms import LONG
from practised import practised  # noqa: F401

NAMES = {str(page.relative_to(pages.ROOT)): page for page in pages.PAGES}
WITH_PROGRAMS = [
    name
    for name, page in NAMES.items()
    if any(block.runs for block in pages.blocks_of(page))
    if LONG or pages.has_programs_of_its_own(page)
]


@pytest.mark.tail
@pytest.mark.timeout(900)
@pytest.mark.usefixtures("practised")
@pytest.mark.parametrize("name", WITH_PROGRAMS)
def test_the_code_of_a_page_runs_as_it_is_printed(name, postgres, tmp_path):
    blocks = pages.blocks_of(NAMES[name])
    ports = [int(block.value) for block in blocks if block.mark == "background"]
    with (Path(tempfile.gettempdir()) / "hippocampus-pages.lock").open("w") as lock:
        if ports:
            fcntl.flock(lock, fcntl.LOCK_EX)
        if taken := [port for port in ports if not pages.is_port_free(port)]:
            pytest.skip(f"another program uses port {taken[0]}")
        language = pages.language_of(NAMES[name])
        with pages.PageRun(tmp_path / "page", language, postgres.lend) as page:
            page.copy_example(NAMES[name])
            for block in blocks:
                if block.mark == "file":
                    page.save(block)
                elif block.runs:
                    page.run(block)


@pytest.mark.parametrize("name", NAMES)
def test_every_block_of_a_page_has_a_known_kind(name):
    for block in pages.blocks_of(NAMES[name]):
        where = f"line {block.line}: {block.language!r}"
        assert block.mark in pages.MARKS, f"{where} {block.mark!r}"
        known = {*pages.PROGRAMS, *pages.PARSERS, *pages.SHOWN}
        assert block.language in known or block.mark == "file", where
        if block.mark == "not run":
            assert len(block.value.encode()) > 10, f"{where}: say why it is not run"
        elif block.language in pages.PARSERS:
            assert pages.PARSERS[block.language](block.text) is not None, where
