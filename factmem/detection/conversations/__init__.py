"""Reading conversations from files."""

from __future__ import annotations

from factmem.detection.conversations.files import ConversationFile, conversations_in, read_conversations

__all__ = ["ConversationFile", "conversations_in", "read_conversations"]
