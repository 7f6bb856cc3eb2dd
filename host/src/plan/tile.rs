//! The tile when the caller names none.

use crate::layout::{Contiguous, ProcessGrid};

/// Smallest and largest tile that a solver runs well with on large matrices.
const SENSIBLE: std::ops::RangeInclusive<u64> = 256..=2048;
/// The tile to be near to where there is a choice: on two H200s the best of 256, 512 and 1024 for a
/// Cholesky solve of order 4096 to 65536.
const AIM: u64 = 1024;

/// A tile for an n × n matrix sharded over `grid`.
///
/// A tile that divides the shards lets the conversion work in place and stage 2 vanish, so divisors
/// between 256 and 2048 come first, nearest to 1024 (in ratio). Small matrices take whole shards as
/// tiles where these are square, so that nothing moves at all.
pub fn suggest_tile(n: u64, grid: ProcessGrid) -> u64 {
    let (rows, cols) = (Contiguous::new(n, grid.rows()).shard(), Contiguous::new(n, grid.cols()).shard());
    let common = gcd(rows, cols);
    let ratio = |tile: u64| tile.max(AIM) * 1000 / tile.min(AIM);
    let divisor = SENSIBLE.filter(|tile| common.is_multiple_of(*tile)).min_by_key(|&tile| ratio(tile));
    divisor.unwrap_or_else(|| {
        let smaller = rows.min(cols).max(1);
        match common {
            32.. if common < *SENSIBLE.start() => common,
            _ => smaller.min(AIM),
        }
    })
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefers_a_divisor_of_the_shards() {
        assert_eq!(suggest_tile(65536, ProcessGrid::new(1, 2)), 1024);
        assert_eq!(suggest_tile(65536, ProcessGrid::new(2, 2)), 1024);
        assert_eq!(suggest_tile(1000 * 6, ProcessGrid::new(2, 3)), 1000);
    }

    #[test]
    fn small_square_shards_are_one_tile() {
        assert_eq!(suggest_tile(400, ProcessGrid::new(2, 2)), 200);
        assert_eq!(suggest_tile(100, ProcessGrid::new(1, 1)), 100);
    }

    #[test]
    fn never_zero() {
        for n in 0..300 {
            for (r, c) in [(1, 1), (1, 2), (3, 2), (8, 1)] {
                assert!(suggest_tile(n, ProcessGrid::new(r, c)) > 0);
            }
        }
    }

    #[test]
    fn a_shard_without_a_sensible_divisor_grows() {
        assert_eq!(suggest_tile(2503 * 2, ProcessGrid::new(2, 2)), 1024, "2503 is a prime");
    }
}
