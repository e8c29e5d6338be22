"""Study files: errors that name the key, lists that become variants, and the shipped studies
against the paper's Table 1.
"""

from __future__ import annotations

import json
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

import surefoot
from support import small_study
from surefoot.algorithms import parameters_of
from surefoot.core.errors import StudyError
from surefoot.research.benchmarks import RandomMDPs
from surefoot.research.studies.runner import run
from surefoot.research.studies.spec import (
    Study,
    parse_study,
    read_study,
    settings,
    shipped_studies,
    shipped_study,
    variants,
)

PLAIN = """
name = "x"
seed = 1
trials = 10
[benchmark]
name = "wet-chicken"
sizes = [10, 20]
[[algorithms]]
name = "basic-rl"
[[algorithms]]
name = "ramdp"
kappa = 2
"""


def changed(old: str, new: str) -> str:
    assert old in PLAIN
    return PLAIN.replace(old, new, 1)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (changed('name = "x"', 'name = "Not A Name"'), "name: .*'Not A Name'"),
        (changed('name = "x"\n', ""), "name: .*must be given"),
        (changed("seed = 1", "seed = -1"), "seed: .*-1"),
        (changed("seed = 1", "seed = 1.5"), "seed: .*1.5"),
        (changed("seed = 1\n", ""), "seed: .*must be given"),
        (changed("trials = 10", "trials = -3"), "trials: .*-3"),
        (changed("trials = 10", "trials = 0"), "trials: .*0"),
        (changed("trials = 10", 'trials = "many"'), "trials: .*'many'"),
        (changed("trials = 10", "trials = true"), "trials: .*True"),
        (changed("trials = 10", "trials = 10\nalpha = 0"), "alpha: .*0"),
        (changed("trials = 10", "trials = 10\nalpha = 1.5"), "alpha: .*1.5"),
        (changed("trials = 10", "trials = 10\ncolour = 3"), "colour: there is no such key"),
        (changed("[10, 20]", "[10, 0]"), r"benchmark\.sizes\[1\]: .*0"),
        (changed("[10, 20]", "[10, -5]"), r"benchmark\.sizes\[1\]: .*-5"),
        (changed("[10, 20]", "[10, 2.5]"), r"benchmark\.sizes\[1\]: .*2.5"),
        (changed("[10, 20]", "[]"), r"benchmark\.sizes: "),
        (changed("[10, 20]", "10"), r"benchmark\.sizes: .*10"),
        (changed("[10, 20]", "[10, 20, 10]"), r"benchmark\.sizes: a size is given twice"),
        (changed("sizes = [10, 20]\n", ""), r"benchmark\.sizes: .*must be given"),
        (
            changed('[benchmark]\nname = "wet-chicken"\nsizes = [10, 20]\n', ""),
            "benchmark: .*must be given",
        ),
        (
            changed('"wet-chicken"', '"dry-chicken"'),
            "benchmark: no benchmark is called 'dry-chicken'",
        ),
        (changed("sizes", "eta = 0.5\nsizes"), "benchmark: wet-chicken does not take 'eta'"),
        (changed("sizes", "epsilon = 7\nsizes"), "benchmark: wet-chicken: epsilon .*7"),
        (changed("sizes", "epsilon = [0.1, 7]\nsizes"), "benchmark: wet-chicken: epsilon .*7"),
        (changed("sizes", "epsilon = []\nsizes"), "benchmark.*epsilon"),
        (changed("sizes", "epsilon = [0.1, 0.1]\nsizes"), "benchmark.*twice"),
        (changed("sizes", "epsilon = [0.1, 0.10000001]\nsizes"), "benchmark.*twice"),
        (changed("sizes", 'turbulence = "strong"\nsizes'), "benchmark: .*"),
        (changed('"basic-rl"', '"basic"'), r"algorithms\[0\]: .*'basic'"),
        (changed("kappa = 2", "kapa = 2"), r"algorithms\[1\]: .*kapa"),
        (changed("kappa = 2", ""), r"algorithms\[1\]: .*kappa"),
        (changed("kappa = 2", "kappa = -2"), r"algorithms\[1\]: .*kappa.*-2"),
        (changed("kappa = 2", "kappa = [2, -2]"), r"algorithms\[1\]: .*kappa.*-2"),
        (changed("kappa = 2", "kappa = []"), r"algorithms\[1\].*kappa"),
        (changed("kappa = 2", "kappa = 2024-05-01"), r"algorithms\[1\]: .*kappa"),
        (changed("kappa = 2", "kappa = [2, 2]"), "algorithms: 'ramdp kappa=2' is asked for twice"),
        (
            changed("kappa = 2", 'kappa = 2\n[[algorithms]]\nname = "basic-rl"'),
            "algorithms: 'basic-rl' is asked for twice",
        ),
        (changed('name = "basic-rl"', ""), r"algorithms\[0\]\.name: .*must be given"),
        (PLAIN.split("[[algorithms]]")[0], "algorithms: .*must be given"),
        (
            PLAIN.split("[[algorithms]]")[0].replace("[benchmark]", "algorithms = []\n[benchmark]"),
            "algorithms: ",
        ),
        (changed("[benchmark]", "[problem]\nties = 'any'\n[benchmark]"), r"problem\.ties: .*'any'"),
        (
            changed("[benchmark]", "[problem]\ncolour = 1\n[benchmark]"),
            r"problem\.colour: there is no such key; .*unseen_states, ties",
        ),
        (changed("seed = 1", "sed = 1"), "sed: there is no such key; .*seed, trials"),
        (changed("[benchmark]", "[benchmark"), "is not a TOML file"),
        ("", "name, seed, trials, benchmark, algorithms: must be given"),
    ],
)  # fmt: skip
def test_an_error_names_the_file_and_the_key(text: str, words: str) -> None:
    with pytest.raises(
        StudyError,
        match=(
            f"^file.toml:? .*{words}"
            if words != "is not a TOML file"
            else "^file.toml is not a TOML file"
        ),
    ):
        parse_study(text, "file.toml")


