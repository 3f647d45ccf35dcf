"""Memory in Deep Agents: a middleware, known facts as files, and AGENTS.md files.

Memory can be installed into ``create_deep_agent``; the result is a function with the same signature:

    make_agent = install(AgentMemory, into=create_deep_agent, store="facts.db", agent_name="planner")
    agent = make_agent("openai:gpt-5.5", tools=[...])
    await agent.ainvoke({"messages": "Where do I live?"}, context={"user_id": "alice"})

Identity, loading and saving are as in `factmem.integrations.langchain`. Conversations of subagents are not saved, since
a model writes their tasks.

`FactMemBackend` shows known facts as files that the agent reads, searches and edits with its existing tools; an edit is
applied as changes of facts:

    memories = FactMemBackend(memory)
    backend = CompositeBackend(default=StateBackend(), routes={"/memories/": memories})
    agent = create_deep_agent(model, backend=backend, middleware=[
        AgentsMdMiddleware(["/memories/AGENTS.md"], backend=backend)])

`AgentsMdMiddleware` adds AGENTS.md files to an agent's requests, from disk or from a backend. It replaces the
``MemoryMiddleware`` of Deep Agents if ``memory=`` is given too. The files are read anew for each request, and enter it
as a message with the user's role before the conversation. They enter neither the system prompt nor a state or
checkpoint.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from factmem.agent.agents_md import AgentsMd
from factmem.agent.agents_md.files import Content, expanded
from factmem.agent.agents_md.page import Page
from factmem.agent.agents_md.sources import DEFAULT_TEMPLATE, AgentsMdText, Limits, Source, read_as
from factmem.agent.agents_md.tree import MemoryFiles, MemoryTree
from factmem.agent.plugin import AgentMemory, HostIntegration
from factmem.agent.run import MemoryRun
from factmem.errors import FactMemError, InvalidDataError, MemoryFileError, MissingPackageError
from factmem.integrations.langchain import FactMemMiddleware, MemoryState, install_into_factory
from factmem.integrations.langgraph import identity_here
from factmem.memory.facade import Memory
from factmem.toml_tables import table

with MissingPackageError.if_missing("deepagents", extra="deepagents"):
    from deepagents.backends import FilesystemBackend
    from deepagents.backends.protocol import (
        BackendProtocol,
        EditResult,
        FileData,
        FileDownloadResponse,
        FileInfo,
        FileUploadResponse,
        GlobResult,
        GrepResult,
        LsResult,
        ReadResult,
        WriteResult,
    )
    from deepagents.backends.utils import (
        InvalidGlobPatternError,
        compile_grep_include_glob,
        grep_matches_from_files,
        perform_string_replacement,
        slice_read_response,
    )
    from langchain.agents.middleware.types import AgentMiddleware, AgentState, ModelRequest, ModelResponse
    from langchain_core.messages import HumanMessage
    from langgraph.runtime import Runtime

FactoryT = TypeVar("FactoryT", bound=Callable[..., Any])
ResultT = TypeVar("ResultT")


class FactMemBackend(BackendProtocol):
    """Known facts as files: ``/AGENTS.md`` with the best facts, and one file per subject and scope.

    A run sees its user's private facts and public ones, in the agent's scopes, without quarantined ones. Edits are
    applied by `factmem.agent.agents_md`: a changed bullet updates its fact, a removed one retracts it, and a new one
    adds a fact with the model as its origin (`Saving.tool_origin`). Files can be added to and edited, but not deleted.

    A write keeps the text verbatim, or returns an error. Text that reads like an instruction or hides something is
    flagged; it appears in the file of its subject and scope, but neither in ``/AGENTS.md`` nor in a prompt.

    Args:
        memory: The memory.
        read_only: Whether every write is refused.
    """

    def __init__(self, memory: AgentMemory, *, read_only: bool = False) -> None:
        self.memory: Final = memory
        self.read_only: Final = read_only

    def ls(self, path: str) -> LsResult:
        """List a folder of memory."""
        return self._looked(lambda tree: _listed(tree, path), LsResult)

    async def als(self, path: str) -> LsResult:
        """List a folder of memory."""
        return await self._alooked(lambda tree: _listed(tree, path), LsResult)

    def read(self, file_path: str, offset: int = 0, limit: int = 2000) -> ReadResult:
        """Read a file of memory."""
        return self._looked(lambda tree: _lines(tree, file_path, offset, limit), ReadResult)

    async def aread(self, file_path: str, offset: int = 0, limit: int = 2000) -> ReadResult:
        """Read a file of memory."""
        return await self._alooked(lambda tree: _lines(tree, file_path, offset, limit), ReadResult)

    def grep(
        self, pattern: str, path: str | None = None, glob: str | None = None, *, max_count: int | None = None
    ) -> GrepResult:
        """Search the files of memory for a text."""
        return self._looked(lambda tree: _matches(tree, pattern, path, glob, max_count), GrepResult)

    async def agrep(
        self, pattern: str, path: str | None = None, glob: str | None = None, *, max_count: int | None = None
    ) -> GrepResult:
        """Search the files of memory for a text."""
        return await self._alooked(lambda tree: _matches(tree, pattern, path, glob, max_count), GrepResult)

    def glob(self, pattern: str, path: str | None = None) -> GlobResult:
        """Find files of memory by name."""
        return self._looked(lambda tree: _found(tree, pattern, path), GlobResult)

    async def aglob(self, pattern: str, path: str | None = None) -> GlobResult:
        """Find files of memory by name."""
        return await self._alooked(lambda tree: _found(tree, pattern, path), GlobResult)

    def download_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        """Read whole files of memory."""
        return self._looked(lambda tree: _downloads(tree, paths), lambda error: _failed_downloads(paths, error))

    async def adownload_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        """Read whole files of memory."""
        return await self._alooked(lambda tree: _downloads(tree, paths), lambda error: _failed_downloads(paths, error))

    def write(self, file_path: str, content: str) -> WriteResult:
        """Add the facts of a file to memory."""
        files = self._files("write_file")
        error = self._done(files, lambda memory: files.write(memory, file_path, content))
        return WriteResult(error=error) if error else WriteResult(path=file_path)

    async def awrite(self, file_path: str, content: str) -> WriteResult:
        """Add the facts of a file to memory."""
        files = self._files("write_file")
        error = await self._adone(files, lambda memory: files.write(memory, file_path, content))
        return WriteResult(error=error) if error else WriteResult(path=file_path)

    def edit(self, file_path: str, old_string: str, new_string: str, replace_all: bool = False) -> EditResult:
        """Apply an edit of a file as changes of facts."""
        files, change = self._files(), _Replacement(old_string, new_string, replace_all)
        error = self._done(files, lambda memory: files.edit(memory, file_path, change))
        return EditResult(error=error) if error else EditResult(path=file_path, occurrences=change.occurrences)

    async def aedit(self, file_path: str, old_string: str, new_string: str, replace_all: bool = False) -> EditResult:
        """Apply an edit of a file as changes of facts."""
        files, change = self._files(), _Replacement(old_string, new_string, replace_all)
        error = await self._adone(files, lambda memory: files.edit(memory, file_path, change))
        return EditResult(error=error) if error else EditResult(path=file_path, occurrences=change.occurrences)

    def upload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        """Add the facts of several files to memory."""
        return [_uploaded(path, self.write(path, text) if text else None) for path, text in map(_text, files)]

    async def aupload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        """Add the facts of several files to memory."""
        return [_uploaded(path, await self.awrite(path, text) if text else None) for path, text in map(_text, files)]

    def _files(self, source: str = "edit_file") -> MemoryFiles:
        run: MemoryRun = self.memory.for_run(identity_here())
        return MemoryFiles(run=run, read_only=self.read_only, source=source)

    def _looked(self, look: Callable[[MemoryTree], ResultT], failed: Callable[..., ResultT]) -> ResultT:
        try:
            files = self._files()
            files.run.check_user()
            return look(files.run.held.use_blocking(files.tree))
        except (FactMemError, InvalidGlobPatternError) as error:
            return failed(error=f"Error: {error}")

    async def _alooked(self, look: Callable[[MemoryTree], ResultT], failed: Callable[..., ResultT]) -> ResultT:
        try:
            files = self._files()
            files.run.check_user()
            return look(await files.run.held.use(files.tree))
        except (FactMemError, InvalidGlobPatternError) as error:
            return failed(error=f"Error: {error}")

    def _done(self, files: MemoryFiles, work: Callable[[Memory], Awaitable[None]]) -> str | None:
        try:
            files.run.check_user(private=files.run.config.saving.private)
            files.run.held.use_blocking(work)
        except FactMemError as error:
            return f"Error: {error}"
        return None

    async def _adone(self, files: MemoryFiles, work: Callable[[Memory], Awaitable[None]]) -> str | None:
        try:
            files.run.check_user(private=files.run.config.saving.private)
            await files.run.held.use(work)
        except FactMemError as error:
            return f"Error: {error}"
        return None


class _Replacement:
    """A replacement of text as in ``edit_file``, which counts its occurrences."""

    def __init__(self, old: str, new: str, everywhere: bool) -> None:
        self._arguments = (old, new, everywhere)
        self.occurrences = 0

    def __call__(self, text: str) -> str:
        result = perform_string_replacement(text, *self._arguments)
        if isinstance(result, str):
            raise InvalidDataError(result.removeprefix("Error: "))
        changed, self.occurrences = result
        return changed


def _file(page: Page) -> FileData:
    return FileData(content=page.text, encoding="utf-8")


def _info(path: str, page: Page) -> FileInfo:
    return FileInfo(path=path, is_dir=False, size=len(page.text.encode()))


def _listed(tree: MemoryTree, path: str) -> LsResult:
    folder = path.rstrip("/") + "/"
    below = {file[len(folder) :]: (file, page) for file, page in tree.files.items() if file.startswith(folder)}
    folders = dict.fromkeys(name.partition("/")[0] for name in below if "/" in name)
    entries = [FileInfo(path=f"{folder}{name}/", is_dir=True, size=0) for name in folders]
    entries += [_info(*found) for name, found in below.items() if "/" not in name]
    return LsResult(entries=sorted(entries, key=lambda entry: entry["path"]))


def _lines(tree: MemoryTree, path: str, offset: int, limit: int) -> ReadResult:
    page = tree.files.get(path)
    if page is None:
        return ReadResult(error=f"File '{path}' not found")
    return slice_read_response(_file(page), offset, limit)


def _matches(tree: MemoryTree, pattern: str, path: str | None, glob: str | None, most: int | None) -> GrepResult:
    files = {file: _file(page) for file, page in tree.files.items()}
    return grep_matches_from_files(files, pattern, path, glob, max_count=most)


def _found(tree: MemoryTree, pattern: str, path: str | None) -> GlobResult:
    matches = compile_grep_include_glob(pattern)
    folder = (path or "/").rstrip("/") + "/"
    found = [
        _info(file, page)
        for file, page in tree.files.items()
        if file.startswith(folder) and matches(file.removeprefix(folder))
    ]
    return GlobResult(matches=found)


def _downloads(tree: MemoryTree, paths: Sequence[str]) -> list[FileDownloadResponse]:
    pages = [(path, tree.files.get(path)) for path in paths]
    return [
        FileDownloadResponse(path=path, error="file_not_found")
        if page is None
        else FileDownloadResponse(path=path, content=page.text.encode())
        for path, page in pages
    ]


def _failed_downloads(paths: Sequence[str], error: str) -> list[FileDownloadResponse]:
    return [FileDownloadResponse(path=path, error=error) for path in paths]


def _text(file: tuple[str, bytes]) -> tuple[str, str | None]:
    path, data = file
    try:
        return path, data.decode()
    except UnicodeDecodeError:
        return path, None


def _uploaded(path: str, result: WriteResult | None) -> FileUploadResponse:
    error = "Error: the content is not UTF-8 text" if result is None else result.error
    return FileUploadResponse(path=path, error=error)


_FORKED: Final = "_deepagents_forked_context"
"""Key in the state of a forked subagent, which continues its parent's conversation."""

