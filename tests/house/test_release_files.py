"""What is published: versions that agree, a wheel with every file, sound workflow files."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
from email.parser import Parser
from pathlib import Path
from zipfile import ZipFile

import pytest

from shared_core import __version__

ROOT = Path(__file__).parents[2]
PACKAGES = ("adk_memory", "langgraph_store", "shared_core")
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FORMS = sorted(
    file for file in (ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml") if file.stem != "config"
)


def program(name: str) -> str:
    """Return the path of a program that a development package brings."""
    found = shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed: its package has no release for this machine")
    return found


def findings(*command: str) -> str:
    """Return what a program prints when it fails, or an empty text."""
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def tracked() -> set[str]:
    """Return the files of the checkout, without what Git ignores."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True
    )
    if listed.returncode:
        pytest.skip("not a git checkout")
    return {name for name in listed.stdout.splitlines() if (ROOT / name).is_file()}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the source distribution."""
    folder = tmp_path_factory.mktemp("dist")
    assert "" == findings(sys.executable, "-m", "hatchling", "build", "-d", str(folder))
    return folder


@pytest.fixture(scope="module")
def wheel(built: Path) -> dict[str, str]:
    """The names in the wheel; of its metadata also the text."""
    [file] = built.glob("*.whl")
    with ZipFile(file) as archive:
        return {
            name: archive.read(name).decode() if name.endswith("METADATA") else ""
            for name in archive.namelist()
        }


def test_version_changelog_and_citation_agree() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+((a|b|rc)\d+)?", __version__)
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
    heads = re.findall(r"^## (\S+) - (unreleased|\d{4}-\d\d-\d\d)$", changelog, re.M)
    citation = (ROOT / "CITATION.cff").read_text("utf-8")
    cited = dict(re.findall(r"^(version|date-released): \"?([^\"\n]+)\"?$", citation, re.M))
    version, date = heads[0]
    assert (__version__, __version__) == (version, cited["version"])
    assert cited.get("date-released", "unreleased") == date
    assert [] == [head for head in heads[1:] if head[1] == "unreleased"]


def test_the_tested_versions_of_python_are_those_of_the_classifiers() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    promised = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    workflow = (ROOT / ".github/workflows/tests.yml").read_text("utf-8")
    matrix = re.search(r"python: \[(.*)\]", workflow)
    assert matrix and promised == re.findall(r"\"(3\.\d+)\"", matrix[1])
    assert project["requires-python"] == f">={promised[0]}"


def test_the_wheel_holds_every_file_of_the_packages_and_nothing_else(wheel: dict[str, str]) -> None:
    ours = {name for name in tracked() if name.partition("/")[0] in PACKAGES}
    assert {".onnx", ".npz", ".json", ".sql", ".toml", ".pyi", ".typed"} <= {
        Path(name).suffix or f".{name.rpartition('.')[2]}" for name in ours
    }
    assert ours == {name for name in wheel if ".dist-info/" not in name}


def test_the_source_distribution_holds_every_file_of_the_checkout(built: Path) -> None:
    [file] = built.glob("*.tar.gz")
    with tarfile.open(file) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    assert tracked() == held - {"PKG-INFO"}


def test_the_page_on_pypi_has_no_relative_links(wheel: dict[str, str]) -> None:
    [metadata] = [text for text in wheel.values() if text]
    page = Parser().parsestr(metadata).get_payload()
    assert isinstance(page, str)
    assert [] == re.findall(
        r"\]\((?!https?://|#)[^)]*\)|(?:src|href)=\"(?!https?://|#)[^\"]*", page
    )
    pictures = re.findall(r"!\[[^\]]*\]\(([^)]*)\)|src=\"([^\"]*)", page)
    assert pictures and all("githubusercontent" in "".join(one) for one in pictures)


@pytest.mark.parametrize(
    ("schema", "files"),
    [
        ("github-workflows", WORKFLOWS),
        ("dependabot", [ROOT / ".github/dependabot.yml"]),
        ("github-issue-forms", FORMS),
        ("github-issue-config", [ROOT / ".github/ISSUE_TEMPLATE/config.yml"]),
        ("citation-file-format", [ROOT / "CITATION.cff"]),
    ],
)
def test_files_for_the_forge_follow_their_schema(schema: str, files: list[Path]) -> None:
    names = [str(file) for file in files]
    kind = ["--default-filetype", "yaml", "--builtin-schema", f"vendor.{schema}"]
    assert names and "" == findings(program("check-jsonschema"), *kind, *names)


def test_workflows_are_safe() -> None:
    line = [program("zizmor"), "--offline", "--no-progress", "--persona", "pedantic", ".github"]
    assert "" == findings(*line)


def test_jobs_name_the_rights_they_need_and_end_in_time() -> None:
    for file in WORKFLOWS:
        text = file.read_text("utf-8")
        assert re.search(r"^permissions:\n  contents: read$|^permissions: \{\}$", text, re.M), file
        jobs = text.partition("\njobs:\n")[2]
        starts = re.findall(r"^    (?:runs-on|uses): ", jobs, re.M)
        limits = re.findall(r"^    (?:timeout-minutes|uses): ", jobs, re.M)
        assert starts and len(starts) == len(limits), file
