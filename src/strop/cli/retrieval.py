"""``strop retrieval``: train, evaluate, index, search."""

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Literal

import tyro
from rich.progress import Progress
from safetensors.torch import save_file

from strop.cli.parsing import READING
from strop.data import ImageCaptions
from strop.retrieval.embedding import embed_captions, embed_images
from strop.retrieval.evaluate import evaluate
from strop.retrieval.index import EmbeddingIndex
from strop.retrieval.look import look
from strop.retrieval.model import JointEmbedding
from strop.retrieval.search import index_pictures, search_image, search_text
from strop.retrieval.sets import DataSettings, load_part, load_parts
from strop.retrieval.settings import PRESETS, TrainSettings
from strop.retrieval.train import MODEL_FOLDER, TrackerName, train_embedding
from strop.support import InputError, read_json, settings_to_dict, write_json, writing
from strop.training import choose_device
from strop.training.run_folder import first_difference

Device = Literal["auto", "cpu", "cuda", "mps"]
INDEX_FOLDER = "index"


@dataclass(frozen=True)
class Train:
    """Train a joint embedding of pictures and captions.

    DATA is a CSV, JSONL or JSON file of captions beside its pictures, a folder that holds one, a
    data set known by name, or `emoji`, which came with strop. A run that was stopped goes on with
    --resume; --config starts one with the settings of another.
    """

    data: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="DATA")]
    """Captions and pictures."""
    out: Path
    """The folder of the run: settings, records, checkpoints and, under model/, the model."""
    settings: TrainSettings = field(default_factory=TrainSettings)
    reading: DataSettings = field(default_factory=DataSettings)
    preset: Literal["default", "vse0", "vse++", "order0", "order++", "finetune"] = "default"
    """Where the other settings start from; the named ones are the thesis's."""
    config: Path | None = None
    """The settings file of an earlier run, or its folder."""
    start_from: Path | None = None
    """A run to go on from, as `finetune` does."""
    device: Device = "auto"
    resume: bool = False
    """Go on with the run in --out."""
    overwrite: bool = False
    """Start anew in place of the run in --out."""
    track: tuple[TrackerName, ...] = ()
    """Mirror the records there, too (extra `tracking`)."""

    @classmethod
    def presets(cls) -> dict[str, TrainSettings]:
        return PRESETS

    def __call__(self) -> None:
        if self.preset == "finetune" and self.start_from is None:
            raise InputError("the preset finetune goes on from a run: name it with --start-from")
        start = None if self.start_from is None else load_model(self.start_from)
        pretrained = (
            self.settings.image_encoder != "auto"
            or self.settings.dual_encoder is not None
            or (start is not None and _is_pretrained(start))
        )
        parts = load_parts(self.data, self.reading, seed=self.settings.seed, pretrained=pretrained)
        print(parts.train.describe(), f"validation: {parts.validation.describe()}", sep="\n")
        self._record_reading()
        trained = train_embedding(
            parts.train,
            parts.validation,
            settings=self.settings,
            out=self.out,
            start_from=start,
            device=self.device,
            resume=self.resume,
            overwrite=self.overwrite,
            track=self.track,
        )
        if trained.collapse:
            print(trained.collapse)
        if trained.zero_shot is not None:
            print(f"\nBefore training (zero-shot):\n{trained.zero_shot.table()}")
        if trained.scores is not None:
            print(f"\nOn the validation data:\n{trained.scores.table()}")
            write_json(self.out / "validation.json", trained.scores.to_dict())
            if trained.zero_shot is not None and trained.scores.rsum <= trained.zero_shot.rsum:
                print("training did not help: the model was at least as good before it")
        print(f"\nthe model: {self.out / MODEL_FOLDER}")
        print(f'next: strop retrieval index {self.out} PICTURES, then search {self.out} "…"')

    def _record_reading(self) -> None:
        """Keep beside the run how its data are read; a resumed run must read them alike."""
        file = self.out / READING
        reading = settings_to_dict(replace(self.reading, cache=None))
        if self.resume and file.exists():
            before = read_json(file, what="record of how data were read")["reading"]
            difference = first_difference(before, reading)
            if difference is not None:
                raise InputError(
                    f"cannot resume {self.out} on data that are read otherwise: {difference}"
                )
        elif self.overwrite or not (self.out / "settings.json").exists():
            write_json(file, {"data": self.data, "reading": reading})


@dataclass(frozen=True)
class Evaluate:
    """Recalls and ranks of a trained model, in the thesis's layout."""

    run: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
    """The folder of the run."""
    data: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="DATA")]
    """Captions and pictures, as for training."""
    part: str = "test"
    """Which part of the data; `all` for the whole."""
    reading: DataSettings = field(default_factory=DataSettings)
    folds: int | None = None
    """5 gives the thesis's mean over folds of 1,000 COCO images."""
    device: Device = "auto"
    json_out: Path | None = None
    """Write the numbers to this file too."""

    def __call__(self) -> None:
        model = load_model(self.run, device=self.device)
        data = _read(self.data, self.part, self.reading, model)
        scores = evaluate(model, data, folds=self.folds)
        print(f"{data.describe()}\n{scores.table()}")
        if self.json_out is not None:
            write_json(self.json_out, scores.to_dict())


