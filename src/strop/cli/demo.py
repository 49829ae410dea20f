"""``strop demo``."""

from dataclasses import dataclass
from typing import ClassVar

from strop.demo import DemoSettings, run_demo


@dataclass(frozen=True)
class Demo(DemoSettings):
    """What strop does, on the data inside the package: about two minutes on two cores."""

    PREFIXED: ClassVar[bool] = True

    def __call__(self) -> None:
        run_demo(self)
