"""bv3-box up, work, down, status, logs, restart: a box's life, by hand."""

from __future__ import annotations

import json
import signal
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from broker.errors import EXIT_GATE, EXIT_INTERRUPTED, EXIT_OK, EXIT_SERVICE, ServiceError
from broker.terminal import print_inert
from workers.options import box_option

_json = click.option("--json", "as_json", is_flag=True, help="one JSON object on stdout")
_mode = click.argument("mode", type=click.Choice(["dry", "live"]))
_LIVE = "live: the product really submits, with the accounts that its browser profile is signed in to"


def _say(line: str) -> None:
    print_inert(line, err=True)


@click.command()
@_mode
@box_option
@click.option("--work", "works", is_flag=True, help="work the box's queue, too")
@_json
def up(*, mode: str, box_file: Path, works: bool, as_json: bool) -> None:
    r"""Boot the stack and keep it alive in the background.

    dry: the product fills and does not submit. live: it submits. Each part is named as it becomes healthy. What was
    started is ended again when a part does not, and at Ctrl-C.

    Exit 0 when the box is up (also when it was), 2 when it is up in the other mode, 3 when it did not come up.

    \b
    bv3-box up dry --box box.toml
    bv3-box up dry --work --box box.toml
    """
    from broker.types import Mode
    from workers.boxfile import open_box
    from workers.lifecycle import bring_up

    # a service manager's way to say Ctrl-C
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    box = open_box(box_file)
    if mode == "live":
        _say(_LIVE)
    arrival = bring_up(box, box_file, mode=Mode(mode), works=works, say=_say)
    if as_json:
        click.echo(json.dumps({"box": box.name, "mode": mode, **asdict(arrival)}))
        return
    how = "was up already" if arrival.was_up else f"is up after {arrival.seconds} s"
    click.echo(f"box {box.name} {how}, {mode}{', and works its queue' if arrival.works else ''}")


@click.command(hidden=True)
@_mode
@box_option
@click.option("--work", "works", is_flag=True)
def supervise(*, mode: str, box_file: Path, works: bool) -> None:
    """Be the box's supervisor: what `up` starts in the background."""
    from broker.types import Mode

    sys.exit(_supervise(box_file, Mode(mode), works=works, verbose=False))


@click.command()
@box_option
@click.option("-v", "--verbose", is_flag=True, help="log more")
def work(*, box_file: Path, verbose: bool) -> None:
    r"""Work the box's queue until told to end: on the stack that is up, or on one booted dry for it.

    On a stack that is up: Ctrl-C finishes the running run and ends the work (130), the stack stays up. On its own:
    the first SIGTERM or Ctrl-C finishes the running run, the second stops at once (130); then nothing is left.

    Exit 0 when drained, 2 for a box without a farm, 3 when the box is worked elsewhere or a service is away.

    \b
    bv3-box work --box box.toml
    """
    from broker.types import Mode
    from workers.boxfile import open_box
    from workers.control import ask
    from workers.lifecycle import follow_work

    box = open_box(box_file)
    if ask(box.folder, "look") is not None:
        sys.exit(follow_work(box, say=_say))
    sys.exit(_supervise(box_file, Mode.DRY, works=True, verbose=verbose))


def _supervise(box_file: Path, mode: Any, *, works: bool, verbose: bool) -> int:
    from broker.log import configure_log
    from broker.settings import load_settings, read_manifest
    from workers.boxfile import open_box
    from workers.outcome import note_outcome
    from workers.supervisor import Supervisor

    box = open_box(box_file)
    configure_log(service="box", verbose=verbose)
    with note_outcome(box.folder):
        manifest = read_manifest(load_settings())
        return Supervisor(box, box_file.absolute(), manifest, mode=mode, works=works).run()


@click.command()
@box_option
@click.option("--now", is_flag=True, help="do not let the running run finish")
def down(*, box_file: Path, now: bool) -> None:
    r"""End what this box has started, and nothing else: also after a crash or a reboot.

    A running run is finished first. Processes are known by boot, pid, start and command, never by name; what others
    have is left alone. Exit 0 when no process, port, lock or temporary folder of the box is left, 3 when something is.

    \b
    bv3-box down --box box.toml
    bv3-box down --now --box box.toml
    """
    from workers.boxfile import open_box
    from workers.ending import bring_down

    box = open_box(box_file, may_be_gone=True)
    bring_down(box, now=now, say=_say)
    click.echo(f"box {box.name} is down")


@click.command()
@box_option
@_json
def status(*, box_file: Path, as_json: bool) -> None:
    r"""Show the box as it is: each part by a real request, the mode as the running backend has it.

    Exit 0 when it is up and well, 1 when something is wrong with it, 3 when it is not up.

    \b
    bv3-box status --box box.toml
    """
    from workers.boxfile import open_box
    from workers.status import read_status, render_status

    found = read_status(open_box(box_file, may_be_gone=True))
    if as_json:
        click.echo(found.as_json())
    else:
        print_inert(render_status(found))
    if found.state == "gone":
        sys.exit(EXIT_SERVICE)
    sys.exit(EXIT_GATE if found.problems else EXIT_OK)


@click.command()
@click.argument("part")
@box_option
def restart(*, part: str, box_file: Path) -> None:
    r"""Start one part of the running stack anew, and wait until it answers.

    A restart of the backend is written into its log, so that no run is graded across it.

    \b
    bv3-box restart renderer --box box.toml
    """
    from workers.boxfile import open_box
    from workers.control import ask

    box = open_box(box_file)
    # as long as a part may take to come up
    if ask(box.folder, "restart", part=part, timeout_s=150.0) is None:
        raise ServiceError(f"box {box.name} is not up", hint="bv3-box up dry boots it")
    click.echo(f"{part} of box {box.name} was started anew and answers")


@click.command()
@click.argument("part", required=False)
@box_option
@click.option("-n", "--lines", type=click.IntRange(min=0), default=20, show_default=True, help="the last so many lines")
@click.option("-f", "--follow", is_flag=True, help="go on with what is written from now on")
def logs(*, part: str | None, box_file: Path, lines: int, follow: bool) -> None:
    r"""Print the end of a part's log, or of each. The supervisor's is `box`, the worker's is `worker`.

    \b
    bv3-box logs backend -n 100 --box box.toml
    bv3-box logs -f --box box.toml
    """
    from workers.boxfile import load_box
    from workers.boxlogs import choose_logs, follow_logs, read_ends

    chosen = choose_logs(load_box(box_file), part)
    for line in read_ends(chosen, lines):
        print_inert(line)
    if not follow:
        return
    try:
        for line in follow_logs(chosen):
            print_inert(line)
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)


COMMANDS = (up, work, down, status, restart, logs, supervise)
