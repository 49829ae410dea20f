"""Data sets that are known by name: where their owners keep them, and how to tell they are whole.

A checksum is ``sha256:…`` or ``md5:…`` (where the owner publishes no better one). It is of a file's
content: a gzipped part is compared as it is when unpacked, so that a file compressed anew passes.
"""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Part:
    """A file of a data set as it lies in its folder; a gzipped ``name.gz`` will do as well."""

    name: str
    size: int | None = None
    checksum: str | None = None


@dataclass(frozen=True)
class Layout:
    """A folder in which a data set may lie, and the files that make it whole."""

    folder: str
    parts: tuple[Part, ...] = ()


@dataclass(frozen=True)
class Download:
    """A file on the network: one or more addresses of the same bytes.

    Attributes:
        name: the file's name.
        urls: addresses, tried in order.
        size: in bytes.
        checksum: of the file itself.
        makes: the parts it brings, by name; none stands for all of the data set's.
        archive: how it is unpacked; ``None`` keeps it as it is.
        strip: leading folders to take off the names of an archive's members.
    """

    name: str
    urls: tuple[str, ...]
    size: int
    checksum: str
    makes: tuple[str, ...] = ()
    archive: Literal["tar", "zip"] | None = None
    strip: int = 0


@dataclass(frozen=True)
class Source:
    """A data set that is known by name.

    Attributes:
        name: what it is asked for by.
        title: what it is.
        layouts: where it may lie in a data folder; downloads make the first one.
        licence: under what terms its owner gives it.
        downloads: what to fetch; empty where it cannot be fetched automatically.
        instructions: then, how to come by it and what to put where.
    """

    name: str
    title: str
    layouts: tuple[Layout, ...]
    licence: str
    downloads: tuple[Download, ...] = ()
    instructions: str = ""

    @property
    def fetchable(self) -> bool:
        """Whether :func:`~strop.data.get_source` can bring it."""
        return bool(self.downloads)

    @property
    def size(self) -> int | None:
        """Bytes to download, where it can be."""
        return sum(file.size for file in self.downloads) if self.downloads else None


_IDX_SIZES = {
    "train-images-idx3-ubyte": 47_040_016,
    "train-labels-idx1-ubyte": 60_008,
    "t10k-images-idx3-ubyte": 7_840_016,
    "t10k-labels-idx1-ubyte": 10_008,
}


def _idx_parts(*content: str) -> tuple[Part, ...]:
    return tuple(
        Part(name, size, f"sha256:{digest}")
        for (name, size), digest in zip(_IDX_SIZES.items(), content, strict=True)
    )


def _idx_downloads(bases: tuple[str, ...], *files: tuple[int, str]) -> tuple[Download, ...]:
    return tuple(
        Download(
            f"{name}.gz",
            tuple(f"{base}{name}.gz" for base in bases),
            size,
            f"sha256:{digest}",
            makes=(name,),
        )
        for name, (size, digest) in zip(_IDX_SIZES, files, strict=True)
    )


