"""What each key of a box file means, in the words that `bv3-box init` writes beside it."""

from __future__ import annotations

from collections.abc import Mapping

# By key, dotted within a table; in the order of the file.
WORDS: Mapping[str, str] = {
    "name": "The box's name at its farm: small letters, digits, hyphens, a letter first. It beats in one place only.",
    "stack": "What runs on it: openswarm (the product, from checkout) or reference (bv3's own stand-in).",
    "isolation": (
        "What the stack has to itself: host (the machine), container, netns (a network namespace; the same ports in"
        " each), ports (the block below; for the reference stack alone)."
    ),
    "netns": "With the isolation netns: the network namespace, made by `bv3-box netns create NAME`.",
    "renderer": (
        "What shows the browser cards: electron (the product's own, needs a screen) or playwright (bv3's, needs none)."
        " Rates of different renderers are never pooled."
    ),
    "lane": (
        "The model route, by any name; stub is bv3's own router with fixed answers. Rates of different lanes are never"
        " pooled."
    ),
    "pages": (
        "web (the real sites) or loopback (bv3's own sites under the real host names, which nothing can leave; with"
        " the renderer playwright)."
    ),
    "folder": (
        "The run folder: logs, journal, browser profile, all that this box writes. An absolute path outside of the"
        " checkout. Without it the variable OSW_BENCH_DIR tells it."
    ),
    "checkout": "The product's checkout, for the stack openswarm. bv3 writes and installs nothing there.",
    "database_url": "The box's own login at the farm's PostgreSQL. Without the two logins the box works no queue.",
    "broker_url": "The farm's Redis or Valkey; redis+socket:// for a Unix socket.",
    "record": "A recording of each run beside its screenshot: none, trace or video. Costs time and space.",
    "ports.backend": "Where the product's backend listens, on 127.0.0.1 as all of these.",
    "ports.router": "The model router. A healthy one that listens there already is adopted, never taken over.",
    "ports.frontend": "Webpack, for the renderer electron.",
    "ports.https": "bv3's own loopback pages.",
    "ports.http": "The same pages without TLS.",
    "ports.foreign": (
        "Nobody may listen there: another stack would take this one's router. Default with the stack openswarm: the"
        " product's usual ports, 8324 and 3000; else none."
    ),
    "profile.policy": (
        "fresh: cookies, storage and cache of a run are gone before the next. persistent: they are kept in the run"
        " folder (the only one for electron)."
    ),
    "profile.signed_in": "Sites of a suite that a person has signed the persistent profile in to.",
    "limits.load_per_core": "No run begins above this load average (of one minute) per core. Unset: not looked at.",
    "limits.free_mb": "No run begins with less space left where the run folder is.",
    "limits.free_inodes": "No run begins with fewer files left to make there.",
    "limits.shm_mb": "Least space left in /dev/shm, which Chromium draws in. Unset: not looked at.",
    "limits.memory_mb": "Least memory available. Unset: not looked at.",
    "limits.zombies": "Most ended processes on the machine that nobody has reaped. Unset: not looked at.",
    "limits.clock_offset_s": "Furthest that this machine's clock may be from the farm's.",
    "product.python": (
        "The interpreter of the checkout's own environment; a relative path is one in the checkout. Unset: looked for"
        " there."
    ),
    "product.model": "The model of each session, as the product names it. Empty: the product's own default.",
    "product.frontend": (
        "The command that serves the front end for electron, as a list, run in frontend/. Unset: webpack serve as the"
        " checkout's own script has it."
    ),
    "product.electron": (
        "The command that shows it, as a list, run in electron/; must hold {profile}. Unset: electron as the"
        " checkout's own script has it."
    ),
    "accounts": (
        "By site, the name of the variable in the operator's environment that names the account there. Never the"
        " account itself."
    ),
    "reference.faults": "What the reference stack injects: none, all, or name[:share] between commas.",
    "reference.natures": (
        "What the reference stack's pages are like: none, all, all:rate, or name[:rate] between commas."
    ),
    "reference.seed": "Which run meets which fault, and which natures.",
    "reference.leash_scale": "So much of the product's waits and leashes it takes: above 0, up to 1.",
}

# What a key that has no default would look like.
EXAMPLES: Mapping[str, object] = {
    "netns": "bv3-a",
    "folder": "/srv/bv3/box-a",
    "checkout": "/home/me/openswarm",
    "database_url": "postgresql://box_a:PASSWORD@farm.example/bv3",
    "broker_url": "redis://:PASSWORD@farm.example:6379/0",
    "limits.load_per_core": 1.5,
    "limits.shm_mb": 256,
    "limits.memory_mb": 2000,
    "limits.zombies": 100,
    "product.python": "backend/.venv/bin/python",
    "product.frontend": ["npx", "webpack", "serve", "--port", "{frontend_port}"],
    "product.electron": ["npx", "electron", ".", "--user-data-dir={profile}"],
}
EXAMPLE_ACCOUNTS: Mapping[str, str] = {"x": "OSW_CANARY_X_HANDLE"}
