"""Prints every regular expression of the packages that is slow on a long repetitive text.

It also prints the functions whose expressions it does not know, because only their callers do.
Each is tried on texts made for it: a beginning that leads to one of its repeats, then what that
repeat takes, again and again. The worst of short texts are tried at full length.
"""

import ast
import importlib
import os
import pkgutil
import re
import re._constants as ops  # type: ignore[import-not-found]
import re._parser as parser  # type: ignore[import-not-found]
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import product
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

PACKAGES = ("shared_core", "adk_memory", "langgraph_store")
LENGTH, LIMIT_S = (100_000, 5.0) if "HIPPOCAMPUS_TEST_LONG" in os.environ else (10_000, 0.8)
"""Characters of a text, and processor time for it. Linear ones take at most a tenth of it."""
SHORT, WORST = 500, 2
LOADERS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("shared_core.extraction.reader_rules.load_reader_rules", ("en", "zh")),
    ("shared_core.nlp.affect._any_feeling", ("en", "zh")),
    ("shared_core.nlp.affect.load_weights", ()),
    ("shared_core.extraction.forget_requests._own_person", ()),
    ("shared_core.extraction.forget_topics._illness", ()),
    ("shared_core.nlp.keywords_and_topics._topics", ()),
    ("shared_core.nlp.noun_phrases_zh._surnamed", ()),
    ("shared_core.nlp.relation_phrases._any_kin", ()),
    ("shared_core.nlp.relation_phrases._kin", ()),
    ("shared_core.nlp.relation_phrases._of_theirs", ()),
    ("shared_core.nlp.relation_phrases._own_kin", ("en", "zh")),
    ("shared_core.nlp.relation_phrases._table", ()),
    ("shared_core.nlp.rules.load_rules", ("en", "zh")),
    ("shared_core.nlp.rules.revision.load_revision_rules", ("en", "zh")),
    ("shared_core.nlp.typed_text._meanings", ()),
    ("shared_core.nlp.typed_text.load_chinese_typing", ()),
    ("shared_core.nlp.typed_text.load_english_typing", ()),
    ("shared_core.nlp.changes._words", ("change", "was", "past", "before")),
    ("shared_core.nlp.asked_slots._around", ("en", "zh")),
)
"""Functions that compile the words of a rule file at their first call, and what they take."""
METHODS = {"search", "match", "fullmatch", "sub", "subn", "split", "findall", "finditer"}
NAMED = re.compile(rf"\.(?:compile|{'|'.join(METHODS)})\b")
ANCHORED = {"match", "fullmatch"}
ALPHABET = "a1 -中。.,:'\"@/_Z\n\t=?!（“\u3000%$#<>[]{}|\\~^&*+;"
ANYWHERE = (
    " ", "a", "1", "中", "a ", "1 ", "中 ", ".", "a.", "-", "a-", "\n", "“", "'", "，", "a，", "@",
    "a@", "/", ":", "1:", "\t \n", "A", "Aa ", "的", "是", "I ", "一", "年",
)  # fmt: skip
UNBOUNDED = 20
"""A repeat that may go on for longer than this is attacked."""
REPEATS = (ops.MAX_REPEAT, ops.MIN_REPEAT, ops.POSSESSIVE_REPEAT)
OF_CATEGORY = {
    ops.CATEGORY_DIGIT: "1", ops.CATEGORY_SPACE: " ", ops.CATEGORY_WORD: "a",
    ops.CATEGORY_NOT_DIGIT: "a", ops.CATEGORY_NOT_SPACE: "a", ops.CATEGORY_NOT_WORD: "-",
}  # fmt: skip

Tree = Iterable[tuple[Any, Any]]
Lead = Callable[[int], str]
Attack = tuple[str, str, str]
Place = tuple[str, int, str]
"""A module, a line, and the function of re that is called there."""


def compiled_patterns() -> tuple[dict[re.Pattern[str], Place], list[str]]:
    """Import all modules; return the place of every pattern they compile or name.

    The list names the functions with a call of re whose pattern is known only later.
    """
    found: dict[re.Pattern[str], Place] = {}
    seen: set[tuple[str, int]] = set()
    unknown: list[tuple[ModuleType, ast.Call]] = []
    compiler = re._compile  # type: ignore[attr-defined]

    def noted(pattern: Any, flags: int) -> re.Pattern[Any]:
        made: re.Pattern[Any] = compiler(pattern, flags)
        frame: FrameType | None = sys._getframe(1)
        while frame and frame.f_globals.get("__name__", "").split(".")[0] in ("re", "functools"):
            frame = frame.f_back
        name = frame.f_globals.get("__name__", "") if frame else ""
        if frame and name.split(".")[0] in PACKAGES and isinstance(made.pattern, str):
            seen.add((name, frame.f_lineno))
            found.setdefault(made, (name, frame.f_lineno, "compile"))
        return made

    def is_seen(module: ModuleType, call: ast.Call) -> bool:
        lines = range(call.lineno, (call.end_lineno or 0) + 1)
        return any((module.__name__, line) in seen for line in lines)

    for name in [name for name in sys.modules if name.split(".")[0] in PACKAGES]:
        del sys.modules[name]  # a fork of warm_python.py has compiled what they compile
    re._compile = noted  # type: ignore[attr-defined]
    for module in modules():
        for call in calls_of_re(module):
            if is_seen(module, call):
                continue
            try:
                pattern = eval(ast.unparse(call.args[0]), dict(vars(module)))
            except NameError:  # made of local names
                unknown.append((module, call))
                continue
            if isinstance(pattern, str):
                place = (module.__name__, call.lineno, ast.unparse(call.func)[3:])
                found.setdefault(compiler(pattern, 0), place)
    load_rule_files()
    re._compile = compiler  # type: ignore[attr-defined]
    return found, sorted(
        f"{module.__name__}.{function_of(module, call)}"
        for module, call in unknown
        if not is_seen(module, call)
    )


