//! Elements, buffers and launches that all tests share.

use bytemuck::Pod;
use meshsolve_kernels::args::{Address, IndexMap};
use meshsolve_kernels::emulator::{self, Order};
use meshsolve_kernels::launch::{Call, ElementSize, RealType};
use std::fmt::Debug;
use std::marker::PhantomData;
use std::ops::{Add, Div, Mul};

pub const ORDERS: [Order; 4] = [Order::Forward, Order::Reverse, Order::Shuffled(1), Order::Shuffled(2)];

/// Extents around the edges of tiles.
pub const EXTENTS: [usize; 9] = [1, 2, 3, 31, 32, 33, 63, 64, 65];

/// An element of 4, 8 or 16 bytes.
pub trait Element: Pod + PartialEq + Debug {
    const SIZE: ElementSize;

    /// A value that no other index below 2³² has, never zero, with bits in every byte.
    fn encode(index: usize) -> Self;

    fn words(self) -> [u64; 2];
}

macro_rules! element {
    ($type:ty, $size:ident, $odd:literal) => {
        impl Element for $type {
            const SIZE: ElementSize = ElementSize::$size;
            fn encode(index: usize) -> Self {
                // Multiplication by an odd number is one to one.
                (index as $type + 1).wrapping_mul($odd)
            }
            fn words(self) -> [u64; 2] {
                [self as u64, (self as u128 >> 64) as u64]
            }
        }
    };
}
element!(u32, B4, 0x9E37_79B1);
element!(u64, B8, 0x9E37_79B9_7F4A_7C15);
element!(u128, B16, 0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835);

/// f32 or f64.
pub trait Number:
    Pod + PartialOrd + Debug + Add<Output = Self> + Mul<Output = Self> + Div<Output = Self>
{
    const REAL: RealType;
    fn of(value: f64) -> Self;
}

impl Number for f32 {
    const REAL: RealType = RealType::F32;
    fn of(value: f64) -> Self {
        value as f32
    }
}

impl Number for f64 {
    const REAL: RealType = RealType::F64;
    fn of(value: f64) -> Self {
        value
    }
}

/// `count` different values, `salt` apart from those of other buffers.
pub fn encoded<T: Element>(salt: usize, count: usize) -> Vec<T> {
    (0..count).map(|index| T::encode(salt * 1_000_003 + index)).collect()
}

/// Memory for a kernel, aligned to 16 bytes, between guard zones.
pub struct Buffer<T> {
    units: Vec<u128>,
    count: usize,
    element: PhantomData<T>,
}

impl<T: Pod> Buffer<T> {
    const GUARD_UNITS: usize = 8;
    const GUARD: u128 = 0xDEAD_BEEF_0BAD_F00D_DEAD_BEEF_0BAD_F00D;

    pub fn new(values: &[T]) -> Self {
        let data_units = size_of_val(values).div_ceil(16);
        let mut buffer = Self {
            units: vec![Self::GUARD; data_units + 2 * Self::GUARD_UNITS],
            count: values.len(),
            element: PhantomData,
        };
        let data = &mut buffer.units[Self::GUARD_UNITS..];
        bytemuck::cast_slice_mut(data)[..size_of_val(values)]
            .copy_from_slice(bytemuck::cast_slice::<T, u8>(values));
        buffer
    }

    pub fn address(&mut self) -> Address {
        self.units[Self::GUARD_UNITS..].as_mut_ptr().expose_provenance() as Address
    }

    /// The contents; panics if something was written outside of them.
    pub fn values(&self) -> Vec<T> {
        let bytes: &[u8] = bytemuck::cast_slice(&self.units);
        let guard = Self::GUARD.to_ne_bytes();
        let (before, rest) = bytes.split_at(Self::GUARD_UNITS * 16);
        let (data, after) = rest.split_at(self.count * size_of::<T>());
        let tail = after.len() % 16;
        let intact = before.chunks(16).all(|unit| unit == guard)
            && after[..tail] == guard[16 - tail..]
            && after[tail..].chunks(16).all(|unit| unit == guard);
        assert!(intact, "a kernel wrote outside of a buffer of {} elements", self.count);
        data.chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned).collect()
    }
}

/// Runs a call with its own grid.
pub fn run<A: Pod>(call: Call<A>, order: Order) {
    // SAFETY: the tests' buffers are as large as the arguments say; guard zones watch over that.
    unsafe { emulator::launch(&call, order) };
}

/// Runs a call on at most so many blocks, which must loop over the rest of the work.
pub fn run_on_blocks<A: Pod>(mut call: Call<A>, blocks: u32, order: Order) {
    call.geometry.grid[0] = call.geometry.grid[0].min(blocks);
    run(call, order);
}

/// What each of the first `count` local indices maps to, found by dealing the elements out one by one.
pub fn dealt(map: &IndexMap, count: usize) -> Vec<Option<usize>> {
    let owned = (0_u64..).filter(|global| global / map.tile % map.procs == map.proc);
    let reading = (map.fine > 1).then(|| reading(map));
    owned
        .skip(map.first as usize)
        .take(count)
        .map(|global| {
            let moved = if map.capacity == u64::MAX { global } else { (global + map.shift) % map.capacity };
            let element = match &reading {
                Some(order) => order.get(moved as usize).copied().flatten()?,
                None => moved,
            };
            let result = element.checked_sub(map.base)?;
            (result < map.limit).then_some(result as usize)
        })
        .collect()
}

/// The elements in the order of a map's reading, `None` for padding: rounds over the shards, a tile of
/// each. The shards lie on `coarse` processes, which take turns.
fn reading(map: &IndexMap) -> Vec<Option<u64>> {
    let each = map.fine / map.coarse;
    let mut order = Vec::new();
    for first in (0..map.shard).step_by(map.tile as usize) {
        for of_process in 0..each {
            for process in 0..map.coarse {
                let shard = process * each + of_process;
                order.extend(
                    (first..first + map.tile)
                        .map(|within| (within < map.shard).then_some(shard * map.shard + within)),
                );
            }
        }
    }
    order
}

/// Some maps for a dimension of `count` local elements: whole, ragged, dealt in tiles, moved, offset, read.
pub fn maps(count: usize) -> Vec<IndexMap> {
    let n = count as u64;
    let cyclic = IndexMap::block_cyclic(5, 3, 1, 3 * n);
    let fine =
        IndexMap { fine: 6, coarse: 2, shard: n.div_ceil(2), ..IndexMap::block_cyclic(5, 6, 4, 3 * n) };
    vec![
        IndexMap::identity(n),
        IndexMap::identity(n - n / 3),
        cyclic,
        IndexMap { limit: n + 1, ..cyclic },
        IndexMap { shift: 2 * n + 4, capacity: 3 * n + 15, limit: 3 * n + 1, ..cyclic },
        IndexMap { first: 7, ..IndexMap::identity(n + 4) },
        fine,
        IndexMap { procs: 2, proc: 1, shard: n.div_ceil(3), base: n.div_ceil(3) * 3, limit: n, ..fine },
    ]
}
