"""OfflineChatModel: a stand-in for a chat model, for agents without a key and a network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from shared_core.context import offline_answer


class OfflineChatModel(BaseChatModel):
    """Answers a question from its thread or its memories, and anything else with "Noted."

        create_agent(OfflineChatModel(), middleware=[HippocampusMiddleware(store, app="my_app")])

    It shows what a real model would read. It promises to carry out a request to forget. It takes
    tools and calls none. It answers Chinese in Chinese.
    """

    @property
    def _llm_type(self) -> str:
        return "offline"

    def bind_tools(self, tools: Sequence[Any], **options: Any) -> OfflineChatModel:
        """Return the model itself, as it calls no tools."""
        return self

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **options: Any,
    ) -> ChatResult:
        said = [str(one.text) for one in messages if isinstance(one, HumanMessage)]
        answer = offline_answer([str(one.text) for one in messages], said)
        return ChatResult(generations=[ChatGeneration(message=AIMessage(answer))])
