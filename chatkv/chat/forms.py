"""The forms in which other programs keep chats, told apart by what is in them, never by a file's name.

* ``messages``: OpenAI's and Anthropic's requests (with ``system``), a list of messages, batch files of either
  and what came back (``choices``, ``content``), Responses' ``input`` and ``output``, Gemini's ``contents``;
* ``conversations`` (ShareGPT) with ``from`` and ``value``, or ``role`` and ``content``;
* trees: ChatGPT's export (``mapping``, ``current_node``), Open WebUI's (``history``, ``currentId``), Claude's
  (``chat_messages``, ``parent_message_uuid``). Every branch comes in.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from chatkv.chat.grown import Grower, Node
from chatkv.chat.said import LeaveOut, is_item, is_message, moment, said

_LISTS = ("messages", "conversations", "conversation", "items", "chat_messages", "contents")
_WRAPPERS = ("conversations", "chats", "sessions", "data", "items")
_SYSTEMS = ("system", "instructions", "system_prompt", "system_instruction", "systemInstruction")
_CHATS = ("messages", "conversations", "chat_messages", "mapping", "chat", "history", "body", "response")
_Object = dict[str, Any]


def chats_in(value: object, leave_out: LeaveOut, depth: int = 0) -> Iterator[_Object]:
    """Each chat in ``value`` as an object with its own form; what is none is left out."""
    if isinstance(value, list):
        if _of_messages(value):
            yield {"messages": value}
        elif depth > 3:
            leave_out("list| in lists")
        else:
            for it in value:
                if isinstance(it, dict | list):
                    yield from chats_in(it, leave_out, depth + 1)
                else:
                    leave_out("entry| that is no conversation")
    elif isinstance(value, dict):
        yield from _chats_of(value, leave_out, depth)
    else:
        leave_out("value| that is no object")


def _chats_of(value: _Object, leave_out: LeaveOut, depth: int) -> Iterator[_Object]:
    listed = next((it for key in _WRAPPERS if isinstance(it := value.get(key), list) and it), None)
    if listed is None or _of_messages(listed) or any(key in value for key in ("messages", "mapping")):
        yield value
    else:
        yield from chats_in(listed, leave_out, depth + 1)


def _of_messages(listed: list[Any]) -> bool:
    objects = [it for it in listed if isinstance(it, dict)]
    return any(is_message(it) or is_item(it) for it in objects) and not any(
        isinstance(it.get(key), dict | list) for it in objects for key in _CHATS
    )


def grow(chat: _Object, grower: Grower, leave_out: LeaveOut) -> _Object:
    """Give ``grower`` the messages of ``chat``; returns the object that has its name and date."""
    inner = chat.get("chat")
    if isinstance(inner, dict):  # Open WebUI
        chat = {**chat, **inner}
    if isinstance(mapping := chat.get("mapping"), dict):
        nodes = _in_order({id: _chatgpt(id, it, leave_out) for id, it in mapping.items()}, _children(mapping))
        grower.grow(nodes, _known(chat.get("current_node"), mapping) or _latest(nodes))
    elif isinstance(history := chat.get("history"), dict) and isinstance(history.get("messages"), dict):
        kept = history["messages"]
        _system(chat.get("params"), grower)
        nodes = _in_order({id: _open_webui(id, it, leave_out) for id, it in kept.items()}, _children(kept))
        grower.grow(nodes, _known(history.get("currentId"), kept) or _latest(nodes))
    elif by_id := _claude_tree(chat.get("chat_messages")):
        nodes = _in_order({id: _claude(id, it, leave_out) for id, it in by_id.items()}, {})
        grower.grow(nodes, _known(chat.get("current_leaf_message_uuid"), by_id) or _latest(nodes))
    else:
        _system(chat, grower)
        _chain(chat, grower, leave_out)
    return chat


# Chains


def _chain(chat: _Object, grower: Grower, leave_out: LeaveOut) -> None:
    """What was asked, and the answers to it, of which there may be several."""
    asked = _asked(chat, grower)
    nodes: list[Node] = []
    for at, message in enumerate(asked):
        nodes.append(_node(f"q{at}", nodes[-1].id if nodes else None, message, leave_out))
    end = head = nodes[-1].id if nodes else None
    for number, answer in enumerate(_answers(chat)):
        behind = end
        for at, message in enumerate(answer):
            nodes.append(_node(f"a{number}.{at}", behind, message, leave_out))
            behind = nodes[-1].id
        head = behind if number == 0 else head
    grower.grow(nodes, head)


def _asked(chat: _Object, grower: Grower) -> list[object]:
    for key in ("body", "request", "params", "request_body"):  # batches and logs
        if isinstance(chat.get(key), dict):
            _system(chat[key], grower)
            return _asked(chat[key], grower)
    for key in _LISTS:
        if isinstance(chat.get(key), list) and chat[key]:
            return list(chat[key])
    given = chat.get("input")
    if isinstance(given, list):
        return list(given)
    if isinstance(given, str) and ("model" in chat or "instructions" in chat):
        return [{"role": "user", "content": given}]
    return [chat] if is_message(chat) else []


def _answers(chat: _Object, depth: int = 0) -> Iterator[list[object]]:
    for key in ("response", "result", "body", "message", "response_body"):
        inner = chat.get(key)
        if isinstance(inner, dict) and depth < 3:
            if is_message(inner):
                yield [inner]
            else:
                yield from _answers(inner, depth + 1)
    if isinstance(choices := chat.get("choices"), list):
        yield from ([it["message"]] for it in choices if isinstance(it, dict) and "message" in it)
    if isinstance(output := chat.get("output"), list) and output:
        yield list(output)


def _node(id: str, parent: str | None, message: object, leave_out: LeaveOut) -> Node:
    if not isinstance(message, dict):
        leave_out("message| that is no object")
        return Node(id, parent, None)
    dated = next((message[key] for key in ("timestamp", "create_time", "created_at") if key in message), None)
    return Node(id, parent, said(message, leave_out), moment(dated))


def _system(chat: object, grower: Grower) -> None:
    """The system prompt that stands beside the messages."""
    if not isinstance(chat, dict):
        return
    for key in _SYSTEMS:
        found = said({"role": "system", "content": chat.get(key)}, lambda what: None)
        if found is not None:
            grower.conversation.system = found[1].text
            return


# Trees


def _chatgpt(id: str, node: object, leave_out: LeaveOut) -> Node:
    message = node.get("message") if isinstance(node, dict) else None
    parent = _id(node.get("parent")) if isinstance(node, dict) else None
    return _node(id, parent, message, leave_out) if isinstance(message, dict) else Node(id, parent, None)


def _open_webui(id: str, message: object, leave_out: LeaveOut) -> Node:
    parent = _id(message.get("parentId")) if isinstance(message, dict) else None
    return _node(id, parent, message, leave_out)


def _claude(id: str, message: _Object, leave_out: LeaveOut) -> Node:
    return _node(id, _id(message.get("parent_message_uuid")), message, leave_out)


def _claude_tree(listed: object) -> dict[str, _Object]:
    """The messages by id; none where they don't tell what they are behind."""
    found = [it for it in listed if isinstance(it, dict)] if isinstance(listed, list) else []
    if not all(isinstance(it.get("uuid"), str) and "parent_message_uuid" in it for it in found):
        return {}
    return {it["uuid"]: it for it in found}


