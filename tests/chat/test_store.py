"""Session files: what is written is there, whatever happens to the files in between."""

import json
import os
from pathlib import Path

import pytest

from chatkv.chat.disk import check_writable
from chatkv.chat.errors import ChatError
from chatkv.chat.records import dump, encode
from chatkv.chat.store import SessionStore
from chatkv.chat.tree import Conversation
from tests.chat.shared import only_file, reload, say, state


def test_everything_comes_back(tmp_path: Path) -> None:
    store = SessionStore(tmp_path / "a" / "b")
    conv = store.create(system="Be brief.")
    question = conv.append("user", "Hi\n\ud800\x1b\u2028中")
    store.append(conv, question)
    meta = {"cached": 3, "computed": 4, "ttft_s": 0.25, "model": "m", "reason": "stop"}
    store.append(conv, conv.append("assistant", "Hello", token_ids=(1, 2**31 - 1), meta=meta))
    store.set_head(conv, question.id)
    store.set_system(conv, None)
    store.rename(conv, "a\nname")
    (back,) = reload(store)
    assert state(back) == state(conv)
    assert back.head == question.id
    assert back.name == "a name"
    assert b'"tokens":[1,2147483647]' in only_file(store.folder).read_bytes()


def test_no_folder_is_no_session(tmp_path: Path) -> None:
    assert SessionStore(tmp_path / "none").load_all() == ([], [])
    assert not (tmp_path / "none").exists()


def test_a_fork_keeps_the_branch_and_says_where_it_is_from(tmp_path: Path) -> None:
    store = SessionStore(tmp_path)
    conv = store.create(system="S")
    say(store, conv, "one two", "three")
    middle = conv.path()[0]
    fork = store.fork(conv, middle.id)
    second = store.fork(fork, middle.id)
    assert fork.path() == [middle]
    assert (fork.forked_from, fork.system) == ((conv.id, middle.id), "S")
    assert [conv.name, fork.name, second.name] == ["one two", "one two ⑂1", "one two ⑂2"]
    say(store, fork, "elsewhere")
    assert [state(c) for c in reload(store)] == [state(conv), state(fork), state(second)]


def test_delete_and_undelete(tmp_path: Path) -> None:
    store = SessionStore(tmp_path)
    conv, other = store.create("a"), store.create("b")
    say(store, conv, "x")
    store.delete(conv)
    assert store.conversations == [other]
    assert [c.name for c in reload(store)] == ["b"]
    say(store, conv, "written while deleted")
    assert [c.name for c in reload(store)] == ["b"]
    store.undelete(conv)
    assert [state(c) for c in reload(store)] == [state(conv), state(other)]


def test_deleting_a_vanished_file_can_be_undone(tmp_path: Path) -> None:
    store = SessionStore(tmp_path)
    conv = store.create("a")
    say(store, conv, "x")
    only_file(tmp_path).unlink()
    store.delete(conv)
    store.undelete(conv)
    assert [state(c) for c in reload(store)] == [state(conv)]


def test_a_removed_file_is_written_whole_again(tmp_path: Path) -> None:
    store = SessionStore(tmp_path)
    conv = store.create("a")
    say(store, conv, "x", "y")
    with only_file(tmp_path).open("ab") as out:
        out.write(b'{"chatkv":"bookmark","at":1}\n')
    again = SessionStore(tmp_path)
    (conv,), (problem,) = again.load_all()
    assert "unknown record 'bookmark'" in str(problem)
    only_file(tmp_path).unlink()
    say(again, conv, "z")
    (back,), (problem,) = SessionStore(tmp_path).load_all()
    assert state(back) == state(conv)
    assert "unknown record 'bookmark'" in str(problem)
    assert not list(tmp_path.glob(".*"))


def test_a_torn_last_line_never_sticks_to_the_next(tmp_path: Path) -> None:
    store = SessionStore(tmp_path)
    conv = store.create("a")
    say(store, conv, "x", "y")
    path = only_file(tmp_path)
    path.write_bytes(path.read_bytes()[:-4])
    again = SessionStore(tmp_path)
    (back,), (problem,) = again.load_all()
    assert (problem.line, problem.message) == (3, "cut off while it was written, skipped")
    say(again, back, "z")
    (last,), (problem,) = SessionStore(tmp_path).load_all()
    assert [m.text for m in last.path()] == ["x", "z"]
    assert problem.line == 3


