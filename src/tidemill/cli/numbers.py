"""Numbers on the command line as people mean them.

Python reads ``1_0``, full-width digits, ``inf`` and ``nan`` as numbers; nobody types them for one.
``strictly`` goes through a command with all that is below it and makes every numeric option and
argument refuse them, whatever library turns text into values. That library is asked only about what
may be wrong: typer loads pydantic for it, a tenth of the time that an answer takes.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer

from tidemill.model.measures import decimal_number, whole_number


def strictly(command: Any) -> None:  # noqa: ANN401 - a click command, of whichever click typer has
    """Make every number below this command strict."""
    for param in command.params:
        _make_strict(param)
    if not hasattr(command, _IS_STRICT):
        command.get_help_option = _with_strict_help(command.get_help_option)
        setattr(command, _IS_STRICT, True)
    for inner in getattr(command, "commands", {}).values():
        strictly(inner)


_IS_STRICT = "is_strict"


def _make_strict(param: Any) -> None:  # noqa: ANN401
    if not hasattr(param, _IS_STRICT):
        param.process_value = _strict(param, param.process_value)
        setattr(param, _IS_STRICT, True)


def _with_strict_help(plain: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """``--help`` is made when a command is called, and is an option like others."""

    def get_help_option(ctx: Any) -> Any:  # noqa: ANN401
        param = plain(ctx)
        if param is not None:
            _make_strict(param)
        return param

    return get_help_option


def _strict(param: Any, plain: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:  # noqa: ANN401
    def process_value(ctx: Any, typed: Any) -> Any:  # noqa: ANN401
        value = _read(param, typed)
        if value is _UNREAD:
            value = plain(ctx, typed)
        elif param.callback is not None:
            value = param.callback(ctx, param, value)
        texts = typed if isinstance(typed, list | tuple) else [typed]
        values = value if isinstance(value, list | tuple) else [value]
        for text, one in zip(texts, values, strict=False):
            if isinstance(text, str) and isinstance(one, int | float) and not isinstance(one, bool):
                _refuse_unless_plain(text, one, ctx, param)
        return value

    return process_value


def _refuse_unless_plain(text: str, value: float, ctx: Any, param: Any) -> None:  # noqa: ANN401
    read = whole_number if isinstance(value, int) else decimal_number
    try:
        read(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), ctx=ctx, param=param) from None


_UNREAD = object()


def _read(param: Any, typed: object) -> object:  # noqa: ANN401
    """A single value as it is to be, or None if it was left out; ``_UNREAD``: ask the library."""
    told = getattr(param, "type_descriptor", None)  # typer 0.29; before, nothing needs loading
    if told is None or param.multiple or param.nargs != 1:
        return _UNREAD
    if typed is None:
        return _UNREAD if param.required else None
    if told.parameter_info.parser is not None:
        return _UNREAD
    if type(typed) is told.annotation:
        return typed
    read = _READ.get(told.annotation)
    if read is None or not isinstance(typed, str | Path):
        return _UNREAD
    try:
        return read(str(typed), told.parameter_info)
    except ValueError:
        return _UNREAD


def _number(value: float, info: Any) -> float:  # noqa: ANN401
    """A number that is neither too small nor too large."""
    is_within = (info.min is None or info.min <= value) and (info.max is None or value <= info.max)
    if info.clamp or not is_within:
        raise ValueError(value)
    return value


def _path(typed: str, info: Any) -> Path:  # noqa: ANN401
    """The path of something that may be read, or is not there yet, where no more is asked of it."""
    found, flags = Path(typed), (info.exists, info.writable, info.resolve_path, info.allow_dash)
    typed.encode()  # what is no UTF-8 is for others to refuse
    is_fine = info.file_okay and info.dir_okay and not any(flags)
    if not is_fine or (found.exists() and not os.access(found, os.R_OK)):
        raise ValueError(typed)
    return found


_READ: dict[Any, Callable[[str, Any], Any]] = {
    int: lambda typed, info: _number(whole_number(typed), info),
    float: lambda typed, info: _number(decimal_number(typed), info),
    Path: _path,
}
