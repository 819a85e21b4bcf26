//! The measurement of several workers, for `opavnic bench engine`.

use std::time::Duration;

use ::workers::measure::{Case, measure, measure_apart};
use engine::share::WorkerId;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

/// The most workers, far more than any machine has processors.
const MOST_WORKERS: u32 = 64;

/// Sent, delivered, out of order, handed over; seconds.
type Figure = (u64, u64, u64, u64, f64);

/// Pin each worker to a processor of its own, as long as there are enough.
fn stay(worker: WorkerId) {
    // without permission to pin, the measurement runs unpinned
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
        Case::named(case).ok_or_else(|| PyValueError::new_err(format!("there is no case {case:?}")))?;
    if !(1..=MOST_WORKERS).contains(&workers) {
        return Err(PyValueError::new_err(format!("workers is {workers}, expected 1 to {MOST_WORKERS}")));
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
