"""The search page answers in words and in JSON, and gives out nothing but indexed pictures."""

import base64
import copy
import hashlib
import re
import socket
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

from strop.data import Vocabulary
from strop.retrieval.embedding import embed_captions
from strop.retrieval.encoders import BagOfWords, PrecomputedFeatures, SmallConvNet
from strop.retrieval.index import EmbeddingIndex
from strop.retrieval.model import JointEmbedding
from strop.retrieval.search import build_index, search_image, search_text
from strop.support import InputError
from strop.web import create_app, serve

try:
    from starlette.testclient import TestClient
except (ImportError, RuntimeError) as error:  # its own message says which library is wanted
    pytest.skip(f'pip install "strop[web]" httpx: {error}', allow_module_level=True)
for library in ("jinja2", "python_multipart"):
    pytest.importorskip(library, reason=f'{library} is absent: pip install "strop[web]"')

COLOURS = ("red", "lime", "blue", "yellow", "white", "black", "purple")
WORDS = Vocabulary.build([f"a {colour} square" for colour in COLOURS], min_count=1)


@pytest.fixture(scope="module")
def model() -> JointEmbedding:
    torch.manual_seed(0)
    encoder = SmallConvNet(image_size=16, widths=(4, 8))
    return JointEmbedding(encoder, BagOfWords(WORDS, word_dim=6), embedding_dim=5)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    beside = tmp_path_factory.mktemp("web")
    pictures = beside / "pictures"
    (pictures / "deep").mkdir(parents=True)
    (beside / "secret.png").write_bytes(b"secret")
    for colour in COLOURS:
        Image.new("RGB", (1000, 700), colour).save(pictures / "deep" / f"{colour} <b>.png")
    return pictures


@pytest.fixture(scope="module")
def index(model: JointEmbedding, folder: Path) -> EmbeddingIndex:
    return build_index(model, folder).index


@pytest.fixture(scope="module")
def client(model: JointEmbedding, index: EmbeddingIndex) -> TestClient:
    return TestClient(create_app(model, index, k=4, upload_limit=200_000, examples=["a red cat"]))


def _picture(colour: str = "red", size: tuple[int, int] = (40, 30)) -> bytes:
    buffer = BytesIO()
    Image.new("RGB", size, colour).save(buffer, "PNG")
    return buffer.getvalue()


def _upload(client: TestClient, content: bytes, path: str = "/api/search", **fields: str) -> Any:
    return client.post(path, files={"picture": ("a.png", content, "image/png")}, data=fields)


def test_json_tells_what_the_function_tells(
    client: TestClient, model: JointEmbedding, index: EmbeddingIndex
) -> None:
    answer = client.get("/api/search", params={"q": "a red square", "k": 3}).json()
    expected = search_text(model, index, "a red square", 3)
    assert [(hit["rank"], hit["name"]) for hit in answer["hits"]] == [
        (hit.rank, hit.name) for hit in expected.hits
    ]
    assert [hit["score"] for hit in answer["hits"]] == pytest.approx(
        [hit.score for hit in expected.hits]
    )
    assert answer["query"] == "a red square"
    assert answer["total"] == len(COLOURS)


def test_pictures_are_found_by_picture(
    client: TestClient, model: JointEmbedding, index: EmbeddingIndex
) -> None:
    answer = _upload(client, _picture("blue"), k="2").json()
    expected = search_image(model, index, _picture("blue"), 2)
    assert [hit["name"] for hit in answer["hits"]] == [hit.name for hit in expected.hits]


def test_more_like_this_leaves_the_picture_itself_out(
    client: TestClient, index: EmbeddingIndex
) -> None:
    hits = client.get("/api/search", params={"like": 2, "k": 50}).json()["hits"]
    assert [hit["rank"] for hit in hits] == list(range(1, len(COLOURS)))
    assert index.names[2] not in [hit["name"] for hit in hits]


