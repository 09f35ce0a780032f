"""Whole kernels: their statements, written in LLVM's language.

A variable's kind is what it is set to; where it is set to several (a truth here, an integer there)
the text is written again, with what is both.
"""

import ast
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidemill.compiled.translating import arithmetic
from tidemill.compiled.translating.expressions import Expressions
from tidemill.compiled.translating.kinds import (
    INT,
    NOTHING,
    Array,
    KernelError,
    Kind,
    Several,
    Value,
    both,
)
from tidemill.compiled.translating.writing import Emitter

if TYPE_CHECKING:
    from tidemill.compiled.translating.modules import Module

_AT_MOST = 8  # readings of one text: each makes some variable of a wider kind


class Function(Expressions):
    """One kernel for arguments of some kinds."""

    def __init__(
        self, module: "Module", function: Callable[..., Any], takes: tuple[Kind, ...]
    ) -> None:
        super().__init__(module, function)
        self._takes = takes
        self._node = _text(function)
        self._names = [arg.arg for arg in self._node.args.args]
        self._loops = list[tuple[str, str]]()
        """Where ``break`` and ``continue`` go."""

    def write(self, name: str, linkage: str) -> str:
        """The whole function."""
        if len(self._names) != len(self._takes):
            raise self.refusal(self._node, f"it takes {len(self._names)} arguments")
        for _ in range(_AT_MOST):
            self._write()
            if not self.is_changed:
                return self._whole(name, linkage)
        raise AssertionError("a variable widens only so often")

    def _write(self) -> None:
        self.writer, self.is_changed, self._hidden = Emitter(), False, 0
        for i, kind in enumerate(self._takes):
            given = tuple(f"%a.{i}.{p}" for p in range(len(kind.parts)))
            self.store(self._names[i], Value(kind, given))
        self._block(self._node.body)
        if self.writer.is_open:
            self._return(Value(NOTHING, ()), self._node)

    def _whole(self, name: str, linkage: str) -> str:
        takes = ", ".join(
            f"{part} %a.{i}.{p}"
            for i, kind in enumerate(self._takes)
            for p, part in enumerate(kind.parts)
        )
        made = self.module.made(self.returns or NOTHING)
        head = [f"define {linkage} {made} {name}({takes}) nounwind {{", "begin:"]
        for variable, kind in self.kinds.items():
            for i, part in enumerate(kind.parts):
                at = f"%v.{variable}.{i}"
                head += [f"{at} = alloca {part}", f"store {part} zeroinitializer, ptr {at}"]
        tail = list[str]()
        if self.module.is_checked:
            rest = "".join(f", {part} zeroinitializer" for part in (self.returns or NOTHING).parts)
            tail = ["failed:", f"ret {made} {{i1 true{rest}}}" if rest else "ret i1 true"]
        return "\n".join([*head, *self.writer.lines, *tail, "}\n"])

    # Statements --------------------------------------------------------------------------------

    def _block(self, statements: list[ast.stmt]) -> None:
        for statement in statements:
            if not self.writer.is_open:
                return
            try:
                self._statement(statement)
            except KernelError as error:
                raise self.placed(error, statement) from None

    def _statement(self, node: ast.stmt) -> None:
        write = _WRITERS.get(type(node))
        if write is None:
            raise self.refusal(node, f"kernels have no {type(node).__name__}")
        write(self, node)

    def _expression(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):
            self.value(node.value)

    def _set(self, node: ast.Assign) -> None:
        found = self.value(node.value)
        for target in node.targets:
            self._assign(target, found)

    def _leave(self, node: ast.Return) -> None:
        value = Value(NOTHING, ()) if node.value is None else self.value(node.value)
        self._return(value, node)

    def _return(self, value: Value, node: ast.AST) -> None:
        known = self.returns
        try:
            self.returns = value.kind if known is None else both(known, value.kind)
        except KernelError as error:
            raise self.refusal(node, f"it returns {error}") from None
        self.is_changed = self.is_changed or (known is not None and known != self.returns)
        parts = arithmetic.cast(self.writer, value, self.returns).parts
        made, kinds = self.module.made(self.returns), self.returns.parts
        if self.module.is_checked:
            parts, kinds = ("false", *parts), ("i1", *kinds)
        if made[0] != "{":
            self.writer.end(f"ret {made} {parts[0]}" if parts else "ret void")
            return
        whole = "undef"
        for i, (kind, part) in enumerate(zip(kinds, parts, strict=True)):
            whole = self.writer.take(f"insertvalue {made} {whole}, {kind} {part}, {i}")
        self.writer.end(f"ret {made} {whole}")

    def _assign(self, target: ast.expr, value: Value) -> None:
        match target:
            case ast.Name(id=name):
                self.store(name, value)
            case ast.Tuple(elts=targets) if isinstance(value.kind, Several):
                each = arithmetic.items(value)
                if len(each) != len(targets):
                    raise self.refusal(target, f"{len(each)} values are given")
                for one, given in zip(targets, each, strict=True):
                    self._assign(one, given)
            case ast.Subscript(slice=ast.Slice(lower=None, upper=None, step=None)):
                self._fill(self.value(target.value), value)
            case ast.Subscript():
                self.put(*self._place(target), value)
            case _:
                raise self.refusal(target, "nothing can be assigned to it")

    def _place(self, target: ast.Subscript) -> tuple[Value, str]:
        array, at = self.place(self.value(target.value), self.indices(target))
        if at is None:
            raise self.refusal(target, "rows are set element by element")
        return array, at

    def _change(self, node: ast.AugAssign) -> None:
        target, op = node.target, node.op
        match target:
            case ast.Name(id=name):
                before = self.load(name)
                after = arithmetic.binary(self.writer, op, before, self.value(node.value))
                self.store(name, after)
            case ast.Subscript():
                array, at = self._place(target)
                before = self.element(array, at)
                after = arithmetic.binary(self.writer, op, before, self.value(node.value))
                self.put(array, at, after)
            case _:
                raise self.refusal(target, "nothing can be assigned to it")

    def _fill(self, array: Value, value: Value) -> None:
        """Set every element of an array with one dimension."""
        if not isinstance(array.kind, Array) or array.kind.ndim != 1:
            raise KernelError("only an array of one dimension is filled")

        def put(i: Value) -> None:
            _, at = self.place(array, [i])
            assert at is not None, "an element"
            self.put(array, at, value)

        self._count(arithmetic.number(0), Value(INT, (array.parts[1],)), arithmetic.number(1), put)

    # Branches and loops ------------------------------------------------------------------------

    def _if(self, node: ast.If) -> None:
        yes, no, end = (self.writer.label() for _ in range(3))
        self.decide(node.test, yes, no)
        for label, statements in ((yes, node.body), (no, node.orelse)):
            self.writer.begin(label)
            self._block(statements)
            self.writer.jump(end)
        self.writer.begin(end)

    def _while(self, node: ast.While) -> None:
        if node.orelse:
            raise self.refusal(node, "kernels have no `else` of loops")
        head, body, end = (self.writer.label() for _ in range(3))
        self.writer.begin(head)
        self.decide(node.test, body, end)
        self.writer.begin(body)
        self._loops.append((end, head))
        self._block(node.body)
        self._loops.pop()
        self.writer.jump(head)
        self.writer.begin(end)

    def _for(self, node: ast.For) -> None:
        if node.orelse:
            raise self.refusal(node, "kernels have no `else` of loops")
        match node.iter:
            case ast.Call(func=ast.Name(id="range"), args=args):
                first, last, step = self._range(node, [self.value(arg) for arg in args])
                self._count(first, last, step, lambda i: self._assign(node.target, i), node.body)
            case _:
                array = self.value(node.iter)
                if not isinstance(array.kind, Array) or array.kind.ndim != 1:
                    raise self.refusal(
                        node.iter, "loops go over ranges and arrays of one dimension"
                    )
                last = Value(INT, (array.parts[1],))

                def take(i: Value) -> None:
                    _, at = self.place(array, [i])
                    assert at is not None, "an element"
                    self._assign(node.target, self.element(array, at))

                self._count(arithmetic.number(0), last, arithmetic.number(1), take, node.body)

    def _range(self, node: ast.For, args: list[Value]) -> tuple[Value, Value, Value]:
        given = [arithmetic.cast(self.writer, arg, INT) for arg in args]
        match given:
            case [last]:
                return arithmetic.number(0), last, arithmetic.number(1)
            case [first, last]:
                return first, last, arithmetic.number(1)
            case [first, last, step]:
                return first, last, step
        raise self.refusal(node.iter, "a range has one to three numbers")

    def _is_on(self, at: str, last: str, step: Value) -> str:
        """Whether a range goes on."""
        take = self.writer.take
        if step.constant is not None:
            return take(f"icmp {'slt' if step.constant > 0 else 'sgt'} i64 {at}, {last}")
        goes = list[str]()
        for sign, way in (("sgt", "slt"), ("slt", "sgt")):
            is_so = take(f"icmp {sign} i64 {step.parts[0]}, 0")
            goes.append(take(f"and i1 {is_so}, {take(f'icmp {way} i64 {at}, {last}')}"))
        return take(f"or i1 {goes[0]}, {goes[1]}")

    def _count(
        self,
        first: Value,
        last: Value,
        step: Value,
        take: Callable[[Value], None],
        body: list[ast.stmt] | None = None,
    ) -> None:
        """Go through a range."""
        writer, name = self.writer, self.hidden()
        head, inside, further, end = (writer.label() for _ in range(4))
        self.store(name, first)
        writer.begin(head)
        at = self.load(name)
        writer.branch(self._is_on(at.parts[0], last.parts[0], step), inside, end)
        writer.begin(inside)
        take(at)
        self._loops.append((end, further))
        self._block(body or [])
        self._loops.pop()
        writer.begin(further)
        if writer.is_open:
            wraps = "nsw " if step.constant in (1, -1) else ""
            after = writer.take(f"add {wraps}i64 {self.load(name).parts[0]}, {step.parts[0]}")
            self.store(name, Value(INT, (after,)))
            writer.jump(head)
        writer.begin(end)


_WRITERS: dict[type[ast.stmt], Callable[[Function, Any], None]] = {
    ast.Expr: Function._expression,
    ast.Pass: lambda *_: None,
    ast.Assign: Function._set,
    ast.AugAssign: Function._change,
    ast.If: Function._if,
    ast.While: Function._while,
    ast.For: Function._for,
    ast.Break: lambda by, _: by.writer.jump(by._loops[-1][0]),
    ast.Continue: lambda by, _: by.writer.jump(by._loops[-1][1]),
    ast.Return: Function._leave,
}


def _text(function: Callable[..., Any]) -> ast.FunctionDef:
    """The text of a function, as Python reads it."""
    code = function.__code__
    found = _texts(code.co_filename).get(code.co_firstlineno)
    if found is None or found.name != function.__name__:
        raise KernelError(f"{code.co_filename}:{code.co_firstlineno}: no function stands there")
    return found


@cache
def _texts(path: str) -> dict[int, ast.FunctionDef]:
    """The functions of a file by the line where they begin, with what decorates them."""
    tree = ast.parse(Path(path).read_text(encoding="utf-8"))
    return {
        min([node.lineno, *(one.lineno for one in node.decorator_list)]): node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
    }