def test_bad_lines_are_told_by_number_and_skipped(tmp_path: Path) -> None:
    store = SessionStore(tmp_path)
    conv = store.create("a")
    say(store, conv, "x", "y")
    lines = only_file(tmp_path).read_bytes().split(b"\n")
    message = json.loads(lines[1])
    bad = [
        b"not json",
        b"\xff\xfe",
        b"[1]",
        b'{"chatkv":3}',
        b"[" * 100_000,
        json.dumps({**message, "id": "n1", "role": "wizard"}).encode(),
        json.dumps({**message, "id": 4}).encode(),
        json.dumps({**message, "id": "n2", "text": None}).encode(),
        json.dumps({**message, "id": "n3", "tokens": [1, -2]}).encode(),
        json.dumps({**message, "id": "n4", "tokens": [True]}).encode(),
        json.dumps({**message, "id": "n5", "meta": []}).encode(),
        json.dumps({**message, "text": "other"}).encode(),
        b'{"chatkv":"head","id":"gone"}',
        b'{"chatkv":"name","name":"\\n"}',
        b'{"chatkv":"system","system":1}',
        lines[0],
    ]
    only_file(tmp_path).write_bytes(b"\n".join([lines[0], *bad, b"", b"\r", *lines[1:]]))
    (back,), problems = SessionStore(tmp_path).load_all()
    # The twelfth comes before the message it contradicts, so that one is the second of its id.
    assert [problem.line for problem in problems] == [2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 14, 15, 16, 17, 20]
    assert [m.text for m in back.path()] == ["other", "y"]
    assert back.name == "a"
    for problem in problems:
        assert str(problem).isprintable()


def test_a_lost_line_leaves_the_answers_in_order(tmp_path: Path) -> None:
    store = SessionStore(tmp_path)
    conv = store.create("a")
    say(store, conv, "1", "2", "3")
    three = conv.head
    store.set_head(conv, conv.path()[1].id)
    say(store, conv, "3b")
    lines = only_file(tmp_path).read_bytes().splitlines(keepends=True)
    del lines[2]
    only_file(tmp_path).write_bytes(b"".join(lines))
    (back,), problems = SessionStore(tmp_path).load_all()
    assert [m.text for m in back.path()] == ["1", "3b"]
    assert [m.text for m in back.path(three)] == ["1", "3"]
    assert [problem.line for problem in problems] == [3, 4, 5]


def test_a_file_without_its_first_line_keeps_its_messages(tmp_path: Path) -> None:
    store = SessionStore(tmp_path)
    conv = store.create("a")
    say(store, conv, "x")
    path = only_file(tmp_path)
    path.write_bytes(path.read_bytes().split(b"\n", 1)[1])
    again = SessionStore(tmp_path)
    (back,), (problem,) = again.load_all()
    assert (back.id, back.created) == (conv.id, conv.created)
    assert "no session record" in problem.message
    say(again, back, "y")
    assert [state(c) for c in reload(again)] == [state(back)]


def test_a_newer_version_is_read_and_told(tmp_path: Path) -> None:
    store = SessionStore(tmp_path)
    say(store, store.create("a"), "x")
    path = only_file(tmp_path)
    path.write_bytes(path.read_bytes().replace(b'"version":1', b'"version":2'))
    (back,), (problem,) = SessionStore(tmp_path).load_all()
    assert [m.text for m in back.path()] == ["x"]
    assert "newer chatkv (format 2)" in problem.message


def test_odd_things_in_the_folder_are_told(tmp_path: Path) -> None:
    (tmp_path / "dir.jsonl").mkdir()
    (tmp_path / "gone.jsonl").symlink_to(tmp_path / "nowhere")
    (tmp_path / "empty.jsonl").touch()
    (tmp_path / "20269999T999999Z-x.jsonl").touch()
    (tmp_path / "notes.txt").write_text("mine")
    os.mkfifo(tmp_path / "pipe.jsonl")
    found, problems = SessionStore(tmp_path).load_all()
    assert found == []
    assert len(problems) == 5
    assert sum("holds no session, left out" in str(problem) for problem in problems) == 2


