//! A full row-major matrix to column-major in place. See [`TransposeBlocksArgs`] and [`MoveSegmentsArgs`].

use super::carrier::Carrier;
use super::chain::move_along;
use super::tile::{Plain, Tile, is_aligned};
use super::work::{for_each_item, split};
use crate::args::{MoveSegmentsArgs, TransposeBlocksArgs, ceil_div};
use crate::launch::{PER_LINE, segment_group, swap_edge, swaps, tile_bytes};
use cuda_std::shared::SharedMem;
use cuda_std::thread::*;

/// Segments of a chain under way at a time. Of the ways to have so many bytes under way, two segments with
/// [`PER_LINE`] elements of each measured best on an H200.
const HOPS: usize = 2;

/// Transposes each g × g block: tile (u, v) and tile (v, u) of the block change places, transposed.
/// `EDGE` must be [`swap_edge`].
#[inline(always)]
pub(crate) unsafe fn transpose_blocks<T: Carrier, const EDGE: u32>(args: &TransposeBlocksArgs) {
    const { assert!(EDGE == swap_edge(T::SIZE)) };
    let g = args.g;
    let ld = args.q * g;
    let half = ceil_div(g, 2 * u64::from(EDGE));
    let upper = Tile::<T, EDGE>::dynamic(0);
    let lower = Tile::<T, EDGE>::dynamic(tile_bytes(EDGE, T::SIZE));
    // Blocks then start at multiples of 16 bytes too.
    let aligned = is_aligned::<T>(args.buf, g);
    let mut found = false;
    let mut look = |bits: u128| {
        let mut has = |exponent: u64| {
            found |= (bits as u64) & exponent == exponent || ((bits >> 64) as u64) & exponent == exponent
        };
        if args.flag != 0 {
            has(args.exponents[0]);
            has(args.exponents[1]);
        }
    };
    for_each_item(args.p * args.q * swaps(g, EDGE), |item| {
        let (swap, block) = split(item, swaps(g, EDGE));
        let (b, a) = split(block, args.q);
        let block = (args.buf as *mut T).wrapping_add((a * g * ld + b * g) as usize);
        // Pairs u ≤ v of 2·half tiles in a rectangle of half × (2·half + 1): the pairs with u < half, and
        // the others turned by half a circle in the corner that those leave.
        let (y, x) = split(swap, 2 * half + 1);
        let (u, v) = if y > x { (x, y - 1) } else { (2 * half - 1 - x, 2 * half - 1 - y) };
        let edge = u64::from(EDGE);
        let place = |u: u64, v: u64| Plain { ld, extent: (g, g), first: (u * edge, v * edge), aligned };
        let (here, there) = (place(u, v), place(v, u));
        // SAFETY: elements inside a block are inside the matrix, and a block belongs to one pair of
        // tiles at a time; shared tiles are written before the first barrier and read after it.
        unsafe {
            let share = Tile::<T, EDGE>::load(block, &here);
            let opposite = Tile::<T, EDGE>::load(block, &there);
            upper.put(share, block, &here, &mut look);
            lower.put(opposite, block, &there, &mut look);
            sync_threads();
            upper.store(block, &there);
            if u != v {
                lower.store(block, &here);
            }
            sync_threads();
        }
    });
    if found {
        // SAFETY: found only where the flag is an i32; all threads write the same.
        unsafe { (args.flag as *mut i32).write_volatile(1) };
    }
}

/// The segment whose contents belong at segment `d`.
#[inline(always)]
fn source_of(d: u64, args: &MoveSegmentsArgs) -> u64 {
    let within = if args.groups > 1 { split(d, args.group()).0 } else { d };
    let (a, rest) = split(within, args.p);
    let (i, b) = split(rest, args.g);
    d - within + (a * args.g + i) * args.q + b
}

/// Which cut a segment is, if it is one.
#[inline(always)]
fn cut_number(segment: u64, args: &MoveSegmentsArgs) -> Option<u64> {
    let (rest, number) = split(segment, args.stride);
    (rest == 0).then_some(number)
}

