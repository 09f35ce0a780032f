"""Expressions of kernels, written in LLVM's language."""

import ast
import builtins
from collections.abc import Callable
from enum import EnumType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tidemill.compiled.translating import arithmetic
from tidemill.compiled.translating.kinds import (
    ELEMENTS,
    INT,
    NOTHING,
    REAL,
    TRUTH,
    WORD,
    Array,
    ArrayTuple,
    KernelError,
    Kind,
    Several,
    Value,
    both,
)
from tidemill.compiled.translating.writing import Emitter

if TYPE_CHECKING:
    from tidemill.compiled.translating.modules import Module

POINTER = 8  # bytes of a pointer, and of a length
_REFUSED = "cannot be compiled"
_UNKNOWN = object()  # what is known only when a kernel runs


class Callee(NamedTuple):
    """A function that others call: its name or the slot where it lies, takes and returns."""

    name: str
    takes: tuple[Kind, ...]
    returns: Kind
    is_shared: bool = False


class Expressions:
    """The variables of one function, and what its expressions are."""

    def __init__(self, module: "Module", function: Callable[..., Any]) -> None:
        self.module, self.function = module, function
        self.writer = Emitter()
        self.kinds = dict[str, Kind]()
        """Of each variable, as far as it was read."""
        self.is_changed = False
        """Whether a variable turned out to be of another kind after it was written."""
        self.returns: Kind | None = None
        self._hidden = 0
        self._locals = {*function.__code__.co_varnames, *function.__code__.co_cellvars}

    def refusal(self, node: ast.AST, why: str) -> KernelError:
        """What says that something cannot be compiled, and where it stands."""
        code = self.function.__code__
        line = getattr(node, "lineno", code.co_firstlineno)
        said = ast.unparse(node).partition("\n")[0]
        return KernelError(f"{code.co_filename}:{line}: `{said}` {_REFUSED}: {why}")

    def placed(self, error: KernelError, node: ast.AST) -> KernelError:
        """An error that says where it stands."""
        return error if _REFUSED in str(error) else self.refusal(node, str(error))

    # Variables ---------------------------------------------------------------------------------

    def hidden(self) -> str:
        """The name of a variable that the text does not have."""
        self._hidden += 1
        return f".{self._hidden}"

    def store(self, name: str, value: Value) -> None:
        """Set a variable."""
        known = self.kinds.get(name)
        kind = value.kind if known is None else both(known, value.kind)
        if kind != known:
            self.kinds[name] = kind
            self.is_changed = self.is_changed or known is not None
        parts = zip(kind.parts, arithmetic.cast(self.writer, value, kind).parts, strict=True)
        for i, (what, part) in enumerate(parts):
            self.writer.do(f"store {what} {part}, ptr %v.{name}.{i}")

    def load(self, name: str) -> Value:
        """What a variable is."""
        if name not in self.kinds:
            raise KernelError(f"`{name}` is read before it is set")
        kind = self.kinds[name]
        parts = enumerate(kind.parts)
        return Value(
            kind, tuple(self.writer.take(f"load {w}, ptr %v.{name}.{i}") for i, w in parts)
        )

    # Expressions -------------------------------------------------------------------------------

    def value(self, node: ast.expr) -> Value:
        """What an expression is."""
        try:
            found = self.static(node)
            return self._value(node) if found is _UNKNOWN else self._known(found)
        except KernelError as error:
            raise self.placed(error, node) from None

    def _value(self, node: ast.expr) -> Value:
        write = _WRITERS.get(type(node))
        if write is None:
            raise self.refusal(node, f"kernels have no {type(node).__name__}")
        return write(self, node)

    def _binary(self, node: ast.BinOp) -> Value:
        left = self.value(node.left)
        return arithmetic.binary(self.writer, node.op, left, self.value(node.right))

    def _compare(self, node: ast.Compare) -> Value:
        match node.ops:
            case [ast.In() | ast.NotIn()]:
                return Value(TRUTH, (self._is_in(node),))
            case [op]:
                left, right = self.value(node.left), self.value(node.comparators[0])
                return Value(TRUTH, (arithmetic.compare(self.writer, op, left, right),))
        return self._by_branches(node)

    def static(self, node: ast.expr) -> Any:  # noqa: ANN401 - whatever a module names
        """What is known before a kernel runs."""
        match node:
            case ast.Constant(value=value):
                return value
            case ast.Name(id=name) if name not in self._locals:
                found = self.function.__globals__.get(name, _UNKNOWN)
                return getattr(builtins, name, _UNKNOWN) if found is _UNKNOWN else found
            case ast.Attribute(value=of, attr=name):
                base = self.static(of)
                return _UNKNOWN if base is _UNKNOWN else getattr(base, name)
        return _UNKNOWN

    def _known(self, found: Any) -> Value:  # noqa: ANN401 - as above
        if isinstance(found, np.ndarray):
            return self.module.constant_array(found)
        if isinstance(found, tuple):
            return arithmetic.together([self._known(one) for one in found])
        if isinstance(found, np.uint64):
            return Value(WORD, (str(int(found) - (1 << 64) * (int(found) >> 63)),))
        return arithmetic.number(found.item() if isinstance(found, np.generic) else found)

    # Truths ------------------------------------------------------------------------------------

    def decide(self, node: ast.expr, yes: str, no: str) -> None:
        """Go on at one of two labels, by whether an expression is true."""
        match node:
            case ast.BoolOp(op=op, values=[*before, last]):
                for one in before:
                    further = self.writer.label()
                    if isinstance(op, ast.And):
                        self.decide(one, further, no)
                    else:
                        self.decide(one, yes, further)
                    self.writer.begin(further)
                self.decide(last, yes, no)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                self.decide(operand, no, yes)
            case ast.Compare(left=left, ops=[_, _, *_] as ops, comparators=others):
                self._decide_chain(left, ops, others, yes, no)
            case ast.Constant(value=value):
                self.writer.jump(yes if value else no)
            case _:
                self.writer.branch(arithmetic.truth(self.writer, self.value(node)), yes, no)

    def _decide_chain(
        self, left: ast.expr, ops: list[ast.cmpop], others: list[ast.expr], yes: str, no: str
    ) -> None:
        a = self.value(left)
        for op, other in zip(ops, others, strict=True):
            b = self.value(other)
            said = arithmetic.compare(self.writer, op, a, b)
            further = yes if other is others[-1] else self.writer.label()
            self.writer.branch(said, further, no)
            if further != yes:
                self.writer.begin(further)
            a = b

    def _by_branches(self, node: ast.expr) -> Value:
        """The truth of an expression that is decided step by step."""
        name, yes, no, end = self.hidden(), *(self.writer.label() for _ in range(3))
        self.decide(node, yes, no)
        for label, said in ((yes, True), (no, False)):
            self.writer.begin(label)
            if self.writer.is_open:
                self.store(name, arithmetic.number(said))
                self.writer.jump(end)
        self.writer.begin(end)
        return self.load(name)

    def _first_that_decides(self, node: ast.BoolOp) -> Value:
        """``and`` and ``or`` as Python has them: the operand that decided."""
        name, end = self.hidden(), self.writer.label()
        for one in node.values:
            found = self.value(one)
            self.store(name, found)
            if one is not node.values[-1]:
                further = self.writer.label()
                said = arithmetic.truth(self.writer, found)
                is_and = isinstance(node.op, ast.And)
                self.writer.branch(said, *((further, end) if is_and else (end, further)))
                self.writer.begin(further)
        self.writer.begin(end)
        return self.load(name)

    def _either(self, node: ast.IfExp) -> Value:
        name, yes, no, end = self.hidden(), *(self.writer.label() for _ in range(3))
        self.decide(node.test, yes, no)
        for label, one in ((yes, node.body), (no, node.orelse)):
            self.writer.begin(label)
            self.store(name, self.value(one))
            self.writer.jump(end)
        self.writer.begin(end)
        return self.load(name)

    def _is_in(self, node: ast.Compare) -> str:
        wanted, others = self.value(node.left), self.value(node.comparators[0])
        if not isinstance(others.kind, Several):
            raise self.refusal(node, "only in a tuple something is looked for")
        found = "false"
        for one in arithmetic.items(others):
            same = arithmetic.compare(self.writer, ast.Eq(), wanted, one)
            found = self.writer.take(f"or i1 {found}, {same}")
        is_in = isinstance(node.ops[0], ast.In)
        return found if is_in else self.writer.take(f"xor i1 {found}, true")

    # Arrays ------------------------------------------------------------------------------------

    def _attribute(self, node: ast.Attribute) -> Value:
        base, name = self.value(node.value), node.attr
        if isinstance(base.kind, Array) and name == "shape":
            return Value(Several((INT,) * base.kind.ndim), base.parts[1:])
        if not isinstance(base.kind, ArrayTuple) or name not in base.kind.places:
            raise KernelError(f"{base.kind} has no `{name}`")
        (at, kind), table = base.kind.places[name], base.parts[0]
        parts = enumerate(kind.parts, at)
        return Value(kind, tuple(self.writer.read(p, table, POINTER * i) for i, p in parts))

    def _subscript(self, node: ast.Subscript) -> Value:
        known = self.static(node.value)
        if isinstance(known, tuple):
            return self._item_of(node, known)
        base = self.value(node.value)
        if isinstance(base.kind, Several):
            at = self.value(node.slice).constant
            if at is None:
                raise self.refusal(node, "which of several it is must stand in the text")
            return arithmetic.items(base)[at]
        array, at_once = self.place(base, self.indices(node))
        return array if at_once is None else self.element(array, at_once)

    def _item_of(self, node: ast.Subscript, known: tuple[Any, ...]) -> Value:
        """An item of a tuple that a module names."""
        index = self.value(node.slice)
        if index.constant is not None:
            return self._known(known[index.constant])
        array = self.module.constant_array(np.array(known, np.int64))
        array, at_once = self.place(array, [index])
        assert at_once is not None, "one item is asked for"
        return self.element(array, at_once)

    def indices(self, node: ast.Subscript) -> list[Value]:
        """The indices of a subscript."""
        each = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        return [self.value(one) for one in each]

    def place(self, array: Value, indices: list[Value]) -> tuple[Value, str | None]:
        """Where a row of an array begins, as an array; or where one element of it lies."""
        kind, writer = array.kind, self.writer
        if not isinstance(kind, Array) or len(indices) > kind.ndim:
            raise KernelError(f"{kind} has not so many dimensions")
        data, *shape = array.parts
        offset = ""
        for d, index in enumerate(indices):
            if index.kind not in (INT, WORD, TRUTH):
                raise KernelError(f"{index.kind} is no index")
            at = arithmetic.cast(writer, index, INT).parts[0]
            self.check_index(at, shape[d])
            offset = writer.take(f"add nsw i64 {offset}, {at}") if offset else at
            if d + 1 < kind.ndim:
                offset = writer.take(f"mul nsw i64 {offset}, {shape[d + 1]}")
        if len(indices) < kind.ndim:
            for length in shape[len(indices) + 1 :]:
                offset = writer.take(f"mul nsw i64 {offset}, {length}")
        stored = ELEMENTS[kind.of].stored
        found = writer.take(f"getelementptr inbounds {stored}, ptr {data}, i64 {offset}")
        if len(indices) == kind.ndim:
            return array, found
        row = Array(kind.of, kind.ndim - len(indices))
        return Value(row, (found, *shape[len(indices) :])), None

    def check_index(self, at: str, length: str) -> None:
        """Leave with an error where an index is below zero or beyond the end."""
        if not self.module.is_checked:
            return
        fine, wrong = self.writer.label(), self.writer.label()
        self.writer.branch(self.writer.take(f"icmp ult i64 {at}, {length}"), fine, wrong)
        self.writer.begin(wrong)
        self.leave_failed()
        self.writer.begin(fine)

    def leave_failed(self) -> None:
        """Return to whoever called, and say that something is wrong."""
        self.writer.end("br label %failed")

    def element(self, array: Value, at: str) -> Value:
        """An element of an array."""
        assert isinstance(array.kind, Array), "only arrays have elements"
        element, writer = ELEMENTS[array.kind.of], self.writer
        found = writer.take(f"load {element.stored}, ptr {at}")
        if element.kind == TRUTH:
            return Value(TRUTH, (writer.take(f"icmp ne i8 {found}, 0"),))
        if element.stored != element.kind.parts[0]:
            how = "sext" if element.is_signed else "zext"
            found = writer.take(f"{how} {element.stored} {found} to i64")
        return Value(element.kind, (found,))

    def put(self, array: Value, at: str, value: Value) -> None:
        """Set an element of an array."""
        assert isinstance(array.kind, Array), "only arrays have elements"
        element, writer = ELEMENTS[array.kind.of], self.writer
        part = arithmetic.cast(writer, value, element.kind).parts[0]
        if element.kind == TRUTH:
            part = writer.take(f"zext i1 {part} to i8")
        elif element.stored != element.kind.parts[0]:
            part = writer.take(f"trunc i64 {part} to {element.stored}")
        writer.do(f"store {element.stored} {part}, ptr {at}")

    # Calls -------------------------------------------------------------------------------------

    def _call(self, node: ast.Call) -> Value:
        called = self.static(node.func)
        if node.keywords or any(isinstance(arg, ast.Starred) for arg in node.args):
            raise self.refusal(node, "arguments are given by their places")
        if called is len:
            return self._length(node)
        if self.module.is_kernel(called):
            return self._call_kernel(called, [self.value(arg) for arg in node.args])
        return self._built_in(node, called, [self.value(arg) for arg in node.args])

    def _built_in(self, node: ast.Call, called: object, args: list[Value]) -> Value:
        writer = self.writer
        if (called is min or called is max) and len(args) > 1:
            return arithmetic.extreme(writer, "min" if called is min else "max", args)
        if called is divmod and len(args) == 2:
            a, b = (arithmetic.cast(writer, arg, INT) for arg in args)
            return arithmetic.together(list(arithmetic.divided(writer, a, b)))
        if called is abs and len(args) == 1:
            negative = arithmetic.unary(writer, ast.USub(), args[0])
            return arithmetic.extreme(writer, "max", [args[0], negative])
        casts = ((int, INT), (np.int64, INT), (np.uint64, WORD), (float, REAL), (bool, TRUTH))
        for which, kind in casts:
            if called is which and len(args) == 1:
                return arithmetic.cast(writer, args[0], kind)
        raise self.refusal(node, "kernels do not call that")

    def _length(self, node: ast.Call) -> Value:
        known = self.static(node.args[0])
        if isinstance(known, tuple | EnumType):
            return arithmetic.number(len(known))
        of = self.value(node.args[0])
        if isinstance(of.kind, Array):
            return Value(INT, (of.parts[1],))
        if isinstance(of.kind, Several):
            return arithmetic.number(len(of.kind.items))
        raise self.refusal(node, f"{of.kind} has no length")

    def _call_kernel(self, kernel: Any, args: list[Value]) -> Value:  # noqa: ANN401 - a kernel
        callee = self.module.callee(kernel)
        if len(callee.takes) != len(args):
            raise KernelError(f"it takes {len(callee.takes)} arguments")
        given = list[str]()
        for arg, kind in zip(args, callee.takes, strict=True):
            cast = arithmetic.cast(self.writer, arg, kind)
            given += [f"{what} {part}" for what, part in zip(kind.parts, cast.parts, strict=True)]
        at = self.writer.take(f"load ptr, ptr {callee.name}") if callee.is_shared else callee.name
        made = self.module.made(callee.returns)
        call = f"call {made} {at}({', '.join(given)})"
        if made == "void":
            self.writer.do(call)
            return Value(NOTHING, ())
        return self._returned(callee.returns, made, self.writer.take(call))

    def _returned(self, kind: Kind, made: str, found: str) -> Value:
        """What a function returned, unless it failed."""
        if made[0] != "{":
            parts: tuple[str, ...] = (found,)
        else:
            count = made.count(",") + 1
            parts = tuple(
                self.writer.take(f"extractvalue {made} {found}, {i}") for i in range(count)
            )
        if self.module.is_checked:
            fine, wrong = self.writer.label(), self.writer.label()
            self.writer.branch(parts[0], wrong, fine)
            self.writer.begin(wrong)
            self.leave_failed()
            self.writer.begin(fine)
            parts = parts[1:]
        return Value(kind, parts)


_WRITERS: dict[type[ast.expr], Callable[[Expressions, Any], Value]] = {
    ast.Name: lambda by, node: by.load(node.id),
    ast.Tuple: lambda by, node: arithmetic.together([by.value(one) for one in node.elts]),
    ast.UnaryOp: lambda by, node: arithmetic.unary(by.writer, node.op, by.value(node.operand)),
    ast.BinOp: Expressions._binary,
    ast.Compare: Expressions._compare,
    ast.BoolOp: Expressions._first_that_decides,
    ast.IfExp: Expressions._either,
    ast.Call: Expressions._call,
    ast.Subscript: Expressions._subscript,
    ast.Attribute: Expressions._attribute,
}
