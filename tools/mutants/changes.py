"""The mutants of a module: small changes of its decisions, each of which a test should notice."""

from __future__ import annotations

import ast
import copy
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

_COMPARISONS: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_CALLS: Final = {"min": "max", "max": "min", "any": "all", "all": "any"}
_LOGS: Final = ("debug", "info", "warning")


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change of one module."""

    path: str
    line: int
    start: int
    """Of the text that changes, in bytes of the file."""
    end: int
    old: str
    new: str
    function: str
    """The function around it, with its class: `Link.send`; empty outside of one."""
    nth: int = 1
    """Which of the equal changes in that function, in the order of the text."""

    def __str__(self) -> str:
        """Show the place and the change."""
        return f"{self.path}:{self.line}: {self.function}: {self.change}"

    @property
    def change(self) -> str:
        """The change, each text in one line, and which one of several that read alike."""
        old, new = (" ".join(text.split()) for text in (self.old, self.new))
        return f"{old}  ->  {new}" + (f" #{self.nth}" if self.nth > 1 else "")

    @property
    def key(self) -> tuple[str, str, str]:
        """What a mutant is known by while lines around it move."""
        return self.path, self.function, self.change

    def applied(self, source: bytes) -> bytes:
        """Return the module with the change."""
        return source[: self.start] + self.new.encode() + source[self.end :]


def mutants_of(path: str, source: str) -> list[Mutant]:
    """Return every mutant of a module, in the order of its lines."""
    text = source.encode()
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found = []
    for node, new, function in _changes(ast.parse(source)):
        start = starts[node.lineno - 1] + node.col_offset
        end = starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
        found.append(Mutant(path, node.lineno, start, end, text[start:end].decode(), new, function))
    found.sort(key=lambda mutant: (mutant.start, mutant.end, mutant.new))
    seen = Counter[tuple[str, str, str]]()
    numbered = []
    for mutant in found:
        seen[mutant.key] += 1
        numbered.append(replace(mutant, nth=seen[mutant.key]))
    return numbered


def _changes(node: ast.AST, function: str = "") -> Iterator[tuple[ast.expr | ast.stmt, str, str]]:
    """Yield the expressions and statements to replace, with what, and the function around them."""
    if isinstance(node, ast.stmt) and _does_something(node):
        yield node, "pass", function
    if isinstance(node, ast.expr):
        for new in _other_values(node):
            yield node, f"({ast.unparse(new)})", function
    if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        function = f"{function}.{node.name}" if function else node.name
    for child in _decisions(node):
        yield from _changes(child, function)


def _decisions(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the children of a node but annotations, texts of errors, and what only is logged."""
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or isinstance(child, ast.Raise | ast.JoinedStr | ast.Assert):
                continue
            if isinstance(child, ast.Expr) and _is_log(child.value):
                continue
            yield child


def _is_log(value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in _LOGS


def _does_something(node: ast.stmt) -> bool:
    """Tell whether a statement can be left out and the module still compiles and imports."""
    if isinstance(node, ast.Expr):
        return not isinstance(node.value, ast.Constant)
    if isinstance(node, ast.Assign):
        return all(isinstance(target, ast.Attribute | ast.Subscript) for target in node.targets)
    return isinstance(node, ast.AugAssign | ast.Delete)


def _other_values(node: ast.expr) -> Iterator[ast.expr]:
    """Yield the expressions that take the place of one."""
    match node:
        case ast.Constant(value=bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(value=int(value)):
            yield ast.Constant(value + 1)
            yield ast.Constant(value - 1)
        case ast.Compare(ops=ops):
            for place, op in enumerate(ops):
                other = copy.deepcopy(node)
                other.ops[place] = _COMPARISONS[type(op)]()
                yield other
        case ast.BoolOp(op=op, values=values):
            yield ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield operand
        case ast.BinOp(op=ast.Add() | ast.Sub() as op) if not isinstance(node.left, ast.List | ast.Tuple):
            yield ast.BinOp(node.left, ast.Sub() if isinstance(op, ast.Add) else ast.Add(), node.right)
        case ast.Call(func=ast.Name(id=name)) if name in _CALLS:
            yield ast.Call(ast.Name(_CALLS[name]), node.args, node.keywords)
