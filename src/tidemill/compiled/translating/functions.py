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
    Kind,
    KernelError,
    Several,
    Value,
    both,
)
from tidemill.compiled.translating.writing import Writer

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
            self.refuse(self._node, f"it takes {len(self._names)} arguments")
        for _ in range(_AT_MOST):
            self._write()
            if not self.is_changed:
                return self._whole(name, linkage)
        raise AssertionError("a kind can be made wider only so often")

    def _write(self) -> None:
        self.writer, self.is_changed, self._hidden = Writer(), False, 0
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
            failed = f"insertvalue {made} zeroinitializer, i1 true, 0"
            tail = ["failed:", f"%failed.value = {failed}", f"ret {made} %failed.value"]
        return "\n".join([*head, *self.writer.lines, *tail, "}\n"])

    # Statements --------------------------------------------------------------------------------

    def _block(self, statements: list[ast.stmt]) -> None:
        for statement in statements:
            if not self.writer.is_open:
                return
            try:
                self._statement(statement)
            except KernelError as error:
                if "cannot be compiled" in str(error):
                    raise
                self.refuse(statement, str(error))

    def _statement(self, node: ast.stmt) -> None:
        match node:
            case ast.Expr(value=ast.Constant()) | ast.Pass():
                pass
            case ast.Expr(value=value):
                self.value(value)
            case ast.Assign(targets=targets, value=value):
                found = self.value(value)
                for target in targets:
                    self._assign(target, found)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self._assign(target, self.value(value))
            case ast.AugAssign():
                self._change(node)
            case ast.If():
                self._if(node)
            case ast.While():
                self._while(node)
            case ast.For():
                self._for(node)
            case ast.Break():
                self.writer.jump(self._loops[-1][0])
            case ast.Continue():
                self.writer.jump(self._loops[-1][1])
            case ast.Return(value=None):
                self._return(Value(NOTHING, ()), node)
            case ast.Return(value=ast.expr() as value):
                self._return(self.value(value), node)
            case _:
                self.refuse(node, f"kernels have no {type(node).__name__}")

    def _return(self, value: Value, node: ast.AST) -> None:
        known = self.returns
        try:
            self.returns = value.kind if known is None else both(known, value.kind)
        except KernelError as error:
            self.refuse(node, f"it returns {error}")
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
                    self.refuse(target, f"{len(each)} values are given")
                for one, given in zip(targets, each, strict=True):
                    self._assign(one, given)
            case ast.Subscript(slice=ast.Slice(lower=None, upper=None, step=None)):
                self._fill(self.value(target.value), value)
            case ast.Subscript():
                self.put(*self._place(target), value)
            case _:
                self.refuse(target, "nothing can be assigned to it")

    def _place(self, target: ast.Subscript) -> tuple[Value, str]:
        array, at = self.place(self.value(target.value), self.indices(target))
        if at is None:
            self.refuse(target, "rows are set element by element")
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
                self.refuse(target, "nothing can be assigned to it")

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
            self.refuse(node, "kernels have no `else` of loops")
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
            self.refuse(node, "kernels have no `else` of loops")
        match node.iter:
            case ast.Call(func=ast.Name(id="range"), args=args):
                first, last, step = self._range(node, [self.value(arg) for arg in args])
                self._count(first, last, step, lambda i: self._assign(node.target, i), node.body)
            case _:
                array = self.value(node.iter)
                if not isinstance(array.kind, Array) or array.kind.ndim != 1:
                    self.refuse(node.iter, "loops go over ranges and arrays of one dimension")
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
        self.refuse(node.iter, "a range has one to three numbers")

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
