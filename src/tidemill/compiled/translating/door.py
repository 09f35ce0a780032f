"""What Python calls: it takes the arguments apart, and refuses what a kernel would misread.

Of a tuple of arrays it writes down where each lies and how long it is, from the tuple and the
arrays themselves as Python and numpy lay them out (``PyTupleObject``, ``PyArrayObject``,
``PyArray_Descr``: all three are of their public interface). A kernel takes the one pointer to that,
and reads it when it uses an array. Nothing is counted: whoever calls a kernel has the arguments.
"""

import numpy as np

from tidemill.compiled.loading import KNOWN
from tidemill.compiled.translating.expressions import POINTER, Callee
from tidemill.compiled.translating.kinds import (
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
)
from tidemill.compiled.translating.writing import Emitter

COUNT = object.__basicsize__  # where a tuple says how many items there are
ITEMS = tuple.__basicsize__  # and where they begin
DATA = object.__basicsize__  # where an array says where its numbers are
SHAPE = DATA + 16  # and where its lengths are
TYPE = object.__basicsize__ - POINTER  # where an object says what it is
NDIM, DESCRIPTION, FLAGS = DATA + 8, DATA + 40, DATA + 48
NUMBER = object.__basicsize__ + 12  # where a description says which type of number it is
IN_ORDER = 0x0101  # numpy's flags: rows one after another, and aligned

_DECLARED = """
declare i64 @PyLong_AsLongLong(ptr)
declare ptr @PyErr_Occurred()
declare void @PyErr_SetString(ptr, ptr)
declare i32 @PyType_IsSubtype(ptr, ptr)
declare ptr @PyLong_FromLongLong(i64)
declare ptr @PyLong_FromUnsignedLongLong(i64)
declare ptr @PyFloat_FromDouble(double)
declare ptr @PyBool_FromLong(i64)
declare ptr @PyTuple_New(i64)
declare i32 @PyTuple_SetItem(ptr, i64, ptr)
declare void @Py_IncRef(ptr)
"""


def write(callee: Callee, name: str, made: str, is_checked: bool) -> str:
    """What Python calls for a kernel."""
    texts = [_DECLARED, *(f"@tidemill.{known} = external global i8" for known in KNOWN)]
    texts += [_is_array(), _is_table()]
    writer, given = Emitter(), list[str]()
    count = len(callee.takes)
    _refuse_unless(
        writer, f"icmp eq i64 %count, {count}", _said(texts, f"a kernel takes {count} arguments")
    )
    for i, kind in enumerate(callee.takes):
        found = writer.read("ptr", "%args", POINTER * i)
        given += _taken(writer, texts, kind, found)
    # Not put into this: to a kernel what it reads of tables stays as it is, and here it is written.
    call = f"call {made} {callee.name}({', '.join(given)}) noinline"
    parts = list[str]()
    if made == "void":
        writer.do(call)
    else:
        whole = writer.take(call)
        many = made.count(",") + 1 if made[0] == "{" else 0
        parts = [writer.take(f"extractvalue {made} {whole}, {i}") for i in range(many)] or [whole]
    if is_checked:
        fine = writer.take(f"xor i1 {parts.pop(0)}, true")
        wrong = _said(texts, "an index is below zero or beyond the end of an array")
        _refuse_unless(writer, fine, wrong, "IndexError")
    _give(writer, callee.returns, parts)
    head = f'define ptr @"{name}"(ptr %self, ptr %args, i64 %count) {{'
    return "\n".join([*texts, head, "begin:", *writer.lines, "}\n"])


