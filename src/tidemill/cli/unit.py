"""``tidemill unit``: what one accelerator or server is, what fits, limits and may share it."""

import typer

from tidemill.cli import (
    options,
    unit_balance,
    unit_compare,
    unit_fit,
    unit_host,
    unit_mfu,
    unit_mig,
    unit_models,
    unit_roofline,
    unit_share,
    unit_show,
    unit_slivers,
    unit_step,
)

app = typer.Typer(
    no_args_is_help=True,
    help="One accelerator or server: does a model fit, what limits it, how fast, who may share.",
)
app.command("mig", epilog=unit_mig.EXAMPLES)(unit_mig.mig)
app.command("show", epilog=unit_show.EXAMPLES)(unit_show.show)
app.command("compare", epilog=unit_compare.EXAMPLES)(unit_compare.compare)
app.command("host", epilog=unit_host.EXAMPLES)(unit_host.host)
app.command("fit", epilog=unit_fit.EXAMPLES)(unit_fit.fit)
app.command("roofline", epilog=unit_roofline.EXAMPLES)(unit_roofline.roofline)
app.command("mfu", epilog=unit_mfu.EXAMPLES)(unit_mfu.mfu)
app.command("share", epilog=unit_share.EXAMPLES)(unit_share.share)
app.command("balance", epilog=unit_balance.EXAMPLES)(unit_balance.balance)
app.command("step", epilog=unit_step.EXAMPLES)(unit_step.step)
app.command("models", epilog=unit_models.EXAMPLES)(unit_models.models)
underused = options.takes_journal(unit_slivers.underused)
app.command("underused", epilog=unit_slivers.EXAMPLES)(underused)
app.command("slivers", hidden=True, epilog=unit_slivers.EXAMPLES)(underused)  # its name until 0.1
