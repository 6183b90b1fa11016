#!/usr/bin/env bash
# PyMySQL 1.2.4 (Python 3.11), connections by a Unix socket without a word about TLS.
#
# Guessed: TLS plays no part on a Unix socket, so a connection object costs nothing much.
# Seen: without `ssl_disabled` each object prepares for TLS, in case that the server offers it, and
# reads the machine's certificates for that anew: some 50 ms of processor time a connection, also
# where `unix_socket` is given. `ssl_disabled=True` saves it.
#
# Output seen:
#   by default: 3 connections, 3 times the certificates were read
#   ssl_disabled: 3 connections, 0 times the certificates were read
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q 'pymysql==1.2.4'
cat > "$folder/try.py" <<'PY'
import ssl

import pymysql

read, make = [], ssl.create_default_context
ssl.create_default_context = lambda *given, **named: read.append(1) or make(*given, **named)
seen = []
for what, options in (("by default", {}), ("ssl_disabled", {"ssl_disabled": True})):
    read.clear()
    for _ in range(3):
        pymysql.connect(unix_socket="/nowhere", user="u", defer_connect=True, **options)
    seen.append(len(read))
    print(f"{what}: 3 connections, {len(read)} times the certificates were read")
assert seen == [3, 0], seen
PY
"$folder/venv/bin/python" "$folder/try.py"
