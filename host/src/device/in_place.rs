//! A matrix that changes between row-major and column-major where it stands: the steps, as geometry.

use super::RealType;
use meshsolve_kernels::args::{MoveSegmentsArgs, TransposeBlocksArgs};

/// Chains are cut at every 16th segment or less often: a cut is copied once more than other segments, and
/// chains of this mean length are many enough to keep a device busy. Strides are powers of two: in a group
/// of N segments all moves multiply the index by a number, modulo N − 1, so the segments that share a
/// factor with N − 1 stay among themselves, and a stride with that factor would cut all their chains or
/// none; N is even for all usual tiles. The test below counts how long chains get.
const LEAST_STRIDE: u64 = 16;

/// A full row-major matrix that becomes column-major, and back.
///
/// Blocks of g × g, with g the greatest common divisor of rows and columns, are transposed; and segments
/// of contiguous elements are permuted, along chains that begin at cut segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InPlace {
    /// Rows and columns in units of g.
    p: u64,
    q: u64,
    g: u64,
    /// Columns, or rows, of a tile that is dealt.
    dealt: Option<u64>,
}

impl InPlace {
    /// A matrix whose rows and columns keep their order.
    pub fn new(rows: u64, cols: u64) -> Self {
        let g = gcd(rows, cols).max(1);
        Self { p: rows / g, q: cols / g, g, dealt: None }
    }

    /// A matrix whose longer dimension is some shards of the shorter one's length, in tiles that divide
    /// it: column-major, it has one tile of each shard in turn.
    ///
    /// # Panics
    /// If there are no such shards or tiles.
    pub fn dealing(rows: u64, cols: u64, tile: u64) -> Self {
        let whole = Self::new(rows, cols);
        assert!(whole.p <= 1 || whole.q <= 1, "{rows} × {cols} is not a row of squares");
        assert!(whole.g.is_multiple_of(tile), "tiles of {tile} do not divide shards of {}", whole.g);
        Self { dealt: Some(tile), ..whole }
    }

    /// Elements of the matrix.
    pub(super) fn elements(&self) -> u64 {
        self.p * self.g * self.q * self.g
    }

    /// Whether memory is the same before and after.
    pub(super) fn is_trivial(&self) -> bool {
        self.p * self.g <= 1 || self.q * self.g <= 1
    }

    /// The transposition of the blocks of the matrix at `buf`, which looks for numbers that are not finite
    /// if `flag` is not null.
    pub(super) fn blocks(&self, real: RealType, buf: u64, flag: u64) -> TransposeBlocksArgs {
        let Self { p, q, g, .. } = *self;
        TransposeBlocksArgs { buf, p, q, g, flag, exponents: real.exponents() }
    }

    /// The permutation of the segments of the matrix at `buf` once its blocks are transposed, if there is
    /// any, with cuts for `room` elements of scratch; with `reverse` the one that undoes it.
    ///
    /// # Panics
    /// If a segment has no room.
    pub(super) fn segments(
        &self,
        buf: u64,
        scratch: u64,
        room: u64,
        reverse: bool,
    ) -> Option<MoveSegmentsArgs> {
        let Self { p, q, g, dealt } = *self;
        if self.is_trivial() || p == q {
            return None;
        }
        // Blocks transposed, memory is [p][g][q][g].
        let (groups, g, len) = match dealt {
            None => (1, g, g),
            // [g / tile][tile][q][g] becomes [g / tile][q][tile][g].
            Some(tile) if p == 1 => (g / tile, tile, g),
            // [p][g][g / tile][tile] becomes [g][g / tile][p][tile].
            Some(tile) => (1, g * (g / tile), tile),
        };
        let room = room / len;
        assert!(room > 0, "in-place conversion needs scratch for one segment of {len} elements");
        let (p, q) = if reverse { (q, p) } else { (p, q) };
        let args = MoveSegmentsArgs { buf, scratch, groups, p, q, g, len, stride: 1 };
        let stride = if args.group().is_power_of_two() {
            // A move rotates the bits of the index in its group, so that cycles are no longer than it has
            // bits. The only cut is the first segment, which stays.
            args.segments()
        } else {
            args.segments().div_ceil(room).next_power_of_two().max(LEAST_STRIDE)
        };
        Some(MoveSegmentsArgs { stride, ..args })
    }

