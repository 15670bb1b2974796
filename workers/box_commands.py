"""bv3-box init, check and netns: a box before anything runs on it."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import click

from broker.errors import EXIT_GATE, EXIT_OK
from workers.options import box_option

_INIT_EXAMPLES = """\b
examples:
  bv3-box init                                     a box with the reference stack, in box.toml
  bv3-box init --checkout ~/openswarm --lane opus  one with the product
  bv3-box init --netns bv3-a --out a.toml          one that lives in a network namespace
  bv3-box init --checkout . --renderer electron --out -
"""


@click.command(epilog=_INIT_EXAMPLES)
@click.option(
    "--stack",
    type=click.Choice(["openswarm", "reference"]),
    help="What runs on the box.  [default: openswarm where there is a checkout, else reference]",
)
@click.option("--name", help="The box's name.  [default: this host's]")
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False, allow_dash=True),
    default="box.toml",
    show_default=True,
    help="The file to make; - prints it",
)
@click.option(
    "--checkout",
    type=click.Path(path_type=Path, file_okay=False),
    help="The product's checkout.  [default: the current folder when it is one]",
)
@click.option(
    "--isolation",
    type=click.Choice(["host", "container", "netns", "ports"]),
    help="What the stack has to itself.  [default: ports for reference, host for openswarm]",
)
@click.option("--netns", help="The network namespace that the box lives in; means --isolation netns")
@click.option(
    "--renderer",
    type=click.Choice(["electron", "playwright"]),
    help="What shows the browser cards.  [default: playwright]",
)
@click.option(
    "--pages", type=click.Choice(["web", "loopback"]), help="Whose pages.  [default: loopback; electron: web]"
)
@click.option("--lane", help="The model route.  [default: stub for reference, else default]")
@click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    help="The run folder.  [default: OSW_BENCH_DIR, else ~/bv3-boxes/NAME]",
)
def init(out: Path, **wish: Any) -> None:
    """Write a box file in which every key stands, with what it means and its default.

    It is readable by its owner alone, and never written over another one. A farm's logins are added by
    `bv3-farm admit`, which writes such a file too.
    """
    from workers.boxinit import Wish, make_box_text, write_box

    text = make_box_text(Wish(**wish))
    if str(out) == "-":
        click.echo(text, nl=False)
        return
    write_box(out, text)
    click.echo(f"{out} is written", err=True)


@click.command()
@box_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document")
def check(box_file: Path, as_json: bool) -> None:  # noqa: FBT001  # click passes it by name
    """Judge the box file, and this machine by it. Nothing is started and nothing is changed.

    Exit codes: 0 fit, 1 something is missing or in the way, 2 the file is no box file.
    """
    from workers import preflight_report
    from workers.boxcheck import check_box
    from workers.boxfile import load_box

    begun_s = time.monotonic()
    box = load_box(box_file)
    found = check_box(box)
    duration_ms = round((time.monotonic() - begun_s) * 1000)
    if as_json:
        click.echo(preflight_report.format_json(box.name, found, duration_ms=duration_ms))
    else:
        click.echo(f"{box.name}: stack {box.stack}, renderer {box.renderer}, lane {box.lane}")
        click.echo("\n".join(preflight_report.format_lines(box.name, found, duration_ms=duration_ms)))
    sys.exit(EXIT_GATE if preflight_report.list_refusals(found) else EXIT_OK)


_NETNS_EXAMPLES = """\b
examples:
  sudo bv3-box netns create bv3-a                       reaches the farm of this machine by Unix sockets
  sudo bv3-box netns create bv3-b --veth 10.77.0.0/30   reaches beyond it, once an admin lets it
  sudo bv3-box netns delete bv3-a
"""


@click.group(epilog=_NETNS_EXAMPLES)
def netns() -> None:
    """Network namespaces: each has a loopback of its own, so that its box has the same ports as others (Linux, root).

    A namespace ends with the machine: after a reboot create it again.
    """


@netns.command()
@click.argument("name")
@click.option("--veth", "cidr", metavar="CIDR", help="Also a way out, with two addresses of this network")
def create(name: str, cidr: str | None) -> None:
    """Make the network namespace NAME, with its own loopback up. Nothing happens when it is there already.

    Without --veth it reaches nothing but itself, and by Unix sockets the farm of this machine.
    """
    from workers import namespaces

    veth = namespaces.make_veth(name, cidr) if cidr else None
    is_new = namespaces.create(name, veth)
    click.echo(f"{name} is made" if is_new else f"{name} is there already; nothing was changed")
    if veth is None:
        click.echo("it reaches nothing but itself; the farm of this machine by Unix sockets (bv3-farm admit --netns)")
        return
    click.echo(f"host {veth.host_address} on {veth.outer}, box {veth.box_address}, default route by the host")
    click.echo("to let it reach beyond this machine, an administrator types (not done here):")
    click.echo(f"  {veth.masquerading}")


@netns.command()
@click.argument("name")
def delete(name: str) -> None:
    """Delete the network namespace NAME; refused (3), naming them, while processes live in it."""
    from workers import namespaces

    click.echo(f"{name} is deleted" if namespaces.delete(name) else f"there is no network namespace {name}")


@netns.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array")
def list_command(as_json: bool) -> None:  # noqa: FBT001  # click passes it by name
    """List the network namespaces that have a name, with their addresses and processes."""
    from workers import namespaces

    found = namespaces.list_namespaces()
    if as_json:
        rows = [{"name": it.name, "addresses": it.addresses, "processes": it.processes} for it in found]
        click.echo(json.dumps(rows, indent=2))
        return
    for it in found:
        addresses = "addresses unknown" if it.addresses is None else ", ".join(it.addresses) or "no way out"
        click.echo(f"{it.name:<20} {addresses:<20} {len(it.processes)} processes")


COMMANDS: tuple[click.Command, ...] = (init, check, netns)
