"""The answers about applications, users and the server itself."""

from __future__ import annotations

from typing import Literal

from pydantic import AwareDatetime, BaseModel

from shared_core.wire.examples import with_example


class UserAnswer(BaseModel):
    """A user with memories. newest_at: when the newest memory occurred, faded ones too."""

    app: str
    user_id: str
    memories: int
    newest_at: AwareDatetime


class ListedUsers(BaseModel):
    """A page of users, by application and user."""

    users: list[UserAnswer]


class Applications(BaseModel):
    """The names of applications."""

    model_config = with_example(applications=["my_app"])

    applications: list[str]


class Health(BaseModel):
    """The server answers."""

    model_config = with_example(status="ok", version="0.1.0")

    status: Literal["ok"]
    version: str
