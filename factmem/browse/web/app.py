"""The pages of the local web page, as an ASGI app over a `Browser`."""

from __future__ import annotations

import io
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

import attrs
from anyio import from_thread, to_thread
from starlette.applications import Starlette
from starlette.datastructures import FormData, QueryParams
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from typing_extensions import Buffer

from factmem.browse.browser import FIELDS, AgentQuestion, Browser, Comparison, Draft, Narrowing, draft_of
from factmem.browse.charts import marks_of
from factmem.browse.past import Biography
from factmem.browse.texts import accepted, counted
from factmem.browse.web.guard import Guard, visit_of, was_let_in
from factmem.browse.web.templating import address, render
from factmem.changes import Change
from factmem.errors import (
    CapabilityError,
    FactMemError,
    InvalidDataError,
    OutOfViewError,
    ReadOnlyError,
    RecordNotFoundError,
    StateConflictError,
)

_Page: TypeAlias = Callable[[Request], Awaitable[Response]]
_Action: TypeAlias = Callable[[Request, FormData], Awaitable[Response]]

_Change: TypeAlias = Callable[[Browser, Sequence[str], str | None], Awaitable[Sequence[Change] | None]]
"""A change of some records or dead letters, by their ids and for a reason."""

_Notice: TypeAlias = str | Callable[[Sequence[Change]], str]
"""A sentence on a change, with a place for the number of records, or a function that returns one."""

_CHANGES: Final[Mapping[str, tuple[_Change, _Notice]]] = {
    "/record/{id}/retract": (
        lambda browser, ids, why: browser.memory.retract(*ids, reason=why),
        "Retracted: no longer loaded or recalled. Undo brings it back.",
    ),
    "/record/{id}/restore": (lambda browser, ids, why: browser.memory.restore(*ids, reason=why), "Restored."),
    "/record/{id}/undo": (
        lambda browser, ids, why: browser.memory.undo(ids, reason=why),
        "The last change is undone. Undo again to repeat it.",
    ),
    "/inbox/accept": (
        lambda browser, ids, why: browser.memory.inbox.quarantine.accept(*ids, reason=why),
        accepted,
    ),
    "/inbox/reject": (
        lambda browser, ids, why: browser.memory.inbox.quarantine.reject(*ids, reason=why),
        "{} rejected; they can still be accepted.",
    ),
    "/inbox/retry": (lambda browser, ids, why: browser.retry(ids), "Read again, with {} changed."),
    "/inbox/dismiss": (
        lambda browser, ids, why: browser.memory.inbox.dead_letters.dismiss(*ids),
        "Dismissed: the words stay as they were said.",
    ),
}
"""Changes that the forms of the pages ask for, by path, and the sentence that says so."""

_STATUS: Final[Sequence[tuple[type[FactMemError], int]]] = (
    (RecordNotFoundError, 404),
    (OutOfViewError, 403),
    (ReadOnlyError, 403),
    (StateConflictError, 409),
    (InvalidDataError, 400),
    (CapabilityError, 400),
)
"""HTTP status of each error; the first that fits counts, and any other is 503."""

_LONGEST_FIELD: Final = 4_000_000
"""Maximum size of a form's field in bytes: more than the largest value takes."""


def make_app(browser: Browser, *, token: str, hosts: Iterable[str]) -> ASGIApp:
    """Return the pages behind their guard.

    Args:
        browser: The pages as data: one viewer's, within its walls.
        token: The one-time token of the address to open.
        hosts: Names that the server answers for, each with its port.
    """
    site = _Site(browser)
    reads: dict[str, _Page] = {
        "/": site.overview,
        "/records": site.records,
        "/names": site.names,
        "/search": site.search,
        "/record/{id}": site.record,
        "/subject": site.subject,
        "/inbox": site.inbox,
        "/agent": site.agent,
        "/forget": site.forget,
    }
    acts: dict[str, _Action] = {
        "/record/{id}/update": site.update,
        "/record/{id}/rollback": site.rollback,
        **{path: partial(site.change, change, notice) for path, (change, notice) in _CHANGES.items()},
        "/forget": site.erase,
    }
    app = Starlette(
        routes=[
            *(Route(path, _marked(site.browser, page), methods=["GET"]) for path, page in reads.items()),
            Route("/changes", site.changes, methods=["GET"]),
            Route("/export", _Export(browser), methods=["GET"]),
            *(Route(path, _submitted(act), methods=["POST"]) for path, act in acts.items()),
            Mount("/static", StaticFiles(packages=[("factmem.browse.web", "static")])),
        ],
        exception_handlers={FactMemError: site.failed, 404: site.missing},
    )
    return Guard(app, token=token, hosts=hosts, open_paths=("/static/",))


def _marked(browser: Browser, page: _Page) -> _Page:
    """Return the endpoint of a page that is read again after changes.

    The mark is read before the page: what changes meanwhile is taken for a change, and never missed.
    """

    async def endpoint(request: Request) -> Response:
        request.state.mark = await browser.mark()
        return await page(request)

    return endpoint


