"""Networks of timm, torchvision and open_clip, played by small ones with the same functions."""

import json
import re
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn import functional as F

from strop.models.efficientnet import EfficientNetLite0
from strop.retrieval.encoders import PrecomputedFeatures, dual_encoder, pretrained_images
from strop.retrieval.encoders.build import build_captions, build_images, describe
from strop.retrieval.views import View, centre_crop
from strop.support import InputError, MissingExtraError

MEAN, STD, SIDE = (0.4, 0.5, 0.6), (0.2, 0.25, 0.3), 16


class Vgg(nn.Module):
    """Convolution, batch norm, three linear layers: what VGG-19 with batch norm has, and small."""

    def __init__(self, *, head: bool = True) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 4, 3, stride=4), nn.BatchNorm2d(4), nn.ReLU())
        self.classifier = nn.Sequential(
            nn.Linear(64, 8), nn.ReLU(), nn.Dropout(), nn.Linear(8, 6), nn.ReLU(), nn.Dropout()
        )
        if head:
            self.classifier.append(nn.Linear(6, 10))

    def forward(self, images: Tensor) -> Tensor:
        return self.classifier(self.features(images).flatten(1))


class Clip(nn.Module):
    """The attributes and methods of open_clip's CLIP that are used."""

    def __init__(self) -> None:
        super().__init__()
        self.visual = nn.Sequential(nn.Flatten(), nn.Linear(3 * SIDE * SIDE, 5))
        self.token_embedding = nn.Embedding(50, 5)
        self.text_projection = nn.Parameter(torch.randn(5, 5))
        self.logit_scale = nn.Parameter(torch.tensor(2.0))

    def encode_text(self, ids: Tensor) -> Tensor:
        return self.token_embedding(ids).mean(dim=1) @ self.text_projection


class Libraries:
    """Stand-ins; ``fetched`` lists what would have come over the network."""

    def __init__(self) -> None:
        self.fetched: list[Any] = []
        torch.manual_seed(0)
        self.vgg, self.clip = Vgg(), Clip()

    def timm_create(self, name: str, *, pretrained: bool, num_classes: int) -> nn.Module:
        assert num_classes == 0
        network = Vgg(head=False)
        if pretrained:
            self.fetched.append(name)
            network.load_state_dict(self.vgg.state_dict(), strict=False)
        return network

    def torchvision_get(self, name: str, *, weights: str | None) -> nn.Module:
        network: nn.Module = nn.Sequential(nn.Conv2d(3, 2, 1)) if name == "squeezenet" else Vgg()
        if weights is not None:
            self.fetched.append((name, weights))
            network.load_state_dict(self.vgg.state_dict(), strict=False)
        return network

    def open_clip_create(
        self, name: str, *, pretrained: str | None, pretrained_hf: bool = True
    ) -> nn.Module:
        model = Clip()
        if pretrained is not None:
            self.fetched.append((name, pretrained))
            model.load_state_dict(self.clip.state_dict())
        return model


def module(name: str, **attributes: Any) -> ModuleType:
    made = ModuleType(name)
    made.__dict__.update(attributes)
    return made


@pytest.fixture
def libraries(monkeypatch: pytest.MonkeyPatch) -> Libraries:
    played = Libraries()
    wanted = {"input_size": (3, SIDE, SIDE), "mean": MEAN, "std": STD, "crop_pct": 0.9}
    weights = SimpleNamespace(
        transforms=lambda: SimpleNamespace(crop_size=[SIDE], mean=list(MEAN), std=list(STD))
    )
    models = module(
        "torchvision.models",
        get_model=played.torchvision_get,
        get_model_weights=lambda name: {"DEFAULT": weights, "IMAGENET1K_V1": weights},
    )
    for made in (
        module(
            "timm",
            create_model=played.timm_create,
            data=SimpleNamespace(resolve_model_data_config=lambda network: wanted),
        ),
        module("torchvision", models=models),
        models,
        module(
            "open_clip",
            create_model=played.open_clip_create,
            get_model_preprocess_cfg=lambda model: {"size": (SIDE, SIDE), "mean": MEAN, "std": STD},
            get_tokenizer=lambda name: (
                lambda texts: torch.tensor(
                    [[len(text) % 50, len(text.split()), 0, 0] for text in texts]
                )
            ),
        ),
    ):
        monkeypatch.setitem(sys.modules, made.__name__, made)
    return played


def pictures(count: int = 4) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randint(0, 256, (count, 3, SIDE, SIDE), dtype=torch.uint8, generator=generator)


def fc7(network: Vgg, images: Tensor) -> Tensor:
    """The penultimate layer of the network in evaluation mode, on normalised pictures."""
    mean, std = (torch.tensor(values)[:, None, None] for values in (MEAN, STD))
    maps = network.eval().features((images / 255 - mean) / std).flatten(1)
    first, second = network.classifier[0], network.classifier[3]
    return F.relu(second(F.relu(first(maps))))


NAMES = ["timm:vgg19_bn", "torchvision:vgg19_bn", "torchvision:vgg19_bn/IMAGENET1K_V1"]


