"""One node or one block in full."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.style import Style
from textual.widgets import Static

from chatkv.insight.hashes import hash_of
from chatkv.insight.history import Moment
from chatkv.insight.mirror import Ghost, Mirror, Node
from chatkv.insight.nodes import BlockState
from chatkv.insight.visible import counted
from chatkv.kvcache.events import ROOT, Int32Array
from chatkv.tui.cache.accounting import account_line, last_accounted
from chatkv.tui.cache.boxed import Boxed
from chatkv.tui.cache.cells import steady
from chatkv.tui.cache.labels import Decode, Labels
from chatkv.tui.cache.messages import MapWanted, NodeSelected, NodeWanted, TreeWanted
from chatkv.tui.cache.shown import Shown
from chatkv.tui.cache.states import BLOCK_LOOKS, Look, node_look
from chatkv.tui.cache.turn_words import TurnWords
from chatkv.tui.keys.current import bind

_MOMENTS = 8
"""How much of its history is shown."""
_COUNT_S = 0.05
_HINT = "Enter on a node or a block shows it here."


def spans(numbers: Iterable[int]) -> str:
    """``4 9-11 31``: neighbours that count up by one are drawn together."""
    out: list[list[int]] = []
    for number in numbers:
        if out and number == out[-1][1] + 1:
            out[-1][1] = number
        else:
            out.append([number, number])
    return " ".join(str(first) if first == last else f"{first}-{last}" for first, last in out)


class Linked(Static):
    """Words of which some are links: a click on a node's name shows that node."""

    def action_node(self, node: int) -> None:
        """Ask for ``node``."""
        self.post_message(NodeSelected(node))


def link(words: str, node: int) -> Content:
    """``words``, and a click on them asks for ``node``."""
    return Content(words).stylize(Style.from_meta({"@click": f"node({node})"})).stylize("underline")


