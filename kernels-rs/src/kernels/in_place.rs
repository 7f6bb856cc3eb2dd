//! A full row-major matrix to column-major in place. See [`InPlaceArgs`].

use super::carrier::Carrier;
use super::work::{for_each_in_lines, for_each_item, split};
use crate::args::{InPlaceArgs, ceil_div};
use crate::launch::{SWAP_EDGE, THREADS, tile_bytes};
use cuda_std::shared::SharedMem;
use cuda_std::thread::{sync_threads, thread_idx_x};

/// Elements of a tile that a thread moves.
const PER_THREAD: u32 = SWAP_EDGE * SWAP_EDGE / THREADS;

/// Transposes each g × g block: tile (u, v) and tile (v, u) of the block change places, transposed.
#[inline(always)]
pub(crate) unsafe fn transpose_blocks<T: Carrier>(args: &InPlaceArgs) {
    let buf = args.buf as *mut T;
    let edge = u64::from(SWAP_EDGE);
    let ld = args.q * args.g;
    let tiles = ceil_div(args.g, edge);
    let upper = SharedMem::<T>::dynamic(0);
    let lower = SharedMem::<T>::dynamic(tile_bytes(SWAP_EDGE, T::SIZE));
    for_each_item(args.p * args.q * tiles * tiles, |item| {
        let (v, rest) = split(item, tiles);
        let (u, block) = split(rest, tiles);
        if u > v {
            return; // moved together with (v, u)
        }
        let (b, a) = split(block, args.q);
        let origin = a * args.g * ld + b * args.g;
        // The thread's element k of tile (u, v): its place in the tile and, if it is inside the block,
        // its address.
        let element = |k: u32, u: u64, v: u64| {
            let e = thread_idx_x() + THREADS * k;
            let (i, j) = (e / SWAP_EDGE, e % SWAP_EDGE);
            let (row, col) = (u * edge + u64::from(i), v * edge + u64::from(j));
            let inside = row < args.g && col < args.g;
            (i, j, inside.then(|| buf.wrapping_add((origin + row * ld + col) as usize)))
        };
        let at = |i: u32, j: u32| i * (SWAP_EDGE + 1) + j;
        // SAFETY: addresses inside a block are inside the matrix, and a block belongs to one pair of
        // tiles at a time; shared tiles are written before the first barrier and read after it.
        unsafe {
            let load = |u: u64, v: u64, to: SharedMem<T>| {
                let elements: [_; PER_THREAD as usize] = core::array::from_fn(|k| element(k as u32, u, v));
                let values = elements.map(|(_, _, from)| match from {
                    Some(from) => *from,
                    None => T::default(),
                });
                // Indexed, because an iterator over the array would keep it in memory instead of registers.
                #[allow(clippy::needless_range_loop)]
                for k in 0..PER_THREAD as usize {
                    to.write(at(elements[k].0, elements[k].1), values[k]);
                }
            };
            let store_transposed = |u: u64, v: u64, from: SharedMem<T>| {
                for k in 0..PER_THREAD {
                    if let (i, j, Some(to)) = element(k, u, v) {
                        *to = from.read(at(j, i));
                    }
                }
            };
            load(u, v, upper);
            if u != v {
                load(v, u, lower);
            }
            sync_threads();
            store_transposed(v, u, upper);
            if u != v {
                store_transposed(u, v, lower);
            }
            sync_threads();
        }
    });
}

/// The segment whose contents belong at segment `d`.
#[inline(always)]
fn source_of(d: u64, args: &InPlaceArgs) -> u64 {
    let (a, rest) = split(d, args.p);
    let (i, b) = split(rest, args.g);
    (a * args.g + i) * args.q + b
}

/// Which cut a segment is, if it is one.
#[inline(always)]
fn cut_number(segment: u64, args: &InPlaceArgs) -> Option<u64> {
    let (rest, number) = split(segment, args.stride);
    (rest == 0).then_some(number)
}