def _id(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _known(id: object, nodes: _Object) -> str | None:
    return id if isinstance(id, str) and id in nodes else None


def _latest(nodes: list[Node]) -> str | None:
    """Where the conversation goes on if the file does not tell: at the newest message."""
    kept = [node for node in nodes if node.what is not None]
    return max(kept, key=lambda node: node.time or 0.0).id if any(node.time for node in kept) else None


def _children(nodes: _Object) -> dict[str, list[str]]:
    """The order of the versions, where the file tells it."""
    found: dict[str, list[str]] = {}
    for id, node in nodes.items():
        listed = node.get("children", node.get("childrenIds")) if isinstance(node, dict) else None
        found[id] = [it for it in listed if isinstance(it, str)] if isinstance(listed, list) else []
    return found


def _in_order(nodes: dict[str, Node], children: dict[str, list[str]]) -> list[Node]:
    """Parents before what is behind them, one branch after the other; what hangs from nowhere is a start.

    A node without a parent that it knows is behind the one that names it as its child.
    """
    named = {child: id for id, listed in children.items() for child in listed if child != id}
    parents = {id: it.parent if it.parent in nodes else named.get(id) for id, it in nodes.items()}
    behind: dict[str | None, dict[str, None]] = {}
    for id, listed in children.items():
        behind[id] = dict.fromkeys(child for child in listed if parents.get(child) == id)
    for id, parent in parents.items():
        behind.setdefault(parent, {})[id] = None
    out: dict[str, Node] = {}
    # A circle hangs from nowhere: it is cut where the file names it first.
    for root in (*behind.get(None, ()), *nodes):
        stack: list[tuple[str, str | None]] = [(root, None)]
        while stack:
            id, parent = stack.pop()
            if id not in out:
                out[id] = nodes[id]._replace(parent=parent)
                stack += [(child, id) for child in reversed(behind.get(id, {}))]
    return list(out.values())
