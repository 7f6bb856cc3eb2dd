//! Host loops: every operation in plain Rust on ordinary memory.

use super::{Buffer, Device, ElementSize, Operation, RealType};
use crate::{Error, Result};
use bytemuck::Pod;
use meshsolve_kernels::args::{
    CombineStatusArgs, ConjugateArgs, ConvertArgs, CopyLinesArgs, DiagLogSumArgs, FillArgs, FindAnywhereArgs,
    FindNonFiniteArgs, MoveSegmentsArgs, PermuteSlotsArgs, ScaleToArgs, SetIdentityArgs, TransposeBlocksArgs,
    Triangle,
};
use meshsolve_kernels::log_sum::{ln_abs, sum_in_kernel_order};
use std::alloc::Layout;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Scratch memory is aligned as XLA aligns its own on CPUs.
const ALIGNMENT: usize = 64;

/// The CPU as a device. Operations are done when [`Device::launch`] returns.
#[derive(Debug, Default)]
pub struct CpuDevice {
    held: AtomicU64,
    peak: AtomicU64,
}

impl CpuDevice {
    /// A device that holds no memory yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Largest number of scratch bytes that were held at one time.
    pub fn peak_scratch_bytes(&self) -> u64 {
        self.peak.load(Ordering::Relaxed)
    }

    /// Scratch bytes held now.
    pub fn scratch_bytes(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }
}

fn layout(bytes: u64) -> Result<Layout> {
    usize::try_from(bytes).ok().and_then(|bytes| Layout::from_size_align(bytes, ALIGNMENT).ok()).ok_or_else(
        || Error::resource_exhausted(format!("{bytes} bytes of scratch memory are beyond this machine")),
    )
}

/// Calls `$f::<T>` with the plain type that moves elements of a size. 16 bytes go as two
/// words, which asks for no more than the alignment that JAX promises.
macro_rules! by_size {
    ($size:expr, $f:ident, $args:expr) => {
        match $size {
            ElementSize::B4 => $f::<u32>($args),
            ElementSize::B8 => $f::<u64>($args),
            ElementSize::B16 => $f::<[u64; 2]>($args),
        }
    };
}

impl Device for CpuDevice {
    unsafe fn launch(&self, operation: &Operation) -> Result<()> {
        // SAFETY: all addresses are valid for what the operation touches, by this function's contract.
        unsafe {
            match operation {
                Operation::ConvertForward(c, args) => by_size!(c, convert_forward, args),
                Operation::ConvertReverse(c, args) => by_size!(c, convert_reverse, args),
                Operation::TransposeBlocks(c, args) => by_size!(c, transpose_blocks, args),
                Operation::MoveSegments(c, args) => by_size!(c, move_segments, args),
                Operation::CopyLines(c, args, _) => by_size!(c, copy_lines, args),
                Operation::PermuteSlots(c, args) => by_size!(c, permute_slots, args),
                Operation::SetIdentity(c, args) => by_size!(c, set_identity, args),
                Operation::Fill(c, args) => by_size!(c, fill, args),
                Operation::Conjugate(RealType::F32, args) => conjugate::<f32>(args),
                Operation::Conjugate(RealType::F64, args) => conjugate::<f64>(args),
                Operation::FindNonFinite(RealType::F32, args) => find_non_finite::<f32>(args),
                Operation::FindNonFinite(RealType::F64, args) => find_non_finite::<f64>(args),
                Operation::FindNonFiniteAnywhere(RealType::F32, args) => find_anywhere::<f32>(args),
                Operation::FindNonFiniteAnywhere(RealType::F64, args) => find_anywhere::<f64>(args),
                Operation::DiagLogSum(real, args) => sum_diagonal_logs(*real, args),
                Operation::ScaleTo(real, args) => scale_to(*real, args),
                Operation::CombineStatus(args) => combine_status(args),
            }
        }
        Ok(())
    }

    fn allocate(&self, bytes: u64) -> Result<Buffer> {
        let layout = layout(bytes)?;
        if layout.size() == 0 {
            return Ok(Buffer::EMPTY);
        }
        // SAFETY: the layout's size is not zero.
        let pointer = unsafe { std::alloc::alloc(layout) };
        if pointer.is_null() {
            return Err(Error::resource_exhausted(format!("no room for {bytes} bytes of scratch memory")));
        }
        let held = self.held.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.peak.fetch_max(held, Ordering::Relaxed);
        // SAFETY: freshly allocated, and valid until `release`.
        Ok(unsafe { Buffer::from_raw(pointer, bytes) })
    }

