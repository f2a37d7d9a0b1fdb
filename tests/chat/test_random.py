"""Random sessions: what is read back is what was in memory, and a cut file loses its end only."""

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from chatkv.chat.store import SessionStore
from tests.chat.shared import state

TEXT = st.text(st.characters(), max_size=20)
OPERATION = st.one_of(
    st.tuples(st.just("create"), st.none() | TEXT),
    st.tuples(st.just("append"), TEXT, st.none() | st.lists(st.integers(0, 2**31 - 1), max_size=5)),
    st.tuples(st.just("head"), st.integers(0, 50)),
    st.tuples(st.just("rename"), TEXT),
    st.tuples(st.just("system"), st.none() | TEXT),
    st.tuples(st.just("fork"), st.integers(0, 50)),
    st.tuples(st.just("switch"), st.integers(0, 50)),
    st.tuples(st.just("delete")),
    st.tuples(st.just("remove file")),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(OPERATION, max_size=25))
def test_reload_equals_memory(operations: list[tuple]) -> None:  # type: ignore[type-arg]
    with tempfile.TemporaryDirectory() as name:
        store = SessionStore(Path(name))
        conv = store.create()
        for kind, *values in operations:
            ids = list(conv.messages)
            match kind:
                case "create":
                    conv = store.create(system=values[0])
                case "append":
                    role = "user" if values[1] is None else "assistant"
                    store.append(conv, conv.append(role, values[0], token_ids=values[1], meta={"cached": 1}))
                case "head":
                    store.set_head(conv, [None, *ids][values[0] % (len(ids) + 1)])
                case "rename":
                    store.rename(conv, "n" + values[0])
                case "system":
                    store.set_system(conv, values[0])
                case "fork" if ids:
                    conv = store.fork(conv, ids[values[0] % len(ids)])
                case "switch":
                    conv = store.conversations[values[0] % len(store.conversations)]
                case "delete" if len(store.conversations) > 1:
                    store.delete(conv)
                    conv = store.conversations[0]
                case "remove file":
                    next(Path(name).glob(f"*{conv.id}.jsonl")).unlink()
                    store.rename(conv, "removed")
        found, problems = SessionStore(Path(name)).load_all()
        assert not problems
        assert [state(c) for c in found] == [state(c) for c in store.conversations]


def test_a_file_cut_at_any_byte_loses_at_most_its_last_message(tmp_path: Path) -> None:
    store = SessionStore(tmp_path)
    conv = store.create("cut", system="S")
    for n in range(3):
        store.append(conv, conv.append("user", f"frage {n} ü中"))
        store.append(conv, conv.append("assistant", "antwort", token_ids=[1, 2, 3], meta={"ttft_s": 0.1}))
    (path,) = tmp_path.glob("*.jsonl")
    whole = path.read_bytes()
    messages = list(conv.messages.values())
    for size in range(len(whole) + 1):
        path.write_bytes(whole[:size])
        again = SessionStore(tmp_path)
        found, problems = again.load_all()
        if size < whole.index(b"\n"):
            # Not even its header: there was nothing in it.
            assert found == []
            assert len(problems) == 1
            continue
        (back,) = found
        complete = max(whole[:size].count(b"\n") - 1, 0)
        kept = list(back.messages.values())
        # A record that lacks its newline only is whole.
        assert kept in (messages[:complete], messages[: complete + 1])
        assert len(problems) <= 2
        assert back.id == conv.id
        if size % 7 == 0:
            again.append(back, back.append("user", "next"))
            (more,), _ = SessionStore(tmp_path).load_all()
            assert state(more) == state(back)
