"""``tidemill unit``: what one unit of compute really is, and what fits, binds and may share it."""

import typer

app = typer.Typer(
    no_args_is_help=True,
    help="What one unit of compute really is: does this fit, what binds, how fast, who may share.",
)