def test_addresses_in_the_answer_lead_to_the_pictures(client: TestClient, folder: Path) -> None:
    for hit in client.get("/api/search", params={"q": "red", "k": 7}).json()["hits"]:
        answer = client.get(hit["picture"])
        assert answer.content == (folder / hit["name"]).read_bytes()
        assert answer.headers["content-type"] == "image/png"


def test_thumbnails_are_small_and_whole(client: TestClient) -> None:
    answer = client.get("/thumbnail/0")
    assert answer.headers["content-type"] == "image/jpeg"
    assert Image.open(BytesIO(answer.content)).size == (480, 336)


@pytest.mark.parametrize(
    "path",
    [
        "/picture/7",
        "/picture/-1",
        "/picture/99999999999999999999",
        "/picture/../secret.png",
        "/picture/..%2fsecret.png",
        "/picture/%2e%2e/secret.png",
        "/picture/deep/red <b>.png",
        "/picture//etc/passwd",
        "/picture/0/../../secret.png",
        "/thumbnail/7",
        "/thumbnail/..%2f..%2fsecret.png",
        "/secret.png",
    ],
)
def test_nothing_but_indexed_pictures_is_given_out(client: TestClient, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 404
    assert b"secret" not in answer.content


def test_an_index_that_names_files_outside_its_folder_gives_none_of_them(
    model: JointEmbedding, tmp_path: Path
) -> None:
    folder, secret = tmp_path / "pictures", tmp_path / "secret.png"
    folder.mkdir()
    secret.write_bytes(_picture())
    (folder / "link.png").symlink_to(secret)
    index = EmbeddingIndex.build(
        torch.eye(5)[:3],
        ["../secret.png", secret, "link.png"],
        model_fingerprint=model.fingerprint(),
        root=folder,
    )
    client = TestClient(create_app(model, index))
    for number in range(3):
        assert client.get(f"/picture/{number}").status_code == 404
        assert client.get(f"/thumbnail/{number}").status_code == 404


def test_a_picture_that_went_away_is_not_found(model: JointEmbedding, tmp_path: Path) -> None:
    (tmp_path / "red.png").write_bytes(_picture())
    client = TestClient(create_app(model, build_index(model, tmp_path).index))
    (tmp_path / "red.png").unlink()
    assert client.get("/picture/0").status_code == 404
    assert client.get("/thumbnail/0").status_code == 404
    assert client.get("/", params={"q": "red"}).status_code == 200


@pytest.mark.parametrize(
    ("params", "says"),
    [
        ({"q": "  "}, "empty"),
        ({}, "empty"),
        ({"q": "red", "k": "0"}, "from 1 to 200, but is '0'"),
        ({"q": "red", "k": "1e3"}, "whole number"),
        ({"q": "red", "k": "201"}, "whole number"),
        ({"q": "x" * 1001}, "longer than 1000"),
        ({"like": "7"}, "from 0 to 6"),
        ({"like": "red"}, "whole number"),
    ],
)
def test_mistakes_in_a_query_are_said(
    client: TestClient, params: dict[str, str], says: str
) -> None:
    answer = client.get("/api/search", params=params)
    assert answer.status_code == 400
    assert says in answer.json()["error"]
    shown = client.get("/results", params=params)
    assert shown.status_code == 400
    assert 'role="alert"' in shown.text


@pytest.mark.parametrize("path", ["/api/search", "/results", "/"])
@pytest.mark.parametrize(
    ("content", "status", "says"),
    [
        (b"not a picture", 400, "not a picture in a format"),
        (_picture()[:60], 400, "damaged"),
        (b"", 400, "No picture came"),
        (b"x" * 250_000, 413, "more than"),
        (b"x" * 400_000, 413, "more than"),
    ],
    ids=["text", "cut", "empty", "large", "huge"],
)
def test_broken_and_huge_uploads_are_said(
    client: TestClient, content: bytes, status: int, says: str, path: str
) -> None:
    answer = _upload(client, content, path)
    assert answer.status_code == status
    assert says in answer.text


def test_an_upload_without_a_declared_length_is_cut_off(client: TestClient) -> None:
    sent = 0

    def endless() -> Any:
        nonlocal sent
        yield b'--x\r\nContent-Disposition: form-data; name="picture"; filename="a"\r\n\r\n'
        while sent < 50_000_000:
            sent += 65536
            yield b"x" * 65536

    kind = {"content-type": "multipart/form-data; boundary=x"}
    answer = client.post("/api/search", content=endless(), headers=kind)
    assert answer.status_code == 413


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"nonsense", "multipart/form-data; boundary=x"),
        (b"nonsense", "multipart/form-data"),
        (b"{}", "application/json"),
    ],
)
def test_forms_that_are_none_are_said(client: TestClient, content: bytes, kind: str) -> None:
    answer = client.post("/api/search", content=content, headers={"content-type": kind})
    assert answer.status_code == 400
    assert answer.json()["error"]


