//! Moving along a chain of places: each takes what the next one holds.

/// Fills the place `hole` from its source, which leaves the next hole, and so on until `source_of` has
/// none; returns the last hole. `HOPS` places are read before the first of them is written.
#[inline(always)]
pub(crate) fn move_along<const HOPS: usize, P: Copy, V: Copy>(
    mut hole: P,
    mut source_of: impl FnMut(P) -> Option<P>,
    load: impl Fn(P) -> V,
    store: impl Fn(P, V),
) -> P {
    loop {
        let mut end = hole;
        let mut ended = false;
        let sources: [Option<P>; HOPS] = core::array::from_fn(|_| {
            let source = if ended { None } else { source_of(end) };
            match source {
                Some(source) => end = source,
                None => ended = true,
            }
            source
        });
        let values = sources.map(|source| source.map(&load));
        for k in 0..HOPS {
            if let (Some(source), Some(value)) = (sources[k], values[k]) {
                store(hole, value);
                hole = source;
            }
        }
        if ended {
            return hole;
        }
    }
}
