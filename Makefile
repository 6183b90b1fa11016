.PHONY: check format bench cassettes

check: ## everything CI checks: style, types, direction of imports, all tests
	pytest

format:
	ruff check --fix . && ruff format .

cassettes: ## records the answers of a small local model anew, see tests/cassettes/README.md
	python tests/cassettes/record.py

bench:
	python -m benchmarks.store --items 20000 --per-user 100