class Inspector(VerticalScroll, Boxed):
    """Shows what was asked for last, and keeps it up to date while the cache goes on."""

    DEFAULT_CSS = """
    Inspector {
        height: 1fr;
        scrollbar-size-vertical: 1;
    }
    Inspector > Static { height: auto; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("move.down", "scroll_down"),
        bind("move.up", "scroll_up"),
        bind("move.first", "scroll_home"),
        bind("move.last", "scroll_end"),
        bind("pane.tree", "tree", "Tree", tooltip="It in the tree"),
        bind("pane.blocks", "blocks", "Blocks", tooltip="It in the map of blocks"),
    ]

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self.name_box("Inspector")
        self._mirror: Mirror | None = None
        self._labels = Labels()
        self._node: int | None = None
        self._block: int | None = None
        self._session: str | None = None
        self._shown = Shown()
        self._content_key = ""
        self._named: dict[str, str] = {}
        """Sessions in the text, and what they were called when it was made."""
        self._text_of: tuple[bytes, str] = (b"", "")
        self._turn = TurnWords()
        self._waiting = False
        """It is counting, and goes on in a moment."""
        self._hashed: tuple[tuple[object, ...], str] = ((), "")
        self._past_of: tuple[tuple[object, ...], list[Moment]] = ((), [])
        self.session_name: Callable[[str], str] = str
        """A session's key → what people call it."""

    def compose(self) -> ComposeResult:
        """Only a text; the rest is scrolling."""
        yield Linked(_HINT, markup=False)

    @property
    def decode(self) -> Decode | None:
        """Token ids → text; None shows the ids."""
        return self._labels.decode

    @decode.setter
    def decode(self, decode: Decode | None) -> None:
        self._labels.decode = decode
        self._text_of = (b"", "")
        self._update()

    def inspect_node(self, node: int) -> None:
        """Show the node with this id (live or evicted) from now on."""
        self._node, self._block = node, None
        self.scroll_home(animate=False)
        self._update()

    def inspect_block(self, block: int) -> None:
        """Show this physical block from now on."""
        self._node, self._block = None, block
        self.scroll_home(animate=False)
        self._update()

    def action_tree(self) -> None:
        """Ask for it in the tree."""
        if self._node is not None:
            self.post_message(NodeWanted(self._node))
        elif self._block is not None:
            self.post_message(TreeWanted(self._block))

    def action_blocks(self) -> None:
        """Ask for its blocks in the map."""
        node = self._mirror.nodes.get(self._node or ROOT) if self._mirror is not None else None
        if self._block is not None:
            self.post_message(MapWanted((self._block,), f"block {self._block}"))
        elif self._node is not None and node is not None:
            self.post_message(MapWanted(tuple(node.blocks.tolist()), f"node {self._node}"))

    def show(self, mirror: Mirror, focus_session: str | None) -> None:
        """Look things up in this state; ``focus_session`` is the one whose last prompt is accounted for."""
        if self._shown.again(mirror, focus_session) and all(
            self.session_name(key) == name for key, name in self._named.items()
        ):
            return
        self._mirror, self._session = mirror, focus_session
        self._update()

    def _update(self) -> None:
        if self._mirror is None or not self.is_mounted:
            return
        self._named = {}
        content = self._content(self._mirror)
        # Wrapping a long text again for each frame would cost more than all the rest.
        if (key := repr(content)) != self._content_key:
            self._content_key = key
            self.query_one(Static).update(content)
        if self._turn.counting and not self._waiting:
            self._waiting = True
            self.set_timer(_COUNT_S, self._count_on)

    def _count_on(self) -> None:
        self._waiting = False
        self._turn.go_on()
        self._update()

    def _content(self, mirror: Mirror) -> Content:
        if self._node is not None:
            title = "Node inspector"
            content = Content("\n").join(self._node_lines(mirror, self._node))
        elif self._block is not None:
            title = "Block inspector"
            content = Content("\n").join(self._block_lines(mirror, self._block))
        else:
            title, content = "Inspector", Content("\n").join([Content(_HINT), *self._account(mirror)])
        self.name_box(title)
        return content

    def _node_lines(self, mirror: Mirror, id: int) -> Iterator[Content]:
        node = mirror.nodes.get(id)
        ghost = mirror.ghosts.get(id)
        if node is None and ghost is None:
            yield Content(f"node {id} is not in the tree at seq {mirror.seq}")
        elif node is not None and id == ROOT:
            nodes, tokens = counted(len(mirror.nodes) - 1, "node"), counted(mirror.tokens, "token")
            yield Content(f"root · {nodes} · {tokens} below it")
            yield Content("It holds no tokens, is always locked and is never evicted.")
        elif node is not None:
            yield from self._live(mirror, node)
        elif ghost is not None:
            yield from self._gone(mirror, ghost)

    def _live(self, mirror: Mirror, node: Node) -> Iterator[Content]:
        extra = (" · tail" if node.is_tail else "") + (" · * pinned" if node.pinned else "")
        yield Content.assemble(f"node {node.id} · ", _state(node_look(node)), extra)
        depth = len(mirror.path(node.id))
        parent = link(f"{node.parent or 'root'}", node.parent)
        yield Content.assemble("parent ", parent, f" · depth {depth} · children {len(node.children)}")
        yield Content(
            f"{counted(len(node.tokens), 'token')} · {counted(len(node.blocks), 'block')}"
            f" · locks {node.locks} · hits {node.hits}"
        )
        yield Content(f"created seq {node.created_seq} · last used seq {node.last_seq}")
        if node.id != ROOT:
            yield Content(self._turn.of(mirror, node))
        if mirror.left_behind(node):
            yield Content(
                "left behind: no conversation leads here now (a message was changed, or thinking left out)"
            )
        if node.namespace:
            yield Content(f"namespace {steady(node.namespace)}")
        yield Content(f"sessions {self._names(node.sessions)}")
        yield Content(f"blocks {spans(node.blocks.tolist())}")
        yield from self._past(mirror)
        yield from self._account(mirror)
        yield Content("\n" + self._text(node.tokens))

    def _gone(self, mirror: Mirror, ghost: Ghost) -> Iterator[Content]:
        age = mirror.seq - ghost.evicted_seq
        yield Content.assemble(f"node {ghost.node} · ", _state(Look.EVICTED), f" for {steady(ghost.reason)}")
        yield Content(
            f"{counted(age, 'event')} ago, at seq {ghost.evicted_seq} · created seq {ghost.created_seq}"
        )
        yield Content(
            f"{counted(len(ghost.tokens), 'token')} · {counted(len(ghost.blocks), 'block')}"
            f" freed: {spans(ghost.blocks.tolist())}"
        )
        yield Content(f"was under {ghost.parent or 'root'}")
        yield Content(f"sessions {self._names(ghost.sessions)}")
        yield from self._past(mirror)
        yield from self._account(mirror)
        yield Content("\n" + self._text(ghost.tokens))

    def _block_lines(self, mirror: Mirror, block: int) -> Iterator[Content]:
        if not 0 <= block < mirror.num_blocks:
            yield Content(f"block {block} does not exist: the pool has {mirror.num_blocks}")
            return
        state = mirror.block_state(block)
        yield Content.assemble(f"block {block} · ", _state(BLOCK_LOOKS[state]))
        rows = [row for row in mirror.rows.values() if block in row.blocks]
        owner = mirror.block_node(block)
        if owner is not None:
            node = mirror.nodes[owner]
            yield Content.assemble("owned by ", link(f"node {owner}", owner), " (in the tree)")
            yield Content(self._hash(mirror, block))
        elif rows:
            yield Content("private: in one request's row only")
        elif state is BlockState.EVICTED:
            yield Content("free again, evicted a short while ago")
        else:
            yield Content("free")
        for row in rows:
            at = row.blocks.index(block)
            yield Content(
                f"request {row.request} ({self._called(row.session)}): logical {at}, "
                f"{row.filled(at)}/{row.block_size} filled"
            )
        yield from self._past(mirror)
        if owner is not None:
            at = node.blocks.tolist().index(block)
            size = mirror.block_size
            yield Content("\n" + self._text(node.tokens[at * size : (at + 1) * size]))

    def _hash(self, mirror: Mirror, block: int) -> str:
        """It takes all blocks before it, so not anew for each token."""
        at = (
            mirror,
            block,
            mirror.structure_version,
            len(mirror.nodes[mirror.block_node(block) or 0].tokens),
        )
        if self._hashed[0] != at:
            found = hash_of(mirror, block)
            self._hashed = (at, f"hash {found.hex()[:16]}…" if found else "no hash: it is not full")
        return self._hashed[1]

    def _past(self, mirror: Mirror) -> Iterator[Content]:
        """What happened to it, newest first."""
        at = (mirror, self._node, self._block, mirror.history.count)
        if self._past_of[0] != at:
            history = mirror.history
            if self._node is not None:
                moments = history.of_node(self._node)
            else:
                moments = history.of_block(self._block or 0)
            self._past_of = (at, moments)
        moments = self._past_of[1]
        for moment in moments[:_MOMENTS]:
            yield Content.assemble((f"{moment.seq:>6} ", "$text-muted"), moment.words)
        if len(moments) > _MOMENTS:
            yield Content.styled(f"       … and {len(moments) - _MOMENTS} before", "$text-muted")

    def _account(self, mirror: Mirror) -> Iterator[Content]:
        account = last_accounted(mirror, self._session)
        if account is not None:
            yield Content(f"last prompt (request {account.request}): {account_line(account)}")

    def _called(self, session: str) -> str:
        name = self._named[session] = self.session_name(session)
        return steady(name)

    def _names(self, sessions: Iterable[str]) -> str:
        return ", ".join(sorted(map(self._called, sessions))) or "none"

    def _text(self, tokens: Int32Array) -> str:
        key = tokens.tobytes()
        if self._text_of[0] != key:
            self._text_of = (key, self._labels.text(tokens.tolist()).replace("↵", "↵\n"))
        return self._text_of[1]


def _state(look: Look) -> tuple[str, str]:
    return f"{look.glyph} {look.word}", look.variable
