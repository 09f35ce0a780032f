"""``tidemill unit``: what one accelerator or server is, what fits, limits and may share it."""

import typer

from tidemill.cli import options
from tidemill.cli.unit import (
    balance,
    compare,
    fit,
    host,
    mfu,
    mig,
    models,
    roofline,
    share,
    show,
    slivers,
    step,
)

app = typer.Typer(
    no_args_is_help=True,
    help="One accelerator or server: does a model fit, what limits it, how fast, who may share.",
)
app.command("mig", epilog=mig.EXAMPLES)(mig.mig)
app.command("show", epilog=show.EXAMPLES)(show.show)
app.command("compare", epilog=compare.EXAMPLES)(compare.compare)
app.command("host", epilog=host.EXAMPLES)(host.host)
app.command("fit", epilog=fit.EXAMPLES)(fit.fit)
app.command("roofline", epilog=roofline.EXAMPLES)(roofline.roofline)
app.command("mfu", epilog=mfu.EXAMPLES)(mfu.mfu)
app.command("share", epilog=share.EXAMPLES)(share.share)
app.command("balance", epilog=balance.EXAMPLES)(balance.balance)
app.command("step", epilog=step.EXAMPLES)(step.step)
app.command("models", epilog=models.EXAMPLES)(models.models)
underused = options.takes_journal(slivers.underused)
app.command("underused", epilog=slivers.EXAMPLES)(underused)
app.command("slivers", hidden=True, epilog=slivers.EXAMPLES)(underused)  # its name until 0.1
