"""Errors, named for whose fault it is. Each says what was asked, what was found, what to do.

"No, because …" is not an error: see ``reasons``.
"""


class TidemillError(Exception):
    """Base of every error a user may see; ``hint`` says what to do next."""

    exit_code = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\nhint: {self.hint}" if self.hint else self.message


class SpecError(TidemillError):
    """What the user wrote (a spec, a trace, an option) cannot be used."""

    exit_code = 2


class JournalError(TidemillError):
    """A journal cannot be read or written."""

    exit_code = 3


class EventRefused(TidemillError):  # noqa: N818 - it is a refusal, and reads as one
    """An event contradicts the World it arrives in; nothing was changed."""

    exit_code = 4


class PlanRefused(TidemillError):  # noqa: N818 - as above
    """The plan checker found a plan that would break a promise; nothing was carried out."""

    exit_code = 5


class BackendError(TidemillError):
    """The world outside did not answer as it should."""

    exit_code = 6
