"""A model that follows a script: for the demo, for a chat without a provider, and for tests.

It is not a language model. A script is a list of rules. The first rule whose pattern is found in the user's message
runs, step by step; each step is one response. Texts of a step may use `{1}` (a group of the pattern), `{content}` (of
the first memory in the last result), `{result}` (the last result), `{context}` (the memories in the prompt) and
`{prompt}` (all of it); `{content|otherwise}` if there may be none.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidegate.agent.messages import AssistantMessage, ToolCall, ToolResult, UserMessage
from tidegate.agent.prompt import ModelError, ModelErrorKind, Prompt, ReplyDelta
from tidegate.errors import InvalidArgument

_SLOT = re.compile(r"\{(\w+)(?:\|([^{}]*))?\}")


@dataclass(frozen=True, slots=True)
class Step:
    """One response. calls: names and arguments, as objects or as the raw text to send. error: how it fails."""

    say: str = ""
    calls: tuple[tuple[str, Mapping[str, Any] | str], ...] = ()
    error: ModelErrorKind | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """when: a pattern to search in the user's last message, ignoring case."""

    when: str
    steps: tuple[Step, ...]


def _save(key: str, content: str, *tags: str) -> Step:
    return Step(calls=(("memory_save", {"key": key, "content": content, "tags": list(tags)}),))


SCRIPT = (
    Rule(
        r"\bmy name is (?:really |now )?([^.,!?\n]+)",
        (
            _save("user-name", "The user's name is {1}.", "persona"),
            Step("Nice to meet you, {1}. I will remember that."),
        ),
    ),
    Rule(
        r"You were woken for your job[\s\S]*\bremind me to ([^.!?\n]+)",
        (_save("reminder", "I reminded the user to {1}.", "project"), Step("It is time to {1}.")),
    ),
    Rule(
        r"\bI (?:like|love|prefer) ([^.!?\n]+)",
        (_save("preference-likes", "The user likes {1}.", "preference"), Step("Good to know.")),
    ),
    Rule(
        r"\b(?:always|never) ([^.!?\n]+)",
        (_save("rule-of-the-user", "The user said: {0}.", "rule"), Step("I will keep to that.")),
    ),
    Rule(
        r"\bforget (?:my|the) ([\w-]+)",
        (Step(calls=(("memory_delete", {"key": "user-{1}"}),)), Step("It is forgotten.")),
    ),
    Rule(
        r"\bmy ([\w-]+) is ([^.!?\n]+)",
        (_save("user-{1}", "The user's {1} is {2}.", "project"), Step("I will remember that.")),
    ),
    Rule(
        r"\b(?:what|when|where|who) (?:is|are|was) my ([\w-]+)",
        (Step(calls=(("memory_get", {"key": "user-{1}"}),)), Step("{content|You have not told me.}")),
    ),
    Rule(r"\A(?:hello|hi|good (?:morning|evening))\b", (Step("Hello. I follow a script; tell me your name."),)),
    Rule(
        r"",
        (
            Step(calls=(("memory_search", {"query": "{said}"}),)),
            Step("{content|I follow a script, and do not know what to say to that.}"),
        ),
    ),
)
"""The built-in script: enough to learn a fact and recall it the next time."""


class ScriptedModel:
    """Answers by rules. The same prompt always gets the same answer."""

    def __init__(self, rules: Sequence[Rule] = SCRIPT) -> None:
        self._rules = rules

    async def stream(self, prompt: Prompt) -> AsyncIterator[ReplyDelta]:
        """Yield the response, word by word. Raises: ModelError if the script says so."""
        last = max(place for place, message in enumerate(prompt.messages) if isinstance(message, UserMessage))
        since = prompt.messages[last + 1 :]
        asked = prompt.messages[last]
        done = sum(isinstance(message, AssistantMessage) for message in since)
        step, found = self._step(asked.text if isinstance(asked, UserMessage) else "", done)
        slots = _Slots(prompt, found, [each.text for each in since if isinstance(each, ToolResult)])
        text = slots.fill(step.say)
        for word in re.findall(r"\S+\s*|\s+", text):
            await asyncio.sleep(0)  # so that it can be stopped midway, like any other
            yield word
        if step.error is not None:
            raise ModelError(step.error)
        calls = [ToolCall(f"call-{len(prompt.messages)}-{n}", *each) for n, each in enumerate(slots.calls(step))]
        yield AssistantMessage(text, tuple(calls))

    def _step(self, said: str, done: int) -> tuple[Step, re.Match[str] | None]:
        for rule in self._rules:
            found = re.search(rule.when, said, re.IGNORECASE)
            if found is not None:
                return (rule.steps[done] if done < len(rule.steps) else Step("That is all.")), found
        return Step("I follow a script, and have no rule for that."), None


