"""The model card that goes with saved weights: what it is, how it was made, how well it finds."""

from strop.data import ImageCaptions
from strop.retrieval.metrics import RetrievalScores
from strop.retrieval.model import JointEmbedding
from strop.retrieval.settings import TrainSettings
from strop.support import settings_to_dict
from strop.version import __version__


def model_card(
    model: JointEmbedding,
    *,
    data: ImageCaptions,
    settings: TrainSettings,
    scores: RetrievalScores | None,
    note: str | None = None,
) -> str:
    """Markdown for the README of the model's folder."""
    encoders = (
        f"{type(model.image_encoder).__name__} and {type(model.caption_encoder).__name__}, "
        f"{model.embedding_dim} dimensions, {model.similarity} similarity"
    )
    measured = "Not measured: the run had no validation data."
    if scores is not None:
        measured = f"On the validation data:\n\n```\n{scores.table()}\n```"
    changed = {
        name: value
        for name, value in settings_to_dict(settings).items()
        if value != settings_to_dict(TrainSettings())[name]
    }
    listed = "\n".join(f"- `{name}`: {value}" for name, value in changed.items())
    warning = f"\n> {note}\n" if note else ""
    return f"""---
library_name: strop
tags: [image-text-retrieval]
---

# A joint embedding of pictures and captions
{warning}
{encoders}; {sum(p.numel() for p in model.parameters()):,} parameters.

## Use

```python
from strop.retrieval import JointEmbedding
from strop.retrieval.search import build_index, search_text

model = JointEmbedding.from_pretrained("this folder")
index = build_index(model, "a folder of pictures").index
print(search_text(model, index, "two dogs on grass"))
```

## Training

{data.describe()}

{"Settings that differ from the defaults:" if changed else "All settings are the defaults."}

{listed}

## Scores

{measured}

Made with strop {__version__}.
"""
