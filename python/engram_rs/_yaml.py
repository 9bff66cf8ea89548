"""A small and unambiguous part of YAML: text to plain values and back.

A plain scalar is a number, true, false or null only where JSON would spell it so; all else is text. YAML 1.1
reads `no` as false, `014` as 12, `12:30` as 750 and `2026-08-14` as a date; here they stay what was written.
What is written is quoted wherever a reader of YAML 1.1 or 1.2 could take text for anything else.
"""

import json
import math
import re
import unicodedata
from collections.abc import Iterator
from typing import Any, Protocol

from ._extras import require

__all__ = ["dump", "parse"]

yaml = require("yaml", "reading YAML")

_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]*)")
_FLOAT = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_WORDS = {"true": True, "false": False, "null": None, "": None}
# Words that begin with a letter and are no text to YAML 1.1 or 1.2, in any case.
_NO_TEXT = {"y", "n", "yes", "no", "on", "off", "true", "false", "null"}
# A hostile document could nest or list until parsing it takes seconds.
_MAX_DEPTH = 16
_MAX_NODES = 4096
_MAX_DIGITS = 18


class _Mark(Protocol):
    line: int


class _Event(Protocol):
    """What the parser's events have; each kind has some of it."""

    start_mark: _Mark
    anchor: str | None
    tag: str | None
    value: str
    style: str | None


def parse(text: str) -> object:
    """The value of a document; mappings become dicts with text for keys.

    Raises:
        ValueError: It is no YAML, or has what is refused: tags, anchors, aliases, merge keys, repeated keys,
            several documents, control characters, too many or too deeply nested values.
    """
    try:
        events = yaml.parse(text, Loader=yaml.SafeLoader)
        return _Reader(events).document()
    except yaml.YAMLError as error:
        raise ValueError(f"it is no YAML: {' '.join(str(error).split())}") from None
    except OverflowError as error:
        raise ValueError(f"it is no YAML: {error}") from None


class _Reader:
    """Builds values from the parser's events; no composer and no constructor, which know tags and aliases."""

    def __init__(self, events: Iterator[_Event]) -> None:
        self._events = events
        self._nodes = 0

    def document(self) -> object:
        next(self._events)  # the stream's start
        if isinstance(next(self._events), yaml.StreamEndEvent):
            raise ValueError("it is empty")
        value = self._value(next(self._events), 0)
        next(self._events)  # the document's end
        if not isinstance(next(self._events), yaml.StreamEndEvent):
            raise ValueError("it holds several documents")
        return value

    def _value(self, event: _Event, depth: int) -> object:
        line = event.start_mark.line + 1
        self._nodes += 1
        if self._nodes > _MAX_NODES or depth > _MAX_DEPTH:
            raise ValueError(f"line {line}: more than {_MAX_NODES} values, or nested more than {_MAX_DEPTH} deep")
        if isinstance(event, yaml.AliasEvent) or event.anchor is not None:
            raise ValueError(f"line {line}: anchors and aliases are refused")
        if event.tag is not None:
            raise ValueError(f"line {line}: the tag {event.tag} is refused, as all tags are")
        if isinstance(event, yaml.SequenceStartEvent):
            return [self._value(item, depth + 1) for item in self._until(yaml.SequenceEndEvent)]
        if isinstance(event, yaml.MappingStartEvent):
            return self._mapping(depth)
        _check_characters(event.value, f"line {line}: ")
        return _scalar(event.value, event.style is None, line)

    def _mapping(self, depth: int) -> dict[str, object]:
        found: dict[str, object] = {}
        for event in self._until(yaml.MappingEndEvent):
            line = event.start_mark.line + 1
            self._value(event, depth + 1)  # refuses what is refused of values too
            if not isinstance(event, yaml.ScalarEvent) or (event.style is None and event.value == "<<"):
                raise ValueError(f"line {line}: a key must be text, and no merge key")
            if event.value in found:
                raise ValueError(f"line {line}: the key {event.value!r} is there twice")
            found[event.value] = self._value(next(self._events), depth + 1)
        return found

    def _until(self, end: type) -> Iterator[_Event]:
        while not isinstance(event := next(self._events), end):
            yield event


def _check_characters(text: str, where: str = "") -> None:
    """Refuses what would steer a terminal and what UTF-8 cannot hold."""
    for character in text:
        if unicodedata.category(character) in {"Cc", "Cs"} and character not in "\n\t":
            raise ValueError(f"{where}the character U+{ord(character):04X} is refused")


def _scalar(text: str, plain: bool, line: int) -> object:
    if not plain:
        return text
    if text in _WORDS:
        return _WORDS[text]
    if not _FLOAT.fullmatch(text):
        return text
    whole = _INTEGER.fullmatch(text) is not None
    # Other readers hold a whole number in 64 bits, or in a double.
    if len(text) > _MAX_DIGITS if whole else not math.isfinite(float(text)):
        raise ValueError(f"line {line}: the number {text:.40} is too big")
    return int(text) if whole else float(text)


def dump(value: object) -> str:
    """The document of a value made of dicts, lists, texts, numbers, booleans and None; keys in their order.

    Raises:
        TypeError: A value is something else.
        ValueError: A number is not finite, or a text has characters that `parse` refuses.
    """
    events = [yaml.StreamStartEvent(), yaml.DocumentStartEvent(explicit=False)]
    events += _events(value)
    events += [yaml.DocumentEndEvent(explicit=False), yaml.StreamEndEvent()]
    # No line is folded: a digest or a JSON text stays on its line.
    text = yaml.emit(events, allow_unicode=True, width=2**30)
    assert isinstance(text, str)
    return text


def _events(value: object) -> Iterator[Any]:
    if isinstance(value, dict):
        yield yaml.MappingStartEvent(None, None, True, flow_style=not value)
        for key, item in value.items():
            if not isinstance(key, str):
                raise TypeError(f"a key must be text, not {key!r}")
            yield from _events(key)
            yield from _events(item)
        yield yaml.MappingEndEvent()
    elif isinstance(value, (list, tuple)):
        yield yaml.SequenceStartEvent(None, None, True, flow_style=not value)
        for item in value:
            yield from _events(item)
        yield yaml.SequenceEndEvent()
    else:
        text, plain = _written(value)
        yield yaml.ScalarEvent(None, None, (True, True), text, style=None if plain else '"')


def _written(value: object) -> tuple[str, bool]:
    """How a scalar is written, and whether without quotes."""
    if value is None or isinstance(value, bool):
        return json.dumps(value), True
    if isinstance(value, int):
        return str(int(value)), True
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"a number must be finite, not {value}")
        text = repr(float(value))
        # Without a point YAML 1.1 takes 1e-05 for text.
        return (text.replace("e", ".0e") if "." not in text else text), True
    if isinstance(value, str):
        _check_characters(value)
        # Digits, signs and dots may begin a number in one of YAML's versions; letters may not.
        return value, value[:1].isascii() and value[:1].isalpha() and value.lower() not in _NO_TEXT
    raise TypeError(f"metadata may hold texts, numbers, booleans, lists and mappings, not {type(value).__name__}")