@dataclass(frozen=True)
class Index:
    """Index a folder of pictures for searching; run again, it takes up what is new."""

    run: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
    """The folder of the run whose model embeds the pictures."""
    pictures: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="PICTURES")]
    """A folder of pictures."""
    engine: Literal["exact", "faiss"] = "exact"
    """`exact` compares with every picture; `faiss` is quicker for very many (extra `index`)."""
    device: Device = "auto"

    def __call__(self) -> None:
        model = load_model(self.run, device=self.device)
        place = self.run / INDEX_FOLDER
        with Progress(transient=True) as bar:
            task = bar.add_task("pictures", total=None)
            indexing = index_pictures(
                model,
                self.pictures,
                place,
                engine=self.engine,
                report=lambda done, total: bar.update(task, completed=done, total=total),
            )
        for name, reason in indexing.skipped:
            print(f"left out {name}: {reason}")
        print(f"{len(indexing.index)} pictures in {place}")


@dataclass(frozen=True)
class Search:
    """Search an index by words, or by a picture."""

    run: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
    """The folder of the run, indexed by `strop retrieval index`."""
    query: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="QUERY")]
    """Words in quotation marks, or the path of a picture."""
    k: int = 10
    """How many results."""
    html: Path | None = None
    """Write a page with the pictures to this file."""
    json: bool = False
    """Print the results as JSON."""

    def __call__(self) -> None:
        model = load_model(self.run, device="cpu")
        index = EmbeddingIndex.load(self.run / INDEX_FOLDER)
        if Path(self.query).is_file():
            found = search_image(model, index, Path(self.query), self.k)
        else:
            found = search_text(model, index, self.query, self.k)
        if self.json:
            rows = [
                {"rank": hit.rank, "score": hit.score, "path": str(hit.path or hit.name)}
                for hit in found.hits
            ]
            print(json.dumps(rows, ensure_ascii=False, indent=2))
        else:
            print(found)
        if self.html is not None:
            found.save_html(self.html)
            print(f"the page: {self.html.resolve()}")


@dataclass(frozen=True)
class Embed:
    """Write the vectors of a data set's pictures and captions to a file."""

    run: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
    """The folder of the run whose model embeds them."""
    data: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="DATA")]
    """Captions and pictures, as for training."""
    out: Path
    """A `.safetensors` file: images (N, D), captions (M, D), image_of_caption (M)."""
    part: str = "all"
    """Which part of the data."""
    reading: DataSettings = field(default_factory=DataSettings)
    device: Device = "auto"

    def __call__(self) -> None:
        model = load_model(self.run, device=self.device)
        data = _read(self.data, self.part, self.reading, model)
        vectors = {
            "images": embed_images(model, data.images),
            "captions": embed_captions(model, data.captions),
            "image_of_caption": data.image_of_caption,
        }
        facts = {"names": json.dumps(data.names), "model": model.fingerprint()}
        with writing(self.out) as partial:
            save_file(vectors, partial, metadata=facts)
        print(f"{data.describe()}\n{self.out}: {model.embedding_dim} dimensions")


@dataclass(frozen=True)
class Look:
    """Pictures of how a model sees a data set: hard negatives, first captions, similarities."""

    run: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
    """The folder of the run."""
    data: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="DATA")]
    """Captions and pictures, as for training."""
    out: Path
    """The folder for the pictures."""
    beside: Path | None = None
    """Another run, to compare with."""
    part: str = "test"
    """Which part of the data; `all` for the whole."""
    reading: DataSettings = field(default_factory=DataSettings)
    seed: int = 0
    """Of the images that are drawn."""
    device: Device = "auto"

    def __call__(self) -> None:
        runs = [self.run] if self.beside is None else [self.run, self.beside]
        models = {run.name: load_model(run, device=self.device) for run in runs}
        model = next(iter(models.values()))
        data = _read(self.data, self.part, self.reading, model)
        for path in look(models, data, out=self.out, seed=self.seed):
            print(path)


@dataclass(frozen=True)
class Serve:
    """The search page: type words or drop a picture, in a browser (extra `web`)."""

    run: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
    """The folder of the run, indexed by `strop retrieval index`."""
    host: str = "127.0.0.1"
    """127.0.0.1 is reached from this machine alone."""
    port: int = 8000
    """0 takes any free one."""
    device: Device = "auto"

    def __call__(self) -> None:
        from strop.web import create_app, serve

        model = load_model(self.run, device=self.device)
        index = EmbeddingIndex.load(self.run / INDEX_FOLDER, fingerprint=model.fingerprint())
        app = create_app(model, index)
        serve(app, host=self.host, port=self.port, started=lambda at: print(f"serving {at}"))


def _read(data: str, part: str, reading: DataSettings, model: JointEmbedding) -> ImageCaptions:
    """Data as the model takes them: its pictures are of the size it was trained on."""
    sized = reading if reading.size is not None else replace(reading, size=model.image_size)
    return load_part(data, None if part == "all" else part, sized)


def _is_pretrained(model: JointEmbedding) -> bool:
    return hasattr(model.image_encoder, "backbone")


def load_model(run: Path, *, device: Device = "auto") -> JointEmbedding:
    """The model of a run's folder, or of a folder that `save_pretrained` wrote."""
    folder = run / MODEL_FOLDER if (run / MODEL_FOLDER).is_dir() else run
    if not (folder / "config.json").exists():
        raise InputError(
            f"expected a trained model in {run}, but there is none: train one with "
            f"`strop retrieval train DATA --out {run}`"
        )
    return JointEmbedding.from_pretrained(folder, device=choose_device(device))
