"""The monitor in Lightning and in the Hugging Face Trainer; each library is imported where used."""

from typing import Any

from strop.gradients.monitor import GradientMonitor
from strop.support import MissingExtraError, require


def lightning_callback(monitor: GradientMonitor) -> Any:
    """A Lightning callback: measures the training batch, logs to the trainer's loggers.

    ``Trainer(callbacks=[lightning_callback(GradientMonitor(module, losses, every=50))])``; from the
    library ``lightning``, or ``pytorch_lightning`` where that is what is installed.
    """
    purpose = "the gradient monitor for Lightning"
    try:
        library = require("lightning.pytorch", extra="lightning", purpose=purpose)
    except MissingExtraError:
        library = require("pytorch_lightning", extra="lightning", purpose=purpose)

    class LightningMonitor(library.Callback):  # type: ignore[name-defined]
        def __init__(self) -> None:
            self.monitor = monitor
            self._step = 0

        def on_train_batch_end(
            self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
        ) -> None:
            found = monitor.step(batch, step=self._step)
            self._step += 1
            if found is not None:
                values = {f"gradients/{name}": value for name, value in found.record().items()}
                for logger in trainer.loggers:
                    logger.log_metrics(values, step=trainer.global_step)

        def on_train_end(self, trainer: Any, pl_module: Any) -> None:
            monitor.close()

    return LightningMonitor()


def hugging_face_callback(monitor: GradientMonitor) -> Any:
    """A callback for ``transformers.Trainer``: ``Trainer(…, callbacks=[…])``.

    The Trainer shows its callbacks no batches, so the monitor draws its own: give it ``dataset``
    and ``collate``. What it finds is also added to the Trainer's ``state.log_history``.
    """
    library = require("transformers", extra="hf", purpose="the monitor for the Trainer")

    class HuggingFaceMonitor(library.TrainerCallback):  # type: ignore[name-defined]
        def __init__(self) -> None:
            self.monitor = monitor

        def on_step_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
            found = monitor.step(step=state.global_step)
            if found is not None and state.is_world_process_zero:
                values = {f"gradients/{name}": value for name, value in found.record().items()}
                state.log_history.append({**values, "step": state.global_step})

        def on_train_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
            monitor.close()

    return HuggingFaceMonitor()
