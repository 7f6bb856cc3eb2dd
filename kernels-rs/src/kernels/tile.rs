//! A square tile of a matrix on its way through shared memory, where it is turned.
//!
//! A side of the way is a set of lines of contiguous elements. Where it is aligned to 16 bytes the tile
//! moves in vectors of 16 bytes, otherwise element by element; the two sides decide independently. Either
//! way a thread carries [`VECTORS`] vectors at a time, all under way together.

use super::carrier::Carrier;
use super::work::INVALID;
use crate::launch::{ElementSize, TILE_VECTORS as VECTORS, tile_threads};
use cuda_std::shared::SharedMem;
use cuda_std::thread::thread_idx_x;

/// Where the lines of a tile stand in a matrix. Offsets count elements.
pub(crate) trait Lines<T> {
    /// Whether lines start at multiples of 16 bytes.
    fn aligned(&self) -> bool;

    /// Whether there are all of `count` lines from `line` on.
    fn has_lines(&self, line: u32, count: u32) -> bool;

    /// Offset of a line that is there.
    fn line(&self, line: u32) -> u64;

    /// Offset of an element in its line, or [`INVALID`].
    fn element(&self, at: u32) -> u64;

    /// Offset in their line of the elements of vector `at`, if all are there, next to each other and
    /// aligned to 16 bytes whenever the line is; otherwise [`INVALID`].
    fn vector(&self, at: u32) -> u64;
}

/// A thread's vectors of a tile.
type Share = [u128; VECTORS as usize];

/// A tile of `EDGE` lines of `EDGE` elements in shared memory, as lines across those it came from.
///
/// Line v holds its vectors in an order of its own, so that threads that write neighbouring lines, and
/// threads that read neighbouring vectors, meet different banks.
pub(crate) struct Tile<T, const EDGE: u32> {
    vectors: SharedMem<u128>,
    elements: SharedMem<T>,
}

impl<T: Carrier, const EDGE: u32> Tile<T, EDGE> {
    /// Elements in a vector.
    const WIDE: u32 = 16 / T::SIZE.bytes();
    /// Vectors in a line.
    const LENGTH: u32 = EDGE / Self::WIDE;
    /// Threads that carry the tile.
    const THREADS: u32 = tile_threads(EDGE, T::SIZE);

    /// The tile that starts `byte_offset` bytes into shared memory.
    #[inline(always)]
    pub(crate) fn dynamic(byte_offset: u32) -> Self {
        Self { vectors: SharedMem::dynamic(byte_offset), elements: SharedMem::dynamic(byte_offset) }
    }

    /// Place of vector `at` of line `line` in shared memory.
    #[inline(always)]
    fn place(line: u32, at: u32) -> u32 {
        line * Self::LENGTH + (at ^ (line / Self::WIDE % Self::LENGTH))
    }

    /// Place of element `at` of line `line` in shared memory.
    #[inline(always)]
    fn element_place(line: u32, at: u32) -> u32 {
        Self::place(line, at / Self::WIDE) * Self::WIDE + at % Self::WIDE
    }

    /// The thread's first line and its vector, where a side moves in vectors.
    #[inline(always)]
    fn vector_share() -> (u32, u32) {
        (thread_idx_x() / Self::LENGTH * VECTORS, thread_idx_x() % Self::LENGTH)
    }

    /// The thread's element `k` as line and element: of its vectors where the side is aligned, otherwise
    /// such that neighbouring threads have neighbouring elements.
    #[inline(always)]
    fn share(side: &impl Lines<T>, k: u32) -> (u32, u32) {
        if side.aligned() {
            let (first, at) = Self::vector_share();
            (first + k / Self::WIDE, at * Self::WIDE + k % Self::WIDE)
        } else {
            let e = thread_idx_x() + Self::THREADS * k;
            (e / EDGE, e % EDGE)
        }
    }

    /// Offset of an element, if there is one.
    #[inline(always)]
    fn offset(side: &impl Lines<T>, line: u32, at: u32) -> Option<usize> {
        let at = side.element(at);
        (at != INVALID && side.has_lines(line, 1)).then(|| (side.line(line) + at) as usize)
    }

    /// Loads the thread's vectors of a tile of `source`, if it is aligned and they are whole.
    ///
    /// # Safety
    /// Offsets from `source` must be inside the matrix at `from`.
    #[inline(always)]
    pub(crate) unsafe fn load(from: *const T, source: &impl Lines<T>) -> Option<Share> {
        if !source.aligned() {
            return None;
        }
        let (first, at) = Self::vector_share();
        let start = source.vector(at);
        let vector = |k: usize| from.wrapping_add((source.line(first + k as u32) + start) as usize);
        // SAFETY: lines and vectors that exist are inside the matrix, and aligned.
        (start != INVALID && source.has_lines(first, VECTORS))
            .then(|| core::array::from_fn(|k| unsafe { *(vector(k) as *const u128) }))
    }