def test_a_copied_file_gets_an_id_of_its_own(tmp_path: Path) -> None:
    store = SessionStore(tmp_path)
    say(store, store.create("a"), "x")
    (tmp_path / "copy.jsonl").write_bytes(only_file(tmp_path).read_bytes())
    found, (problem,) = SessionStore(tmp_path).load_all()
    assert len({c.id for c in found}) == 2
    assert "same session id" in problem.message


def test_a_folder_that_can_not_be_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = SessionStore(tmp_path / "file" / "sessions")
    for wrong in (lambda: check_writable(store.folder), store.create):
        with pytest.raises(ChatError, match="not a directory; choose another folder"):
            wrong()
    check_writable(tmp_path / "new")
    assert not list((tmp_path / "new").iterdir())


def test_a_stranger_is_refused(tmp_path: Path) -> None:
    store = SessionStore(tmp_path)
    with pytest.raises(ChatError, match="not one of"):
        store.rename(Conversation(name="other"), "x")


def test_examples_can_be_adopted(tmp_path: Path) -> None:
    store = SessionStore(tmp_path)
    examples = store.examples()
    assert len(examples) == 3
    assert examples[0].system == examples[1].system != None  # noqa: E711
    own = [store.adopt(example) for example in examples]
    say(store, own[0], "and then?")
    assert [state(c) for c in reload(store)] == [state(c) for c in own]
    assert [m.role for m in own[0].path()] == ["user", "user"]


@pytest.mark.parametrize("created", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-12:00", "soon", 3])
def test_a_date_that_can_not_be_is_told(created: object, tmp_path: Path) -> None:
    store = SessionStore(tmp_path)
    say(store, store.create("a"), "x")
    first, *rest = only_file(tmp_path).read_bytes().splitlines(keepends=True)
    header = json.dumps(json.loads(first) | {"created": created}).encode() + b"\n"
    only_file(tmp_path).write_bytes(header + b"".join(rest))
    (back,), (problem,) = SessionStore(tmp_path).load_all()
    assert [m.text for m in back.path()] == ["x"]
    assert (problem.line, problem.message) == (1, '"created" is not an ISO date, skipped')


@pytest.mark.parametrize("number", [b"NaN", b"Infinity", b"-Infinity", b"1e999"])
def test_what_is_no_json_number_is_refused_so_that_all_that_is_read_can_be_written(
    number: bytes, tmp_path: Path
) -> None:
    store = SessionStore(tmp_path)
    say(store, store.create("a"), "x", "y")
    lines = only_file(tmp_path).read_bytes().splitlines(keepends=True)
    lines[2] = lines[2].replace(b'"role"', b'"meta":{"deep":[' + number + b']},"role"')
    only_file(tmp_path).write_bytes(b"".join(lines))
    (back,), (problem,) = SessionStore(tmp_path).load_all()
    assert [m.text for m in back.path()] == ["x"]
    assert problem.line == 3
    assert f"meta.deep: {number.decode()} is " in problem.message
    for record in dump(back):
        assert encode(record)


def test_a_place_that_takes_no_folder_is_named() -> None:
    with pytest.raises(ChatError, match="can't keep sessions in /proc/x/y: no folder can be made in /proc;"):
        check_writable(Path("/proc/x/y"))


def test_a_draft_ends_with_the_question_that_came_of_it(tmp_path: Path) -> None:
    store = SessionStore(tmp_path)
    conv = store.create()
    say(store, conv, "x")
    (question,) = conv.path()
    store.set_draft(conv, "half", question.id)
    (back,) = reload(store)
    assert (back.draft, back.draft_for) == ("half", question.id)
    store.append(conv, conv.append("user", "half a question"))
    (back,) = reload(store)
    assert (back.draft, back.draft_for) == ("", None)


def test_a_draft_ends_with_a_question_of_another_process(tmp_path: Path) -> None:
    ours = SessionStore(tmp_path)
    conv = ours.create()
    ours.set_draft(conv, "half")
    theirs = SessionStore(tmp_path)
    (twin,) = theirs.load_all()[0]
    assert twin.draft == "half"
    theirs.append(twin, twin.append("user", "asked"))
    ours.catch_up(conv)
    (back,) = reload(ours)
    assert conv.draft == twin.draft == back.draft == ""
