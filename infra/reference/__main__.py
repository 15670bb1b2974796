"""``python -m infra.reference``: the four processes of the reference stack, each in the foreground."""

import sys
from pathlib import Path

import click

from infra.reference.failure import ReferenceFailure

LEVELS = ("debug", "info", "warning", "error")
_port = click.IntRange(1, 65535)
_level = click.option(
    "--log-level", type=click.Choice(LEVELS), default="info", show_default=True, help="least level printed"
)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def reference() -> None:
    """A stand-in for the product under test, and the sites it writes on, all on loopback."""


@reference.command()
@click.option("--port", type=_port, default=20128, show_default=True, help="loopback port to listen on")
@_level
def router(port: int, log_level: str) -> None:
    """Answer as the model router does, deterministically and without a model."""
    from infra.reference import router as service  # noqa: PLC0415  # --help stays quick

    service.run(port=port, log_level=log_level)


@reference.command()
@click.option("--http-port", type=_port, required=True, help="loopback port for http")
@click.option("--https-port", type=_port, required=True, help="loopback port for https")
@click.option(
    "--editors",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    required=True,
    help="folder with the bundled editor libraries (made by infra.reference.build)",
)
@click.option(
    "--state",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="folder for the self-signed certificate; made when missing",
)
@_level
def sites(http_port: int, https_port: int, editors: Path, state: Path, log_level: str) -> None:
    """Serve the sites of the known suite under their host names, http and https."""
    from infra.reference.sites import server  # noqa: PLC0415  # --help stays quick

    server.run(http_port=http_port, https_port=https_port, editors=editors, state=state, log_level=log_level)


@reference.command()
def backend() -> None:
    """Run the product double.

    Reads the product's environment: OPENSWARM_PORT (default 8326), OPENSWARM_DATA_ROOT (required),
    OSW_SENDSCRIPT_DRYRUN (must be 1: a missing variable means live, and live is refused),
    REFERENCE_ROUTER_URL (default http://127.0.0.1:20128), REFERENCE_SITES_URL (where the sites answer http),
    REFERENCE_FAULTS, REFERENCE_NATURES, REFERENCE_SEED, REFERENCE_LEASH_SCALE (default none, none, 0, 1).
    """
    from infra.reference.backend import process  # noqa: PLC0415  # --help stays quick

    process.run()


@reference.command()
@click.option("--mix", default=None, help="only judge this mix: none, all, or name[:share] between commas")
def faults(mix: str | None) -> None:
    """Print every fault that can be injected, or judge a mix of them."""
    from infra.reference.faults import FAULTS, parse  # noqa: PLC0415  # --help stays quick

    if mix is not None:
        for share in parse(mix):
            click.echo(f"{share.fault.name:<20} {share.part:g}")
        return
    for fault in FAULTS.values():
        click.echo(f"{fault.name:<20} {fault.sentence}")


@reference.command()
@click.option("--mix", default=None, help="only judge this mix: none, all, all:rate, or name[:rate] between commas")
def natures(mix: str | None) -> None:
    """Print every nature that a site's pages can have, or judge a mix of them."""
    from infra.reference.natures import parse  # noqa: PLC0415  # --help stays quick
    from infra.reference.sites.natures import NATURES  # noqa: PLC0415

    if mix is not None:
        for chance in parse(mix):
            click.echo(f"{chance.nature.name:<20} {chance.rate:g}")
        return
    for nature in NATURES.values():
        click.echo(f"{nature.name:<20} {nature.sentence}")


@reference.command()
def revision() -> None:
    """Print the revision of this reference stack: a hash over its source."""
    from infra.reference.revision import read_revision  # noqa: PLC0415  # --help stays quick

    click.echo(read_revision())


def main() -> None:
    """Run the command line; a failure is one line on stderr and exit code 1."""
    try:
        reference(prog_name="python -m infra.reference")
    except ReferenceFailure as failure:
        click.echo(f"error: {failure.message}\nhint: {failure.hint}", err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
