"""Which run meets which natures: the text that asks for them, and the draw."""

from __future__ import annotations

from collections import Counter

import pytest

from infra.reference.failure import ReferenceFailure
from infra.reference.natures import draw, parse
from infra.reference.sites.natures import NATURES

KEYS = [f"probe {number:05} coverage" for number in range(10_000)]
USUAL = {name for name, nature in NATURES.items() if nature.rate}


def count(text: str, seed: int = 7) -> Counter[str]:
    """How many keys meet each nature."""
    chances = parse(text)
    return Counter(nature.name for key in KEYS for nature in draw(seed, key, chances))


def test_all_is_every_nature_that_leaves_the_page_its_own_each_at_its_own_rate() -> None:
    counts = count("all")
    assert set(counts) == USUAL
    assert {name for name in NATURES if name not in USUAL} == {
        name for name, nature in NATURES.items() if nature.answer.replaces_page
    }
    # more than five standard deviations of 10,000 draws
    assert all(abs(counts[name] - NATURES[name].rate * len(KEYS)) < 200 for name in USUAL)


def test_a_rate_for_all_is_the_rate_of_each_and_at_one_every_run_meets_all() -> None:
    assert count("all:1") == dict.fromkeys(USUAL, len(KEYS))
    assert all(abs(times - 5_000) < 260 for times in count("all:0.5").values())


def test_a_bare_name_meets_every_run_beside_others() -> None:
    counts = count("late_mount, page_404, dm_trap:0.25")
    assert (counts["late_mount"], counts["page_404"]) == (len(KEYS), len(KEYS))
    assert abs(counts["dm_trap"] - 2_500) < 230


def test_natures_are_drawn_each_for_itself() -> None:
    chances = parse("late_mount:0.5,dm_trap:0.5")
    both = sum(len(draw(7, key, chances)) == 2 for key in KEYS)
    assert abs(both - 2_500) < 230
    alone = parse("dm_trap:0.5")
    for key in KEYS[:500]:
        assert [one.name for one in draw(7, key, chances) if one.name == "dm_trap"] == [
            one.name for one in draw(7, key, alone)
        ]


def test_the_same_seed_and_key_meet_the_same_and_another_seed_others() -> None:
    chances = parse("all")
    first = [draw(1, key, chances) for key in KEYS[:300]]
    assert first == [draw(1, key, chances) for key in KEYS[:300]]
    assert first != [draw(2, key, chances) for key in KEYS[:300]]


def test_none_is_none() -> None:
    assert parse(" none ") == ()
    assert draw(7, "a", ()) == ()


@pytest.mark.parametrize(
    ("text", "said", "hint"),
    [
        ("late_mont", "no nature is called 'late_mont'", "did you mean late_mount?"),
        ("quantum_flip", "no nature is called 'quantum_flip'", "lists all"),
        ("", "no nature is called ''", "lists all"),
        ("all,dm_trap", "all stands beside other natures", "all:RATE"),
        ("all:0", "the rate of all is '0'", "more than 0"),
        ("all:nan", "the rate of all is 'nan'", "at most 1"),
        ("dm_trap:2", "the rate of dm_trap is '2'", "at most 1"),
        ("dm_trap:", "the rate of dm_trap is ''", "at most 1"),
        ("dm_trap,dm_trap:0.1", "dm_trap stands twice", "once"),
    ],
)
def test_a_text_that_can_not_be_meant_is_refused_by_name(text: str, said: str, hint: str) -> None:
    with pytest.raises(ReferenceFailure) as caught:
        parse(text)
    assert said in caught.value.message
    assert hint in caught.value.hint