    fn release(&self, buffer: Buffer) {
        let Ok(layout) = layout(buffer.bytes()) else { return };
        if layout.size() > 0 {
            self.held.fetch_sub(buffer.bytes(), Ordering::Relaxed);
            // SAFETY: `allocate` made it with the same layout, and it is given back once.
            unsafe { std::alloc::dealloc(pointer(buffer.address()), layout) };
        }
    }

    fn table(&self, words: &Arc<[u32]>) -> Result<Buffer> {
        // SAFETY: the caller's plan keeps the table alive during its call; nobody writes to it.
        Ok(unsafe { Buffer::from_raw(words.as_ptr().cast_mut().cast(), size_of_val(&**words) as u64) })
    }
}

fn pointer<T>(address: u64) -> *mut T {
    std::ptr::with_exposed_provenance_mut(usize::try_from(address).expect("an address of this process"))
}

/// Offset in elements as the pointer methods want it.
fn at(index: u64) -> usize {
    usize::try_from(index).expect("an index into memory of this process")
}

/// Edge of the square pieces that conversions work through, to stay within the cache.
const EDGE: u64 = 32;

fn pieces(extent: u64) -> impl Iterator<Item = std::ops::Range<u64>> {
    (0..extent.div_ceil(EDGE)).map(move |k| k * EDGE..(k * EDGE + EDGE).min(extent))
}

/// # Safety
/// As for [`Device::launch`].
unsafe fn convert_forward<T: Pod>(args: &ConvertArgs) {
    let (src, dst) = (pointer::<T>(args.src), pointer::<T>(args.dst));
    for cols in pieces(args.cols) {
        for rows in pieces(args.rows) {
            for j in cols.clone() {
                let c = args.col_map.map(j);
                for i in rows.clone() {
                    // SAFETY: both indices lie within the buffers, by the contract of `launch`.
                    unsafe {
                        let value = match (args.row_map.map(i), c) {
                            (Some(r), Some(c)) => *src.add(at(r * args.ld_src + c)),
                            _ => T::zeroed(),
                        };
                        *dst.add(at(i + j * args.ld_dst)) = value;
                    }
                }
            }
        }
    }
}

/// # Safety
/// As for [`Device::launch`].
unsafe fn convert_reverse<T: Pod>(args: &ConvertArgs) {
    let (src, dst) = (pointer::<T>(args.src), pointer::<T>(args.dst));
    for cols in pieces(args.cols) {
        for rows in pieces(args.rows) {
            for i in rows.clone() {
                let Some(r) = args.row_map.map(i) else { continue };
                for j in cols.clone() {
                    let Some(c) = args.col_map.map(j) else { continue };
                    // SAFETY: both indices lie within the buffers, by the contract of `launch`.
                    unsafe { *dst.add(at(r * args.ld_dst + c)) = *src.add(at(i + j * args.ld_src)) };
                }
            }
        }
    }
}

/// # Safety
/// As for [`Device::launch`].
unsafe fn transpose_blocks<T: Pod>(args: &TransposeBlocksArgs) {
    let buf = pointer::<T>(args.buf);
    let ld = args.q * args.g;
    if args.flag != 0 {
        // SAFETY: the whole matrix and the flag are there.
        unsafe {
            let elements = std::slice::from_raw_parts(buf, at(args.p * args.g * ld));
            let bits = |element: &T| {
                let mut bits = [0_u64; 2];
                bytemuck::bytes_of_mut(&mut bits)[..size_of::<T>()]
                    .copy_from_slice(bytemuck::bytes_of(element));
                bits
            };
            let is_bad = |word: u64| args.exponents.iter().any(|exponent| word & exponent == *exponent);
            if elements.iter().any(|element| bits(element).into_iter().any(is_bad)) {
                *pointer::<i32>(args.flag) = 1;
            }
        }
    }
    for a in 0..args.p {
        for b in 0..args.q {
            let base = a * args.g * ld + b * args.g;
            for i in 0..args.g {
                for j in 0..i {
                    // SAFETY: both elements lie within the block.
                    unsafe { buf.add(at(base + i * ld + j)).swap(buf.add(at(base + j * ld + i))) };
                }
            }
        }
    }
}

/// The segment that belongs where segment `hole` stands.
fn source_segment(args: &MoveSegmentsArgs, hole: u64) -> u64 {
    let within = hole % args.group();
    let (column, a) = (within / args.p, within % args.p);
    let (b, i) = (column / args.g, column % args.g);
    hole - within + (a * args.g + i) * args.q + b
}

