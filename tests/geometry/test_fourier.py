"""Transforms, bands, and what a Fourier norm refuses."""

import copy
import math
import pickle

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from strop.geometry import L1, L2, Fourier, Linf, Lp, high_band, low_band
from strop.geometry.fourier import half_spectrum, inverse_half_spectrum, mirrored, multiplicity


@pytest.mark.parametrize("sizes", [(1,), (2,), (7,), (8,), (4, 5), (5, 4), (3, 2, 6)])
def test_half_spectrum_keeps_lengths_and_comes_back(sizes: tuple[int, ...]) -> None:
    x = torch.randn(2, *sizes, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    spectrum = half_spectrum(x, dims=len(sizes))
    energy = (spectrum.abs() ** 2 * multiplicity(sizes)).flatten(1).sum(1)
    torch.testing.assert_close(energy, (x**2).flatten(1).sum(1))
    torch.testing.assert_close(inverse_half_spectrum(spectrum, sizes=sizes), x)
    assert int(multiplicity(sizes).sum()) == math.prod(sizes)


@pytest.mark.parametrize("shape", [(8,), (9,), (6, 7)])
def test_bands_are_symmetric_and_part_the_spectrum(shape: tuple[int, ...]) -> None:
    for cutoff in (0.0, 0.2, 0.5):
        low, high = low_band(shape, cutoff), high_band(shape, cutoff)
        assert torch.equal(low, mirrored(low, dims=len(shape)))
        assert torch.equal(low ^ high, torch.ones(shape, dtype=torch.bool))
        assert low.flatten()[0]
    assert int(low_band(shape, 0.0).sum()) == 1
    assert low_band(shape, 0.5).all()


def test_a_picture_in_the_band_is_kept_and_a_wave_outside_is_not() -> None:
    columns = torch.arange(16, dtype=torch.float64)
    slow = torch.cos(2 * math.pi * 2 * columns / 16).expand(1, 16, 16)
    fast = torch.cos(2 * math.pi * 6 * columns / 16).expand(1, 16, 16)
    norm = Fourier(L2, dims=2, band=low_band((16, 16), 4 / 16))
    torch.testing.assert_close(norm.project(slow + fast, math.inf), slow)
    torch.testing.assert_close(norm(slow), L2(slow))
    assert norm(slow + 1e-3 * fast).isinf().all()
    torch.testing.assert_close(norm.dual(slow + fast), L2(slow))


@pytest.mark.parametrize("p", [1, 1.3, 2, 3, math.inf])
@pytest.mark.parametrize("dims", [1, 2])
def test_a_band_of_ones_is_no_band(p: float, dims: int) -> None:
    x = torch.randn(3, 2, 5, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    plain, banded = Fourier(Lp(p), dims), Fourier(Lp(p), dims, band=torch.ones(5, 6))
    torch.testing.assert_close(plain(x), banded(x))
    torch.testing.assert_close(plain.project(x, 1.0), banded.project(x, 1.0))
    torch.testing.assert_close(plain.prox(x, 1.0), banded.prox(x, 1.0))
    torch.testing.assert_close(plain.steepest(x), banded.steepest(x))


@given(
    st.lists(st.integers(1, 5), min_size=1, max_size=3),
    st.sampled_from([1, 1.3, 2, 3, math.inf]),
    st.integers(0, 1000),
    st.data(),
)
def test_projection_of_every_shape_has_its_certificate(
    shape: list[int], p: float, seed: int, data: st.DataObject
) -> None:
    norm = Fourier(Lp(p), dims=data.draw(st.integers(1, len(shape))))
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(2, *shape, generator=generator, dtype=torch.float64)
    radius = norm(x) * torch.rand(2, generator=generator, dtype=torch.float64)
    v = norm.project(x, radius)
    torch.testing.assert_close(norm(v), radius)
    torch.testing.assert_close(((x - v) * v).flatten(1).sum(1), radius * norm.dual(x - v))


@pytest.mark.parametrize("shape", [(10007,), (65536,), (127, 131), (3, 224, 224)])
def test_rounding_of_long_transforms_is_not_taken_for_a_leak(shape: tuple[int, ...]) -> None:
    dims = min(2, len(shape))
    x = torch.randn(1, *shape, generator=torch.Generator().manual_seed(1))
    for band in (low_band(shape[-dims:], 0.1), high_band(shape[-dims:], 0.3)):
        norm = Fourier(Linf, dims, band=band)
        assert norm(norm.project(x, 1.0)).isfinite().all()
        assert norm(x).isinf().all()


def test_fourier_l2_is_l2() -> None:
    """Parseval: the transform is orthonormal."""
    x = torch.randn(3, 2, 5, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    norm = Fourier(L2, dims=2)
    torch.testing.assert_close(norm(x), L2(x))
    torch.testing.assert_close(norm.project(x, 0.7), L2.project(x, 0.7))


def test_band_may_differ_between_channels() -> None:
    x = torch.randn(2, 2, 8, generator=torch.Generator().manual_seed(1))
    band = torch.stack([torch.ones(8), torch.zeros(8)])
    v = Fourier(Linf, dims=1, band=band).project(x, 0.1)
    assert (v[:, 1] == 0).all()
    torch.testing.assert_close(v[:, 0], Fourier(Linf, dims=1).project(x[:, 0], 0.1))


def test_steepest_step_of_the_thesis_algorithm() -> None:
    """The algorithm of thesis section 5.3 divides every coefficient by its modulus."""
    g = torch.randn(2, 3, 4, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    spectrum = torch.fft.fft2(g, norm="ortho")
    expected = torch.fft.ifft2(spectrum / spectrum.abs(), norm="ortho")
    torch.testing.assert_close(expected.imag, torch.zeros_like(g))
    torch.testing.assert_close(Fourier(Linf, dims=2).steepest(g), expected.real)


def test_norms_are_values() -> None:
    band = low_band((4, 4), 0.25)
    norm = Fourier(Linf, 2, band=band)
    same = Fourier(Lp(math.inf), 2, band=band.numpy().astype(float))
    assert norm == same
    assert hash(norm) == hash(same)
    assert len({norm, same, Fourier(Linf, 2), Fourier(Linf, 1), Fourier(L1, 2)}) == 4
    assert norm != Fourier(Linf, 2, band=high_band((4, 4), 0.25))
    assert norm != Fourier(Linf, 2)
    assert Fourier(Linf, 2) != Linf
    assert pickle.loads(pickle.dumps(norm)) == copy.deepcopy(norm) == norm
    band[:] = True
    assert norm == same
    assert repr(Fourier(Linf, dims=2)) == "Fourier(Linf, dims=2)"
    assert repr(norm) == "Fourier(Linf, dims=2, band=<4x4, 9 of 16 frequencies>)"
    assert [repr(n) for n in (L1, L2, Linf, Lp(1.3))] == ["L1", "L2", "Linf", "Lp(1.3)"]


def test_signals_without_samples() -> None:
    for norm in (Fourier(L1, 1), Fourier(L1, 1, band=np.ones(0))):
        x = torch.ones(3, 0)
        assert torch.equal(norm(x), torch.zeros(3))
        assert norm.project(x, 1.0).shape == norm.steepest(x).shape == (3, 0)


def test_refusals_name_the_remedy() -> None:
    with pytest.raises(ValueError, match="L1, L2, Linf or Lp"):
        Fourier("linf", dims=2)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="L1, L2, Linf or Lp"):
        Fourier(Fourier(Linf, 1), dims=2)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="dims >= 1"):
        Fourier(Linf, dims=0)
    with pytest.raises(ValueError, match="at least 3 dimensions"):
        Fourier(Linf, dims=3)(torch.ones(2, 4, 4))
    with pytest.raises(ValueError, match="same radius at k and -k"):
        Fourier(Linf, dims=1, band=[1.0, 2.0, 0.0, 0.0])
    with pytest.raises(ValueError, match="radii >= 0"):
        Fourier(Linf, dims=1, band=[1.0, -1.0, -1.0])
    with pytest.raises(ValueError, match="radii >= 0"):
        Fourier(Linf, dims=1, band=[1.0, math.nan, math.nan])
    with pytest.raises(ValueError, match="real radii over the 2"):
        Fourier(Linf, dims=2, band=torch.ones(4))
    with pytest.raises(ValueError, match=r"last dimensions are \(4, 4\)"):
        Fourier(Linf, dims=2, band=torch.ones(4, 4)).project(torch.ones(1, 4, 5), 1.0)
    with pytest.raises(ValueError, match=r"divide .* 8 / 32"):
        low_band((32, 32), 8)