def _taken(writer: Emitter, texts: list[str], kind: Kind, found: str) -> list[str]:
    """An argument, as the kernel takes it."""
    match kind:
        case Array():
            numbers = ", ".join(f"i32 {each}" for each in _numbers(kind.of))
            fine = f"call i1 @is_array(ptr {found}, i32 {kind.ndim}, {numbers})"
            _refuse_unless(writer, fine, _said(texts, f"a kernel wants {kind} without gaps"))
            lengths = writer.read("ptr", found, SHAPE)
            shape = [writer.read("i64", lengths, POINTER * d) for d in range(kind.ndim)]
            return [f"ptr {writer.read('ptr', found, DATA)}", *(f"i64 {each}" for each in shape)]
        case ArrayTuple():
            rows = _fields(texts, kind)
            into = writer.take(f"alloca [{kind.size} x i64]")
            told = f"i64 {len(kind.fields)}, ptr {rows}, ptr {into}"
            fine = f"call i1 @is_table(ptr {found}, {told})"
            _refuse_unless(writer, fine, _said(texts, f"a kernel wants {kind} without gaps"))
            return [f"ptr {into}"]
    if kind != INT:
        raise KernelError(f"Python gives no {kind}")
    number = writer.take(f"call i64 @PyLong_AsLongLong(ptr {found})")
    look, fine, failed = (writer.label() for _ in range(3))
    writer.branch(writer.take(f"icmp eq i64 {number}, -1"), look, fine)
    writer.begin(look)
    error = writer.take("call ptr @PyErr_Occurred()")
    writer.branch(writer.take(f"icmp eq ptr {error}, null"), fine, failed)
    writer.begin(failed)
    writer.end("ret ptr null")
    writer.begin(fine)
    return [f"i64 {number}"]


def _give(writer: Emitter, kind: Kind, parts: list[str]) -> None:
    """Return a value to Python."""
    if kind == NOTHING:
        writer.do("call void @Py_IncRef(ptr @tidemill.None)")
        writer.end("ret ptr @tidemill.None")
        return
    if isinstance(kind, Several):
        made = writer.take(f"call ptr @PyTuple_New(i64 {len(parts)})")
        for i, (item, part) in enumerate(zip(kind.items, parts, strict=True)):
            one = _object(writer, item, part)
            writer.do(f"call i32 @PyTuple_SetItem(ptr {made}, i64 {i}, ptr {one})")
        writer.end(f"ret ptr {made}")
        return
    writer.end(f"ret ptr {_object(writer, kind, parts[0])}")


def _object(writer: Emitter, kind: Kind, part: str) -> str:
    """A number or a truth, as Python has it."""
    makers = {
        INT: "PyLong_FromLongLong(i64",
        WORD: "PyLong_FromUnsignedLongLong(i64",
        REAL: "PyFloat_FromDouble(double",
        TRUTH: "PyBool_FromLong(i64",
    }
    if kind not in makers:
        raise KernelError(f"a kernel that Python calls returns no {kind}")
    if kind == TRUTH:
        part = writer.take(f"zext i1 {part} to i64")
    return writer.take(f"call ptr @{makers[kind]} {part})")


def _refuse_unless(writer: Emitter, truth: str, said: str, error: str = "TypeError") -> None:
    fine, wrong = writer.label(), writer.label()
    writer.branch(truth if truth[0] == "%" else writer.take(truth), fine, wrong)
    writer.begin(wrong)
    writer.do(f"call void @PyErr_SetString(ptr @tidemill.{error}, ptr {said})")
    writer.end("ret ptr null")
    writer.begin(fine)


def _said(texts: list[str], words: str) -> str:
    """Words that stand in the code."""
    name = f"@said.{len(texts)}"
    texts.append(f'{name} = private constant [{len(words) + 1} x i8] c"{words}\\00"')
    return name


def _fields(texts: list[str], table: ArrayTuple) -> str:
    """What the arrays of a tuple are, one row each."""
    name = f"@fields.{len(texts)}"
    rows = [[array.ndim, *_numbers(array.of)] for _, array in table.fields]
    each = ", ".join(f"[3 x i32] [{', '.join(f'i32 {n}' for n in row)}]" for row in rows)
    texts.append(f"{name} = private constant [{len(rows)} x [3 x i32]] [{each}]")
    return name


def _numbers(of: str) -> list[int]:
    """By which numbers numpy knows a type: on some machines C has two names for one."""
    same = sorted({np.dtype(code).num for code in "?bBhHiIlLqQd" if np.dtype(code) == np.dtype(of)})
    return [same[0], same[-1]]


