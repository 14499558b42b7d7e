"""The forward and backward filter of many columns, against scipy's."""

import numpy as np
import pytest
from scipy.signal import butter, sosfilt_zi, sosfiltfilt, sosfreqz

from dynid.errors import DataError
from dynid.identification.data.zero_phase import PaddedRows, butterworth_sections, filtered_both_ways, steady_states


@pytest.mark.parametrize("order", range(1, 9))
@pytest.mark.parametrize("cutoff_hz", [0.7, 25.0, 480.0])
def test_the_filter_design_equals_that_of_scipy(order: int, cutoff_hz: float) -> None:
    ours, theirs = butterworth_sections(order, cutoff_hz, 1000.0), butter(order, cutoff_hz, fs=1000.0, output="sos")
    hertz = np.append(np.linspace(0.0, 500.0, 200), cutoff_hz)
    np.testing.assert_allclose(*(sosfreqz(one, hertz, fs=1000.0)[1] for one in (ours, theirs)), atol=1e-10)
    other = butterworth_sections(order, 1.01 * cutoff_hz, 1000.0)
    assert np.abs(np.subtract(*(sosfreqz(one, hertz, fs=1000.0)[1] for one in (other, theirs)))).max() > 1e-3
    np.testing.assert_allclose(steady_states(theirs), sosfilt_zi(theirs), atol=1e-9 * np.abs(sosfilt_zi(theirs)).max())


@pytest.mark.parametrize("order", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("columns", [1, 7, 120])
def test_the_filter_equals_that_of_scipy(order: int, columns: int) -> None:
    sections = butter(order, 0.07, output="sos")
    values = np.random.default_rng(order).standard_normal((500, columns)).cumsum(axis=0)
    kept = values.copy()
    found = filtered_both_ways(sections, values)
    np.testing.assert_allclose(found, sosfiltfilt(sections, values, axis=0), rtol=1e-12, atol=1e-12)
    assert (values == kept).all()  # the caller's values stay
    assert np.abs(found - values).max() > 0.1


def test_columns_of_any_memory_layout_are_filtered() -> None:
    sections = butter(4, 0.1, output="sos")
    values = np.random.default_rng(0).standard_normal((6, 300)).T
    np.testing.assert_allclose(filtered_both_ways(sections, values), sosfiltfilt(sections, values, axis=0), atol=1e-12)
    thin = np.random.default_rng(1).standard_normal((300, 8))[:, ::2]
    np.testing.assert_allclose(filtered_both_ways(sections, thin), sosfiltfilt(sections, thin, axis=0), atol=1e-12)


def test_signals_of_any_shape_and_number_type_are_filtered() -> None:
    sections, random = butter(4, 0.1, output="sos"), np.random.default_rng(2)
    counts = random.integers(-50, 50, 300)
    for values in (
        random.standard_normal(300),
        random.standard_normal((300, 3, 4)).swapaxes(1, 2),
        random.standard_normal((4, 3, 300)).T,
        counts,
        counts.astype(np.float32),
    ):
        found = filtered_both_ways(sections, values)
        assert found.dtype == np.float64
        exact = np.asarray(values, dtype=np.float64)
        np.testing.assert_allclose(found, sosfiltfilt(sections, exact, axis=0), atol=1e-11)


def test_too_few_rows_are_refused() -> None:
    sections = butter(4, 0.1, output="sos")
    assert len(filtered_both_ways(sections, np.ones((16, 2)))) == 16
    with pytest.raises(DataError, match="15 rows are too few"):
        filtered_both_ways(sections, np.ones((15, 2)))


def test_rows_filtered_in_shared_memory_equal_those_of_fresh_memory() -> None:
    """Also after larger and smaller rows, and rows of another filter, have used the memory."""
    shared, random = PaddedRows(), np.random.default_rng(3)
    for order, count, columns in ((4, 300, 7), (2, 500, 20), (4, 60, 3), (4, 300, 7)):
        sections, values = butter(order, 0.1, output="sos"), random.standard_normal((count, columns))
        shared.rows(sections, count, columns)[:] = values
        np.testing.assert_array_equal(shared.filtered(sections), filtered_both_ways(sections, values))
    with pytest.raises(DataError, match="15 rows are too few"):
        shared.rows(butter(4, 0.1, output="sos"), 15, 2)
