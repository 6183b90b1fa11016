"""A chat backend without an agent framework: each message goes through the memory once.

python backend.py          # http://127.0.0.1:8431
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

from shared_core import Scope, open_memory

APP = "bakers"
memory = open_memory(profiles=True)


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    """Open the memory with the server, and close it with it."""
    async with memory:
        yield


api = FastAPI(lifespan=lifespan)


class Message(BaseModel):
    """What a user typed."""

    text: str


@api.post("/users/{user}/chat")
async def chat(user: str, message: Message) -> dict[str, object]:
    """Take in a message; return what is known from before. Your model answers from it."""
    heard = await memory.process_memory(message.text, user, app=APP)
    return {"known": [one["content"] for one in heard["memories"]]}


@api.post("/users/{user}/leave")
async def leave(user: str) -> dict[str, object]:
    """End the conversation now, and wait until it is a memory. Half an hour of silence ends it."""
    await memory.end_session(user, app=APP)
    return {"done": await memory.flush()}


@api.get("/users/{user}/prompt")
async def prompt(user: str, question: str) -> dict[str, object]:
    """Return what a model should read before it answers, in at most 300 tokens."""
    window = await memory.context_window(Scope(APP, user), "prompt", question, max_tokens=300)
    return {"tokens": window.total_tokens, "lines": [item.text for item in window.items]}


@api.get("/users/{user}/profile")
async def profile(user: str) -> dict[str, object]:
    """Return who the user is, in one paragraph."""
    known = await memory.profiles.repository(Scope(APP, user)).load_or_create(APP)
    return {"profile": known.profile_memory.get_content()}


@api.delete("/users/{user}/memories")
async def forget(user: str, topic: str) -> dict[str, object]:
    """Forget everything that names the topic. It can be undone for 30 days."""
    carried_out = await memory.forget_about(Scope(APP, user), topic)
    return {"forgotten": carried_out.done.memories}


if __name__ == "__main__":
    uvicorn.run(api, port=8431, log_level="warning")
