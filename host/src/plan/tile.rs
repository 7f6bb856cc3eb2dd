//! The tile when the caller names none.

use crate::layout::{Contiguous, ProcessGrid};

use std::ops::RangeInclusive;

/// Smallest and largest tile that a solver runs well with on large matrices. On two H200s the largest is
/// the best of 256, 512, 1024 and 2048 for a Cholesky solve of order 8192 to 65536.
const SENSIBLE: RangeInclusive<u64> = 256..=2048;
/// The same for eigenproblems: on two H200s 256 is the best of 128, 256 and 512 for order 16384.
const SENSIBLE_FOR_EIGEN: RangeInclusive<u64> = 128..=256;
/// Tiles that divide nothing are multiples of this, so that columns begin where wide accesses may.
const ALIGNMENT: u64 = 8;

/// A tile for an n × n matrix sharded over `grid`.
///
/// Where one side of the grid divides the other, what counts are the finer shards: a tile that divides
/// them lets a reading take the matrix as it stands. Otherwise it should divide the shards of both
/// sides. Shards too small to be worth cutting are one tile; larger ones have two at least, so that no
/// process waits for long while another factors its only one. Of the divisors between 256 and 2048 the
/// largest is taken. Shards without such a divisor are cut into as many equal tiles as make about 2048,
/// so that little padding is needed.
pub fn suggest_tile(n: u64, grid: ProcessGrid) -> u64 {
    within(&SENSIBLE, n, grid)
}

/// As [`suggest_tile`] for an eigenproblem, which wants smaller tiles: 128 to 256.
pub fn suggest_eigen_tile(n: u64, grid: ProcessGrid) -> u64 {
    within(&SENSIBLE_FOR_EIGEN, n, grid)
}

/// The tile that the caller names, or else that of `suggest`, for a matrix whose longer dimension is `extent`. A larger
/// tile than that holds nothing more, but would have buffers of its size.
pub(super) fn chosen_tile(named: Option<u64>, extent: u64, suggest: impl FnOnce() -> u64) -> u64 {
    named.unwrap_or_else(suggest).min(extent.max(1))
}

fn within(sensible: &RangeInclusive<u64>, n: u64, grid: ProcessGrid) -> u64 {
    let (long, short) = (grid.rows().max(grid.cols()), grid.rows().min(grid.cols()));
    let shard = Contiguous::new(n, long).shard().max(1);
    let common =
        if long.is_multiple_of(short) { shard } else { gcd(shard, Contiguous::new(n, short).shard()) };
    if shard < 2 * sensible.start() {
        return if common < 32 { shard } else { common };
    }
    let divisor = sensible.clone().rev().find(|&tile| common.is_multiple_of(tile) && tile <= shard / 2);
    let pieces = shard.div_ceil(*sensible.end()).max(2);
    divisor.unwrap_or_else(|| shard.div_ceil(pieces).next_multiple_of(ALIGNMENT))
}

/// The greatest common divisor.
pub(super) fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefers_a_divisor_of_the_shards() {
        assert_eq!(suggest_tile(65536, ProcessGrid::new(1, 2)), 2048);
        assert_eq!(suggest_tile(65536, ProcessGrid::new(2, 2)), 2048);
        assert_eq!(suggest_tile(1000 * 6, ProcessGrid::new(2, 3)), 1000);
    }

    #[test]
    fn the_finer_shards_decide_where_a_reading_is_free() {
        // Shards of 1500 and of 6000 elements.
        assert_eq!(suggest_tile(12_000, ProcessGrid::new(2, 8)), 750);
        assert_eq!(suggest_tile(12_000, ProcessGrid::new(8, 1)), 750);
    }

    #[test]
    fn small_shards_are_one_tile() {
        assert_eq!(suggest_tile(400, ProcessGrid::new(2, 2)), 200);
        assert_eq!(suggest_tile(100, ProcessGrid::new(1, 1)), 100);
        assert_eq!(suggest_tile(4088, ProcessGrid::new(1, 8)), 511);
        assert_eq!(
            suggest_tile(24, ProcessGrid::new(2, 3)),
            8,
            "nothing smaller is worth the moves it saves"
        );
    }

    #[test]
    fn an_eigenproblem_has_smaller_tiles() {
        assert_eq!(suggest_eigen_tile(16384, ProcessGrid::new(1, 2)), 256);
        assert_eq!(suggest_eigen_tile(1000 * 6, ProcessGrid::new(2, 3)), 250);
        assert_eq!(suggest_eigen_tile(400, ProcessGrid::new(2, 2)), 200);
    }

    #[test]
    fn never_zero() {
        for n in 0..300 {
            for (r, c) in [(1, 1), (1, 2), (3, 2), (8, 1)] {
                assert!(suggest_tile(n, ProcessGrid::new(r, c)) > 0);
                assert!(suggest_eigen_tile(n, ProcessGrid::new(r, c)) > 0);
            }
        }
    }

    #[test]
    fn a_shard_without_a_sensible_divisor_grows_a_little() {
        assert_eq!(suggest_tile(2503 * 2, ProcessGrid::new(2, 2)), 1256, "2503 is a prime: 2 · 1256 = 2512");
    }
}
