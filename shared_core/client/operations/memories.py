"""The operations of the area "memories".

Written by `python -m benchmarks.client_code`: change the server instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Literal

from shared_core import wire
from shared_core.client.calls import given, segment
from shared_core.client.operations.base import OperationsBase
from shared_core.client.operations.parameters import AsOfParam, RememberedMemoryParam, TurnParam
from shared_core.core.domain import MemoryKind


class MemoriesOperations(OperationsBase):
    """The operations of the area "memories"."""

    async def remember(
        self,
        *,
        user_id: str,
        memories: Sequence[str | RememberedMemoryParam],
        app: str | None = None,
    ) -> wire.Keys:
        """Store memories that are not part of a conversation. An existing key is replaced.

        Args:
            user_id: The user of the application.
            memories: Texts, or objects with a text.
            app: The application. Default: that of the client, else that of the token.

        Returns:
            The keys of the stored memories, in order.

        Raises:
            MemoryCoreError: The request failed; HippocampusClient lists the errors.
        """
        return await self._connection.answer(
            wire.Keys,
            "POST",
            "/remember",
            body={
                "user_id": user_id,
                "memories": memories,
                **given(app=self._app if app is None else app),
            },
        )

    async def append_events(
        self,
        *,
        user_id: str,
        thread_id: str,
        events: Sequence[TurnParam],
        app: str | None = None,
        later: bool = True,
    ) -> wire.NewEvents:
        """Append turns to a conversation. A turn sent again with other words replaces the first.

        Args:
            user_id: The user of the application.
            thread_id: The thread.
            events: The turns, oldest first.
            app: The application. Default: that of the client, else that of the token.
            later: Answer at once, and embed and consolidate the turns afterwards.

        Returns:
            The ids of the turns that were not stored before.

        Raises:
            MemoryCoreError: The request failed; HippocampusClient lists the errors.
        """
        return await self._connection.answer(
            wire.NewEvents,
            "POST",
            "/events",
            body={
                "user_id": user_id,
                "thread_id": thread_id,
                "events": events,
                **given(app=self._app if app is None else app, later=later),
            },
        )

    async def recall(
        self,
        *,
        user_id: str,
        query: str,
        app: str | None = None,
        limit: int = 10,
        kinds: Sequence[MemoryKind] | None = None,
        ranking: Literal["linear", "fusion", "rrf", "vector", "bm25", "three_factor"] = "linear",
        asked_at: datetime | str | None = None,
        as_of: AsOfParam | None = None,
        min_relevance: float = 0.0,
        distinct: bool = False,
        diversity: float = 0.0,
        explain: bool = False,
    ) -> wire.RecallAnswer:
        """Find the memories that answer a question, by meaning, words and context, best first.

        Args:
            user_id: The user of the application.
            query: A question or search words.
            app: The application. Default: that of the client, else that of the token.
            limit: Maximum number of results.
            kinds: Only these kinds.
            ranking: How scores are made.
            asked_at: The moment that words like "yesterday" count from. Default: now.
            as_of: Answer as of this moment. Default: now.
            min_relevance: Leave out less relevant hits.
            distinct: Leave out hits that repeat a better one word by word.
            diversity: How much it counts against a hit that it is like a better one.
            explain: Add the parts of each score.

        Returns:
            Hits, best first, and the edges of the entities that the question names.

        Raises:
            MemoryCoreError: The request failed; HippocampusClient lists the errors.
        """
        return await self._connection.answer(
            wire.RecallAnswer,
            "POST",
            "/recall",
            body={
                "user_id": user_id,
                "query": query,
                **given(
                    app=self._app if app is None else app,
                    limit=limit,
                    kinds=kinds,
                    ranking=ranking,
                    asked_at=asked_at,
                    as_of=as_of,
                    min_relevance=min_relevance,
                    distinct=distinct,
                    diversity=diversity,
                    explain=explain,
                ),
            },
        )

    async def search(
        self,
        *,
        user_id: str,
        query: str,
        app: str | None = None,
        limit: int = 5,
        kinds: Sequence[MemoryKind] | None = None,
        as_of: AsOfParam | None = None,
    ) -> wire.Hits:
        """Find memories by meaning alone. The score is the cosine similarity.

        Args:
            user_id: The user of the application.
            query: A question or search words.
            app: The application. Default: that of the client, else that of the token.
            limit: Maximum number of results.
            kinds: Only these kinds.
            as_of: Answer as of this moment. Default: now.

        Returns:
            Hits, best first.

        Raises:
            MemoryCoreError: The request failed; HippocampusClient lists the errors.
        """
        return await self._connection.answer(
            wire.Hits,
            "POST",
            "/search",
            body={
                "user_id": user_id,
                "query": query,
                **given(
                    app=self._app if app is None else app, limit=limit, kinds=kinds, as_of=as_of
                ),
            },
        )

    async def assemble_context(
        self,
        *,
        user_id: str,
        thread_id: str,
        query: str,
        app: str | None = None,
        system_prompt: str = "",
        max_tokens: int = 8000,
        instructions: Sequence[str] | None = None,
        profile: str | None = None,
        as_of: AsOfParam | None = None,
        explain: bool = False,
    ) -> wire.ContextAnswer:
        """Return the prompt that a model reads before it answers, within a token budget.

        Args:
            user_id: The user of the application.
            thread_id: The thread.
            query: A question or search words.
            app: The application. Default: that of the client, else that of the token.
            system_prompt: The first part of the prompt.
            max_tokens: Maximum tokens of the prompt.
            instructions: Rules for the model, packed with the rest.
            profile: A text instead of the stored profiles; "" for none.
            as_of: Answer as of this moment. Default: now.
            explain: Add the parts of each score.

        Returns:
            The prompt, its cost in tokens, and each of its items.

        Raises:
            MemoryCoreError: The request failed; HippocampusClient lists the errors.
        """
        return await self._connection.answer(
            wire.ContextAnswer,
            "POST",
            "/context",
            body={
                "user_id": user_id,
                "thread_id": thread_id,
                "query": query,
                **given(
                    app=self._app if app is None else app,
                    system_prompt=system_prompt,
                    max_tokens=max_tokens,
                    instructions=instructions,
                    profile=profile,
                    as_of=as_of,
                    explain=explain,
                ),
            },
        )

    async def list_memories(
        self,
        *,
        user_id: str,
        app: str | None = None,
        kind: MemoryKind | None = None,
        thread_id: str | None = None,
        contains: str = "",
        begin: datetime | str | None = None,
        end: datetime | str | None = None,
        limit: int = 50,
        offset: int = 0,
    ) -> wire.Memories:
        """List the memories of a user, newest first, one page at a time.

        Args:
            user_id: The user of the application.
            app: The application. Default: that of the client, else that of the token.
            kind: Only this kind.
            thread_id: Only this thread.
            contains: A part of the text, in upper or lower case.
            begin: Not before this moment.
            end: Before this moment.
            limit: Maximum number of results.
            offset: Number of results to pass over.

        Returns:
            A page of memories, newest first.

        Raises:
            MemoryCoreError: The request failed; HippocampusClient lists the errors.
        """
        return await self._connection.answer(
            wire.Memories,
            "GET",
            "/memories",
            query={
                "user_id": user_id,
                **given(
                    app=self._app if app is None else app,
                    kind=kind,
                    thread_id=thread_id,
                    contains=contains,
                    begin=begin,
                    end=end,
                    limit=limit,
                    offset=offset,
                ),
            },
        )

    async def count_memories(
        self,
        *,
        user_id: str,
        app: str | None = None,
        kind: MemoryKind | None = None,
        thread_id: str | None = None,
        contains: str = "",
        begin: datetime | str | None = None,
        end: datetime | str | None = None,
    ) -> wire.MemoryCount:
        """Count the memories that the list of memories has on all its pages.

        Args:
            user_id: The user of the application.
            app: The application. Default: that of the client, else that of the token.
            kind: Only this kind.
            thread_id: Only this thread.
            contains: A part of the text, in upper or lower case.
            begin: Not before this moment.
            end: Before this moment.

        Returns:
            The number of memories.

        Raises:
            MemoryCoreError: The request failed; HippocampusClient lists the errors.
        """
        return await self._connection.answer(
            wire.MemoryCount,
            "GET",
            "/memories/count",
            query={
                "user_id": user_id,
                **given(
                    app=self._app if app is None else app,
                    kind=kind,
                    thread_id=thread_id,
                    contains=contains,
                    begin=begin,
                    end=end,
                ),
            },
        )

    async def show_memory(
        self, *, user_id: str, key: str, app: str | None = None
    ) -> wire.MemoryDetailAnswer:
        """Show one memory: its turns, its retention, its vectors, and what was derived from it.

        Args:
            user_id: The user of the application.
            key: The key or the id of a memory.
            app: The application. Default: that of the client, else that of the token.

        Returns:
            A memory with its provenance, its retention, and what was derived from it.

        Raises:
            MemoryCoreError: The request failed; HippocampusClient lists the errors.
        """
        return await self._connection.answer(
            wire.MemoryDetailAnswer,
            "GET",
            f"/memory/{segment(user_id, 'user_id')}",
            query={"key": key, **given(app=self._app if app is None else app)},
        )

    async def show_timeline(
        self,
        *,
        user_id: str,
        app: str | None = None,
        when: str | None = None,
        begin: str | None = None,
        end: str | None = None,
        query: str | None = None,
        kind: MemoryKind | None = None,
        order: Literal["newest", "oldest"] = "newest",
        limit: int = 50,
        offset: int = 0,
        bucket: Literal["hour", "day", "week", "month", "year"] | None = None,
        zone: str | None = None,
        asked_at: datetime | str | None = None,
        explain: bool = False,
    ) -> wire.Timeline:
        """List the memories of a period, and count them by hour, day, week, month or year.

        Args:
            user_id: The user of the application.
            app: The application. Default: that of the client, else that of the token.
            when: Words for a time, or a moment with a zone.
            begin: Words for a time, or a moment with a zone.
            end: Words for a time, or a moment with a zone.
            query: Most relevant first, with scores.
            kind: Only this kind.
            order: Without a query.
            limit: Maximum number of results.
            offset: Number of results to pass over.
            bucket: Count the memories of each part of the period.
            zone: Time zone of the words.
            asked_at: The moment that words like "yesterday" count from. Default: now.
            explain: Add the parts of each score.

        Returns:
            The memories of a period, with scores if there was a query. buckets: of the whole
                period.

        Raises:
            MemoryCoreError: The request failed; HippocampusClient lists the errors.
        """
        return await self._connection.answer(
            wire.Timeline,
            "GET",
            f"/timeline/{segment(user_id, 'user_id')}",
            query=given(
                app=self._app if app is None else app,
                when=when,
                begin=begin,
                end=end,
                query=query,
                kind=kind,
                order=order,
                limit=limit,
                offset=offset,
                bucket=bucket,
                zone=zone,
                asked_at=asked_at,
                explain=explain,
            ),
        )

    async def forget(
        self, *, user_id: str, keys: Sequence[str], app: str | None = None
    ) -> wire.Forgotten:
        """Remove memories and everything derived from them alone. Unknown keys are ignored.

        Args:
            user_id: The user of the application.
            keys: The keys or the ids of memories.
            app: The application. Default: that of the client, else that of the token.

        Returns:
            The number of memories removed.

        Raises:
            MemoryCoreError: The request failed; HippocampusClient lists the errors.
        """
        return await self._connection.answer(
            wire.Forgotten,
            "POST",
            "/forget",
            body={"user_id": user_id, "keys": keys, **given(app=self._app if app is None else app)},
        )

    async def erase(
        self, *, user_id: str, app: str | None = None, thread_id: str | None = None
    ) -> wire.Erased:
        """Erase all data of a user or a thread, and return the receipt. This cannot be undone.

        Args:
            user_id: The user of the application.
            app: The application. Default: that of the client, else that of the token.
            thread_id: Only this thread or session.

        Returns:
            The receipt of an erasure. erased: the number of memories.

        Raises:
            MemoryCoreError: The request failed; HippocampusClient lists the errors.
        """
        return await self._connection.answer(
            wire.Erased,
            "POST",
            "/erase",
            body={
                "user_id": user_id,
                **given(app=self._app if app is None else app, thread_id=thread_id),
            },
        )
