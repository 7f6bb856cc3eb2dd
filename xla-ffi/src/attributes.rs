//! Attributes of a call: the constants that Python passed to `ffi_call`.

#![forbid(unsafe_code)]

use std::time::Duration;

use crate::call::Call;
use crate::failure::Failure;
use crate::gpu::Mesh;

/// The value of an attribute, of the kinds that we take.
#[derive(Clone, Debug, PartialEq)]
pub enum Attribute {
    /// A Python `str`.
    Text(String),
    /// A Python `int`, `numpy.int32` or `numpy.int64`.
    Integer(i64),
    /// A Python `float`, `numpy.float32` or `numpy.float64`.
    Real(f64),
    /// A `numpy` array of int64.
    Integers(Vec<i64>),
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

/// The devices of the whole program (`device_ids`, `places`), if the call tells them.
///
/// # Errors
/// One is missing or no array of int64, or they do not describe groups of `ranks` devices.
pub fn mesh(call: &Call<'_>, ranks: usize) -> Result<Option<Mesh>, Failure> {
    let (device_ids, places) = match (call.attribute("device_ids"), call.attribute("places")) {
        (None, None) => return Ok(None),
        (Some(Attribute::Integers(device_ids)), Some(Attribute::Integers(places))) => (device_ids, places),
        other => {
            return Err(Failure::invalid(format!(
                "the attributes `device_ids` and `places` of a meshsolve call are {other:?}; both must be \
                 arrays of int64"
            )));
        }
    };
    let mut sorted = places.clone();
    sorted.sort_unstable();
    let every_place_once = sorted.iter().zip(0..).all(|(&place, expected)| place == expected);
    if device_ids.len() != places.len() || !every_place_once || ranks == 0 || places.len() % ranks != 0 {
        return Err(Failure::invalid(format!(
            "the attributes `device_ids` {device_ids:?} and `places` {places:?} of a meshsolve call do not put \
             each device at one place of groups of {ranks}"
        )));
    }
    Ok(Some(Mesh { device_ids, places: places.into_iter().map(i64::unsigned_abs).collect() }))
}

/// A finite positive number of seconds as a duration.
pub fn positive_seconds(seconds: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(seconds).ok().filter(|duration| !duration.is_zero())
}