def load_rule_files() -> None:
    """Compile what the packages compile only at a first call."""
    for path, arguments in LOADERS:
        module, _, name = path.rpartition(".")
        load = getattr(sys.modules[module], name)
        for given in [[argument] for argument in arguments] or [[]]:
            load(*given)
    asked = sys.modules["shared_core.nlp.asked_slots"]
    for language, slot in product(("en", "zh"), asked._source()["slots"]):
        asked._pattern(language, slot)
    mind = sys.modules["shared_core.nlp.keywords_and_topics"]
    for table in mind.mind_rules()["findings"]:
        mind.patterns(table["dimension"])


def function_of(module: ModuleType, call: ast.Call) -> str:
    """Return the name of the innermost function around a call."""
    around = [
        (node.lineno, node.name)
        for node in nodes_of(str(module.__file__))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.lineno <= call.lineno <= (node.end_lineno or 0)
    ]
    return max(around)[1]


def modules() -> Iterator[ModuleType]:
    for package in map(importlib.import_module, PACKAGES):
        yield package
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not found.name.endswith((".__main__", ".conformance")):
                yield importlib.import_module(found.name)


@cache
def nodes_of(file: str) -> list[ast.AST]:
    """Return all nodes of a file that names a method of a pattern; none of another file."""
    text = Path(file).read_text()
    return list(ast.walk(ast.parse(text))) if NAMED.search(text) else []


@cache
def assignments_of(file: str) -> list[ast.Assign | ast.AnnAssign]:
    return [node for node in nodes_of(file) if isinstance(node, ast.Assign | ast.AnnAssign)]


def calls_of_re(module: ModuleType) -> Iterator[ast.Call]:
    for node in nodes_of(str(module.__file__)):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="re"), attr=name)):
                yield from [node] if name in METHODS | {"compile"} else []


def methods_of(place: Place, uses: dict[str, set[str]]) -> set[str]:
    """Return the methods that the pattern of a place is used with, as far as names tell."""
    module, line, function = place
    if function in METHODS:
        return {function}
    methods: set[str] = set()
    for node in assignments_of(str(sys.modules[module].__file__)):
        if node.lineno <= line <= (node.end_lineno or 0):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            methods |= set().union(*(uses[ast.unparse(target)] for target in targets))
    return methods


def uses_of_names() -> dict[str, set[str]]:
    """Return the methods of patterns that are called on each name, anywhere in the packages."""
    uses: dict[str, set[str]] = defaultdict(set)
    for package in PACKAGES:
        for file in Path(str(sys.modules[package].__file__)).parent.rglob("*.py"):
            for node in nodes_of(str(file)):
                if isinstance(node, ast.Attribute) and node.attr in METHODS:
                    uses[ast.unparse(node.value).split("[")[0].split(".")[-1]].add(node.attr)
    return uses


def methods_of_rules(uses: dict[str, set[str]]) -> dict[re.Pattern[str], set[str]]:
    """Return the methods that the patterns of the rule files are used with."""
    rules = sys.modules["shared_core.nlp.rules"]
    found: dict[re.Pattern[str], set[str]] = defaultdict(set)
    for loaded in map(rules.load_rules, ("en", "zh")):
        for name in rules.EXPRESSIONS:
            found[getattr(loaded, name)] |= uses[name] or {"search"}
        for guard in loaded.guards:
            found[guard.regex].add("search")
        for one in loaded.patterns:
            found[one.regex].add("match")
            for optional in filter(None, (getattr(one, name) for name in rules.OPTIONAL)):
                found[optional].add("search")
    return found


def attacks(pattern: re.Pattern[str]) -> set[Attack]:
    """Return a beginning, what is repeated after it, and an end, for every repeat."""
    tree = parser.parse(pattern.pattern, pattern.flags)
    found: set[Attack] = {("", text, "") for text in ANYWHERE}
    found |= {("", text, "") for choice in range(4) if (text := example(tree, choice))}
    for lead, body in repeats(tree, lambda choice: ""):
        found |= {(lead, body, ""), ("", body, ""), (lead, body, "\0"), ("", lead + body, " ")}
        found |= {("", lead + body, "")} | ({("", lead, "")} if lead else set())
    return found


