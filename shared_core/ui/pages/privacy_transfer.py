"""Export of a user or an application as a download, and import of an uploaded export."""

from __future__ import annotations

import asyncio
import re
import shutil
import tempfile
import weakref
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote

import nicegui
from nicegui import events, ui
from nicegui.elements.upload_files import FileUpload
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from shared_core.core.domain import Scope
from shared_core.errors import InvalidInput, MemoryCoreError
from shared_core.http.export import ExportLines
from shared_core.http.problems import ProblemError
from shared_core.ports.transfer import ExportScope
from shared_core.transfer.lines import LineReader, lines_of, opened
from shared_core.transfer.service import ImportedLines
from shared_core.ui.actions import action_button
from shared_core.ui.view import Inspector, PageView, view_of
from shared_core.ui.widgets import empty, guarded, heading, panel

EXPORT: Final = "/export"
"""Path of the download below the mount."""
MOST_BYTES: Final = 100_000_000
"""Maximum size of an uploaded export. Larger ones are imported in a terminal."""
_UNSAFE: Final = re.compile(r"[^\w.-]+")
"""What a name of a file should not hold."""


def export_part(view: PageView) -> None:
    """Show the downloads of the chosen user, and of the application."""
    app = view.caller.app or (view.scope.app if view.scope else None)
    if view.scope is None and (app is None or view.caller.users is not None):
        empty(
            view.t("Choose a user above to export their data.", "请先在上方选择要导出数据的用户。")
        )
        return
    with panel():
        ui.label(view.t(
            "Lines of JSON of one moment, for hippocampus import or the import below. With vectors "
            "the file is larger, and an import needs not compute them.",
            "某一时刻的全部数据，每行一条 JSON，可用 hippocampus import 或下方的导入功能读回。"
            "包含向量时文件更大，但导入时无需重新计算。",
        ))  # fmt: skip
        with ui.element("div").classes("row-line"):
            if view.scope is not None:
                user = view.scope.user
                _download(view, view.t(f"Everything of {user}", f"{user} 的全部数据"))
                _download(view, view.t("The same with vectors", "同上，包含向量"), vectors="true")
            if view.caller.users is None and app is not None:
                _download(
                    view,
                    view.t(f"The whole application {app}", f"整个应用 {app}"),
                    app=app, user=None, whole="true",
                )  # fmt: skip


def _download(view: PageView, label: str, **params: object) -> None:
    button = ui.button(label, icon="download").props("outline no-caps dense")
    button.props["href"] = view.link(EXPORT, **params)


def register_download() -> None:
    """Register the download at the UI library's application."""

    async def download(request: Request) -> Response:
        inspector: Inspector = nicegui.app.state.inspector
        try:
            return await _exported(view_of(inspector, request, EXPORT))
        except ProblemError as error:
            return PlainTextResponse(error.detail, error.status_code, error.headers)
        except MemoryCoreError as error:
            return PlainTextResponse(str(error), 503)

    nicegui.app.add_api_route(EXPORT, download, methods=["GET"], include_in_schema=False)


async def _exported(view: PageView) -> Response:
    """Return the answer that streams the export which the parameters of an address name."""
    app = None
    if view.params.get("whole") == "true":
        if view.caller.users is not None:
            raise ProblemError(403, "forbidden", "This token is for some users only.")
        app = view.caller.app_named(view.params.get("app"))
    elif view.scope is None:
        raise ProblemError(422, "invalid-input", "The address names no user: add ?app=...&user=...")
    scope = None if app is not None else view.user
    day = f"{await view.memory.now():%Y-%m-%d}"
    running = view.inspector.exports
    place = running.take()
    lines = view.memory.export(scope, app=app, vectors=view.params.get("vectors") == "true")
    try:
        first = await anext(lines)
        answer = ExportLines(first, lines, running, place)
    except BaseException:
        running.leave(place)
        raise
    named = [day, app] if scope is None else [day, scope.app, scope.user]
    file = "-".join(_UNSAFE.sub("_", str(part))[:60] for part in ["hippocampus", *named])
    answer.headers["Content-Disposition"] = (
        f"attachment; filename*=UTF-8''{quote(file, safe='')}.jsonl"
    )
    answer.headers["Cache-Control"] = "no-store"
    return answer