def test_the_text_that_the_errors_are_made_from_is_a_study() -> None:
    study = parse_study(PLAIN, "file.toml")
    assert [s.label for s in settings(study)] == ["basic-rl", "ramdp kappa=2"]
    assert [v.label for v in variants(study)] == ["wet-chicken"]
    assert study.problem.ties == study.problem.unseen_states == "baseline"


def test_lists_become_their_product_and_labels_name_what_varies() -> None:
    text = changed(
        "kappa = 2",
        'kappa = [1, 2.5]\n[[algorithms]]\nname = "approx-soft-spibb"\nepsilon = [0.5, 1]\ndelta ='
        " [0.1, 1]",
    )
    text = text.replace("sizes", "length = [4, 6]\nepsilon = [0.1, 0.2]\ngamma = [0.9]\nsizes")
    study = parse_study(text, "x")
    found = settings(study)
    assert [s.label for s in found] == [
        "basic-rl",
        "ramdp kappa=1",
        "ramdp kappa=2.5",
        "approx-soft-spibb delta=0.1 epsilon=0.5",
        "approx-soft-spibb delta=0.1 epsilon=1",
        "approx-soft-spibb delta=1 epsilon=0.5",
        "approx-soft-spibb delta=1 epsilon=1",
    ]
    assert found[4].algorithm == surefoot.algorithm("approx-soft-spibb", delta=0.1, epsilon=1)
    made = variants(study)
    assert [v.label for v in made] == [
        "wet-chicken epsilon=0.1 length=4",
        "wet-chicken epsilon=0.1 length=6",
        "wet-chicken epsilon=0.2 length=4",
        "wet-chicken epsilon=0.2 length=6",
    ]
    assert [(v.benchmark.epsilon, v.benchmark.length, v.benchmark.gamma) for v in made][2] == (
        0.2,
        4,
        0.9,
    )  # type: ignore[attr-defined]