def test_the_page_loads_nothing_from_elsewhere(client: TestClient) -> None:
    text = client.get("/", params={"q": "red"}).text
    for address in re.findall(r'(?:src|href|action)="([^"]*)"', text):
        assert address.startswith(("/", "data:")), address
        assert not address.startswith("//")
    assert "a red cat" in text
    assert 'type="file"' in text


def test_markup_in_queries_and_names_is_text(client: TestClient) -> None:
    text = client.get("/", params={"q": "<script>alert(1)</script>"}).text
    assert "<script>alert" not in text
    assert "<b>.png" not in text
    assert "&lt;script&gt;alert(1)" in text


def test_the_browser_is_told_to_run_the_page_s_own_script_alone(client: TestClient) -> None:
    answer = client.get("/")
    (script,) = re.findall(r"<script>(.*?)</script>", answer.text, flags=re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = answer.headers["content-security-policy"]
    assert f"script-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy


def test_models_on_features_search_by_words_and_say_what_they_cannot(folder: Path) -> None:
    torch.manual_seed(0)
    captions = BagOfWords(WORDS, word_dim=6)
    model = JointEmbedding(PrecomputedFeatures(widths=(4,)), captions, embedding_dim=5)
    names = ["deep/red <b>.png", "deep/blue <b>.png"]
    index = build_index(model, torch.randn(2, 4), names=names, root=folder).index
    client = TestClient(create_app(model, index))
    assert len(client.get("/api/search?q=red").json()["hits"]) == 2
    assert len(client.get("/api/search?like=0").json()["hits"]) == 1
    assert "4 features" in _upload(client, _picture()).json()["error"]
    assert 'type="file"' not in client.get("/").text


def test_an_empty_index_and_one_of_captions_have_pages_too(model: JointEmbedding) -> None:
    fingerprint = model.fingerprint()
    empty = EmbeddingIndex.build(torch.empty(0, 5), [], model_fingerprint=fingerprint)
    assert "the index is empty" in TestClient(create_app(model, empty)).get("/?q=red").text
    captions = ["a red square", "a blue square"]
    told = EmbeddingIndex.build(
        embed_captions(model, captions), captions, model_fingerprint=fingerprint, holds="captions"
    )
    text = _upload(TestClient(create_app(model, told)), _picture(), "/results").text
    assert "a red square" in text
    assert "/thumbnail" not in text


def test_another_model_is_refused_at_the_start(
    model: JointEmbedding, index: EmbeddingIndex
) -> None:
    other = copy.deepcopy(model)
    with torch.no_grad():
        other.image_projection.bias += 1
    with pytest.raises(InputError, match="made by another model"):
        create_app(other, index)


def test_a_taken_port_is_said(client: TestClient) -> None:
    pytest.importorskip("uvicorn", reason='uvicorn is absent: pip install "strop[web]"')
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(InputError, match="choose another port"):
            serve(client.app, port=taken.getsockname()[1])