_MISSING: Final = "this file does not exist yet: write_file makes it"
_EMPTY: Final = "this file says nothing yet: write_file or edit_file fills it"

EDITABLE_TEMPLATE: Final = f"{DEFAULT_TEMPLATE}\n{table('integrations/deepagents')['guidelines']}"
"""Text around files that the agent may edit."""


class DeepAgentMemoryMiddleware(FactMemMiddleware):
    """Memory for a deep agent: `FactMemMiddleware`, except that runs of forked subagents are not saved.

    A forked subagent has the agent's middleware, and a task in the user's name that a model wrote.
    """

    def after_agent(self, state: MemoryState, runtime: Runtime[Any]) -> None:
        """Submit the conversation after a successful run."""
        if not _is_forked(state):
            super().after_agent(state, runtime)

    async def aafter_agent(self, state: MemoryState, runtime: Runtime[Any]) -> None:
        """Submit the conversation after a successful run."""
        if not _is_forked(state):
            await super().aafter_agent(state, runtime)


def _is_forked(state: Mapping[str, Any]) -> bool:
    return bool(state.get(_FORKED))


class AgentsMdMiddleware(AgentMiddleware[AgentState[Any], Any, Any]):
    """Adds the current AGENTS.md files to the requests of an agent.

    HTML comments outside of code are left out, long files are truncated with a notice, a file that is not UTF-8 is a
    notice, and no file can close the block around it. A file of a backend that does not exist yet is named, so that an
    agent that starts cold can make it.

    It has the names of the ``MemoryMiddleware`` of Deep Agents that mean the same here: ``sources``,
    ``modify_request``, ``wrap_model_call``, ``add_cache_control``. There is no ``before_agent`` and no
    ``memory_contents`` in the state, since files that were loaded once would be stale for as long as a thread goes on;
    ``template`` is ``system_prompt`` there, which the files do not enter here.

    Args:
        sources: Paths, general ones first. On disk, and in a ``FilesystemBackend`` without ``virtual_mode``, ``~`` is
            expanded; those of other backends start with ``/``.
        backend: Backend that holds the files (default: the disk).
        limits: Limits on the size of the files.
        template: Text around the files; None adds nothing to requests. The default has guidelines for editing if
            there is a backend.
        follow_links: Whether symbolic links on disk are followed.
        add_cache_control: Whether the message is a breakpoint of Anthropic's prompt cache, for requests to
            ``ChatAnthropic``: what goes before it is cached as long as the files stay as they are.

    Raises:
        InvalidDataError: A path or the template is not legal.
    """

    def __init__(
        self,
        sources: Sequence[str],
        *,
        backend: BackendProtocol | None = None,
        limits: Limits | None = None,
        template: str | None = "",
        follow_links: bool = False,
        add_cache_control: bool = False,
    ) -> None:
        if isinstance(backend, FilesystemBackend) and not backend.virtual_mode and not isinstance(sources, str):
            sources = [str(expanded(path)) if path.startswith("~") else path for path in sources]
        self._disk: Final = AgentsMd(sources, limits=limits or Limits(), follow_links=follow_links)
        self._backend: Final = backend
        self._add_cache_control: Final = add_cache_control
        self._template = template if template != "" else DEFAULT_TEMPLATE if backend is None else EDITABLE_TEMPLATE
        if self._template is not None:
            AgentsMdText().prompt(self._template)  # which refuses one without a place for the files
        if backend is not None and not all(path.startswith("/") for path in sources):
            raise InvalidDataError(
                "the paths of a backend begin with /: '~' means something in a FilesystemBackend without virtual_mode "
                "only",
                path="$.sources",
            )

    @property
    def name(self) -> str:
        """Name of the middleware that this replaces, so that files are not added twice."""
        return "MemoryMiddleware"

    @property
    def sources(self) -> list[str]:
        """The paths of the files, general ones first, each once."""
        return list(dict.fromkeys(map(str, self._disk.sources)))

    def modify_request(self, request: ModelRequest[Any]) -> ModelRequest[Any]:
        """Return a request with the files."""
        if not self.sources or self._template is None:
            return request
        if self._backend is None:
            return self._with_files(request, self._disk.read_blocking())
        return self._with_files(request, self._read(self._backend.download_files(self.sources)))

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Add the files to this request."""
        return handler(self.modify_request(request))

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        """Add the files to this request."""
        if not self.sources or self._template is None:
            return await handler(request)
        if self._backend is None:
            return await handler(self._with_files(request, await self._disk.read()))
        return await handler(self._with_files(request, self._read(await self._backend.adownload_files(self.sources))))

    def _read(self, files: Sequence[FileDownloadResponse]) -> AgentsMdText:
        found: dict[str, Content] = {}
        for file in files:
            if file.error is not None and file.error != "file_not_found":
                raise MemoryFileError(f"this cannot be read ({file.error})", file=file.path)
            if file.error is None and file.content is not None:
                found[file.path] = Content(data=file.content, size=len(file.content), mode=0)
        known = {source.path: source for source in read_as(found, self._disk.limits).sources}
        return AgentsMdText(sources=tuple(_to_fill(path, known.get(path)) for path in self.sources))

    def _with_files(self, request: ModelRequest[Any], text: AgentsMdText) -> ModelRequest[Any]:
        prompt = text.prompt(self._template or DEFAULT_TEMPLATE)
        if not prompt:
            return request
        # The source marks the message as not the user's, so that it is not saved.
        files = HumanMessage(prompt, additional_kwargs={"lc_source": "agents_md"})
        if self._add_cache_control and _is_of_anthropic(request.model):
            files.content = [{"type": "text", "text": prompt, "cache_control": {"type": "ephemeral"}}]
        return request.override(messages=[files, *request.messages])


def _to_fill(path: str, source: Source | None) -> Source:
    """Return a file of a backend; one without text has a notice that it may be written."""
    if source is not None and (source.text or source.notices):
        return source
    return Source(path=path, text="", notices=(_MISSING if source is None else _EMPTY,))


def _is_of_anthropic(model: object) -> bool:
    """Return whether a model is LangChain's chat model of Anthropic, without importing its package."""
    module = sys.modules.get("langchain_anthropic.chat_models")
    return module is not None and isinstance(model, module.ChatAnthropic)


def install_into_deep_agent(memory: AgentMemory, factory: FactoryT) -> FactoryT:
    """Return a factory of deep agents with memory.

    Args:
        memory: The memory.
        factory: ``create_deep_agent``, or another factory with a ``middleware`` parameter.

    Raises:
        CapabilityError: The factory takes no middleware.
    """
    return install_into_factory(memory, factory, DeepAgentMemoryMiddleware)


integration: Final = HostIntegration(install=install_into_deep_agent)