def _submitted(act: _Action) -> _Page:
    """Return the endpoint of an action: it reads the form and checks its token."""

    async def endpoint(request: Request) -> Response:
        async with request.form(max_files=0, max_fields=1_000, max_part_size=_LONGEST_FIELD) as form:
            if not visit_of(request.scope).sent(_text(form, "form_token")):
                raise InvalidDataError("this form is not one of these pages', or an old one: open the page again")
            return await act(request, form)

    return endpoint


@attrs.frozen
class _Site:
    """The endpoints: each reads the request, asks the browser, and renders a template."""

    browser: Browser

    async def overview(self, request: Request) -> Response:
        return await self._page(request, "overview", page=await self.browser.overview())

    async def records(self, request: Request) -> Response:
        asked = request.query_params
        narrowing = _narrowing(asked)
        page = await self.browser.listing(narrowing, page=asked.get("page"))
        return await self._page(request, "records", page=page, narrowing=narrowing)

    async def names(self, request: Request) -> Response:
        of = request.query_params.get("of", "subjects")
        info = (await self.browser.overview()).info
        lists = {"subjects": info.subjects, "keywords": info.keywords, "categories": info.categories}
        if of not in lists:
            raise InvalidDataError("there are lists of subjects, keywords and categories")
        return await self._page(request, "names", of=of, counts=lists[of])

    async def search(self, request: Request) -> Response:
        asked = request.query_params
        query, narrowing = asked.get("q", ""), _narrowing(asked)
        found = await self.browser.search(query, narrowing) if query.strip() else None
        return await self._page(request, "search", query=query, narrowing=narrowing, found=found)

    async def record(self, request: Request) -> Response:
        return await self._record(request, await self.browser.record(request.path_params["id"]))

    async def _record(
        self,
        request: Request,
        page: Biography,
        *,
        draft: Draft | None = None,
        comparison: Comparison | None = None,
        problem: str = "",
        status: int = 200,
    ) -> Response:
        return await self._page(
            request,
            "record",
            page=page,
            marks=marks_of(page.revisions),
            fields=draft or draft_of(page.record),
            comparison=comparison,
            problem=problem,
            status=status,
            follows=not problem,
        )

    async def subject(self, request: Request) -> Response:
        page = await self.browser.subject(request.query_params.get("name", ""))
        return await self._page(request, "subject", page=page)

    async def inbox(self, request: Request) -> Response:
        return await self._page(request, "inbox", page=await self.browser.inbox())

    async def agent(self, request: Request) -> Response:
        asked = _asked(request.query_params, user=self.browser.opened.user)
        found = await self.browser.agent_block(asked) if "question" in request.query_params else None
        return await self._page(request, "agent", asked=asked, found=found)

    async def forget(self, request: Request) -> Response:
        return await self._forget(request, _narrowing(request.query_params), request.query_params.getlist("id"))

    async def _forget(
        self, request: Request, narrowing: Narrowing, ids: Sequence[str], *, problem: str = ""
    ) -> Response:
        preview = await self.browser.erasure_preview(narrowing, ids) if narrowing.given or ids else None
        return await self._page(
            request,
            "forget",
            narrowing=narrowing,
            ids=ids,
            page=preview,
            problem=problem,
            status=400 if problem else 200,
            follows=False,
        )

    async def changes(self, request: Request) -> Response:
        """Answer a page that asks whether it is still up to date; only one that is not gets a body."""
        mark = await self.browser.mark()
        if request.query_params.get("seen") == mark:
            return Response(status_code=204)
        body = render("follower", {"mark": mark})
        return HTMLResponse(body, headers={"hx-trigger": "memory-changed"})

    async def update(self, request: Request, form: FormData) -> Response:
        id, revision = request.path_params["id"], _revision(form)
        draft = Draft(**{field.name: _text(form, field.name) for field in attrs.fields(Draft)})
        try:
            done = await self.browser.update(id, draft, revision=revision)
        except StateConflictError as error:
            both = await self.browser.compared(id, draft, revision=revision)
            shown = both if both.page.record.revision != revision else None
            return await self._record(
                request, both.page, draft=both.draft, comparison=shown, problem=str(error), status=409
            )
        except InvalidDataError as error:
            page = await self.browser.record(id)
            return await self._record(request, page, draft=draft, problem=str(error), status=400)
        return self._went(request, f"/record/{done.record.id}", "Changed. The revision before is in its history.")

    async def change(self, change: _Change, notice: _Notice, request: Request, form: FormData) -> Response:
        """Make a change of the record in the path, or of what is ticked, and show its page again."""
        id = request.path_params.get("id")
        done = await change(self.browser, _chosen(form) if id is None else [id], _text(form, "reason") or None) or ()
        path = "/inbox" if id is None else f"/record/{id}"
        said = notice.format(counted(len(done), "record")) if isinstance(notice, str) else notice(done)
        return self._went(request, path, said)

    async def rollback(self, request: Request, form: FormData) -> Response:
        revision = _revision(form)
        done = await self.browser.memory.rollback(revision, reason=_text(form, "reason") or None)
        return self._went(request, f"/record/{done.record.id}", f"Rolled back to revision {revision}.")

    async def erase(self, request: Request, form: FormData) -> Response:
        narrowing, ids = _narrowing(form), [str(id) for id in form.getlist("id")]
        typed, seal = _text(form, "typed"), _text(form, "seal")
        try:
            erased = await self.browser.forget(narrowing, ids, typed=typed, seal=seal)
        except (InvalidDataError, StateConflictError) as error:
            if isinstance(error, OutOfViewError):
                raise
            return await self._forget(request, narrowing, ids, problem=str(error))
        return self._went(
            request, "/", f"Erased {counted(len(erased.records), 'record')} for good, with all their history."
        )

    async def failed(self, request: Request, error: Exception) -> Response:
        """Answer with the message of an error, which never holds a fact's value."""
        status = next((status for kind, status in _STATUS if isinstance(error, kind)), 503)
        return await self._page(request, "problem", problem=str(error), status=status, follows=False, plain=True)

    async def missing(self, request: Request, error: Exception) -> Response:
        """Answer a request for no page; one without a visit was for a style sheet or a script."""
        if not was_let_in(request.scope):
            return PlainTextResponse("There is no such file.\n", status_code=404)
        return await self._page(request, "problem", problem="There is no such page.", status=404, follows=False)

    async def _page(
        self,
        request: Request,
        template: str,
        *,
        status: int = 200,
        follows: bool = True,
        plain: bool = False,
        **data: Any,
    ) -> Response:
        """Render a page.

        Args:
            request: The request.
            template: Name of the template.
            status: HTTP status.
            follows: Whether it is read again after a change.
            plain: Leave out what has to be read from the memory, which may be what failed.
            data: Data of the template.
        """
        visit = visit_of(request.scope)
        body = render(
            template,
            {
                "opened": self.browser.opened,
                "form_token": visit.form_token,
                "notice": visit.take_notice(),
                "waiting": 0 if plain else await self.browser.memory.inbox.quarantine.count(),
                "mark": getattr(request.state, "mark", "") if follows else "",
                "here": address(request.url.path, **dict(request.query_params)) if request.method == "GET" else "",
                **data,
            },
        )
        return HTMLResponse(body, status_code=status)

    def _went(self, request: Request, path: str, notice: str) -> Response:
        """Return the answer to a form: a page to go to, with a sentence on it."""
        visit_of(request.scope).notice = notice
        return RedirectResponse(path, status_code=303)


