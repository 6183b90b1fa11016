"""Serves a GGUF model on loopback until the process ends; needs xllamacpp.

python serve.py MODEL.gguf ALIAS PORT
"""

from __future__ import annotations

import sys
import threading

from xllamacpp import CommonParams, Server


def main(model: str, alias: str, port: int) -> None:
    params = CommonParams()
    params.model.path = model
    params.model_alias = {alias}  # otherwise answers name the file
    params.hostnames, params.port = ["127.0.0.1"], port
    params.n_parallel, params.n_ctx = 1, 8192
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.sampling.seed = 7
    params.use_jinja = True
    server = Server(params)
    threading.Event().wait()
    del server


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
