"""The command line: ``python -m workers.renderer``."""

import logging
import sys
from pathlib import Path

import click

from workers.renderer.app import Options, run
from workers.renderer.browser import Chromium
from workers.renderer.dashboard import Backend
from workers.renderer.recording import Record

LOG_FORMAT = "%(asctime)s %(levelname).1s %(name)s: %(message)s"


@click.command(
    epilog="Ends with 0 after SIGTERM or SIGINT, with 1 at once when its browser or a page process is gone.",
)
@click.option("--backend", "backend_url", required=True, help="Address of the backend, http://127.0.0.1:8326")
@click.option(
    "--token-file",
    required=True,
    type=click.Path(path_type=Path),
    help="auth.token in the backend's data folder",
)
@click.option("--dashboard-id", required=True, help="The dashboard to show")
@click.option("--chromium", required=True, type=click.Path(path_type=Path), help="Chromium's executable")
@click.option("--chromium-arg", "chromium_args", multiple=True, help="An argument for Chromium, may be repeated")
@click.option("--host-map", default="", help='Host map for Chromium, "MAP *:443 127.0.0.1:8443"')
@click.option("--ignore-certificate-errors", is_flag=True, help="Accept any certificate")
@click.option(
    "--close-after-s",
    default=3.0,
    show_default=True,
    type=click.FloatRange(min=0),
    help="Seconds from a session's end until its cards are closed",
)
@click.option(
    "--command-deadline-s",
    default=None,
    type=click.FloatRange(min=0, min_open=True),
    help="Seconds that any command may take  [default: the protocol's leash of the action, less 1]",
)
@click.option(
    "--ready-file",
    default=None,
    type=click.Path(path_type=Path),
    help="Written once the socket is open and the layout's cards are mounted",
)
@click.option(
    "--profile-dir",
    "profile_folder",
    default=None,
    type=click.Path(path_type=Path, file_okay=False),
    help="A persistent browser profile  [default: a fresh one for each session]",
)
@click.option(
    "--record",
    default="none",
    show_default=True,
    type=click.Choice([kind.value for kind in Record]),
    help="What is recorded of each session, in --record-dir",
)
@click.option(
    "--record-dir",
    "record_folder",
    default=None,
    type=click.Path(path_type=Path, file_okay=False),
    help="Where recordings are written, named by the session's id",
)
@click.option(
    "--log-level",
    default="INFO",
    show_default=True,
    type=click.Choice(["DEBUG", "INFO", "WARNING", "ERROR"], case_sensitive=False),
)
def main(  # noqa: PLR0917 - one for each option, by name
    backend_url: str,
    token_file: Path,
    dashboard_id: str,
    chromium: Path,
    chromium_args: tuple[str, ...],
    host_map: str,
    ignore_certificate_errors: bool,  # noqa: FBT001 - click hands flags over by name
    close_after_s: float,
    command_deadline_s: float | None,
    ready_file: Path | None,
    profile_folder: Path | None,
    record: str,
    record_folder: Path | None,
    log_level: str,
) -> None:
    """Show a dashboard's browser cards in Chromium and obey the backend's browser commands."""
    logging.basicConfig(level=log_level.upper(), format=LOG_FORMAT, datefmt="%H:%M:%S", stream=sys.stderr)
    for chatty in ("httpx", "websockets"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    if record != Record.NONE and record_folder is None:
        raise click.UsageError(f"--record {record} needs --record-dir")
    for folder in (profile_folder, record_folder):
        if folder is not None:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    backend = Backend(url=backend_url, token_file=token_file, dashboard_id=dashboard_id)
    options = Options(
        backend=backend,
        chromium=Chromium(
            path=chromium,
            args=chromium_args,
            host_map=host_map,
            ignore_certificate_errors=ignore_certificate_errors,
            profile_folder=profile_folder,
        ),
        close_after_s=close_after_s,
        command_deadline_s=command_deadline_s,
        ready_file=ready_file,
        record=Record(record),
        record_folder=record_folder,
    )
    sys.exit(run(options))


if __name__ == "__main__":
    main()