class _UploadFolder:
    """A temporary folder, deleted by delete() or with the last reference to this object."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="hippocampus-import-"))
        self.delete = weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class Upload:
    """An uploaded export, checked to its end.

    folder: is deleted with this object. of: whose data it holds. rows: number of rows by table.
    """

    folder: _UploadFolder
    file: Path
    of: ExportScope
    has_vectors: bool
    rows: Counter[str]


def import_part(view: PageView) -> None:
    """Show the field for an export; what it holds is shown before anything is written."""
    with panel():
        ui.label(view.t(
            "Choose an export. What it holds is shown first; nothing is written before you say so.",
            "选择一个导出文件。会先显示其中的内容，确认之后才会写入。",
        ))  # fmt: skip
        too_large = view.t(
            "The file has more than 100 MB: use hippocampus import FILE in a terminal.",
            "文件超过 100 MB，请在终端使用 hippocampus import FILE。",
        )
        found = ui.column().classes("full")

        async def received(event: events.UploadEventArguments) -> None:
            async def show() -> None:
                if event.file.size() > MOST_BYTES:
                    raise InvalidInput(too_large)
                upload = await received_file(event.file)
                check_owner(view, upload.of)
                found.clear()
                with found:
                    _show_upload(view, upload)

            await guarded(view, show)()
            field.reset()  # the next choice is a new one

        field = ui.upload(
            on_upload=received,
            on_rejected=lambda: ui.notify(too_large, type="negative", timeout=0, close_button="✕"),
            max_file_size=MOST_BYTES,
            auto_upload=True,
        )
        field.set_visibility(False)  # its own parts have no names for screen readers
        field.ignores_events_when_hidden = False
        ui.button(
            view.t(
                "Choose an export (.jsonl, at most 100 MB)", "选择导出文件（.jsonl，最大 100 MB）"
            ),
            icon="upload_file",
            on_click=lambda: field.run_method("pickFiles"),
        ).props("outline no-caps")
        found.move(target_index=-1)


async def received_file(file: FileUpload) -> Upload:
    """Store an uploaded file in a temporary folder, and read it to its end.

    Raises InvalidInput if it is not a complete export.
    """
    folder = _UploadFolder()
    name = _UNSAFE.sub("_", file.name)[-80:].strip(".") or "export.jsonl"
    path = folder.path / name
    try:
        await file.save(path)
        return await asyncio.to_thread(_checked, folder, path)
    except BaseException:
        folder.delete()
        raise


def _checked(folder: _UploadFolder, path: Path) -> Upload:
    reader, rows = LineReader(path.name), Counter[str]()
    with opened(path) as stored:
        for batch in reader.batches(lines_of(stored, path.name)):
            rows[batch.table] += len(batch.lines)
    assert reader.header is not None
    return Upload(folder, path, reader.header.export_scope, reader.header.model is not None, rows)


def check_owner(view: PageView, of: ExportScope) -> None:
    """Raise ProblemError if the visitor may not write the data of this export."""
    if of.user is not None:
        view.caller.scope(of.user, of.app)
        return
    view.caller.app_named(of.app)
    if view.caller.users is not None:
        raise ProblemError(
            403, "forbidden",
            view.t("The file holds a whole application, and this token is for some users.",
                   "该文件包含整个应用的数据，而当前令牌只限部分用户。"),
        )  # fmt: skip


def _show_upload(view: PageView, upload: Upload) -> None:
    """Show what an export holds, and the button that imports it."""
    of = upload.of
    whose = view.t(f"application {of.app}, all users", f"应用 {of.app}，所有用户")
    if of.user is not None:
        whose = f"{of.app} / {of.user}"
    heading(upload.file.name)
    ui.label(whose).classes("text").mark("import-of")
    if view.scope is not None and Scope(of.app, of.user or "") != view.scope:
        ui.label(view.t(
            "⚠ These are not data of the user chosen above.", "⚠ 这不是上方所选用户的数据。"
        ))  # fmt: skip
    rows = ", ".join(f"{count:,} {table}" for table, count in upload.rows.items())
    ui.label(rows or view.t("It holds no rows.", "文件中没有数据。")).classes("text quiet")
    ui.label(
        view.t("With vectors.", "包含向量。")
        if upload.has_vectors
        else view.t("Without vectors: they are computed.", "不含向量，导入时会重新计算。")
    ).classes("quiet")
    restore = ui.checkbox(view.t(
        "Also write what was forgotten or erased here", "同时写回此处已遗忘或彻底删除的内容"
    ))  # fmt: skip

    async def do() -> str:
        done = await view.memory.import_lines(
            upload.file,
            restore=bool(restore.value),
            text_of_field=view.inspector.options.text_of_field,
        )
        upload.folder.delete()
        return imported(view, done)

    with ui.element("div"):
        action_button(
            view,
            view.t("Import", "导入"),
            icon="upload",
            will=view.t(
                f"Write the rows of this file that are not here yet, for {whose}. Rows that are "
                "here stay as they are. To undo it, forget or erase what was written.",
                f"把文件中此处还没有的数据写入 {whose}。已有的数据保持不变。"
                "如需撤销，请遗忘或彻底删除写入的内容。",
            ),
            do=do,
        )


def imported(view: PageView, done: ImportedLines) -> str:
    """Say what an import has done."""
    lines = [
        view.t(f"{done.written:,} rows written", f"写入 {done.written:,} 行"),
        view.t(f"{done.here:,} were here already", f"{done.here:,} 行此前已有"),
    ]
    if done.differ:
        lines.append(view.t(
            f"{done.differ:,} of them with other values, which stay",
            f"其中 {done.differ:,} 行的值不同，保留原值",
        ))  # fmt: skip
    if done.embedded:
        lines.append(view.t(f"{done.embedded:,} vectors made", f"计算了 {done.embedded:,} 个向量"))
    if done.unembedded:
        lines.append(view.t(
            f"{done.unembedded:,} fields without their vectors",
            f"{done.unembedded:,} 个字段没有向量",
        ))  # fmt: skip
    return "\n".join(f"• {line}" for line in lines)
