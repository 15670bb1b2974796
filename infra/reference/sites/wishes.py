"""What ``POST /__nature`` asks for: the natures of one site's pages."""

import hashlib
from dataclasses import dataclass

from infra.reference.sites.catalogue import Site, find_site
from infra.reference.sites.natures import NATURES, Answer, Nature, compose, find_open_sites

_FORM = 'the body is not {"host": ..., "natures": [...]}, with a "seed" if need be, nor {"host": ..., "nature": ...}'
_FORMS = ({"host", "nature"}, {"host", "natures"}, {"host", "natures", "seed"})
# An answer of a slow network takes so long, and up to so much longer.
_LATE_MS, _LATER_MS = 150, 251


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """A site whose pages have natures."""

    site: Site
    natures: tuple[Nature, ...]
    # Settles what a nature leaves open.
    seed: int
    # How a page is answered under all of them.
    answer: Answer

    @property
    def names(self) -> list[str]:
        """The natures' names, in the order of the catalogue."""
        return [nature.name for nature in self.natures]

    def delay_s(self, path: str) -> float:
        """How late a slow network brings the answer to this path."""
        digest = hashlib.sha256(f"{self.seed}\n{path}".encode()).digest()
        return (_LATE_MS + int.from_bytes(digest[:8], "big") % _LATER_MS) / 1000


def list_known() -> dict[str, list[str]]:
    """The hosts and natures that can be named."""
    return {"hosts": [site.host for site in find_open_sites()], "natures": sorted(NATURES)}


def read_wish(wanted: object) -> Wish:
    """The open site, its natures and the seed that a POST names; one nature, or null, is the older form.

    Raises:
        ValueError: one of them is not known; the text says which.
    """
    if not isinstance(wanted, dict) or set(wanted) not in _FORMS:
        raise ValueError(_FORM)
    site = find_site(str(wanted["host"]))
    if site is None or site not in find_open_sites():
        raise ValueError(f"no open site has the host {wanted['host']!r}")
    named = wanted["natures"] if "natures" in wanted else [wanted["nature"]] if wanted["nature"] is not None else []
    seed = wanted.get("seed", 0)
    if not isinstance(named, list) or isinstance(seed, bool) or not isinstance(seed, int):
        raise ValueError(_FORM)  # noqa: TRY004 - one error for whatever is wrong with it
    for name in named:
        if not isinstance(name, str) or name not in NATURES:
            raise ValueError(f"no nature is called {name!r}")
    natures = tuple(nature for name, nature in NATURES.items() if name in named)
    return Wish(site=site, natures=natures, seed=seed, answer=compose(natures))
