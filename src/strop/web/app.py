"""The search page and its JSON interface, over one model and one index."""

import base64
import hashlib
import random
import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from strop.retrieval.encoders import PrecomputedFeatures
from strop.retrieval.hits import SearchHits
from strop.retrieval.index import EmbeddingIndex
from strop.retrieval.model import JointEmbedding
from strop.retrieval.pictures import open_picture
from strop.retrieval.search import check_maker, find_image, find_like, find_text
from strop.support import InputError, require
from strop.support.page import page, picture_bytes, picture_uri
from strop.web.uploads import TooLarge, read_form

HERE = Path(__file__).parent
SCRIPT = (HERE / "assets" / "search.js").read_text(encoding="utf-8")
STYLE = (HERE / "assets" / "search.css").read_text(encoding="utf-8")
MOST = 200
"""Pictures on a page; a query of more is a mistake, or no person's."""
LONGEST_QUERY = 1000
THUMBNAIL = 480


@dataclass(frozen=True)
class Answer:
    """What was asked, what was found, and how long that took; or a sentence that says why not."""

    hits: SearchHits | None = None
    milliseconds: float = 0.0
    problem: str | None = None
    status: int = 200


class Searcher:
    """One model and one index, asked by one thread at a time."""

    def __init__(
        self, model: JointEmbedding, index: EmbeddingIndex, *, k: int, size: int | None
    ) -> None:
        check_maker(model, index)
        self.model, self.index, self.k, self.size = model, index, k, size
        self.place = {name: number for number, name in enumerate(index.names)}
        self._one_at_a_time = threading.Lock()

    def answer(self, fields: Mapping[str, Any], picture: bytes | None = None) -> Answer:
        """What fits ``q`` (words), ``like`` (a number in the index), or a picture."""
        start = time.perf_counter()
        try:
            with self._one_at_a_time:
                hits = self._found(fields, picture, _number(fields.get("k") or self.k, "k", MOST))
        except InputError as error:
            return Answer(problem=_sentence(error), status=400)
        return Answer(hits, milliseconds=1000 * (time.perf_counter() - start))

    def _found(self, fields: Mapping[str, Any], picture: bytes | None, k: int) -> SearchHits:
        if picture:
            return find_image(self.model, self.index, picture, k, size=self.size)
        if fields.get("like"):
            last = len(self.index) - 1
            return find_like(self.index, _number(fields["like"], "like", last, least=0), k)
        words = str(fields.get("q") or "")
        if len(words) > LONGEST_QUERY:
            raise InputError(f"the query is longer than {LONGEST_QUERY} characters: say it shorter")
        return find_text(self.model, self.index, words, k)


