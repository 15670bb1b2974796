"""What runs inside pages: plain functions in ``*.js``, called by name in a world of their own."""

import re
from functools import cache
from importlib.resources import files

_FUNCTION = re.compile(r"^(?:async )?function (\w+)", re.MULTILINE)


@cache
def caller() -> str:
    """The function that `Runtime.callFunctionOn` declares: it takes a name, an element, and further values.

    The names are written out as a table, for a page's content security policy may forbid eval. It leaves the table
    in its world as ``bv3``, so that later calls need not bring it again.
    """
    folder = files(__name__)
    sources = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".js"))
    library = "\n".join((folder / name).read_text(encoding="utf-8") for name in sources)
    table = ", ".join(_FUNCTION.findall(library))
    return f"function (name, ...given) {{\n{library}\nglobalThis.bv3 = {{ {table} }};\nreturn bv3[name](...given);\n}}"
