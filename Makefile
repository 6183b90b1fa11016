.PHONY: check format bench

check: ## everything CI checks: style, types, direction of imports, all tests
	pytest

format:
	ruff check --fix . && ruff format .

bench:
	python -m benchmarks.store --items 20000 --per-user 100