def create_app(
    model: JointEmbedding,
    index: EmbeddingIndex,
    *,
    k: int = 24,
    size: int | None = None,
    title: str = "Search pictures",
    examples: Sequence[str] = (),
    upload_limit: int = 10 * 2**20,
) -> Any:
    """An ASGI application: the page at ``/``, JSON at ``/api/search``, the indexed pictures.

    ``k`` is how many pictures an answer shows unless the query says otherwise; ``size`` is the side
    of the model's pictures where the model does not know it; ``examples`` are queries to try;
    ``upload_limit`` is in bytes.
    """
    web = require("starlette.applications", extra="web", purpose="the search page")
    routing = require("starlette.routing", extra="web", purpose="the search page")
    respond = require("starlette.responses", extra="web", purpose="the search page")
    jinja2 = require("jinja2", extra="web", purpose="the search page")
    require("python_multipart", extra="web", purpose="the search page")
    in_thread = require(
        "starlette.concurrency", extra="web", purpose="the search page"
    ).run_in_threadpool

    searcher = Searcher(model, index, k=k, size=size)
    templates = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE / "templates"), autoescape=True
    )
    version = secrets.token_hex(4)  # in the addresses of thumbnails: another index, other pictures
    thumbnail = lru_cache(maxsize=1024)(_thumbnail)

    async def asked(request: Any) -> Answer:
        if request.method == "GET":
            return await in_thread(searcher.answer, request.query_params)
        try:
            fields, picture = await read_form(request, limit=upload_limit)
        except TooLarge as error:
            return Answer(problem=_sentence(error), status=413)
        except InputError as error:
            return Answer(problem=_sentence(error), status=400)
        return await in_thread(searcher.answer, fields, picture)

    def rendered(name: str, **values: Any) -> str:
        return str(templates.get_template(name).render(version=version, **values))

    def shown(answer: Answer | None) -> str:
        query = None if answer is None or answer.hits is None else answer.hits.picture
        return rendered(
            "results.html",
            answer=answer,
            place=searcher.place,
            names=index.names,
            some=random.sample(range(len(index)), min(len(index), k)) if answer is None else (),
            pictures=index.root is not None and index.holds == "images",
            total=len(index),
            query_picture=None if query is None else picture_uri(query, longest=THUMBNAIL),
        )

    async def home(request: Any) -> Any:
        asks = request.method == "POST" or any(request.query_params.get(f) for f in ("q", "like"))
        answer = await asked(request) if asks else None
        body = rendered(
            "search.html",
            title=title,
            query=request.query_params.get("q", ""),
            asked=asks,
            examples=examples,
            total=len(index),
            limit=upload_limit,
            holds="pictures" if index.holds == "images" else "captions",
            uploads=not isinstance(model.image_encoder, PrecomputedFeatures),
            results=await in_thread(shown, answer),
        )
        head = f"<style>{STYLE}</style>\n<script>{SCRIPT}</script>\n"
        status = 200 if answer is None else answer.status
        return respond.HTMLResponse(page(title, body, head=head), status)

    async def results(request: Any) -> Any:
        answer = await asked(request)
        return respond.HTMLResponse(await in_thread(shown, answer), answer.status)

    async def api(request: Any) -> Any:
        answer = await asked(request)
        if answer.hits is None:
            return respond.JSONResponse({"error": answer.problem}, answer.status)
        found = [
            {
                "rank": hit.rank,
                "name": hit.name,
                "score": hit.score,
                "picture": f"/picture/{searcher.place[hit.name]}",
            }
            for hit in answer.hits.hits
        ]
        return respond.JSONResponse(
            {
                "query": answer.hits.query,
                "total": len(index),
                "milliseconds": round(answer.milliseconds, 2),
                "hits": found,
            }
        )

    async def picture(request: Any) -> Any:
        path = indexed_file(index, request.path_params["number"])
        if path is None:
            return respond.PlainTextResponse("there is no such picture in the index", 404)
        return respond.FileResponse(path)

    async def small_picture(request: Any) -> Any:
        path = indexed_file(index, request.path_params["number"])
        try:
            content, kind = await in_thread(thumbnail, path)
        except InputError as error:
            return respond.PlainTextResponse(_sentence(error), 404)
        headers = {"Cache-Control": "private, max-age=86400, immutable"}
        return respond.Response(content, media_type=kind, headers=headers)

    app = web.Starlette(
        routes=[
            routing.Route("/", home, methods=["GET", "POST"]),
            routing.Route("/results", results, methods=["GET", "POST"]),
            routing.Route("/api/search", api, methods=["GET", "POST"]),
            routing.Route("/picture/{number:int}", picture),
            routing.Route("/thumbnail/{number:int}", small_picture),
        ]
    )
    return _with_headers(app)


def indexed_file(index: EmbeddingIndex, number: int) -> Path | None:
    """The file of picture ``number``, if it is in the index's folder; never one outside it."""
    if index.root is None or index.holds != "images" or not 0 <= number < len(index):
        return None
    root = index.root.resolve()
    path = (root / index.names[number]).resolve()
    return path if path.is_relative_to(root) and path.is_file() else None


def _thumbnail(path: Path | None) -> tuple[bytes, str]:
    if path is None:
        raise InputError("there is no such picture in the index")
    return picture_bytes(open_picture(path), longest=THUMBNAIL)


def _number(value: Any, name: str, most: int, *, least: int = 1) -> int:
    try:
        number = int(value)
    except ValueError:
        number = least - 1
    if not least <= number <= most:
        raise InputError(f"{name} must be a whole number from {least} to {most}, but is {value!r}")
    return number


def _sentence(error: Exception) -> str:
    text = str(error)
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")


def _with_headers(app: Callable[..., Any]) -> Callable[..., Any]:
    """Every answer says what the browser may load: this page's script, and pictures from here."""
    digest = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
    policy = (
        "default-src 'none'; img-src 'self' data: blob:; style-src 'unsafe-inline'; "
        f"script-src 'sha256-{digest}'; connect-src 'self'; form-action 'self'; base-uri 'none'; "
        "frame-ancestors 'none'"
    )
    headers = [
        (b"content-security-policy", policy.encode()),
        (b"x-content-type-options", b"nosniff"),
        (b"referrer-policy", b"no-referrer"),
    ]

    async def guarded(scope: Any, receive: Any, send: Any) -> None:
        async def send_with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], *headers]}
            await send(message)

        await app(scope, receive, send_with_headers)

    return guarded