/// # Safety
/// As for [`Device::launch`].
unsafe fn move_segments<T: Pod>(args: &MoveSegmentsArgs) {
    let (buf, scratch) = (pointer::<T>(args.buf), pointer::<T>(args.scratch));
    let len = at(args.len);
    for begin in 0..args.segments() {
        let is_cut = begin.is_multiple_of(args.stride);
        if !is_cut && !leads_cycle(args, begin) {
            continue;
        }
        let mut hole = begin;
        loop {
            let source = source_segment(args, hole);
            let swaps = source != begin && !source.is_multiple_of(args.stride);
            // SAFETY: segments lie within the buffer; a cut is taken from where it was saved.
            unsafe {
                let to = buf.add(at(hole * args.len));
                if swaps {
                    // What the beginning of a cycle held travels along to the cycle's last hole.
                    std::ptr::swap_nonoverlapping(to, buf.add(at(source * args.len)), len);
                } else if is_cut {
                    let from = scratch.add(at(source / args.stride * args.len));
                    std::ptr::copy_nonoverlapping(from, to, len);
                }
            }
            if !swaps {
                break;
            }
            hole = source;
        }
    }
}

/// Whether `start` is the smallest segment of a cycle of two or more that holds no cut.
fn leads_cycle(args: &MoveSegmentsArgs, start: u64) -> bool {
    let mut at = source_segment(args, start);
    while at != start {
        if at < start || at.is_multiple_of(args.stride) {
            return false;
        }
        at = source_segment(args, at);
    }
    source_segment(args, start) != start
}

/// # Safety
/// As for [`Device::launch`].
unsafe fn copy_lines<T: Pod>(args: &CopyLinesArgs) {
    let (src, dst) = (pointer::<T>(args.src), pointer::<T>(args.dst));
    for line in 0..args.lines {
        // SAFETY: each line lies within the buffers, which do not overlap, by the contract of `launch`.
        unsafe {
            std::ptr::copy_nonoverlapping(
                src.add(at(line * args.ld_src)),
                dst.add(at(line * args.ld_dst)),
                at(args.len),
            );
        }
    }
}

/// # Safety
/// As for [`Device::launch`].
unsafe fn permute_slots<T: Pod>(args: &PermuteSlotsArgs) {
    let buf = pointer::<T>(args.buf);
    // SAFETY: the tables hold `n_cycles + 1` starts, and as many slots as the last start says.
    let (starts, cycles) = unsafe {
        let starts = std::slice::from_raw_parts(pointer::<u32>(args.starts), at(args.n_cycles) + 1);
        let slots = starts[starts.len() - 1] as usize;
        (starts, std::slice::from_raw_parts(pointer::<u32>(args.cycles), slots))
    };
    for line in 0..args.lines {
        for bounds in starts.windows(2) {
            let cycle = &cycles[bounds[0] as usize..bounds[1] as usize];
            let slot = |s: u32| at(line * args.line_stride + u64::from(s) * args.slot_stride);
            for pair in cycle.windows(2) {
                // Swapping along the cycle leaves each slot with its successor's contents.
                // SAFETY: different slots of one line do not overlap.
                unsafe {
                    std::ptr::swap_nonoverlapping(
                        buf.add(slot(pair[0])),
                        buf.add(slot(pair[1])),
                        at(args.width),
                    );
                }
            }
        }
    }
}

/// Whether a guarded kernel has to act.
///
/// # Safety
/// As for [`Device::launch`].
unsafe fn guarded(guard: u64) -> bool {
    // SAFETY: a guard that is not null points to a word.
    guard == 0 || unsafe { *pointer::<i32>(guard) } != 0
}

/// The element whose bits are given low word first.
fn element<T: Pod>(bits: [u64; 2]) -> T {
    bytemuck::pod_read_unaligned(&bytemuck::bytes_of(&bits)[..size_of::<T>()])
}

/// # Safety
/// As for [`Device::launch`].
unsafe fn set_identity<T: Pod>(args: &SetIdentityArgs) {
    // SAFETY: by the contract of `launch`.
    if !unsafe { guarded(args.guard) } {
        return;
    }
    let (buf, one) = (pointer::<T>(args.buf), element::<T>(args.one));
    for j in 0..args.cols {
        let Some(gj) = args.col_map.map(j) else { continue };
        let col_is_real = args.col_real.map(j).is_some();
        for i in 0..args.rows {
            let Some(gi) = args.row_map.map(i) else { continue };
            if !col_is_real || args.row_real.map(i).is_none() {
                // SAFETY: the element lies within the matrix.
                unsafe { *buf.add(at(i + j * args.ld)) = if gi == gj { one } else { T::zeroed() } };
            }
        }
    }
}