def repeats(tree: Tree, lead: Lead) -> Iterator[tuple[str, str]]:
    """Yield a text that leads to each unbounded repeat, and what the repeat takes."""
    nodes = list(tree)
    for place, (op, value) in enumerate(nodes):

        def before(choice: int, place: int = place) -> str:
            return lead(choice) + example(nodes[:place], choice)

        if op in REPEATS:
            if value[1] > UNBOUNDED:
                for choice in range(3):
                    if body := example(value[2], choice):
                        yield before(choice), body
            yield from repeats(value[2], before)
        elif op is ops.BRANCH:
            for branch in value[1]:
                yield from repeats(branch, before)
        elif op in (ops.SUBPATTERN, ops.ASSERT, ops.ASSERT_NOT):
            yield from repeats(value[-1], before)
        elif op is ops.ATOMIC_GROUP:
            yield from repeats(value, before)


def example(tree: Tree, choice: int) -> str:
    """Return a text that the expression takes; choice picks among branches and characters."""
    return "".join(_example(op, value, choice) for op, value in tree)


def _example(op: Any, value: Any, choice: int) -> str:
    if op is ops.LITERAL:
        return chr(value)
    if op in (ops.ANY, ops.NOT_LITERAL):
        return "a" if value != ord("a") else "b"
    if op is ops.IN:
        characters = taken(value)
        return characters[choice % len(characters)]
    if op is ops.BRANCH:
        return example(value[1][choice % len(value[1])], choice)
    if op in REPEATS:
        times: int = max(value[0], 1 - choice % 2)
        return example(value[2], choice) * times
    if op is ops.SUBPATTERN:
        return example(value[3], choice)
    return example(value, choice) if op is ops.ATOMIC_GROUP else ""


def taken(items: list[tuple[Any, Any]]) -> str:
    """Return up to three characters of a class."""
    if items[0][0] is ops.NEGATE:
        refused = {chr(value) for op, value in items if op is ops.LITERAL}
        for op, value in items:
            if op is ops.RANGE:
                refused |= {one for one in ALPHABET if value[0] <= ord(one) <= value[1]}
            elif op is ops.CATEGORY:
                refused |= {one for one in ALPHABET if in_category(value, one)}
        return "".join(one for one in ALPHABET if one not in refused)[:3] or "a"
    kinds: dict[Any, Callable[[Any], str]] = {
        ops.LITERAL: chr,
        ops.RANGE: lambda ends: chr(ends[0]),
        ops.CATEGORY: OF_CATEGORY.__getitem__,
    }
    return "".join(kinds[op](value) for op, value in items[:3])


def in_category(category: Any, character: str) -> bool:
    digit, space = character.isdigit(), character.isspace()
    word = character.isalnum() or character == "_"
    found: dict[Any, bool] = {
        ops.CATEGORY_DIGIT: digit, ops.CATEGORY_SPACE: space, ops.CATEGORY_WORD: word,
        ops.CATEGORY_NOT_DIGIT: not digit, ops.CATEGORY_NOT_SPACE: not space,
        ops.CATEGORY_NOT_WORD: not word,
    }  # fmt: skip
    return found[category]


class TooSlow(Exception):
    """The limit of processor time is used up."""


def seconds(pattern: re.Pattern[str], methods: set[str], attack: Attack, length: int) -> float:
    """Return the processor time that a pattern takes for a text, at most LIMIT_S."""
    lead, body, end = attack
    text = lead + body * (length // len(body)) + end
    begun = time.process_time()
    signal.setitimer(signal.ITIMER_PROF, LIMIT_S)
    try:
        if methods and methods <= ANCHORED:
            for method in methods:
                getattr(pattern, method)(text)
        else:
            for _ in pattern.finditer(text):
                pass
    except TooSlow:
        return LIMIT_S
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return time.process_time() - begun


def main() -> None:
    def stop(*_: object) -> None:
        raise TooSlow

    signal.signal(signal.SIGPROF, stop)
    patterns, unknown = compiled_patterns()
    uses, tried = uses_of_names(), 0
    of_rules = methods_of_rules(uses)
    for pattern, place in patterns.items():
        methods = of_rules.get(pattern) or methods_of(place, uses)
        short = {one: seconds(pattern, methods, one, SHORT) for one in attacks(pattern)}
        for attack in sorted(short, key=short.__getitem__)[-WORST:]:
            tried += 1
            if seconds(pattern, methods, attack, LENGTH) >= LIMIT_S:
                said = f"{place[0]}:{place[1]} {pattern.pattern!r:.200} repeats {attack[1]!r:.80}"
                sys.stdout.write(f"slow: {said}\n")
                break
    for name in unknown:
        sys.stdout.write(f"unknown: {name}\n")
    sys.stdout.write(f"{len(patterns)} patterns, {tried} texts\n")


if __name__ == "__main__":
    main()
