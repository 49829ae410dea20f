"""``strop demo``: what strop does, on the data inside the package; one act for each capability."""

from strop.demo.act import Act
from strop.demo.run import DemoSettings, run_demo

__all__ = ["Act", "DemoSettings", "run_demo"]