def test_trials_replace_those_of_the_file() -> None:
    assert parse_study(PLAIN, "x", None) == parse_study(PLAIN, "x")
    study = parse_study(PLAIN, "x", trials=77)
    assert (study.trials, study.seed) == (77, 1)
    with pytest.raises(StudyError, match=r"trials: .*-1"):
        parse_study(PLAIN, "x", trials=-1)


def test_a_file_is_read_and_one_that_cannot_be_is_named(tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_text(PLAIN, encoding="utf-8")
    assert read_study(path) == parse_study(PLAIN, "x")
    for broken in (tmp_path / "nothing.toml", tmp_path):
        with pytest.raises(StudyError, match="cannot be read"):
            read_study(broken)
    path.write_bytes(b"\xff\xfe\x00name")
    with pytest.raises(StudyError, match=r"study\.toml cannot be read"):
        read_study(path)


FULL = PLAIN.replace(
    "[benchmark]",
    "alpha = 0.02\n[problem]\nties = 'baseline'\nunseen_states = 'baseline'\n[benchmark]\nepsilon"
    " = 0.1",
)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('name = "x"', 'name = "y"'),
        ("seed = 1", "seed = 2"),
        ("trials = 10", "trials = 11"),
        ("alpha = 0.02", "alpha = 0.03"),
        ("ties = 'baseline'", "ties = 'lowest-index'"),
        ("unseen_states = 'baseline'", "unseen_states = 'first-action'"),
        ('"wet-chicken"', '"toy-text"'),
        ("epsilon = 0.1", "epsilon = 0.2"),
        ("epsilon = 0.1", "epsilon = [0.1, 0.2]"),
        ("epsilon = 0.1", "epsilon = 0.1\ngamma = 0.9"),
        ("[10, 20]", "[10, 21]"),
        ("[10, 20]", "[20, 10]"),
        ('"basic-rl"', '"shrunk"'),
        ("kappa = 2", "kappa = 3"),
        ("kappa = 2", "kappa = 2\n[[algorithms]]\nname = 'ramdp'\nkappa = 4"),
    ],
)
def test_the_fingerprint_changes_with_every_entry(old: str, new: str) -> None:
    assert old in FULL
    before, after = (Study(**tomllib.loads(text)) for text in (FULL, FULL.replace(old, new, 1)))
    assert before.fingerprint != after.fingerprint


def test_the_fingerprint_does_not_change_with_layout_comments_or_defaults() -> None:
    tidy = parse_study(PLAIN, "x")
    untidy = parse_study(
        "# a study\ntrials = 10\nalpha = 0.01\n"
        + PLAIN.replace("trials = 10\n", "").lstrip()
        + "\n\n",
        "y",
    )
    assert tidy.fingerprint == untidy.fingerprint
    assert Study(**json.loads(json.dumps(tidy.model_dump()))).fingerprint == tidy.fingerprint


SIZES = {
    "random-mdps": [10, 20, 50, 100, 200, 500, 1000, 2000],
    "wet-chicken": [100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000],
}
TABLE_1: dict[str, dict[str, dict[str, Any]]] = {
    "random-mdps": {
        "basic-rl": {},
        "ramdp": {"kappa": 0.05},
        "r-min": {"n_wedge": 3},
        "duipi": {"xi": 0.1, "prior": "bayesian", "alpha": 0.1},
        "pi-b-spibb": {"n_wedge": 10},
        "pi-leq-b-spibb": {"n_wedge": 10},
        "approx-soft-spibb": {"delta": 1, "epsilon": 2, "published": True},
        "adv-approx-soft-spibb": {"delta": 1, "epsilon": 2, "published": True},
        "lower-approx-soft-spibb": {"delta": 1, "epsilon": 1},
    },
    "wet-chicken": {
        "basic-rl": {},
        "ramdp": {"kappa": 2},
        "r-min": {"n_wedge": 3},
        "duipi": {"xi": 0.5, "prior": "bayesian", "alpha": 0.1},
        "pi-b-spibb": {"n_wedge": 7},
        "pi-leq-b-spibb": {"n_wedge": 7},
        "approx-soft-spibb": {"delta": 1, "epsilon": 1, "published": True},
        "adv-approx-soft-spibb": {"delta": 1, "epsilon": 1, "published": True},
        "lower-approx-soft-spibb": {"delta": 1, "epsilon": 0.5},
    },
}


