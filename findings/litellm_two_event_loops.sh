#!/usr/bin/env bash
# LiteLLM 1.106.2 (Python 3.11), awaited in turns on two running event loops of one process.
#
# Guessed: `acompletion` may be awaited on any loop, as the clients below it are made for each loop.
# Seen: its worker for success callbacks belongs to one loop. A call on the other loop drops that
# worker, and asyncio logs "Task was destroyed but it is pending!" at nearly every change of loop.
# On one loop nothing is logged. Callbacks then run on whichever loop called last.
#
# Output seen:
#   one loop: 0 destroyed tasks, callbacks on 1 loop
#   two loops: 5 destroyed tasks, callbacks on 2 loops
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q 'litellm==1.106.2'
cat > "$folder/try.py" <<'PY'
import asyncio, gc, json, logging, sys, threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import litellm
from litellm.integrations.custom_logger import CustomLogger

ANSWER = json.dumps({"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [
    {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "ok"}}]}).encode()


class Handler(BaseHTTPRequestHandler):
    def log_message(self, *_): ...

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(ANSWER)))
        self.end_headers()
        self.wfile.write(ANSWER)


class Noting(CustomLogger):
    async def async_log_success_event(self, *_, **__):
        noted.add(id(asyncio.get_running_loop()))


class Counting(logging.Handler):
    def emit(self, record):
        if "Task was destroyed but it is pending" in record.getMessage():
            destroyed.append(1)


def started():
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    return loop


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_port}/v1"
logging.getLogger("asyncio").addHandler(Counting())
noted, destroyed = set(), []
litellm.callbacks = [Noting()]
loops = [started() for _ in range(int(sys.argv[1]))]
for number in range(6):
    call = litellm.acompletion(
        model="openai/m", api_base=url, api_key="k", messages=[{"role": "user", "content": "hi"}]
    )
    asyncio.run_coroutine_threadsafe(call, loops[number % len(loops)]).result(60)
    asyncio.run_coroutine_threadsafe(asyncio.sleep(0.5), loops[number % len(loops)]).result(5)
    gc.collect()
print(f"{len(destroyed)} destroyed tasks, callbacks on {len(noted)} loop{'s' * (len(noted) > 1)}")
PY
one="$("$folder/venv/bin/python" "$folder/try.py" 1 2> /dev/null | tail -1)"
two="$("$folder/venv/bin/python" "$folder/try.py" 2 2> /dev/null | tail -1)"
echo "one loop: $one"
echo "two loops: $two"
[ "$one" = "0 destroyed tasks, callbacks on 1 loop" ]
[ "${two%% *}" -ge 3 ]