@attrs.frozen
class _Export:
    """The export as a download, sent while it is written: it is never in memory as a whole, nor on disk."""

    browser: Browser

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = [
            (b"content-type", b"application/x-ndjson"),
            (b"content-disposition", b'attachment; filename="factmem-export.jsonl"'),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        file = io.TextIOWrapper(io.BufferedWriter(_Sending(send), buffer_size=65_536), encoding="utf-8")
        await self.browser.memory.admin.export(file)
        await to_thread.run_sync(file.flush)
        await send({"type": "http.response.body", "body": b""})


class _Sending(io.RawIOBase):
    """A file whose bytes are parts of an answer; for worker threads, which wait for each part to be taken."""

    def __init__(self, send: Send) -> None:
        self._send = send

    def writable(self) -> bool:
        return True

    def write(self, data: Buffer) -> int:
        body = bytes(data)
        part: Message = {"type": "http.response.body", "body": body, "more_body": True}
        from_thread.run(self._send, part)  # type: ignore[arg-type]  # servers give a coroutine function
        return len(body)


def _narrowing(given: QueryParams | FormData) -> Narrowing:
    fields = {name: str(given.get(name, "")).strip() for name in FIELDS}
    return Narrowing(**fields, exact=bool(given.get("exact")))


def _asked(given: QueryParams, *, user: str) -> AgentQuestion:
    texts = {name: given.get(name, "") for name in ("question", "agent", "feature", "product")}
    return AgentQuestion(**texts, user=given.get("user", user), budget=given.get("budget") or AgentQuestion().budget)


def _revision(form: FormData) -> int:
    text = _text(form, "revision")
    if not (text.isascii() and text.isdecimal() and len(text) < 19):
        raise InvalidDataError("a revision is a number: take it from the record's history")
    return int(text)


def _text(form: FormData, name: str) -> str:
    value = form.get(name, "")
    return value if isinstance(value, str) else ""


def _chosen(form: FormData) -> list[str]:
    ids = [id for id in form.getlist("id") if isinstance(id, str)]
    if not ids:
        raise InvalidDataError("nothing is chosen: tick at least one row")
    return ids
