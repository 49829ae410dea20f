"""The first act: harder negatives, on emoji.

Three trainings that differ in one word, the hardness of the negatives: the sum of hinges (SH), the
hardest alone (MH), and the softmax between them that is the default.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from strop.data import load_emoji
from strop.demo.act import Act
from strop.demo.retrieval_page import RetrievalStory, story_html, story_lines
from strop.retrieval.evaluate import evaluate
from strop.retrieval.settings import TrainSettings
from strop.retrieval.train import train_embedding

MININGS = {
    "SH": replace(TrainSettings(), mining="sum"),
    "MH": replace(TrainSettings(), mining="max"),
    "default": TrainSettings(),
}
LANGUAGES = ("en", "es")


@dataclass(frozen=True)
class RetrievalAct:
    """Emoji found by their names."""

    epochs: int = 8
    size: int = 32
    """Side of the pictures, in pixels."""
    seed: int = 0

    def perform(self, say: Callable[[str], None]) -> Act:
        """Train three times, compare, and search in two languages."""
        train = load_emoji(part="train", drawings=("noto",), languages=LANGUAGES, size=self.size)
        validation = load_emoji(part="validation", size=self.size)
        test = load_emoji(part="test", size=self.size)
        say(f"Harder negatives. {train.describe()}")
        runs, scores = {}, {}
        for name, settings in MININGS.items():
            say(f"\n{name}: mining {settings.mining!r}")
            runs[name] = train_embedding(train, validation, settings=self.fitted(settings))
            scores[name] = evaluate(runs[name].model, test)
            if runs[name].collapse:
                say(f"  {runs[name].collapse}")
        story = RetrievalStory(train=train, test=test, runs=runs, scores=scores)
        return Act(
            title="Harder negatives: find an emoji by its name",
            html=story_html(story),
            lines=story_lines(story),
        )

    def fitted(self, settings: TrainSettings) -> TrainSettings:
        """The same training, small enough for two cores and two minutes."""
        return replace(
            settings,
            embedding_dim=256,
            hidden_dim=256,
            word_dim=128,
            bidirectional=False,
            image_dropout=0.0,
            word_dropout=0.2,
            min_count=1,
            batch_size=128,
            learning_rate=2e-3,
            epochs=self.epochs,
            seed=self.seed,
        )
