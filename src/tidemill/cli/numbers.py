"""Numbers on the command line as people mean them.

Python reads ``1_0``, full-width digits, ``inf`` and ``nan`` as numbers; nobody types them for one.
``strictly`` goes through a command with all that is below it and makes every numeric option and
argument refuse them, whatever library turns text into values. That library is not asked about what
is text and is to be text: typer loads pydantic for it, a tenth of the time that an answer takes.
"""

from collections.abc import Callable
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
        if not _is_ready(param, typed):
            value = plain(ctx, typed)
        else:
            value = typed if param.callback is None else param.callback(ctx, param, typed)
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
        raise typer.BadParameter(f"{error}; write it in digits", ctx=ctx, param=param) from None


def _is_ready(param: Any, typed: object) -> bool:  # noqa: ANN401
    """Whether a single value is of the type that it is to be, or was left out and may be."""
    told = getattr(param, "type_descriptor", None)  # typer 0.29; before, nothing needs loading
    if told is None or param.multiple or param.nargs != 1:
        return False
    if typed is None:
        return not param.required
    return type(typed) is told.annotation and told.parameter_info.parser is None
