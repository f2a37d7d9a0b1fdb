"""Rows found by going down where somebody looks are the rows of the simplest walk over everything."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable

from hypothesis import given, settings
from hypothesis import strategies as st

from chatkv.insight.mirror import Mirror, Node
from chatkv.kvcache.events import ROOT, EventLog
from chatkv.kvcache.hash_cache import HashCache
from chatkv.kvcache.radix_cache import RadixCache
from chatkv.tui.cache.labels import Labels
from chatkv.tui.cache.tree.picture import TreePicture
from chatkv.tui.cache.tree.rows import Row
from chatkv.tui.cache.tree.shape import ghost_key, node_of

CACHES: list[Callable[[EventLog], RadixCache | HashCache]] = [
    lambda log: RadixCache(14, 2, log=log),
    lambda log: RadixCache(14, 2, grain="block", log=log),
    lambda log: RadixCache(60, 1, log=log),
    lambda log: HashCache(20, 2, log=log),
]
FIGURES: dict[str, tuple[Callable[..., int], Callable[..., int]]] = {
    "tree": (lambda node: node.created_seq, lambda ghost: ghost.created_seq),
    "recency": (lambda node: -node.last_seq, lambda ghost: -ghost.evicted_seq),
    "size": (lambda node: -len(node.tokens), lambda ghost: -len(ghost.tokens)),
    "hits": (lambda node: -node.hits, lambda ghost: 0),
}


class Person:
    """Looks at a cache that goes on, and remembers what they have folded, sorted and looked for."""

    def __init__(self, kind: int, seed: int) -> None:
        self.kind = kind
        self.rng = random.Random(seed)
        self.live = Mirror()
        self.shown = self.live
        self.picture = TreePicture(Labels())
        self.folded: dict[int, bool] = {}
        self.all_folded = False
        self.found_folded: dict[int, bool] = {}
        self.words = ""
        self.requests = 0
        self.begin()

    # What happens

    def begin(self) -> None:
        if self.shown is not self.live:
            return
        self.cache = CACHES[self.kind](EventLog(self.live.apply))
        self.prompts: list[list[int]] = [[1, 2, 3, 4]]
        self.show(self.shown)  # a person sees that it is another cache before anything is in it
        self.folded = {key: fold for key, fold in self.folded.items() if key == ROOT}
        self.found_folded = {key: fold for key, fold in self.found_folded.items() if key == ROOT}

    def ask(self) -> None:
        self.requests += 1
        prompt = self.rng.choice(self.prompts)[: self.rng.randint(1, 16)]
        prompt = prompt + [self.rng.randint(1, 3) for _ in range(self.rng.randint(1, 6))]
        opened = self.cache.open(self.requests, prompt, session=self.rng.choice(["ann", "bob"]))
        if opened is not None:
            if self.cache.grow(self.requests, len(prompt)):
                self.cache.commit(self.requests, prompt[opened.cached :])
                self.prompts.append(prompt)
            self.cache.close(self.requests, "finished")

    def ask_often(self) -> None:
        for _ in range(8):
            self.ask()

    def clear(self) -> None:
        self.cache.clear()

    def fade(self) -> None:
        for key in list(self.live.ghosts)[: self.rng.randint(0, 3)]:
            self.live._ghosts.drop(key)
            self.live.structure_version += 1

    # What a person does

    def show(self, mirror: Mirror) -> None:
        self.shown = mirror
        self.picture.follow(mirror)

    def freeze(self) -> None:
        self.show(self.live.copy() if self.shown is self.live else self.live)

    def sort(self) -> None:
        self.picture.next_sort()

    def find(self) -> None:
        self.words = "" if self.words else self.rng.choice(["1 2", "3", "ann", "nothing"])
        self.picture.find(self.words)
        self.found_folded = {}

    def fold(self) -> None:
        self.picture.follow()
        key = self.picture.rows.key_at(self.rng.randrange(len(self.picture.rows)))
        fold = self.rng.random() < 0.7
        if (self.picture.rows.fold if fold else self.picture.rows.unfold)(key):
            (self.found_folded if self.words else self.folded)[key] = fold

    def fold_all(self) -> None:
        if not self.words:
            self.picture.follow()
            self.all_folded = not self.all_folded
            self.folded = {}
            self.picture.rows.fold_all(self.all_folded)

    def reveal(self) -> None:
        self.picture.follow()
        key = self.rng.choice([key for key in self.shown.nodes if key in self.picture.rows])
        self.picture.rows.reveal(key)
        folded = self.found_folded if self.words else self.folded
        while key != ROOT:
            key = self.shown.nodes[key].parent
            folded[key] = False

    # What should be seen

    def is_folded(self, key: int) -> bool:
        folded = self.found_folded if self.words else self.folded
        # What was folded stays so when it is evicted.
        default = self.all_folded and not self.words and key != ROOT
        return folded.get(key, folded.get(node_of(key), default) if key < 0 and not key % 2 else default)

    def finds(self, node: Node) -> bool:
        said = " ".join(map(str, node.tokens)) + "\n" + " ".join(node.sessions)
        return all(word in said for word in self.words.split())

    def walk(self) -> list[Row]:
        """Every row, laid out anew."""
        mirror, (of_node, of_ghost) = self.shown, FIGURES[self.picture.sort]
        nodes, ghosts = set(mirror.nodes), dict(mirror.ghosts)
        if self.picture.filter is not None:
            ghosts = dict(self.picture.filter.tree.ghosts)
            nodes = {ROOT, *(up for node in self.picture.filter.tree.found for up in mirror.path(node))}
        under: dict[int, list[tuple[int, ...]]] = {}
        for node in nodes - {ROOT}:
            found = mirror.nodes[node]
            under.setdefault(found.parent, []).append((of_node(found), node))
        for key, ghost in ghosts.items():
            above = ghost.parent
            if above not in nodes:
                above = ghost_key(above) if above in ghosts else ROOT
            under.setdefault(above, []).append((of_ghost(ghost), ghost.node, ghost_key(key)))
        chains, rows = mirror.cache == "hash", list[Row]()

        def visit(key: int, guide: str, deeper: str) -> int:
            """How many there are, folded or not."""
            at, count = len(rows), 1
            rows.append(Row(key, guide, 0))
            kids = sorted(under.get(key, ()))
            for kid in kids:
                last = kid is kids[-1]
                if chains and len(kids) == 1 and key != ROOT:
                    count += visit(kid[-1], deeper, deeper)
                else:
                    count += visit(
                        kid[-1], deeper + ("└─" if last else "├─"), deeper + ("  " if last else "│ ")
                    )
            if self.is_folded(key):
                del rows[at:]
                rows.append(Row(key, guide, count - 1))
            return count

        visit(ROOT, "", "")
        return rows

    def glance(self) -> None:
        """Look at a few rows and at nothing else."""
        rows, expected = self.picture.rows, self.walk()
        assert len(rows) == len(expected)
        start = self.rng.randrange(len(expected))
        assert short(rows.rows(start, start + 4)) == short(expected[start : start + 4])
        assert rows.index(expected[start].key) == start

    def look(self) -> None:
        """Look at everything."""
        rows, expected = self.picture.rows, self.walk()
        assert short(rows.rows(0, 10**6)) == short(expected)
        assert [rows.index(row.key) for row in expected] == list(range(len(expected)))
        assert [rows.key_at(at) for at in range(len(expected))] == [row.key for row in expected]
        hidden = {key for key in self.shown.nodes if key in rows} - {row.key for row in expected}
        for key in hidden:
            assert expected[rows.index(key)].hidden
        assert self.shown.check() == []


def short(rows: Iterable[Row]) -> list[Row]:
    """The last levels only: deep rows' guides are cut."""
    return [Row(row.key, row.guide[-20:], row.hidden) for row in rows]


STEPS = (
    Person.ask,
    Person.ask,
    Person.ask,
    Person.ask_often,
    Person.fold,
    Person.fold,
    Person.sort,
    Person.fade,
    Person.find,
    Person.fold_all,
    Person.reveal,
    Person.freeze,
    Person.clear,
    Person.begin,
)


@settings(max_examples=120, deadline=None)
@given(
    st.integers(0, len(CACHES) - 1),
    st.integers(0, 10**6),
    st.lists(st.tuples(st.integers(0, len(STEPS) - 1), st.integers(0, 3)), max_size=40),
)
def test_whatever_happens_the_rows_are_those_of_a_whole_walk(
    kind: int, seed: int, steps: list[tuple[int, int]]
) -> None:
    person = Person(kind, seed)
    for step, then in steps:
        STEPS[step](person)
        if then:
            person.show(person.shown)
            if then == 1:
                person.look()
            else:
                person.glance()
    person.show(person.shown)
    person.look()
    search = person.picture.filter
    if search is not None:
        while search.pending:
            person.picture.search()
        person.look()
        assert search.tree.found == {
            node.id for node in person.shown.nodes.values() if node.id != ROOT and person.finds(node)
        }
