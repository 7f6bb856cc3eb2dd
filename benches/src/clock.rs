//! Times of what several ranks do together.

use crate::gpus::Failure;
use cust::stream::Stream;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Measures what all ranks do together.
pub struct Clock {
    barrier: Barrier,
    nanoseconds: Vec<AtomicU64>,
}

impl Clock {
    /// A clock for so many ranks.
    pub fn new(ranks: u64) -> Self {
        let nanoseconds: Vec<_> = (0..ranks).map(|_| AtomicU64::new(0)).collect();
        Self { barrier: Barrier::new(nanoseconds.len()), nanoseconds }
    }

    /// Seconds from a common start until the stream of the slowest rank is done with `work`. All ranks
    /// call it and get the same answer.
    pub fn time(
        &self,
        rank: u64,
        stream: &Stream,
        work: impl FnOnce() -> Result<(), Failure>,
    ) -> Result<f64, Failure> {
        stream.synchronize()?;
        self.barrier.wait();
        let start = Instant::now();
        work()?;
        stream.synchronize()?;
        let took = u64::try_from(start.elapsed().as_nanos())?;
        self.nanoseconds[usize::try_from(rank)?].store(took, Ordering::Relaxed);
        self.barrier.wait();
        let slowest = self.nanoseconds.iter().map(|own| own.load(Ordering::Relaxed)).max();
        Ok(slowest.unwrap_or(0) as f64 * 1e-9)
    }
}

/// Middle and smallest of some times.
pub struct Times {
    /// The middle one, in seconds.
    pub median: f64,
    /// The smallest.
    pub min: f64,
}

impl Times {
    /// Of at least one time.
    pub fn of(mut seconds: Vec<f64>) -> Self {
        seconds.sort_by(f64::total_cmp);
        let middle = seconds.len() / 2;
        let median = match seconds.len() % 2 {
            0 => (seconds[middle - 1] + seconds[middle]) / 2.0,
            _ => seconds[middle],
        };
        Self { median, min: seconds[0] }
    }
}
