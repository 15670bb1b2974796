"""Bundle the editor libraries: one file per editor, loaded by the reference sites.

``python -m infra.reference.build --npm DIR --node NODE --out DIR`` needs the packages of
``editors/package.json`` installed under ``DIR/node_modules``; ``npm ci --ignore-scripts`` is enough, since
esbuild's own install script is not needed.
"""

import functools
import hashlib
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import click

from infra.reference.failure import ReferenceFailure

EDITORS = Path(__file__).parent / "editors"
STAMP = "stamp.txt"
BUNDLE_LIMIT_S = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """An entry file and the name of the global object that a page finds it under."""

    entry: str
    global_name: str
    # Whether the editor's styles are a file of their own, which its script asks for.
    has_styles: bool = False

    @property
    def file(self) -> str:
        """The bundle's file name."""
        return f"{Path(self.entry).stem}.js"

    @property
    def files(self) -> tuple[str, ...]:
        """All files that the bundle consists of."""
        return (self.file, f"{Path(self.entry).stem}.css") if self.has_styles else (self.file,)


#: One for each editor library, by its adapter in ``editors/src``.
BUNDLES = (
    Bundle(entry="draft.jsx", global_name="Draft"),
    Bundle(entry="lexical.js", global_name="Chat"),
    Bundle(entry="quill.js", global_name="Rich"),
    Bundle(entry="lit.js", global_name="Lit"),
    Bundle(entry="ace.js", global_name="Ace"),
    Bundle(entry="monaco.js", global_name="Monaco", has_styles=True),
    Bundle(entry="tinymce.js", global_name="Tiny"),
    Bundle(entry="codemirror5.js", global_name="Cm5"),
    Bundle(entry="codemirror6.js", global_name="Cm6"),
    Bundle(entry="tiptap.js", global_name="Tiptap"),
    Bundle(entry="ckeditor5.js", global_name="Ck5"),
    Bundle(entry="ckeditor4.js", global_name="Ck4"),
    Bundle(entry="slate.jsx", global_name="Slate"),
    Bundle(entry="prosemirror.js", global_name="Prose"),
    Bundle(entry="trix.js", global_name="Trix"),
    Bundle(entry="summernote.js", global_name="Note"),
    Bundle(entry="editorjs.js", global_name="Blocks"),
    Bundle(entry="jodit.js", global_name="Jod"),
    Bundle(entry="toastui.js", global_name="Toast"),
    Bundle(entry="medium-editor.js", global_name="Medium"),
    Bundle(entry="easymde.js", global_name="Easy"),
)
#: Every file that a page may load, by name.
FILES = tuple(file for bundle in BUNDLES for file in bundle.files)


def build(*, npm: Path, node: Path, out: Path) -> bool:
    """Make every bundle in ``out``; False when they were already there and fresh.

    Each file appears complete or not at all; the stamp is written last, so that an interrupted build is made
    again.

    Raises:
        ReferenceFailure: a package is missing, or esbuild refused.
    """
    esbuild = npm / "node_modules" / "esbuild" / "bin" / "esbuild"
    if not esbuild.is_file():
        raise ReferenceFailure(f"no esbuild under {npm}", hint=f"run npm ci --ignore-scripts in {npm}")
    stamp = _stamp()
    if _is_fresh(out, stamp):
        return False
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out, prefix=".build-") as work:
        make = functools.partial(_bundle, esbuild=esbuild, npm=npm, node=node, folder=Path(work))
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            # Taking every result brings up the first refusal.
            list(pool.map(make, BUNDLES))
        for file in FILES:
            (Path(work) / file).replace(out / file)
        (Path(work) / STAMP).write_text(stamp)
        (Path(work) / STAMP).replace(out / STAMP)
    return True


def _stamp() -> str:
    digest = hashlib.sha256()
    sources = [EDITORS / "package-lock.json", *sorted((EDITORS / "src").iterdir()), Path(__file__)]
    for path in sources:
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _is_fresh(out: Path, stamp: str) -> bool:
    try:
        written = (out / STAMP).read_text()
    except OSError:
        return False
    return written == stamp and all((out / file).is_file() for file in FILES)


def _bundle(bundle: Bundle, *, esbuild: Path, npm: Path, node: Path, folder: Path) -> None:
    command = [
        str(node),
        str(esbuild),
        str(EDITORS / "src" / bundle.entry),
        "--bundle",
        "--minify",
        "--format=iife",
        f"--global-name={bundle.global_name}",
        "--define:global=window",
        '--define:process.env.NODE_ENV="production"',
        # Icons, within the bundle: no page asks for anything else.
        "--loader:.ttf=dataurl",
        "--loader:.png=dataurl",
        "--log-level=warning",
        f"--outfile={folder / bundle.file}",
    ]
    environment = {**os.environ, "NODE_PATH": str((npm / "node_modules").resolve())}
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=BUNDLE_LIMIT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ReferenceFailure(f"esbuild did not run: {error}", hint=f"is {node} a Node 18 or newer?") from error
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or ["no message"]
        raise ReferenceFailure(
            f"bundling {bundle.entry} failed: {lines[0]}", hint=f"run npm ci --ignore-scripts in {npm} again"
        )


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--npm",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    required=True,
    help="folder that holds node_modules",
)
@click.option(
    "--node",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    required=True,
    help="the node executable",
)
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), required=True, help="folder for the bundles")
def command(npm: Path, node: Path, out: Path) -> None:
    """Bundle the editor libraries that the reference sites load."""
    try:
        made = build(npm=npm, node=node, out=out)
    except ReferenceFailure as failure:
        click.echo(f"error: {failure.message}\nhint: {failure.hint}", err=True)
        sys.exit(1)
    click.echo(f"{len(BUNDLES)} editor bundles in {out}" + ("" if made else " (already there)"))


if __name__ == "__main__":
    command()