@pytest.mark.parametrize("name", NAMES)
def test_features_are_those_of_the_penultimate_layer(name: str, libraries: Libraries) -> None:
    encoder = pretrained_images(name)
    expected = fc7(libraries.vgg, pictures())
    assert torch.allclose(encoder.features(pictures()), expected, atol=1e-5)
    assert torch.allclose(encoder(pictures()), F.normalize(expected, dim=1), atol=1e-5)
    assert encoder.output_dim == 6


def test_stored_features_take_the_place_of_the_network(libraries: Libraries) -> None:
    encoder = pretrained_images("timm:vgg19_bn")
    stored = encoder.features(pictures())
    assert torch.equal(PrecomputedFeatures(widths=(6,))(stored), encoder(pictures()))


@pytest.mark.parametrize("name", NAMES)
def test_frozen_stays_as_it_came_whatever_train_says(name: str, libraries: Libraries) -> None:
    encoder = pretrained_images(name)
    before = {key: value.clone() for key, value in encoder.state_dict().items()}
    for mode in (True, False, True):
        encoder.train(mode)
        vectors = encoder(pictures())
        assert torch.equal(vectors, encoder(pictures()))  # no dropout
        assert not vectors.requires_grad
    assert encoder.training
    assert all(torch.equal(before[key], value) for key, value in encoder.state_dict().items())
    # A picture that asks for a gradient gets it: an attack goes through frozen weights.
    wanted = pictures().float().requires_grad_()
    encoder(wanted).sum().backward()
    assert wanted.grad is not None
    assert wanted.grad.any()


@pytest.mark.parametrize("view", ["whole", "1C", "10C"])
@pytest.mark.parametrize("shape", [(3, 20, 20), (2, 1, 20, 20), (2, 64)])
def test_what_are_no_colour_pictures_is_refused_as_it_came(
    view: View, shape: tuple[int, ...], libraries: Libraries
) -> None:
    encoder = pretrained_images("timm:vgg19_bn")
    encoder.look(view, read_at=20)
    with pytest.raises(InputError, match=f"colour pictures.* {re.escape(str(shape))}"):
        encoder(torch.zeros(shape))


def test_an_oblong_picture_of_the_side_in_training_is_cropped_and_not_squeezed(
    libraries: Libraries,
) -> None:
    encoder = pretrained_images("timm:vgg19_bn")
    encoder.look("1C", read_at=20)
    oblong = 255 * torch.rand(2, 3, 20, 30, generator=torch.Generator().manual_seed(0))
    assert torch.equal(encoder(oblong), encoder(centre_crop(oblong, size=SIDE)))


def test_fine_tuning_moves_weights_and_keeps_batch_statistics(libraries: Libraries) -> None:
    encoder = pretrained_images("timm:vgg19_bn", frozen=False).train()
    assert encoder.backbone.training
    before = {key: value.clone() for key, value in encoder.state_dict().items()}
    encoder(pictures())[:, 0].sum().backward()
    assert torch.equal(
        encoder.state_dict()["backbone.features.1.running_mean"],
        before["backbone.features.1.running_mean"],
    )
    assert all(weight.grad is not None for weight in encoder.parameters())
    assert all(name.startswith("backbone.") for name, _ in encoder.named_parameters())


def test_a_frozen_encoder_can_begin_to_learn(libraries: Libraries) -> None:
    encoder = pretrained_images("timm:vgg19_bn").train()
    encoder.tune("whole")
    assert encoder.backbone.training
    assert all(weight.requires_grad for weight in encoder.parameters())
    encoder.tune("frozen")
    assert not encoder.backbone.training
    assert not any(weight.requires_grad for weight in encoder.parameters())
    with pytest.raises(InputError, match="part of the network from the beginning"):
        encoder.tune("lora")
    with pytest.raises(InputError, match="a mode among frozen, lora, whole"):
        encoder.tune("half")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", [*NAMES, "open_clip:ViT-B-32/laion2b"])
@pytest.mark.parametrize("frozen", [True, False])
def test_an_encoder_comes_back_without_fetching(
    name: str, frozen: bool, libraries: Libraries
) -> None:
    encoder = pretrained_images(name, frozen=frozen)
    assert len(libraries.fetched) == 1
    again: Any = build_images(json.loads(json.dumps(describe(encoder))))
    assert len(libraries.fetched) == 1
    again.load_state_dict(encoder.state_dict())
    assert describe(again) == describe(encoder)
    assert again.mode == ("frozen" if frozen else "whole")
    assert torch.equal(again.eval()(pictures()), encoder.eval()(pictures()))


@pytest.mark.parametrize("library", ["timm", "torchvision"])
@pytest.mark.parametrize("suffix", [".pth", ".safetensors"])
def test_weights_may_come_from_a_file(
    library: str, suffix: str, libraries: Libraries, tmp_path: Path
) -> None:
    file = tmp_path / f"weights{suffix}"
    weights = libraries.vgg.state_dict()
    if suffix == ".pth":
        torch.save({"state_dict": weights}, file)
    else:
        save_file(weights, file)
    encoder = pretrained_images(f"{library}:vgg19_bn@{file}")
    assert not libraries.fetched
    assert torch.allclose(encoder.features(pictures()), fc7(libraries.vgg, pictures()), atol=1e-5)