    /// Puts what [`Self::load`] got into shared memory, turned; without it, the thread's elements one by
    /// one, zeros where there is none. `look` gets their bits, with zeros above those of a single element.
    ///
    /// # Safety
    /// As for [`Self::load`]; all threads of the block must do so, between barriers.
    #[inline(always)]
    pub(crate) unsafe fn put(
        &self,
        share: Option<Share>,
        from: *const T,
        source: &impl Lines<T>,
        mut look: impl FnMut(u128),
    ) {
        // SAFETY: offsets that exist are inside; places are inside the tile, and each is written by one
        // thread.
        unsafe {
            if let Some(share) = share {
                let (first, at) = Self::vector_share();
                let parts = VECTORS / Self::WIDE;
                let turned = turned::<T>(share);
                for n in 0..VECTORS {
                    let place = Self::place(at * Self::WIDE + n / parts, first / Self::WIDE + n % parts);
                    look(turned[n as usize]);
                    self.vectors.write(place, turned[n as usize]);
                }
                return;
            }
            for batch in 0..Self::WIDE {
                let share = |k: usize| Self::share(source, batch * VECTORS + k as u32);
                let values: [T; VECTORS as usize] = core::array::from_fn(|k| {
                    let (line, at) = share(k);
                    match Self::offset(source, line, at) {
                        Some(offset) => *from.add(offset),
                        None => T::default(),
                    }
                });
                for (k, value) in values.iter().enumerate() {
                    let (line, at) = share(k);
                    look(value.to_bits());
                    self.elements.write(Self::element_place(at, line), *value);
                }
            }
        }
    }

    /// Stores the turned tile to `target`, where there is such an element.
    ///
    /// # Safety
    /// The tile must have been loaded before a barrier. Offsets must be inside the matrix at `to`, and no
    /// other block may touch these elements.
    #[inline(always)]
    pub(crate) unsafe fn store(&self, to: *mut T, target: &impl Lines<T>) {
        let (first, at) = Self::vector_share();
        let start = target.vector(at);
        // SAFETY: offsets that exist are inside; vectors are aligned; places are inside the tile.
        unsafe {
            if target.aligned() && start != INVALID && target.has_lines(first, VECTORS) {
                let share: Share =
                    core::array::from_fn(|k| self.vectors.read(Self::place(first + k as u32, at)));
                for k in 0..VECTORS {
                    let to = to.add((target.line(first + k) + start) as usize);
                    *(to as *mut u128) = share[k as usize];
                }
                return;
            }
            for k in 0..VECTORS * Self::WIDE {
                let (line, at) = Self::share(target, k);
                if let Some(offset) = Self::offset(target, line, at) {
                    *to.add(offset) = self.elements.read(Self::element_place(line, at));
                }
            }
        }
    }
}

/// Vectors across those of a share: first what their elements 0 make, then their elements 1, and so on.
#[inline(always)]
fn turned<T: Carrier>(share: Share) -> Share {
    let [a, b, c, d] = share;
    let pair = |a: u128, b: u128, w: u32| T::of_vector(a, w).in_vector(0) | T::of_vector(b, w).in_vector(1);
    let four = |w: u32| {
        let last = T::of_vector(c, w).in_vector(2) | T::of_vector(d, w).in_vector(3);
        pair(a, b, w) | last
    };
    match T::SIZE {
        ElementSize::B4 => [four(0), four(1), four(2), four(3)],
        ElementSize::B8 => [pair(a, b, 0), pair(c, d, 0), pair(a, b, 1), pair(c, d, 1)],
        ElementSize::B16 => share,
    }
}

/// A tile of a matrix whose lines are contiguous, with its first line and element, clipped to the matrix.
pub(crate) struct Plain {
    /// Leading dimension.
    pub(crate) ld: u64,
    /// Lines of the matrix, and elements in a line.
    pub(crate) extent: (u64, u64),
    /// First line of the tile, and its first element in a line; a multiple of the elements in a vector.
    pub(crate) first: (u64, u64),
    /// Whether the matrix is aligned to 16 bytes.
    pub(crate) aligned: bool,
}

impl<T: Carrier> Lines<T> for Plain {
    #[inline(always)]
    fn aligned(&self) -> bool {
        self.aligned
    }

    #[inline(always)]
    fn has_lines(&self, line: u32, count: u32) -> bool {
        self.first.0 + u64::from(line + count) <= self.extent.0
    }

    #[inline(always)]
    fn line(&self, line: u32) -> u64 {
        (self.first.0 + u64::from(line)) * self.ld
    }

    #[inline(always)]
    fn element(&self, at: u32) -> u64 {
        let at = self.first.1 + u64::from(at);
        if at < self.extent.1 { at } else { INVALID }
    }

    #[inline(always)]
    fn vector(&self, at: u32) -> u64 {
        let wide = u64::from(16 / T::SIZE.bytes());
        let start = self.first.1 + u64::from(at) * wide;
        if start + wide <= self.extent.1 { start } else { INVALID }
    }
}

/// Whether lines `ld` elements apart all start at a multiple of 16 bytes.
#[inline(always)]
pub(crate) fn is_aligned<T: Carrier>(address: u64, ld: u64) -> bool {
    T::SIZE.bytes() == 16 || (address | (ld * u64::from(T::SIZE.bytes()))).is_multiple_of(16)
}
