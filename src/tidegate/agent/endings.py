"""Why a response ended, in our own words, from what providers and their servers call it."""

from __future__ import annotations

from tidegate.agent.prompt import ModelErrorKind

_REASONS: dict[ModelErrorKind | None, str] = {
    None: "stop end_turn stop_sequence tool_calls tool_call tool_use function_call eos eos_token complete completed",
    ModelErrorKind.LIMIT: (
        "length max_tokens max_output_tokens max_length max_new_tokens model_length model_context_window_exceeded "
        "context_length_exceeded token_limit"
    ),
    ModelErrorKind.CUT_BY_FILTER: (
        "content_filter content_filtered guardrail_intervened safety image_safety recitation blocklist "
        "prohibited_content spii sensitive error_toxic"
    ),
    ModelErrorKind.REFUSED: "refusal",
    ModelErrorKind.FAILED: (
        "error failed abort aborted cancelled network_error insufficient_system_resource server_error timeout "
        "malformed_function_call unexpected_tool_call language"
    ),
    ModelErrorKind.PAUSED: "pause_turn incomplete",
}
_KINDS = {reason: kind for kind, reasons in _REASONS.items() for reason in reasons.split()}

WHEN_EMPTY = {
    ModelErrorKind.LIMIT: ModelErrorKind.LIMIT_BEFORE_ANSWER,
    ModelErrorKind.CUT_BY_FILTER: ModelErrorKind.FILTERED,
}
"""What an ending is if there is no answer at all."""


def ending(said: object, mapped: str | None) -> ModelErrorKind | None:
    """Return why a response ended early; None if it is whole.

    said: the provider's own reason, if any. mapped: the same in the words of the model library.
    """
    if isinstance(said, str) and said.lower() in _KINDS:
        return _KINDS[said.lower()]
    if mapped is not None:
        return _KINDS.get(mapped, ModelErrorKind.UNKNOWN_END)
    return ModelErrorKind.UNKNOWN_END if said else None
