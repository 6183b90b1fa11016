"""一个会记事的陪伴助手。每次运行是一段对话，进程结束也不会忘。

python companion.py "我女儿叫灿灿，今年五岁" "她特别喜欢画画"
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence

from google import genai

from shared_core import open_memory

APP, USER = "companion", "小雨"
PROMPT = "你是小雨的朋友，用一句话回答。你记得：\n{known}\n小雨说：{message}"


def reply(message: str, known: Sequence[str]) -> str:
    """有密钥时由 Gemini 回答；没有密钥时，问句用最相关的一条记忆回答。"""
    if os.environ.get("GOOGLE_API_KEY"):
        prompt = PROMPT.format(known="\n".join(known), message=message)
        answer = genai.Client().models.generate_content(model="gemini-3.5-flash", contents=prompt)
        return answer.text or ""
    if not message.endswith(("？", "?")):
        return "嗯，我记着呢。"
    return f"我记得：{known[0]}" if known else "这个我不知道呢。"


async def main(messages: list[str]) -> None:
    """一句一句地聊，最后结束这段对话，让它变成记忆。"""
    async with open_memory() as memory:
        for message in messages:
            heard = await memory.process_memory(message, USER, app=APP)
            forgotten = heard["metadata"].get("set_aside")
            known = [one["content"] for one in heard["memories"]]
            print(f"小雨：{message}")
            print(f"助手：{'好，这件事我不再提了。' if forgotten else reply(message, known)}")
        await memory.end_session(USER, app=APP)
        await memory.flush()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
