"""What is published: versions that agree, a wheel with every file, sound workflow files, and the
files of containers as the linters of Docker read them. Nothing is built there, no engine runs."""

import json
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
from email.parser import Parser
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from click.testing import CliRunner

from shared_core import __version__

ROOT = Path(__file__).parents[2]
PACKAGES = ("adk_memory", "langgraph_store", "shared_core")
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TEMPLATES = ROOT / ".github/ISSUE_TEMPLATE"
FORMS = sorted(file for file in TEMPLATES.glob("*.yml") if file.stem != "config")
EXTRAS = ("adk", "langgraph", "langchain", "mcp")
"""The extras whose requirements are frameworks."""
TOOLS = {"uvicorn", "pg-hippocampus"}
"""Requirements of these extras that are no frameworks."""
PASSWORDS = ("POSTGRES_PASSWORD", "OWNER_PASSWORD", "SERVER_PASSWORD")


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
    command = ["git", "ls-files", "-co", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a git checkout")
    return {name for name in listed.stdout.splitlines() if (ROOT / name).is_file()}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A folder with the wheel and the source distribution."""
    folder = tmp_path_factory.mktemp("dist")
    assert "" == findings(sys.executable, "-m", "hatchling", "build", "-d", str(folder))
    return folder


@pytest.fixture(scope="module")
def wheel(built):
    """The names in the wheel; of its metadata also the text."""
    [file] = built.glob("*.whl")
    with ZipFile(file) as archive:
        return {
            name: archive.read(name).decode() if name.endswith("METADATA") else ""
            for name in archive.namelist()
        }


def test_version_changelog_and_citation_agree_and_tested_versions_are_those_of_pyproject():
    assert re.fullmatch(r"\d+\.\d+\.\d+((a|b|rc)\d+)?", __version__)
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
    heads = re.findall(r"^## (\S+) - (unreleased|\d{4}-\d\d-\d\d)$", changelog, re.M)
    citation = (ROOT / "CITATION.cff").read_text("utf-8")
    cited = dict(re.findall(r"^(version|date-released): \"?([^\"\n]+)\"?$", citation, re.M))
    version, date = heads[0]
    assert (__version__, __version__) == (version, cited["version"])
    assert cited.get("date-released", "unreleased") == date
    assert [] == [head for head in heads[1:] if head[1] == "unreleased"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    promised = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    workflow = (ROOT / ".github/workflows/tests.yml").read_text("utf-8")
    matrix = re.search(r"python: \[(.*)\]", workflow)
    assert matrix and promised == re.findall(r"\"(3\.\d+)\"", matrix[1])
    assert project["requires-python"] == f">={promised[0]}"
    lines = (ROOT / ".ci/oldest.txt").read_text("utf-8").splitlines()
    pinned = dict(line.split("==") for line in lines if not line.startswith("#"))
    assert floors() == {name: numbers(version) for name, version in pinned.items()}


@pytest.mark.tail
def test_the_wheel_holds_every_file_of_the_packages_alone_and_its_page_no_relative_links(wheel):
    ours = {name for name in tracked() if name.partition("/")[0] in PACKAGES}
    suffixes = {Path(name).suffix or f".{name.rpartition('.')[2]}" for name in ours}
    assert {".onnx", ".npz", ".json", ".sql", ".toml", ".pyi", ".typed"} <= suffixes
    assert ours == {name for name in wheel if ".dist-info/" not in name}
    [metadata] = [text for text in wheel.values() if text]
    page = Parser().parsestr(metadata).get_payload()
    assert isinstance(page, str)
    relative = r"\]\((?!https?://|#)[^)]*\)|(?:src|href)=\"(?!https?://|#)[^\"]*"
    assert [] == re.findall(relative, page)
    pictures = re.findall(r"!\[[^\]]*\]\(([^)]*)\)|src=\"([^\"]*)", page)
    assert pictures and all("githubusercontent" in "".join(one) for one in pictures)


@pytest.mark.tail
def test_the_source_distribution_holds_every_file_of_the_checkout(built):
    [file] = built.glob("*.tar.gz")
    with tarfile.open(file) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    assert tracked() == held - {"PKG-INFO"}


@pytest.mark.parametrize(
    ("schema", "files"),
    [("github-workflows", WORKFLOWS), ("dependabot", [ROOT / ".github/dependabot.yml"]),
     ("github-issue-forms", FORMS), ("github-issue-config", [TEMPLATES / "config.yml"]),
     ("citation-file-format", [ROOT / "CITATION.cff"])],
)  # fmt: skip
def test_files_for_the_forge_follow_their_schema(schema, files):
    from check_jsonschema import main as check_jsonschema  # one worker needs it

    names = [str(file) for file in files]
    kind = ["--default-filetype", "yaml", "--builtin-schema", f"vendor.{schema}"]
    checked = CliRunner().invoke(check_jsonschema, [*kind, *names])
    assert names and 0 == checked.exit_code, checked.output


def test_workflows_are_safe_and_jobs_name_their_rights_and_end_in_time():
    line = [program("zizmor"), "--offline", "--no-progress", "--persona", "pedantic", ".github"]
    assert "" == findings(*line)
    for file in WORKFLOWS:
        text = file.read_text("utf-8")
        assert re.search(r"^permissions:\n  contents: read$|^permissions: \{\}$", text, re.M), file
        jobs = text.partition("\njobs:\n")[2]
        starts = re.findall(r"^    (?:runs-on|uses): ", jobs, re.M)
        limits = re.findall(r"^    (?:timeout-minutes|uses): ", jobs, re.M)
        assert starts and len(starts) == len(limits), file


def floors() -> dict[str, list[int]]:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    required = [one for extra in EXTRAS for one in extras["optional-dependencies"][extra]]
    found = [re.fullmatch(r"([\w-]+)(?:\[.*\])?(?:>=([\d.]+))?.*", one) for one in required]
    return {one[1]: numbers(one[2]) for one in found if one and one[1] not in TOOLS}


def numbers(version: str) -> list[int]:
    parts = [int(part) for part in version.split(".")]
    return parts + [0] * (3 - len(parts))


def compose(
    *options: str, passwords: tuple[str, ...] = PASSWORDS
) -> subprocess.CompletedProcess[str]:
    """Return what Docker Compose says about the file, with these passwords set."""
    line = [program("docker-compose"), "--env-file", "/dev/null", "config", *options]
    given = {"PATH": "", **{name: f"the {name}" for name in passwords}}
    return subprocess.run(line, cwd=ROOT, capture_output=True, text=True, env=given)


@pytest.fixture(scope="module")
def services():
    """The services as Docker Compose reads them."""
    read = compose("--format", "json")
    assert 0 == read.returncode, read.stderr
    found: dict[str, Any] = json.loads(read.stdout)["services"]
    return found


def test_the_dockerfile_has_no_finding_and_runs_without_root():
    line = [program("hadolint"), "--failure-threshold", "style", str(ROOT / "Dockerfile")]
    found = subprocess.run(line, capture_output=True, text=True)
    assert (0, "") == (found.returncode, found.stdout + found.stderr)
    users = re.findall(r"^USER (\S+)$", (ROOT / "Dockerfile").read_text("utf-8"), re.M)
    assert ["10001:10001"] == users


@pytest.mark.parametrize("missing", PASSWORDS)
def test_compose_starts_nothing_without_each_password(missing):
    refused = compose("--quiet", passwords=tuple(name for name in PASSWORDS if name != missing))
    assert 0 != refused.returncode and f"set {missing} in .env" in refused.stderr


def test_each_password_reaches_who_needs_it_and_one_service_builds_the_image_of_all(services):
    holders = {
        name: {service for service, one in services.items() if f"the {name}" in json.dumps(one)}
        for name in PASSWORDS
    }
    owners = {"database", "migrate", "worker"}
    assert [{"database"}, owners, {"database", "server"}] == [*holders.values()]
    waits = {
        name: {other: how["condition"] for other, how in one.get("depends_on", {}).items()}
        for name, one in services.items()
    }
    migrated = {"migrate": "service_completed_successfully"}
    healthy = {"database": "service_healthy"}
    assert {"database": {}, "migrate": healthy, "server": migrated, "worker": migrated} == waits
    for name in ("database", "server", "worker"):
        assert "unless-stopped" == services[name]["restart"]
    from shared_core.http import ServerOptions  # takes a second, and one worker needs it

    assert int(services["server"]["stop_grace_period"].removesuffix("s")) > ServerOptions().grace_s
    ours = {name: one for name, one in services.items() if "pg-hippocampus" == one["image"]}
    assert {"migrate", "server", "worker"} == set(ours)
    assert ["migrate"] == [name for name, one in ours.items() if "build" in one]
    for name, one in ours.items():
        assert one["read_only"] and ["ALL"] == one["cap_drop"], name
        assert ["no-new-privileges:true"] == one["security_opt"], name
    [port] = services["server"]["ports"]
    assert ("127.0.0.1", "8420") == (port["host_ip"], port["published"])
