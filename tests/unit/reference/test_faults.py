"""Which run meets which fault: the mix's text, the choice, and the catalogue as the documents tell it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from infra.reference.failure import ReferenceFailure
from infra.reference.faults import FAULTS, choose, parse
from infra.reference.sites.natures import NATURES

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "faults.md"
KEYS = [f"probe {number:05} coverage" for number in range(20_000)]


def count(text: str, seed: int = 7) -> Counter[str]:
    """How often each fault meets the keys; without one it is an empty name."""
    chosen = [choose(seed, key, parse(text)) for key in KEYS]
    return Counter(fault.name if fault else "" for fault in chosen)


def test_every_fault_of_all_meets_its_share_of_the_runs_and_none_halts_the_sweep() -> None:
    counts = count("all")
    assert set(counts) == {"", *FAULTS} - {"claims_sent"}
    # five standard deviations of 20,000 draws at 0.02
    assert all(abs(counts[name] - 400) < 100 for name in counts if name)


def test_a_bare_name_alone_meets_every_run() -> None:
    assert count("card_reused") == {"card_reused": len(KEYS)}


def test_bare_names_share_what_the_named_shares_leave() -> None:
    counts = count("renderer_killed:0.1, no_router, rate_limited")
    assert counts[""] == 0
    assert abs(counts["renderer_killed"] - 2000) < 220
    assert abs(counts["no_router"] - counts["rate_limited"]) < 700


def test_shares_below_the_whole_leave_runs_in_peace() -> None:
    counts = count("page_404:0.25")
    assert abs(counts["page_404"] - 5000) < 310
    assert counts[""] + counts["page_404"] == len(KEYS)


def test_none_is_no_fault() -> None:
    assert parse("none") == ()
    assert count("none") == {"": len(KEYS)}


def test_the_same_seed_and_key_meet_the_same_fault_and_another_seed_others() -> None:
    mix = parse("all")
    first = [choose(1, key, mix) for key in KEYS[:2000]]
    assert first == [choose(1, key, mix) for key in KEYS[:2000]]
    assert first != [choose(2, key, mix) for key in KEYS[:2000]]


@pytest.mark.parametrize(
    ("text", "said", "hint"),
    [
        ("renderer_kiled", "no fault is called 'renderer_kiled'", "did you mean renderer_killed?"),
        ("quantum_flip", "no fault is called 'quantum_flip'", "lists all"),
        ("", "no fault is called ''", "lists all"),
        ("all,no_router", "no fault is called 'all'", "lists all"),
        ("no_router:0", "the share of no_router is '0'", "more than 0"),
        ("no_router:2", "the share of no_router is '2'", "at most 1"),
        ("no_router:many", "the share of no_router is 'many'", "at most 1"),
        ("no_router:nan", "the share of no_router is 'nan'", "at most 1"),
        ("no_router:0.7,no_provider:0.7", "more than the whole", "parts of 1"),
        ("no_router:1,no_provider", "more than the whole", "parts of 1"),
        ("no_router,no_router:0.1", "no_router stands twice", "once"),
    ],
)
def test_a_mix_that_can_not_be_meant_is_refused_by_name(text: str, said: str, hint: str) -> None:
    with pytest.raises(ReferenceFailure) as caught:
        parse(text)
    assert said in caught.value.message
    assert hint in caught.value.hint


def test_the_page_of_the_faults_is_the_catalogue() -> None:
    rows = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| `")]
    assert rows == [
        f"| `{fault.name}` | {fault.sentence} | {'stack' if fault.place == 'stack' else 'page'} | "
        f"{'where something can be written' if fault.needs_composer else 'everywhere'} | {fault.bucket or '-'} |"
        for fault in FAULTS.values()
    ]


def test_every_fault_of_a_page_is_a_nature_and_every_nature_that_replaces_the_page_a_fault() -> None:
    faults = {fault.name for fault in FAULTS.values() if fault.place == "page"}
    assert faults < set(NATURES)
    assert {name for name, nature in NATURES.items() if nature.answer.replaces_page} < faults
