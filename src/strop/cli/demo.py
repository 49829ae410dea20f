"""``strop demo``."""

from dataclasses import dataclass

from strop.demo import DemoSettings, run_demo


@dataclass(frozen=True)
class Demo(DemoSettings):
    """What strop does, on the data inside the package: about two minutes on two cores."""

    def __call__(self) -> None:
        run_demo(self)
