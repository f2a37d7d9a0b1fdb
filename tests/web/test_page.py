"""The page loads nothing from elsewhere, and fits textual-serve's client."""

import re
from pathlib import Path

import pytest

from chatkv.errors import ChatkvError
from chatkv.web import server, stage
from tests.web.served import serving

PAGE = Path(server.__file__).parent / "page"


def test_our_files_name_no_other_host() -> None:
    for path in PAGE.iterdir():
        assert "//" not in re.sub(r"^\s*//.*$", "", path.read_text(), flags=re.MULTILINE), path.name


async def test_what_the_page_names_is_there() -> None:
    html = (PAGE / "index.html").read_text()
    named = re.findall(r'(?:src|href)="(files/[^"]+)"', html)
    assert len(named) == 4
    fonts = [f"files/{name}" for name in re.findall(r'url\("([^"]+)"\)', (PAGE / "chat.css").read_text())]
    assert len(fonts) == 2
    async with serving() as served:
        await served.log_in()
        for path in (*named, *fonts):
            response = await served.get("/" + path)
            assert response.status == 200, path
            assert int(response.headers["Content-Length"]) > 500, path


def test_the_client_is_the_one_that_the_page_is_made_for() -> None:
    client = server.files()["textual.js"].read_text()
    for contract in (
        "dataset.sessionWebsocketUrl",
        "dataset.fontSize",
        'querySelectorAll(".textual-terminal")',
        "window.onload=",
        "new WebSocket(",
        "'Roboto Mono'",
        '"-first-byte"',
        '"-closed"',
        "xterm-helper-textarea",
        'JSON.stringify(["stdin",',
        'JSON.stringify(["resize",',
    ):
        assert contract in client, contract


def test_the_page_has_words_for_every_end() -> None:
    codes = {
        int(code) for code in re.findall(r"^\s+(\d{4}): \[", (PAGE / "chat.js").read_text(), re.MULTILINE)
    }
    assert codes == {stage.ENDED, stage.TAKEN_OVER, stage.GOING_AWAY}


def test_without_textual_serve_it_is_said_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "find_spec", lambda name: None)
    with pytest.raises(ChatkvError, match="pip install 'textual-serve>="):
        server.files()
    monkeypatch.undo()
    monkeypatch.setitem(server._THEIRS, "textual.js", "js/elsewhere.js")
    with pytest.raises(ChatkvError, match=r"elsewhere\.js is missing"):
        server.files()
