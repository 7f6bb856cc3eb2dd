//! What the end-to-end tests in Rust share: matrices whose elements say where they belong, and
//! oracles by counting. The tests through JAX are in `python/`.

pub mod dense;
pub mod gpus;
pub mod shards;
pub mod solvers;
pub mod watch;

use meshsolve::DType;
use meshsolve::device::Buffer;

/// Memory of one rank, filled with a pattern that no element has.
pub struct Memory {
    words: Vec<u128>,
    bytes: u64,
}

/// What untouched memory holds.
pub const UNTOUCHED: u8 = 0xEE;

impl Memory {
    /// `bytes` bytes.
    pub fn new(bytes: u64) -> Self {
        let words = usize::try_from(bytes.div_ceil(16)).unwrap().max(1);
        Self { words: vec![u128::from_ne_bytes([UNTOUCHED; 16]); words], bytes }
    }

    /// The memory as the library takes it.
    pub fn buffer(&self) -> Buffer {
        // SAFETY: the memory lives as long as the test that made it, and tests hand each buffer to
        // one rank.
        unsafe { Buffer::from_raw(self.words.as_ptr().cast_mut().cast(), self.bytes) }
    }

    /// Its contents.
    pub fn bytes(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.words)[..usize::try_from(self.bytes).unwrap()]
    }

    /// Its contents, to be written.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let bytes = usize::try_from(self.bytes).unwrap();
        &mut bytemuck::cast_slice_mut(&mut self.words)[..bytes]
    }

    /// The bytes of element `index`.
    pub fn element(&self, dtype: DType, index: u64) -> &[u8] {
        let size = dtype.size();
        &self.bytes()[usize::try_from(index * size).unwrap()..usize::try_from((index + 1) * size).unwrap()]
    }

    /// Writes the bytes of element `index`.
    pub fn set_element(&mut self, dtype: DType, index: u64, value: &[u8]) {
        let size = dtype.size();
        let range = usize::try_from(index * size).unwrap()..usize::try_from((index + 1) * size).unwrap();
        self.bytes_mut()[range].copy_from_slice(value);
    }
}

/// An element whose bits encode its place; every third one is a NaN with a payload.
pub fn encoded(dtype: DType, i: u64, j: u64) -> Vec<u8> {
    let place = (i * 5003 + j + 1) as u32;
    let nan = place.is_multiple_of(3);
    let single = if nan { 0x7FC0_0000 | place & 0x3F_FFFF } else { place };
    match dtype.size() {
        4 => single.to_ne_bytes().to_vec(),
        8 => (u64::from(single) << 32 | u64::from(place)).to_ne_bytes().to_vec(),
        _ => {
            let high = if nan { 0x7FF8_0000_0000_0000 | u64::from(place) } else { u64::from(place) << 7 };
            (u128::from(high) << 64 | u128::from(place)).to_ne_bytes().to_vec()
        }
    }
}

/// For each element of a dimension, its owner and its place there, found by dealing tiles out.
pub fn deal(extent: u64, tile: u64, procs: u64) -> Vec<(u64, u64)> {
    let mut next = vec![0; usize::try_from(procs).unwrap()];
    (0..extent)
        .map(|g| {
            let owner = g / tile % procs;
            let slot = &mut next[usize::try_from(owner).unwrap()];
            *slot += 1;
            (owner, *slot - 1)
        })
        .collect()
}