/// # Safety
/// As for [`Device::launch`].
unsafe fn fill<T: Pod>(args: &FillArgs) {
    // SAFETY: by the contract of `launch`.
    unsafe {
        if guarded(args.guard) && args.count > 0 {
            std::slice::from_raw_parts_mut(pointer::<T>(args.buf), at(args.count)).fill(element(args.value));
        }
    }
}

/// # Safety
/// As for [`Device::launch`].
unsafe fn conjugate<R: Pod + std::ops::Neg<Output = R>>(args: &ConjugateArgs) {
    let buf = pointer::<[R; 2]>(args.buf);
    for index in 0..args.count {
        // SAFETY: the number lies within the buffer.
        unsafe {
            let [real, imaginary] = *buf.add(at(index));
            *buf.add(at(index)) = [real, -imaginary];
        }
    }
}

/// The real types, as far as the loops need to know them.
trait Finite: Copy {
    fn is_finite(self) -> bool;
}
impl Finite for f32 {
    fn is_finite(self) -> bool {
        self.is_finite()
    }
}
impl Finite for f64 {
    fn is_finite(self) -> bool {
        self.is_finite()
    }
}

/// # Safety
/// As for [`Device::launch`].
unsafe fn find_anywhere<R: Finite>(args: &FindAnywhereArgs) {
    // SAFETY: the numbers and the flag are there.
    unsafe {
        let numbers = std::slice::from_raw_parts(pointer::<R>(args.buf), at(args.count));
        if !numbers.iter().all(|number| number.is_finite()) {
            *pointer::<i32>(args.flag) = 1;
        }
    }
}

/// # Safety
/// As for [`Device::launch`].
unsafe fn find_non_finite<R: Finite>(args: &FindNonFiniteArgs) {
    let buf = pointer::<R>(args.buf);
    let parts = u64::from(args.parts);
    for j in 0..args.cols {
        let Some(gj) = args.col_map.map(j) else { continue };
        for i in 0..args.rows {
            let Some(gi) = args.row_map.map(i) else { continue };
            if (args.triangle == Triangle::Lower as u32 && gi < gj)
                || (args.triangle == Triangle::Upper as u32 && gi > gj)
            {
                continue;
            }
            for part in 0..parts {
                // SAFETY: the element lies within the matrix; the flag is a word.
                unsafe {
                    if !(*buf.add(at((i + j * args.ld) * parts + part))).is_finite() {
                        *pointer::<i32>(args.flag) = 1;
                        return;
                    }
                }
            }
        }
    }
}

/// # Safety
/// As for [`Device::launch`].
unsafe fn sum_diagonal_logs(real: RealType, args: &DiagLogSumArgs) {
    let diagonal = |i: u64| {
        let global = args.row_map.map(i).filter(|&g| g < args.n)?;
        let j = args.col_map.unmap(global).filter(|&j| j < args.cols)?;
        Some(at((i + j * args.ld) * args.parts))
    };
    let value = |index: usize| {
        // SAFETY: the diagonal lies within the matrix.
        unsafe {
            match real {
                RealType::F32 => f64::from(*pointer::<f32>(args.buf).add(index)),
                RealType::F64 => *pointer::<f64>(args.buf).add(index),
            }
        }
    };
    let sum = sum_in_kernel_order(args.rows, |i| diagonal(i).map(|index| ln_abs(value(index))));
    // SAFETY: the result is one f64.
    unsafe { *pointer::<f64>(args.out) = sum };
}

/// # Safety
/// As for [`Device::launch`].
#[expect(clippy::cast_possible_truncation, reason = "rounding to f32 is the operation")]
unsafe fn scale_to(real: RealType, args: &ScaleToArgs) {
    // SAFETY: source and destination are one number each.
    unsafe {
        let value = args.scale * *pointer::<f64>(args.src);
        match real {
            RealType::F32 => *pointer::<f32>(args.dst) = value as f32,
            RealType::F64 => *pointer::<f64>(args.dst) = value,
        }
    }
}

/// # Safety
/// As for [`Device::launch`].
unsafe fn combine_status(args: &CombineStatusArgs) {
    let mut status = 0;
    for word in 0..at(args.count) {
        // SAFETY: both tables hold `count` words.
        let (max, min) =
            unsafe { (*pointer::<i32>(args.max).add(word), *pointer::<i32>(args.min).add(word)) };
        let value = if max != 0 { max } else { min };
        if value != 0 {
            status = if word == 0 { -1 } else { value };
            break;
        }
    }
    if let Some(row) = u64::try_from(status).ok().filter(|&row| row > 0).and_then(|row| args.map.map(row - 1))
    {
        status = i32::try_from(row + 1).expect("a row of a matrix");
    }
    // SAFETY: the result is one word.
    unsafe { *pointer::<i32>(args.out) = status };
}