def _is_array() -> str:
    """Whether an object is an array of so many dimensions and such numbers, without gaps."""
    writer = Emitter()
    kind = writer.read("ptr", "%object", TYPE)
    plain, other, look, no = (writer.label() for _ in range(4))
    writer.branch(writer.take(f"icmp eq ptr {kind}, @tidemill.ndarray"), look, other)
    writer.begin(other)
    derived = writer.take(f"call i32 @PyType_IsSubtype(ptr {kind}, ptr @tidemill.ndarray)")
    writer.branch(writer.take(f"icmp ne i32 {derived}, 0"), look, no)
    writer.begin(look)
    ndim = writer.read("i32", "%object", NDIM)
    flags = writer.take(f"and i32 {writer.read('i32', '%object', FLAGS)}, {IN_ORDER}")
    number = writer.read("i32", writer.read("ptr", "%object", DESCRIPTION), NUMBER)
    one = writer.take(f"icmp eq i32 {number}, %one")
    two = writer.take(f"icmp eq i32 {number}, %two")
    fine = writer.take(f"or i1 {one}, {two}")
    for test in (f"icmp eq i32 {ndim}, %ndim", f"icmp eq i32 {flags}, {IN_ORDER}"):
        fine = writer.take(f"and i1 {fine}, {writer.take(test)}")
    writer.branch(fine, plain, no)
    writer.begin(plain)
    writer.end("ret i1 true")
    writer.begin(no)
    writer.end("ret i1 false")
    head = "define internal i1 @is_array(ptr %object, i32 %ndim, i32 %one, i32 %two) {"
    return "\n".join([head, "begin:", *writer.lines, "}\n"])


def _is_table() -> str:
    """Whether an object is a tuple of such arrays; where each lies is written, and its lengths."""
    return f"""define internal i1 @is_table(ptr %object, i64 %count, ptr %fields, ptr %into) {{
begin:
%type.at = getelementptr i8, ptr %object, i64 {TYPE}
%type = load ptr, ptr %type.at
%derived = call i32 @PyType_IsSubtype(ptr %type, ptr @tidemill.tuple)
%is.tuple = icmp ne i32 %derived, 0
br i1 %is.tuple, label %count.it, label %no
count.it:
%at = getelementptr i8, ptr %object, i64 {COUNT}
%items = load i64, ptr %at
%same = icmp eq i64 %items, %count
br i1 %same, label %each, label %no
each:
%i = phi i64 [0, %count.it], [%further, %next]
%to = phi ptr [%into, %count.it], [%after, %next]
%over = icmp eq i64 %i, %count
br i1 %over, label %yes, label %look
look:
%first = getelementptr i8, ptr %object, i64 {ITEMS}
%place = getelementptr ptr, ptr %first, i64 %i
%item = load ptr, ptr %place
%row = getelementptr [3 x i32], ptr %fields, i64 %i
%ndim = load i32, ptr %row
%one.at = getelementptr i8, ptr %row, i64 4
%one = load i32, ptr %one.at
%two.at = getelementptr i8, ptr %row, i64 8
%two = load i32, ptr %two.at
%is = call i1 @is_array(ptr %item, i32 %ndim, i32 %one, i32 %two)
br i1 %is, label %fine, label %no
fine:
%data.at = getelementptr i8, ptr %item, i64 {DATA}
%data = load ptr, ptr %data.at
store ptr %data, ptr %to
%lengths.at = getelementptr i8, ptr %item, i64 {SHAPE}
%lengths = load ptr, ptr %lengths.at
%dims = zext i32 %ndim to i64
br label %dim
dim:
%d = phi i64 [0, %fine], [%next.d, %dim]
%next.d = add i64 %d, 1
%length.at = getelementptr i64, ptr %lengths, i64 %d
%length = load i64, ptr %length.at
%put.at = getelementptr i64, ptr %to, i64 %next.d
store i64 %length, ptr %put.at
%last = icmp eq i64 %next.d, %dims
br i1 %last, label %next, label %dim
next:
%behind = add i64 %dims, 1
%after = getelementptr i64, ptr %to, i64 %behind
%further = add i64 %i, 1
br label %each
yes:
ret i1 true
no:
ret i1 false
}}
"""