    /// The scratch that serves best, in elements: less makes longer chains, and less than a segment is not
    /// enough.
    pub fn scratch(&self) -> u64 {
        self.segments(0, 0, self.elements(), false).map_or(0, |args| args.cuts() * args.len)
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Segments on the longest chain, and on all chains, and how many chains there are; of those that move
    /// anything. Alike groups are looked at once.
    fn chains(args: &MoveSegmentsArgs) -> (u64, u64, u64) {
        let period = args.group() * if args.group().is_multiple_of(args.stride) { 1 } else { args.stride };
        let count = period.min(args.segments());
        // By where segments go, not by where they come from.
        let target = |segment: u64| {
            let (start, within) = (segment / args.group() * args.group(), segment % args.group());
            let (row, b) = (within / args.q, within % args.q);
            let (a, i) = (row / args.g, row % args.g);
            start + (b * args.g + i) * args.p + a
        };
        let is_cut = |segment: u64| segment.is_multiple_of(args.stride);
        let index = |segment: u64| usize::try_from(segment).expect("an index of this process");
        let mut seen = vec![false; index(count)];
        let (mut longest, mut all, mut number) = (0, 0, 0);
        let (cuts, others): (Vec<u64>, Vec<u64>) = (0..count).partition(|&segment| is_cut(segment));
        for start in cuts.into_iter().chain(others) {
            let (mut at, mut length) = (start, 0);
            while !std::mem::replace(&mut seen[index(at)], true) {
                length += 1;
                at = target(at);
                if is_cut(at) {
                    break;
                }
            }
            if length > 1 || length == 1 && target(start) != start {
                (longest, all, number) = (longest.max(length), all + length, number + 1);
            }
        }
        (longest, all, number)
    }

    /// Both directions of a matrix with the scratch that serves best.
    fn both_ways(matrix: InPlace) -> [MoveSegmentsArgs; 2] {
        [false, true].map(|reverse| matrix.segments(0, 0, matrix.scratch(), reverse).unwrap())
    }

    #[test]
    fn chains_are_short_where_all_extents_are_powers_of_two() {
        for (n, fine, coarse) in
            [(16384, 2, 1), (131_072, 2, 1), (65536, 4, 1), (131_072, 4, 2), (65536, 8, 1)]
        {
            for tile in [256, 512, 1024, 2048] {
                let (short, long) = (n / fine, n / coarse);
                for args in both_ways(InPlace::dealing(short, long, tile)) {
                    assert_eq!(args.cuts(), 1);
                    let (longest, all, number) = chains(&args);
                    assert!(longest <= 14, "{longest} segments on a chain: {n}, {tile}, {args:?}");
                    assert!(number * 14 >= all, "{number} chains of {all} segments");
                }
            }
        }
        for args in
            [(4096, 16384), (16384, 4096), (8192, 4096)].map(|(m, n)| both_ways(InPlace::new(m, n))[0])
        {
            assert_eq!(args.cuts(), 1);
            assert!(chains(&args).0 <= 16, "{args:?}");
        }
    }

    #[test]
    fn chains_are_of_moderate_length_for_other_extents() {
        for tile in [256, 320, 384, 500, 640, 768, 1000, 1024, 1500, 1875, 2048] {
            for (q, tiles) in [(2, 3), (3, 2), (3, 8), (4, 5), (6, 1), (8, 3)] {
                let short = tile * tiles;
                for args in both_ways(InPlace::dealing(short, q * short, tile)) {
                    let (longest, all, number) = chains(&args);
                    assert!(longest <= 300, "{longest} segments on a chain: {args:?}");
                    assert!(number * 18 >= all, "{number} chains of {all} segments: {args:?}");
                    assert!(args.cuts() * 16 <= args.segments() + 15);
                }
            }
        }
        for (rows, cols) in [(10240, 20480), (3072, 4096), (15000, 30000), (5120, 8192), (7168, 9216)] {
            for args in both_ways(InPlace::new(rows, cols)) {
                let (longest, all, number) = chains(&args);
                assert!(longest <= 300, "{longest} segments on a chain: {args:?}");
                assert!(number * 18 >= all, "{number} chains of {all} segments: {args:?}");
            }
        }
    }

    #[test]
    fn tiles_of_rows_are_dealt_in_segments_of_a_tile() {
        let [there, back] = both_ways(InPlace::dealing(96, 32, 8));
        assert_eq!((there.groups, there.p, there.g, there.q, there.len), (1, 3, 128, 1, 8));
        assert_eq!((back.groups, back.p, back.g, back.q, back.len), (1, 1, 128, 3, 8));
        assert!(chains(&there).0 <= 200);
    }

    #[test]
    fn nothing_moves_in_a_square() {
        assert_eq!(InPlace::dealing(12, 12, 4).scratch(), 0);
        assert_eq!(InPlace::new(12, 12).segments(0, 0, 0, true), None);
        assert!(InPlace::new(0, 7).is_trivial() && InPlace::new(1, 7).is_trivial());
    }

    #[test]
    #[should_panic(expected = "not a row of squares")]
    fn no_shards() {
        InPlace::dealing(12, 18, 3);
    }
}
