#!/bin/sh
# Installs the package, with its HTTP and MCP servers and OpenTelemetry, into a new virtual
# environment. Usage: docker/install.sh FOLDER
set -eu
: "${1:?Usage: docker/install.sh FOLDER}"
source=$(cd "$(dirname "$0")/.." && pwd)
python3 -m venv "$1"
"$1/bin/pip" install --no-cache-dir --only-binary :all: "$source[server,mcp,otel]"
