//! Attributes of a call: the constants that Python passed to `ffi_call`.

#![forbid(unsafe_code)]

use std::time::Duration;

use crate::call::Call;
use crate::failure::Failure;

/// The value of an attribute, of the kinds that we take.
#[derive(Clone, Debug, PartialEq)]
pub enum Attribute {
    /// A Python `str`.
    Text(String),
    /// A Python `int`, `numpy.int32` or `numpy.int64`.
    Integer(i64),
    /// A Python `float`, `numpy.float32` or `numpy.float64`.
    Real(f64),
    /// Any other kind.
    Other,
}

/// The request for a plan, in JSON: the very text that Python gave to `meshsolve_plan`.
///
/// # Errors
/// The attribute is missing or no text.
pub fn request(call: &Call<'_>) -> Result<String, Failure> {
    match call.attribute("request") {
        Some(Attribute::Text(text)) => Ok(text),
        Some(other) => Err(Failure::invalid(format!(
            "the attribute `request` of a meshsolve call is {other:?}; it must be the JSON text of a plan request"
        ))),
        None => Err(Failure::invalid(
            "a meshsolve call has no attribute `request`; it must be the JSON text of a plan request",
        )),
    }
}

/// How long devices wait for each other, if the call says so (`rendezvous_seconds`).
///
/// # Errors
/// The attribute is not a positive number of seconds.
pub fn patience(call: &Call<'_>) -> Result<Option<Duration>, Failure> {
    let seconds = match call.attribute("rendezvous_seconds") {
        None => return Ok(None),
        #[expect(clippy::cast_precision_loss, reason = "a wait of 2^53 seconds needs no exactness")]
        Some(Attribute::Integer(seconds)) => seconds as f64,
        Some(Attribute::Real(seconds)) => seconds,
        Some(_) => f64::NAN,
    };
    positive_seconds(seconds).map(Some).ok_or_else(|| {
        Failure::invalid("the attribute `rendezvous_seconds` must be a positive number of seconds")
    })
}

/// The number of devices of the whole program (`devices`), `ranks` if the call does not say.
///
/// # Errors
/// The attribute is not an integer of at least `ranks`.
pub fn devices(call: &Call<'_>, ranks: usize) -> Result<usize, Failure> {
    match call.attribute("devices") {
        None => Ok(ranks),
        Some(Attribute::Integer(devices)) if usize::try_from(devices).is_ok_and(|n| n >= ranks) => {
            Ok(devices as usize)
        }
        Some(other) => Err(Failure::invalid(format!(
            "the attribute `devices` of a meshsolve call is {other:?}; it must be the number of devices of \
             the program, at least the {ranks} of the process grid"
        ))),
    }
}

/// A finite positive number of seconds as a duration.
pub fn positive_seconds(seconds: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(seconds).ok().filter(|duration| !duration.is_zero())
}
