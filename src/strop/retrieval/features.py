"""Features of a frozen encoder, made once and kept on disk.

Thesis section 3.3: features of one centre crop (1C) or of ten crops (10C) "can be pre-computed once
and reused".

Index legend: n image or caption, b of them in a batch, v view, f feature.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from strop.data.images import Images, as_images
from strop.retrieval.encoders.build import describe
from strop.retrieval.views import View, view_features
from strop.support import InputError, writing

Progress = Callable[[int, int], None]

_FORMAT = 1
_WHOLE = "features.safetensors"


def cached_features(
    encoder: Any,
    images: Images | Tensor,
    *,
    folder: str | PathLike[str],
    view: View = "1C",
    crop: int | None = None,
    batch_size: int = 128,
    shard_size: int = 4096,
    half: bool = False,
    device: torch.device | str | None = None,
    progress: Progress | None = None,
) -> Tensor:
    """What ``encoder`` makes of every image, float32 (n, f), from ``folder`` if it is there.

    ``mean_v phi(view_v(i))``, before it is scaled to unit length: feed it to
    ``PrecomputedFeatures``. The files know which weights, images and view made them; for others,
    features are made anew beside them. Made in shards: a run that was killed goes on where it was.

    encoder: an image encoder; it works in evaluation mode, whatever mode it is in.
    view: the whole picture, its centre ("1C"), or the mean over ten crops ("10C").
    crop: side of the crops; what the encoder was trained at (its ``image_size``) if not given.
    half: keep float16 on disk, half the size.
    device: where to work; where the encoder is, if not given.
    progress: called with the number of images done and of all.

    >>> import tempfile
    >>> from strop.retrieval.encoders import SmallConvNet
    >>> encoder = SmallConvNet(image_size=28, widths=(8,))
    >>> pictures = torch.zeros(5, 3, 32, 32, dtype=torch.uint8)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     cached_features(encoder, pictures, folder=folder, view="10C").shape
    torch.Size([5, 32])
    """
    images = as_images(images)
    side = crop if crop is not None else getattr(encoder, "image_size", 224)
    key = {
        "encoder": _encoder_fingerprint(encoder),
        "images": _image_fingerprint(images, batch_size),
        "view": view if view == "whole" else f"{view}, {side} pixels",
    }
    compute = getattr(encoder, "features", encoder)
    step = max(1, batch_size // 10) if view == "10C" else batch_size
    with _at_work(encoder, device) as where:

        def features(rows: range) -> Tensor:
            return view_features(compute, images.batch(rows).to(where), view, size=side)

        return _cached(
            features,
            len(images),
            key=key,
            folder=Path(folder),
            half=half,
            batch_size=step,
            shard_size=shard_size,
            progress=progress,
        )


def cached_caption_features(
    encoder: Any,
    captions: Sequence[str],
    *,
    folder: str | PathLike[str],
    batch_size: int = 256,
    shard_size: int = 65536,
    half: bool = False,
    device: torch.device | str | None = None,
    progress: Progress | None = None,
) -> Tensor:
    """What ``encoder`` makes of every caption, float32 (n, f), from ``folder`` if it is there.

    For ``PrecomputedCaptions.add``. The arguments are those of :func:`cached_features`.
    """
    text = json.dumps(list(captions), ensure_ascii=False).encode()
    key = {
        "encoder": _encoder_fingerprint(encoder),
        "captions": hashlib.sha256(text).hexdigest(),
    }
    compute = getattr(encoder, "features", encoder)
    with _at_work(encoder, device) as where:

        def features(rows: range) -> Tensor:
            return compute(encoder.tokens([captions[row] for row in rows]).to(where))

        return _cached(
            features,
            len(captions),
            key=key,
            folder=Path(folder),
            half=half,
            batch_size=batch_size,
            shard_size=shard_size,
            progress=progress,
        )


@contextmanager
def _at_work(encoder: nn.Module, device: torch.device | str | None) -> Iterator[torch.device]:
    """The encoder in evaluation mode on a device; afterwards as it was."""
    before = next((t.device for t in encoder.state_dict().values()), torch.device("cpu"))
    training = {module: module.training for module in encoder.modules()}
    where = before if device is None else torch.device(device)
    try:
        encoder.to(where).eval()
        yield where
    finally:
        encoder.to(before)
        for module, was_training in training.items():
            module.training = was_training


@torch.no_grad()
def _cached(
    features: Callable[[range], Tensor],
    count: int,
    *,
    key: dict[str, Any],
    folder: Path,
    half: bool,
    batch_size: int,
    shard_size: int,
    progress: Progress | None,
) -> Tensor:
    key = {"format": _FORMAT, "count": count, "half": half, **key}
    digest = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()
    folder = folder / digest[:16]
    whole = _read(folder / _WHOLE, key)
    if whole is not None:
        return whole.float()
    shards, files = [], []
    for start in range(0, count, shard_size):
        rows = range(start, min(start + shard_size, count))
        file = folder / f"rows-{rows.start:09d}-{rows.stop:09d}.safetensors"
        shard = _read(file, key)
        if shard is None:
            shard = _computed(features, rows, batch_size, half=half, progress=progress, of=count)
            _write(file, shard, key)
        shards.append(shard)
        files.append(file)
        if progress is not None:
            progress(rows.stop, count)
    if not shards:
        raise InputError("there is nothing to make features of: the collection is empty")
    whole = torch.cat(shards)
    _write(folder / _WHOLE, whole, key)
    for file in files:
        file.unlink(missing_ok=True)
    return whole.float()


def _computed(
    features: Callable[[range], Tensor],
    rows: range,
    batch_size: int,
    *,
    half: bool,
    progress: Progress | None,
    of: int,
) -> Tensor:
    parts = []
    for start in range(rows.start, rows.stop, batch_size):
        batch = range(start, min(start + batch_size, rows.stop))
        part = features(batch)
        kept = part.to("cpu", torch.float16 if half else torch.float32)
        finite = kept.isfinite().all(dim=1)
        if not finite.all():
            row = batch[int(finite.logical_not().nonzero()[0])]
            why = (
                "is too large for float16: keep float32 (half=False)"
                if part.isfinite().all()
                else "holds NaN or infinity: look at that input and at the encoder's weights"
            )
            raise InputError(f"the feature of number {row} {why}")
        parts.append(kept)
        if progress is not None:
            progress(batch.stop, of)
    return torch.cat(parts)


def _read(file: Path, key: dict[str, Any]) -> Tensor | None:
    """The features in ``file`` if it is whole and ``key`` made it."""
    try:
        with safe_open(file, framework="pt") as opened:
            if json.loads((opened.metadata() or {}).get("key", "null")) != key:
                return None
            return opened.get_tensor("features")
    except (FileNotFoundError, SafetensorError, json.JSONDecodeError):
        return None


def _write(file: Path, features: Tensor, key: dict[str, Any]) -> None:
    with writing(file) as partial:
        save_file({"features": features}, partial, metadata={"key": json.dumps(key)})


def _encoder_fingerprint(encoder: Any) -> str:
    described = describe(encoder)
    for elsewhere in ("dropout", "mode", "lora_rank", "view", "read_at"):
        described.pop(elsewhere, None)
    digest = hashlib.sha256(json.dumps(described, sort_keys=True).encode())
    for name, tensor in sorted(encoder.state_dict().items()):
        digest.update(name.encode())
        digest.update(_bytes(tensor))
    return digest.hexdigest()


def _image_fingerprint(images: Images, batch_size: int) -> str:
    """Files are known by path, length and time; other images by every pixel."""
    digest = hashlib.sha256(images.describe().encode())
    paths = getattr(images, "paths", None)
    if paths is not None:
        for path in paths:
            try:
                facts = Path(path).stat()
            except OSError as error:
                raise InputError(f"expected an image at {path}, but {error.strerror}") from error
            known = [str(Path(path).absolute()), facts.st_size, facts.st_mtime_ns]
            digest.update(json.dumps(known).encode())
        return digest.hexdigest()
    for start in range(0, len(images), batch_size):
        rows = range(start, min(start + batch_size, len(images)))
        digest.update(_bytes(images.batch(rows)))
    return digest.hexdigest()


def _bytes(tensor: Tensor) -> bytes:
    return tensor.detach().cpu().flatten().view(torch.uint8).numpy().tobytes()