/// Every chain begins in one of the groups of segments: at a cut, or, on a cycle without one, at the
/// segment that comes first in a shuffled order, so that the beginnings are spread evenly over the groups.
/// A block finds those of a group and moves a piece of their chains' segments. Longer segments are
/// shared out to several blocks, which all look for the same beginnings: walking is cheap, moving is not.
#[inline(always)]
pub(crate) unsafe fn move_segments<T: Carrier>(args: &MoveSegmentsArgs) {
    let begins = SharedMem::<u32>::dynamic(0);
    let group = segment_group(block_dim_y());
    let count = args.segments();
    let pieces = ceil_div(args.len, u64::from(block_dim_x() * PER_LINE));
    let thread = thread_idx_y() * block_dim_x() + thread_idx_x();
    for_each_item(ceil_div(count, group.into()) * pieces, |item| {
        let (piece, which) = split(item, pieces);
        let first = which * u64::from(group);
        if thread < group {
            let segment = first + u64::from(thread);
            let found = segment < count && begins_chain(segment, args);
            // SAFETY: each thread writes its own flag.
            unsafe { begins.write(thread, found.into()) };
        }
        sync_threads();
        let x = piece * u64::from(block_dim_x() * PER_LINE) + u64::from(thread_idx_x());
        let mut k = thread_idx_y();
        while k < group {
            // SAFETY: the flag was written before the barrier; only this row of threads moves this piece of
            // this chain.
            unsafe {
                if begins.read(k) != 0 {
                    move_chain::<T>(first + u64::from(k), x, args);
                }
            }
            k += block_dim_y();
        }
        sync_threads();
    });
}

/// Place of a segment in the shuffled order: different for different segments, as the factor is odd.
#[inline(always)]
fn shuffled(segment: u64) -> u64 {
    segment.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// Whether a chain begins at `segment`.
#[inline(always)]
fn begins_chain(segment: u64, args: &MoveSegmentsArgs) -> bool {
    if cut_number(segment, args).is_some() {
        return true;
    }
    let mut at = segment;
    loop {
        at = source_of(at, args);
        if at == segment {
            return source_of(at, args) != segment;
        }
        if cut_number(at, args).is_some() || shuffled(at) < shuffled(segment) {
            return false;
        }
    }
}

/// From its beginning on, fills the hole from its source, which leaves the next hole, up to a source that
/// is a cut and comes from the scratch, or is the beginning itself. A thread moves some elements of each
/// segment, from `x` on.
#[inline(always)]
unsafe fn move_chain<T: Carrier>(begin: u64, x: u64, args: &MoveSegmentsArgs) {
    let (buf, scratch) = (args.buf as *mut T, args.scratch as *const T);
    let at = |n: usize| x + n as u64 * u64::from(block_dim_x());
    // SAFETY: segments are inside the buffer and cuts inside the scratch; only the caller touches these
    // elements of the chain's segments, cuts apart, and those are read from the scratch.
    unsafe {
        let load = |from: *const T, segment: u64| -> [T; PER_LINE as usize] {
            core::array::from_fn(|n| match at(n) < args.len {
                true => *from.add((segment * args.len + at(n)) as usize),
                false => T::default(),
            })
        };
        let store = |segment: u64, values: [T; PER_LINE as usize]| {
            for (n, value) in values.iter().enumerate() {
                if at(n) < args.len {
                    *buf.add((segment * args.len + at(n)) as usize) = *value;
                }
            }
        };
        let held = match cut_number(begin, args) {
            Some(_) => [T::default(); PER_LINE as usize],
            None => load(buf, begin),
        };
        let next = |hole: u64| {
            let source = source_of(hole, args);
            (source != begin && cut_number(source, args).is_none()).then_some(source)
        };
        let hole = move_along::<HOPS, _, _>(begin, next, |segment| load(buf, segment), store);
        match cut_number(source_of(hole, args), args) {
            Some(cut) => store(hole, load(scratch, cut)),
            None => store(hole, held),
        }
    }
}