@pytest.mark.parametrize("name", sorted(TABLE_1))
def test_the_figures_are_made_at_the_hyper_parameters_and_by_the_protocol_of_the_paper(
    name: str,
) -> None:
    study = shipped_study(name)
    assert study.trials == 10_000 and study.alpha == 0.01
    assert list(study.benchmark.sizes) == SIZES[name]
    assert (study.problem.unseen_states, study.problem.ties) == ("first-action", "lowest-index")
    chosen = settings(study)
    assert sorted(s.name for s in chosen) == sorted(TABLE_1[name])
    for setting in chosen:
        for key, value in TABLE_1[name][setting.name].items():
            assert getattr(setting.algorithm, key) == value, (setting.name, key)
    (variant,) = variants(study)
    assert variant.benchmark.gamma == 0.95  # type: ignore[attr-defined]
    if name == "random-mdps":
        assert variant.benchmark == RandomMDPs(
            50, 4, 4, eta=0.9, egg="good", gamma=0.95, horizon=50
        )


KAPPAS = {
    "random-mdps": [0.001, 0.003, 0.01, 0.05],
    "wet-chicken": [0.005, 0.01, 0.05, 0.1, 0.5, 1, 2, 5, 10],
}
QUALITIES = {
    "random-mdps": ("eta", [0.1, 0.5, 0.8, 0.9]),
    "wet-chicken": ("epsilon", [0.1, 0.2, 0.5]),
}


@pytest.mark.parametrize("name", sorted(TABLE_1))
def test_the_grids_are_those_that_table_1_was_chosen_from(name: str) -> None:
    study = shipped_study(f"{name}-grid")
    assert study.trials >= 1000 and list(study.benchmark.sizes) == SIZES[name]
    assert (study.problem.unseen_states, study.problem.ties) == ("first-action", "lowest-index")
    key, wanted = QUALITIES[name]
    assert [getattr(v.benchmark, key) for v in variants(study)] == wanted
    chosen = [s.algorithm for s in settings(study)]

    def grid(algorithm: str, parameter: str) -> list[float]:
        return sorted({parameters_of(x)[parameter] for x in chosen if x.name == algorithm})

    assert grid("ramdp", "kappa") == KAPPAS[name]
    assert all(
        grid(x, "n_wedge") == [3, 7, 10, 20, 50] for x in ("r-min", "pi-b-spibb", "pi-leq-b-spibb")
    )
    assert (
        grid("duipi", "xi") == [0.01, 0.05, 0.1, 0.5, 1, 2, 3] and len(grid("duipi", "prior")) == 2
    )
    soft = (
        "approx-soft-spibb",
        "adv-approx-soft-spibb",
        "lower-approx-soft-spibb",
        "one-step+approx-soft-spibb",
    )
    assert all(
        grid(x, "epsilon") == [0.1, 0.2, 0.5, 1, 2, 5] and grid(x, "delta") == [1] for x in soft
    )
    assert grid("mbie", "delta") == [0.05, 0.1, 0.2]
    table = [s.algorithm for s in settings(shipped_study(name))]
    assert all(x in chosen for x in table)  # the figures' settings are points of the grid


@pytest.mark.parametrize("name", sorted(shipped_studies()))
def test_every_shipped_study_is_a_study_that_can_be_cut_short(name: str) -> None:
    study = shipped_study(name, trials=3)
    assert study.trials == 3 and settings(study) and variants(study)
    assert study.fingerprint != shipped_study(name).fingerprint


def test_an_unknown_study_is_told_which_there_are() -> None:
    with pytest.raises(StudyError, match=r"'figure-9'.*random-mdps.*wet-chicken"):
        shipped_study("figure-9")


