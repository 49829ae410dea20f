"""The tree of commands: names, one line each, and where the code is.

A command's module is imported when the command runs, so ``strop --help`` waits for no torch.
A target is a frozen dataclass whose fields are the options and whose call does the work.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Command:
    """One command: what it does in a line, and ``module:class`` of what runs."""

    summary: str
    target: str


@dataclass(frozen=True)
class Group:
    """Commands that belong together."""

    summary: str
    commands: dict[str, Command]


COMMANDS: dict[str, Command | Group] = {
    "demo": Command("what strop does, on data that came with it", "strop.cli.demo:Demo"),
    "retrieval": Group(
        "Harder negatives: image-text embeddings, from pictures and captions to a search.",
        {
            "train": Command("train a joint embedding", "strop.cli.retrieval:Train"),
            "evaluate": Command("recalls and ranks of a model", "strop.cli.retrieval:Evaluate"),
            "look": Command("pictures of what it confuses", "strop.cli.retrieval:Look"),
            "index": Command("index a folder of pictures", "strop.cli.retrieval:Index"),
            "embed": Command("vectors of pictures and captions", "strop.cli.retrieval:Embed"),
            "search": Command("find pictures by words or by picture", "strop.cli.retrieval:Search"),
            "serve": Command("the search page, in a browser", "strop.cli.retrieval:Serve"),
        },
    ),
    "gradients": Group(
        "Quieter gradients: what they say of the data, and how noisy they are.",
        {
            "inspect": Command(
                "duplicates, suspect labels, clusters", "strop.cli.gradients:Inspect"
            ),
            "variance": Command("the noise of gradient estimators", "strop.cli.gradients:Variance"),
        },
    ),
    "margins": Group(
        "Wider margins: linear classifiers that withstand the largest attack, with a certificate.",
        {
            "fit": Command("fit one to a table", "strop.cli.margins:Fit"),
            "path": Command("methods side by side, in log time", "strop.cli.margins:PathCommand"),
            "ball": Command("draw the unit ball of a norm", "strop.cli.margins:Balls"),
        },
    ),
    "attacks": Group(
        "How robust is a classifier, and one that is more so, in the Fourier domain too.",
        {
            "evaluate": Command(
                "accuracy against eps, with pictures", "strop.cli.attacks_evaluate:Evaluate"
            ),
            "train": Command("train a classifier under attack", "strop.cli.attacks:Train"),
        },
    ),
    "thesis": Group(
        "The thesis, executable: every table, figure and claim, with a verdict.",
        {
            "list": Command("what there is, and what has run", "strop.cli.thesis:ListItems"),
            "run": Command("compute and draw tables and figures", "strop.cli.thesis:Run"),
            "claims": Command("which claims hold", "strop.cli.thesis:Claims"),
            "report": Command("all of it on one page", "strop.cli.thesis:Report"),
        },
    ),
    "data": Group(
        "Data sets known by name.",
        {
            "list": Command("which are known, and which are here", "strop.cli.data:ListData"),
            "get": Command("bring one from its official source", "strop.cli.data:GetData"),
            "verify": Command(
                "compare its files with the published ones", "strop.cli.data:VerifyData"
            ),
        },
    ),
}
