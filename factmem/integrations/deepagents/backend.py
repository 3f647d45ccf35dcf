"""`FactMemBackend`: known facts as files that deep agents read, search and edit."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final, TypeVar

from factmem.agent import AgentMemory, MemoryRun
from factmem.agent.agents_md import MemoryFiles, MemoryTree
from factmem.agent.agents_md.page import Page
from factmem.errors import FactMemError, InvalidDataError, MissingPackageError
from factmem.integrations.langchain import identity_here
from factmem.memory import Memory

try:
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
except ModuleNotFoundError as _missing:
    raise MissingPackageError("deepagents", extra="deepagents") from _missing

__all__ = ["FactMemBackend"]

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
        return self._looked(partial(_listed, path), lambda error: LsResult(error=error))

    async def als(self, path: str) -> LsResult:
        """List a folder of memory."""
        return await self._alooked(partial(_listed, path), lambda error: LsResult(error=error))

    def read(self, file_path: str, offset: int = 0, limit: int = 2000) -> ReadResult:
        """Read a file of memory."""
        return self._looked(partial(_lines, file_path, offset, limit), lambda error: ReadResult(error=error))

    async def aread(self, file_path: str, offset: int = 0, limit: int = 2000) -> ReadResult:
        """Read a file of memory."""
        return await self._alooked(partial(_lines, file_path, offset, limit), lambda error: ReadResult(error=error))

    def grep(
        self, pattern: str, path: str | None = None, glob: str | None = None, *, max_count: int | None = None
    ) -> GrepResult:
        """Search the files of memory for a text."""
        look = partial(_matches, pattern, path, glob, max_count)
        return self._looked(look, lambda error: GrepResult(error=error))

    async def agrep(
        self, pattern: str, path: str | None = None, glob: str | None = None, *, max_count: int | None = None
    ) -> GrepResult:
        """Search the files of memory for a text."""
        look = partial(_matches, pattern, path, glob, max_count)
        return await self._alooked(look, lambda error: GrepResult(error=error))

    def glob(self, pattern: str, path: str | None = None) -> GlobResult:
        """Find files of memory by name."""
        return self._looked(partial(_found, pattern, path), lambda error: GlobResult(error=error))

    async def aglob(self, pattern: str, path: str | None = None) -> GlobResult:
        """Find files of memory by name."""
        return await self._alooked(partial(_found, pattern, path), lambda error: GlobResult(error=error))

    def download_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        """Read whole files of memory."""
        return self._looked(partial(_downloads, paths), partial(_failed_downloads, paths))

    async def adownload_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        """Read whole files of memory."""
        return await self._alooked(partial(_downloads, paths), partial(_failed_downloads, paths))

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
        files, change = self._files("edit_file"), _Replacement(old_string, new_string, replace_all)
        error = self._done(files, lambda memory: files.edit(memory, file_path, change))
        return EditResult(error=error) if error else EditResult(path=file_path, occurrences=change.occurrences)

    async def aedit(self, file_path: str, old_string: str, new_string: str, replace_all: bool = False) -> EditResult:
        """Apply an edit of a file as changes of facts."""
        files, change = self._files("edit_file"), _Replacement(old_string, new_string, replace_all)
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

    def _looked(self, look: Callable[[MemoryTree], ResultT], failed: Callable[[str], ResultT]) -> ResultT:
        try:
            files = self._files()
            files.run.check_user()
            return look(files.run.held.use_blocking(files.tree))
        except (FactMemError, InvalidGlobPatternError) as error:
            return failed(f"Error: {error}")

    async def _alooked(self, look: Callable[[MemoryTree], ResultT], failed: Callable[[str], ResultT]) -> ResultT:
        try:
            files = self._files()
            files.run.check_user()
            return look(await files.run.held.use(files.tree))
        except (FactMemError, InvalidGlobPatternError) as error:
            return failed(f"Error: {error}")

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


def _data(tree: MemoryTree) -> dict[str, FileData]:
    return {path: _file(page) for path, page in tree.files.items()}


def _file(page: Page) -> FileData:
    return FileData(content=page.text, encoding="utf-8")


def _info(path: str, data: FileData) -> FileInfo:
    return FileInfo(path=path, is_dir=False, size=len(data["content"].encode()))


def _listed(path: str, tree: MemoryTree) -> LsResult:
    folder = path.rstrip("/") + "/"
    below = {file[len(folder) :]: (file, data) for file, data in _data(tree).items() if file.startswith(folder)}
    folders = dict.fromkeys(name.partition("/")[0] for name in below if "/" in name)
    entries = [FileInfo(path=f"{folder}{name}/", is_dir=True, size=0) for name in folders]
    entries += [_info(*found) for name, found in below.items() if "/" not in name]
    return LsResult(entries=sorted(entries, key=lambda entry: entry["path"]))


def _lines(path: str, offset: int, limit: int, tree: MemoryTree) -> ReadResult:
    page = tree.files.get(path)
    if page is None:
        return ReadResult(error=f"File '{path}' not found")
    return slice_read_response(_file(page), offset, limit)


def _matches(pattern: str, path: str | None, glob: str | None, most: int | None, tree: MemoryTree) -> GrepResult:
    return grep_matches_from_files(_data(tree), pattern, path, glob, max_count=most)


def _found(pattern: str, path: str | None, tree: MemoryTree) -> GlobResult:
    matches = compile_grep_include_glob(pattern)
    folder = (path or "/").rstrip("/") + "/"
    files = _data(tree).items()
    found = [
        _info(file, data) for file, data in files if file.startswith(folder) and matches(file.removeprefix(folder))
    ]
    return GlobResult(matches=found)


def _downloads(paths: Sequence[str], tree: MemoryTree) -> list[FileDownloadResponse]:
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