def test_files_with_other_weights_are_refused(libraries: Libraries, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is none"):
        pretrained_images(f"timm:vgg19_bn@{tmp_path / 'absent.pth'}")
    (tmp_path / "torn.pth").write_bytes(b"torn")
    with pytest.raises(InputError, match="not a weights file"):
        pretrained_images(f"timm:vgg19_bn@{tmp_path / 'torn.pth'}")
    weights = libraries.vgg.state_dict()
    del weights["features.0.weight"]
    torch.save(weights, tmp_path / "less.pth")
    with pytest.raises(InputError, match=r"lacks 1 weights of Vgg, such as features\.0\.weight"):
        pretrained_images(f"timm:vgg19_bn@{tmp_path / 'less.pth'}")
    weights["features.0.weight"] = torch.zeros(1)
    torch.save(weights, tmp_path / "other.pth")
    with pytest.raises(InputError, match="do not fit Vgg"):
        pretrained_images(f"timm:vgg19_bn@{tmp_path / 'other.pth'}")


def test_open_clip_pair_is_both_towers(libraries: Libraries) -> None:
    images, captions = dual_encoder("open_clip:ViT-B-32/laion2b", mode="whole")
    texts = ["a red heart", "", "a dog"]
    mean, std = (torch.tensor(values)[:, None, None] for values in (MEAN, STD))
    tokens = captions.tokens(texts)
    assert torch.allclose(
        images.features(pictures()), libraries.clip.visual((pictures() / 255 - mean) / std)
    )
    assert torch.allclose(captions.features(tokens), libraries.clip.encode_text(tokens.ids))
    rows = torch.tensor([2, 0])
    assert torch.equal(captions(tokens[rows]), captions(tokens)[rows])
    assert not any("logit" in name or "visual" in name for name, _ in captions.named_parameters())
    again: Any = build_captions(json.loads(json.dumps(describe(captions))))
    again.load_state_dict(captions.state_dict())
    assert torch.equal(again(again.tokens(texts)), captions(tokens))
    assert libraries.fetched == [("ViT-B-32", "laion2b")]


def test_open_clip_asks_which_weights(libraries: Libraries) -> None:
    with pytest.raises(InputError, match="several weights for ViT-B-32"):
        dual_encoder("open_clip:ViT-B-32")
    with pytest.raises(InputError, match="from transformers"):
        dual_encoder("open_clip:ViT-B-32/laion2b", mode="lora")
    dual_encoder("open_clip:ViT-B-32@weights.pt")
    assert libraries.fetched == [("ViT-B-32", "weights.pt")]


def test_efficientnet_needs_no_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    network = EfficientNetLite0(classes=3).eval()
    monkeypatch.setattr(EfficientNetLite0, "from_checkpoint", lambda file: network)
    encoder = pretrained_images("efficientnet-lite0:weights.pth")
    assert encoder.output_dim == 1280
    wide = torch.randint(0, 256, (2, 3, 224, 224), dtype=torch.uint8)
    assert torch.allclose(encoder.features(wide), network.features(wide), atol=1e-5)
    again: Any = build_images(json.loads(json.dumps(describe(encoder))))
    again.load_state_dict(encoder.state_dict())
    assert torch.equal(again(wide), encoder(wide))


def test_names_that_mean_nothing_are_refused(libraries: Libraries) -> None:
    for name in ("resnet50", "tensorflow:resnet50", "timm:", "nowhere/near"):
        with pytest.raises(InputError, match="a library among torchvision, timm, transformers"):
            pretrained_images(name)
    with pytest.raises(InputError, match="ends in no linear classifier"):
        pretrained_images("torchvision:squeezenet")
    with pytest.raises(InputError, match="comes from transformers or open_clip"):
        dual_encoder("timm:vgg19_bn")
    with pytest.raises(InputError, match=r"\(batch, 3, height, width\)"):
        pretrained_images("timm:vgg19_bn")(torch.zeros(2, 6))
    with pytest.raises(InputError, match="no image network from 'elsewhere'"):
        build_images(
            describe(pretrained_images("timm:vgg19_bn")) | {"source": {"library": "elsewhere"}}
        )


@pytest.mark.parametrize(
    ("name", "module_name"),
    [("timm:x", "timm"), ("torchvision:x", "torchvision"), ("open_clip:x/y", "open_clip")],
)
def test_an_absent_library_is_named(
    name: str, module_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for loaded in [key for key in sys.modules if key.split(".")[0] == module_name]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setattr(sys, "meta_path", [_Absent(module_name), *sys.meta_path])
    with pytest.raises(MissingExtraError, match=r'pip install "strop\[vision\]"'):
        pretrained_images(name)


class _Absent:
    def __init__(self, name: str) -> None:
        self.name = name

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name.split(".")[0] == self.name:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
