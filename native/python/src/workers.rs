//! The measurement of several workers, for `opavnic bench engine`.

use std::time::Duration;

use ::workers::measure::{Case, measure, measure_apart};
use engine::share::WorkerId;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

/// Far more than any machine has processors for.
const MOST_WORKERS: u32 = 64;

/// Sent, delivered, out of order, handed over; seconds.
type Figure = (u64, u64, u64, u64, f64);

/// Each on a processor of its own, as far as there are any.
fn stay(worker: WorkerId) {
    // where it may not choose, the figures are what they are
    _ = tap::processor::stay_on(worker as usize);
}

#[pyfunction]
pub fn measure_workers(
    py: Python<'_>,
    case: &str,
    workers: u32,
    seconds: f64,
    apart: bool,
) -> PyResult<Figure> {
    let known =
        Case::named(case).ok_or_else(|| PyValueError::new_err(format!("no case is called {case:?}")))?;
    if !(1..=MOST_WORKERS).contains(&workers) {
        return Err(PyValueError::new_err(format!("{workers} workers: 1 to {MOST_WORKERS} can be measured")));
    }
    let send_for =
        Duration::try_from_secs_f64(seconds).map_err(|error| PyValueError::new_err(error.to_string()))?;
    let figure = py
        .detach(|| match apart {
            false => measure(known, workers, send_for, stay),
            true => measure_apart(known, workers, send_for, stay),
        })
        .map_err(|failure| PyRuntimeError::new_err(failure.to_string()))?;
    Ok((figure.sent, figure.delivered, figure.astray, figure.handed, figure.elapsed.as_secs_f64()))
}