/// Copies cut k to the k-th segment of the scratch.
#[inline(always)]
pub(crate) unsafe fn save_cuts<T: Carrier>(args: &InPlaceArgs) {
    let (buf, scratch) = (args.buf as *const T, args.scratch as *mut T);
    for_each_in_lines(args.g, args.cuts(), 1, |_, cut, x| {
        // SAFETY: cut·stride is a segment of the buffer, and the scratch holds all cuts.
        unsafe {
            *scratch.add((cut * args.g + x) as usize) = *buf.add((cut * args.stride * args.g + x) as usize)
        };
    });
}

/// From each cut on, fills the hole from its source, which leaves the next hole, up to a source that is
/// a cut and comes from the scratch. A thread moves one element of each segment, so no two meet.
#[inline(always)]
pub(crate) unsafe fn move_chains<T: Carrier>(args: &InPlaceArgs) {
    let (buf, scratch) = (args.buf as *mut T, args.scratch as *const T);
    for_each_in_lines(args.g, args.cuts(), 1, |_, cut, x| {
        let mut hole = cut * args.stride;
        loop {
            let source = source_of(hole, args);
            let to = buf.wrapping_add((hole * args.g + x) as usize);
            // SAFETY: segments are inside the buffer; only this chain touches them, cuts apart, and
            // those are read from the scratch.
            unsafe {
                if let Some(cut) = cut_number(source, args) {
                    *to = *scratch.add((cut * args.g + x) as usize);
                    break;
                }
                *to = *buf.add((source * args.g + x) as usize);
            }
            hole = source;
        }
    });
}

/// Rotates the cycles without a cut. Each is found by its smallest segment: a thread walks from a
/// segment until it is back, and gives up at a cut or at a smaller segment. Then the block moves one
/// element a thread along each cycle that its threads found. Segments longer than that are shared out
/// to several blocks, which all look for the same cycles: walking is cheap, moving is not.
#[inline(always)]
pub(crate) unsafe fn move_cycles<T: Carrier>(args: &InPlaceArgs) {
    let buf = args.buf as *mut T;
    let is_smallest = SharedMem::<u32>::dynamic(0);
    let count = args.segments();
    let pieces = ceil_div(args.g, THREADS.into());
    for_each_item(ceil_div(count, THREADS.into()) * pieces, |item| {
        let (piece, group) = split(item, pieces);
        let first = group * u64::from(THREADS);
        let x = piece * u64::from(THREADS) + u64::from(thread_idx_x());
        let candidate = first + u64::from(thread_idx_x());
        let found = candidate < count && starts_uncut_cycle(candidate, args);
        // SAFETY: each thread writes its own flag.
        unsafe { is_smallest.write(thread_idx_x(), found.into()) };
        sync_threads();
        for k in 0..THREADS {
            // SAFETY: the flag was written before the barrier; only this block moves this piece of this
            // cycle, and only this thread this element of it.
            unsafe {
                if is_smallest.read(k) != 0 && x < args.g {
                    rotate(buf, first + u64::from(k), x, args);
                }
            }
        }
        sync_threads();
    });
}

/// Whether `segment` is the smallest of a cycle that has no cut.
#[inline(always)]
fn starts_uncut_cycle(segment: u64, args: &InPlaceArgs) -> bool {
    let mut at = segment;
    loop {
        if cut_number(at, args).is_some() {
            return false;
        }
        let next = source_of(at, args);
        if next <= segment {
            return next == segment;
        }
        at = next;
    }
}

/// Moves element x of every segment on the cycle from `start`.
#[inline(always)]
unsafe fn rotate<T: Carrier>(buf: *mut T, start: u64, x: u64, args: &InPlaceArgs) {
    let place = |segment: u64| buf.wrapping_add((segment * args.g + x) as usize);
    // SAFETY: segments are inside the buffer and the caller alone touches this element of them.
    unsafe {
        let held = *place(start);
        let mut hole = start;
        loop {
            let source = source_of(hole, args);
            if source == start {
                break;
            }
            *place(hole) = *place(source);
            hole = source;
        }
        *place(hole) = held;
    }
}
