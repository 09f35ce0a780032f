"""Numbers on the command line as people mean them.

Python reads ``1_0``, full-width digits, ``inf`` and ``nan`` as numbers; nobody types them for one.
``strictly`` goes through a command with all that is below it and makes every numeric option and
argument refuse them, whatever library turns text into values.
"""

from collections.abc import Callable
from typing import Any

import typer

from tidemill.model.measures import decimal_number, whole_number


def strictly(command: Any) -> None:  # noqa: ANN401 - a click command, of whichever click typer has
    """Make every number below this command strict."""
    for param in command.params:
        if not hasattr(param, "is_strict"):
            param.process_value = _strict(param, param.process_value)
            param.is_strict = True
    for inner in getattr(command, "commands", {}).values():
        strictly(inner)


def _strict(param: Any, plain: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:  # noqa: ANN401
    def process_value(ctx: Any, typed: Any) -> Any:  # noqa: ANN401
        value = plain(ctx, typed)
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