_MNIST_PARTS = _idx_parts(
    "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
)
_FASHION_PARTS = _idx_parts(
    "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
    "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
    "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
    "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
)
_CIFAR_BASES = ("https://cave.cs.toronto.edu/kriz/", "https://www.cs.toronto.edu/~kriz/")
_CIFAR10_SHA256 = (
    "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
    "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
    "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
    "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
    "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
    "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
)
_CIFAR10_MD5 = (
    "c99cafc152244af753f735de768cd75f",
    "d4bba439e000b95fd0a9bffe97cbabec",
    "54ebc095f3ab1f0389bbae665268c751",
    "634d18415352ddfa80567beed471001a",
    "482c414d41f54cd18b22e5b47cb7c3cb",
    "40351d587109b95175f43aff81a1287e",
)
_CIFAR10_NAMES = (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch")
_COCO_BASE = "http://images.cocodataset.org/"

SOURCES = (
    Source(
        "mnist",
        "MNIST: 70,000 handwritten digits, 28 x 28 grey",
        (Layout("mnist", _MNIST_PARTS), Layout("MNIST/raw", _MNIST_PARTS)),
        "free for research; by Y. LeCun, C. Cortes and C. Burges",
        _idx_downloads(
            (
                "https://ossci-datasets.s3.amazonaws.com/mnist/",
                "https://storage.googleapis.com/cvdf-datasets/mnist/",
            ),
            (9_912_422, "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"),
            (28_881, "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"),
            (1_648_877, "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"),
            (4_542, "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"),
        ),
    ),
    Source(
        "fashion-mnist",
        "Fashion-MNIST: 70,000 garments, 28 x 28 grey",
        (Layout("fashion-mnist", _FASHION_PARTS), Layout("FashionMNIST/raw", _FASHION_PARTS)),
        "MIT; by Zalando Research",
        _idx_downloads(
            (
                "https://fashion-mnist.s3.eu-central-1.amazonaws.com/",
                "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
            ),
            (26_421_880, "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84"),
            (29_515, "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845"),
            (4_422_102, "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073"),
            (5_148, "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5"),
        ),
    ),
    Source(
        "cifar10",
        "CIFAR-10: 60,000 photographs of 10 classes, 32 x 32 colour",
        (
            Layout(
                "cifar-10-batches-bin",
                tuple(
                    Part(f"{name}.bin", 30_730_000, f"sha256:{digest}")
                    for name, digest in zip(_CIFAR10_NAMES, _CIFAR10_SHA256, strict=True)
                ),
            ),
            Layout(
                "cifar-10-batches-py",
                tuple(
                    Part(name, None, f"md5:{digest}")
                    for name, digest in zip(_CIFAR10_NAMES, _CIFAR10_MD5, strict=True)
                ),
            ),
        ),
        "its owners ask to cite A. Krizhevsky (2009), Learning multiple layers of features",
        (
            Download(
                "cifar-10-binary.tar.gz",
                tuple(f"{base}cifar-10-binary.tar.gz" for base in _CIFAR_BASES),
                170_052_171,
                "sha256:c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
                archive="tar",
                strip=1,
            ),
        ),
    ),
    Source(
        "cifar100",
        "CIFAR-100: 60,000 photographs of 100 classes, 32 x 32 colour",
        (
            Layout(
                "cifar-100-binary",
                (
                    Part(
                        "train.bin",
                        153_700_000,
                        "sha256:f31298fc616915fa142368359df1c4ca2ae984d6915ca468b998a5ec6aeebf29",
                    ),
                    Part(
                        "test.bin",
                        30_740_000,
                        "sha256:d8b1e6b7b3bee4020055f0699b111f60b1af1e262aeb93a0b659061746f8224a",
                    ),
                    Part("fine_label_names.txt"),
                    Part("coarse_label_names.txt"),
                ),
            ),
            Layout(
                "cifar-100-python",
                (
                    Part("train", None, "md5:16019d7e3df5f24257cddd939b257f8d"),
                    Part("test", None, "md5:f0ef6b0ae62326f3e7ffdfab6717acfc"),
                    Part("meta", None, "md5:7973b15100ade9c7d40fb424638fde48"),
                ),
            ),
        ),
        "its owners ask to cite A. Krizhevsky (2009), Learning multiple layers of features",
        (
            Download(
                "cifar-100-binary.tar.gz",
                tuple(f"{base}cifar-100-binary.tar.gz" for base in _CIFAR_BASES),
                168_513_733,
                "sha256:58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec",
                archive="tar",
                strip=1,
            ),
        ),
    ),
    Source(
        "coco-captions",
        "COCO 2014 captions: 123,287 images with 5 captions each, no pictures",
        (
            Layout(
                "coco",
                (
                    Part("annotations/captions_train2014.json"),
                    Part("annotations/captions_val2014.json"),
                ),
            ),
        ),
        "CC BY 4.0; by the COCO Consortium",
        (
            Download(
                "annotations_trainval2014.zip",
                (f"{_COCO_BASE}annotations/annotations_trainval2014.zip",),
                252_872_794,
                "md5:0a379cfc70b0e71301e0f377548639bd",
                archive="zip",
            ),
        ),
    ),
    Source(
        "coco-images",
        "COCO 2014 pictures: 82,783 for training, 40,504 for validation",
        (Layout("coco", (Part("train2014"), Part("val2014"))),),
        "each photograph under its own Flickr licence; by the COCO Consortium",
        (
            Download(
                "train2014.zip",
                (f"{_COCO_BASE}zips/train2014.zip",),
                13_510_573_713,
                "md5:0da8c0bd3d6becc4dcb32757491aca88",
                makes=("train2014",),
                archive="zip",
            ),
            Download(
                "val2014.zip",
                (f"{_COCO_BASE}zips/val2014.zip",),
                6_645_013_297,
                "md5:a3d79f5ed8d289b7a7554ce06a5782b3",
                makes=("val2014",),
                archive="zip",
            ),
        ),
    ),
    Source(
        "flickr8k",
        "Flickr8K: 8,000 photographs with 5 captions each",
        (Layout("flickr8k"), Layout("Flickr8k")),
        "research only; its owners give it on request",
        instructions="ask the University of Illinois for it with the request form of its "
        "Flickr8k page, and unpack the pictures and the captions into a folder flickr8k",
    ),
    Source(
        "flickr30k",
        "Flickr30K: 31,783 photographs with 5 captions each",
        (Layout("flickr30k"), Layout("Flickr30k")),
        "research only; its owners give it on request",
        instructions="ask the University of Illinois for it with the request form of its "
        "Flickr30k page (shannon.cs.illinois.edu/DenotationGraph), and unpack the pictures and the "
        "captions into a folder flickr30k",
    ),
    Source(
        "imagenet",
        "ImageNet (ILSVRC 2012): 1.28 million photographs of 1,000 classes",
        (Layout("imagenet"), Layout("ILSVRC2012")),
        "research only; its owners give it to registered users",
        instructions="register at image-net.org, download the ILSVRC 2012 pictures, and unpack "
        "them as imagenet/train/CLASS/*.JPEG and imagenet/val/CLASS/*.JPEG",
    ),
)
