"""The search page: an index of pictures in the browser."""

from strop.web.app import create_app
from strop.web.serve import serve

__all__ = ["create_app", "serve"]