def test_the_small_study_of_the_tests_has_two_variants_and_five_settings() -> None:
    study = small_study.small()
    assert [v.label for v in variants(study)] == ["random-mdps eta=0.9", "random-mdps eta=0.5"]
    assert len(settings(study)) == 5


OWN = """
from dataclasses import dataclass
from typing import ClassVar
import numpy as np
from surefoot import ReturnRange
from surefoot.algorithms import Restricts
from surefoot.planning import by_count
from surefoot.research.benchmarks import VALUE
from surefoot.research.simulate import Episodes
from surefoot.research.simulate.worlds import one_world

@dataclass(frozen=True)
class Often(Restricts):
    name: ClassVar[str] = "often"
    share: float = 0.1
    def trust(self, problem, n):
        return by_count(problem, n > self.share * n.sum(axis=-1, keepdims=True), free_fall=False)

@dataclass(frozen=True)
class Coin:
    name: ClassVar[str] = "coin"
    score: ClassVar[str] = VALUE
    sparse: ClassVar[bool] = False
    chance: float = 0.6
    def episodes(self, size):
        return Episodes(size, size, 5)
    def worlds(self, keys):
        p = np.zeros((3, 2, 3))
        p[0] = [[0, self.chance, 1 - self.chance], [0, 1 - self.chance, self.chance]]
        reward = np.zeros((3, 1, 3))
        reward[:, :, 1] = 1.0
        return one_world(
            keys, p, reward_table=reward, pi_b=np.full((3, 2), 0.5), start=np.eye(3)[0],
            terminal_states=[1, 2], gamma=0.9, reward_range=(0, 1),
            return_range=ReturnRange(0, 1, declared=True),
        )
"""
OWN_STUDY = """
name = "own"
seed = 1
trials = 4
[benchmark]
name = "own_module:Coin"
sizes = [30]
chance = [0.6, 0.9]
[[algorithms]]
name = "own_module:Often"
share = 0.05
[[algorithms]]
name = "ramdp+own_module:Often"
kappa = 0.1
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a module of one's own, as the current one."""
    (tmp_path / "own_module.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path.copy())
    monkeypatch.delitem(sys.modules, "own_module", raising=False)
    return tmp_path


def test_a_study_of_one_s_own_classes_runs_in_workers_and_gives_what_one_process_gives(
    own: Path,
) -> None:
    study = parse_study(OWN_STUDY, "own.toml")
    found = run(study, own / "two", workers=2, shard_trials=2)
    assert [cell.algorithm for cell in found.cells] == [
        "own_module:Often",
        "ramdp+own_module:Often",
    ] * 2
    assert ((found.score >= 0.5) & (found.score <= 0.9)).all()
    assert found.score[2].mean() > 0.8 > found.score[0].mean()  # chance 0.9, then 0.6
    assert (run(study, own / "one", workers=1).score == found.score).all()


def test_a_study_is_another_one_when_the_code_of_its_own_classes_changes(own: Path) -> None:
    before = parse_study(OWN_STUDY, "own.toml").fingerprint
    assert parse_study(OWN_STUDY, "own.toml").fingerprint == before
    (own / "own_module.py").write_text(OWN.replace("share: float = 0.1", "share: float = 0.2"))
    assert parse_study(OWN_STUDY, "own.toml").fingerprint != before


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("own_module:Coin", "own_modul:Coin", "benchmark: there is no module 'own_modul'"),
        ("own_module:Coin", "own_module:Often", "benchmark: .*lacks score, sparse, worlds"),
        ('"own_module:Often"', '"own_module:Coin"', r"algorithms\[0\]: .*is no algorithm: inherit"),
        ("share = 0.05", "shares = 0.05", r"algorithms\[0\]: own_module:Often does not take"),
    ],
)
def test_a_study_says_what_is_wrong_with_a_class_of_one_s_own(
    own: Path, old: str, new: str, words: str
) -> None:
    assert old in OWN_STUDY
    with pytest.raises(StudyError, match=words):
        parse_study(OWN_STUDY.replace(old, new, 1), "own.toml")
