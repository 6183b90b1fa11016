"""What a real Citus cluster refuses in a statement, found by PostgreSQL's parser."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from pglast import ast, parse_sql
from pglast.stream import RawStream
from pglast.visitors import Visitor

ONE_TENANT = r"(?:'[^']*'|\$\d+|CAST\(\$\d+ AS text\))"
"""A parameter as readable() leaves it, or a literal."""


@dataclass
class Catalog:
    """What the rules need to know of the schema.

    spread: the tables that lie on the nodes. reading: the functions that read a table. unsteady:
    names of functions that have a form that is not IMMUTABLE.
    """

    spread: set[str]
    reading: set[str]
    unsteady: set[str]


@dataclass
class Refusals(Visitor):  # type: ignore[misc] # pglast ships no types
    """Collects the reasons for which Citus refuses a statement or sends it to several nodes."""

    catalog: Catalog
    found: set[str] = field(default_factory=set)
    whole: list[ast.Node] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def of(self, text: bytes) -> set[str]:
        """Return the reasons of one statement."""
        sql = readable(text)
        tree = parse_sql(sql)
        self.whole = [one.stmt for one in tree]
        self(tree)
        if b"tenants)" in text and _tables(tree) & self.catalog.spread:
            self.found.add("an array of tenants")
        return self.found

    def visit_FuncCall(self, _: object, node: ast.FuncCall) -> None:
        if node.funcname[-1].sval in self.catalog.reading:
            self.found.add("a function that reads a table")

    def visit_InsertStmt(self, _: object, node: ast.InsertStmt) -> None:
        if node.relation.relname not in self.catalog.spread:
            return
        rows = node.selectStmt
        if node not in self.whole:
            self.found.add("an INSERT within a statement")
        elif node.withClause:
            self.found.add("WITH before INSERT")
        if rows is not None and rows.valuesLists:
            if any(isinstance(one, ast.SubLink) for one in _below(rows.valuesLists)):
                self.found.add("a sub-select in VALUES")
        elif not node.onConflictClause and not node.returningClause:
            self.found.add("INSERT ... SELECT without RETURNING")
        if node.onConflictClause:
            self._changes(node.onConflictClause.targetList or ())

    def visit_UpdateStmt(self, _: object, node: ast.UpdateStmt) -> None:
        if node.relation.relname in self.catalog.spread:
            self._changes(node.targetList)
        self._pairs(node.whereClause)
        self._level([node.relation, *(node.fromClause or ())], node.whereClause)

    def visit_DeleteStmt(self, _: object, node: ast.DeleteStmt) -> None:
        self._pairs(node.whereClause)
        self._level([node.relation, *(node.usingClause or ())], node.whereClause)

    def visit_SelectStmt(self, _: object, node: ast.SelectStmt) -> None:
        self._level(node.fromClause or (), node.whereClause)

    def _pairs(self, where: ast.Node | None) -> None:
        for one in _below(where):
            if isinstance(one, ast.SubLink) and isinstance(one.testexpr, ast.RowExpr):
                self.found.add("a row compared with a sub-select in a change")

    def _changes(self, targets: Iterable[ast.ResTarget]) -> None:
        for target in targets:
            said = RawStream()(target.val)
            if "interval" in said and "AT TIME ZONE" not in said and "timezone(" not in said:
                self.found.add("a moment moved outside of UTC in a change")
            for one in _below(target.val):
                if not isinstance(one, ast.FuncCall) or isinstance(target.val, ast.SubLink):
                    continue
                of_columns = any(isinstance(arg, ast.ColumnRef) for arg in _below(one.args or ()))
                if one.funcname[-1].sval in self.catalog.unsteady and of_columns:
                    self.found.add("a function of columns that is not IMMUTABLE in a change")

    def _level(self, sources: Iterable[ast.Node], where: ast.Node | None) -> None:
        tables, quals, todo = [], [where], [*sources]
        used: list[tuple[set[str], tuple[str, ...]]] = []
        while todo:
            node = todo.pop()
            if isinstance(node, ast.RangeVar):
                tables.append((node.alias.aliasname if node.alias else node.relname, node.relname))
            elif isinstance(node, ast.JoinExpr):
                todo += [node.larg, node.rarg]
                quals.append(node.quals)
                if any(one.sval == "tenant_id" for one in node.usingClause or ()):
                    used.append((_aliases(node.larg), tuple(_aliases(node.rarg))))
        said = " AND ".join(RawStream()(one) for one in quals if one is not None)
        named = _named(said, [alias for alias, _ in tables], used)
        if any(name in self.catalog.spread and alias not in named for alias, name in tables):
            self.found.add("a level that does not name its one tenant by the parameter")


def _named(said: str, aliases: list[str], used: list[tuple[set[str], tuple[str, ...]]]) -> set[str]:
    """Return the aliases of a level whose tenant is the parameter, or equal to such a one."""
    named = set(re.findall(rf"\b(\w+)\.tenant_id = {ONE_TENANT}", said))
    if len(aliases) == 1 and re.search(rf"(?<![.\w])tenant_id = {ONE_TENANT}", said):
        named |= set(aliases)
    pairs = [{a, b} for a, b in re.findall(r"\b(\w+)\.tenant_id = (\w+)\.tenant_id", said)]
    pairs += [{a, b} for left, right in used for a in left for b in right]
    for _ in aliases:
        for pair in pairs:
            if pair & named:
                named |= pair
    return named


def _aliases(node: ast.Node) -> set[str]:
    if isinstance(node, ast.JoinExpr):
        return _aliases(node.larg) | _aliases(node.rarg)
    alias = getattr(node, "alias", None)
    return {alias.aliasname if alias else getattr(node, "relname", "")}


def _below(node: object) -> Iterator[ast.Node]:
    """Yield a node and all that it holds."""
    if isinstance(node, list | tuple):
        for one in node:
            yield from _below(one)
    elif isinstance(node, ast.Node):
        yield node
        for name in node:
            yield from _below(getattr(node, name))


def _tables(tree: object) -> set[str]:
    statements = [one.stmt for one in tree] if isinstance(tree, tuple) else tree
    return {one.relname for one in _below(statements) if isinstance(one, ast.RangeVar)}


def readable(text: bytes) -> str:
    """Return the text of a statement with its placeholders numbered, so that it can be parsed."""
    places: dict[str, int] = {}

    def numbered(found: re.Match[str]) -> str:
        return f"${places.setdefault(found[1], len(places) + 1)}"

    return re.sub(r"%\((\w+)\)[sb]", numbered, text.decode()).replace("%%", "%")


def broken(catalog: Catalog, texts: Mapping[str, bytes]) -> dict[str, set[str]]:
    """Return the reasons of every statement that Citus refuses, by name."""
    return {name: why for name, text in texts.items() if (why := Refusals(catalog).of(text))}