@dataclass(frozen=True, slots=True)
class _Slots:
    """The values of the slots in a step's texts."""

    prompt: Prompt
    found: re.Match[str] | None
    results: list[str]

    def fill(self, text: str) -> str:
        return _SLOT.sub(lambda slot: self._value(slot[1]) or slot[2] or "", text)

    def calls(self, step: Step) -> Iterator[tuple[str, str]]:
        for name, arguments in step.calls:
            yield name, arguments if isinstance(arguments, str) else json.dumps(self._filled(arguments))

    def _filled(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.fill(value)
        if isinstance(value, Mapping):
            return {name: self._filled(each) for name, each in value.items()}
        return [self._filled(each) for each in value] if isinstance(value, list) else value

    def _value(self, name: str) -> str:
        if name.isdecimal():
            groups = (self.found[0], *self.found.groups()) if self.found else ()
            return (groups[int(name)] or "").strip() if int(name) < len(groups) else ""
        match name:
            case "said":
                return self.found.string if self.found else ""
            case "result":
                return self.results[-1] if self.results else ""
            case "content":
                return _first_content(self.results[-1]) if self.results else ""
            case "context":
                return self.prompt.context
            case "prompt":
                texts = [getattr(message, "text", "") for message in self.prompt.messages]
                return "\n".join([self.prompt.instructions, self.prompt.context, *texts])
            case _:
                return ""


def _first_content(result: str) -> str:
    """Return the content of the first memory in the result of a get, a search or a list; "" without one."""
    for line in result.split("\n"):
        try:
            parsed = json.loads(line)
        except ValueError:
            continue
        for each in [parsed, *parsed.get("results", []), *parsed.get("memories", [])]:
            if isinstance(each.get("content"), str):
                return str(each["content"])
    return ""


def read_script(path: Path) -> tuple[Rule, ...]:
    """Return the rules of a JSON file. Raises: InvalidArgument.

    The file: `[{"when": …, "steps": [{"say": …, "calls": [{"name": …, "arguments": …}], "trouble": …}]}]`.
    """
    try:
        rules = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise _bad("the file does not exist") from None
    except OSError:
        raise _bad("the file cannot be read") from None
    except json.JSONDecodeError as error:
        raise _bad(f"line {error.lineno} is not JSON") from None
    except (ValueError, RecursionError):
        raise _bad("it is not JSON in UTF-8") from None
    if not isinstance(rules, list):
        raise _bad("it must be a list of rules")
    return tuple(_read_rule(number, rule) for number, rule in enumerate(rules, 1))


def _read_rule(number: int, rule: Any) -> Rule:
    try:
        re.compile(rule["when"])
        return Rule(rule["when"], tuple(map(_read_step, rule["steps"])))
    except re.error:
        raise _bad(f"`when` of rule {number} is not a regular expression") from None
    except (ValueError, TypeError, KeyError, AttributeError):
        raise _bad(
            f"rule {number} must have `when` and `steps`, each step `say`, `calls` or a known `trouble`"
        ) from None


def _bad(reason: str) -> InvalidArgument:
    return InvalidArgument(f"chat.model: the script cannot be used: {reason}", argument="chat.model")


def _read_step(step: Mapping[str, Any]) -> Step:
    calls = tuple((call["name"], call["arguments"]) for call in step.get("calls", ()))
    return Step(step.get("say", ""), calls, ModelErrorKind[step["trouble"]] if "trouble" in step else None)
