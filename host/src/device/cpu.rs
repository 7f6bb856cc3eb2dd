//! Host loops: every operation in plain Rust on ordinary memory.

use super::{Buffer, Device, ElementSize, Operation, RealType};
use crate::{Error, Result};
use bytemuck::Pod;
use meshsolve_kernels::args::{
    AddToDiagonalArgs, ApplyPseudoinverseArgs, ClearOtherTriangleArgs, CombineStatusArgs, ConjugateArgs,
    ConvertArgs, CopyLinesArgs, DiagLogSumArgs, DiagPhaseArgs, Diagonal, FillArgs, FindAnywhereArgs,
    FindNonFiniteArgs, FindZeroDiagonalArgs, GatherRowsArgs, MakeDiagonalRealArgs, MoveSegmentsArgs,
    PermuteSlotsArgs, PhaseToArgs, PlacesOfPivotsArgs, ScaleToArgs, SetIdentityArgs, SpreadPivotsArgs,
    TransposeBlocksArgs, Triangle,
};
use meshsolve_kernels::arithmetic::{combined_in_kernel_order, ln_modulus, phase, phase_product};
use std::alloc::Layout;
use std::ops::{Div, Mul, Neg};
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
                Operation::ClearOtherTriangle(c, args) => by_size!(c, clear_other_triangle, args),
                Operation::Fill(c, args) => by_size!(c, fill, args),
                Operation::Conjugate(RealType::F32, args) => conjugate::<f32>(args),
                Operation::Conjugate(RealType::F64, args) => conjugate::<f64>(args),
                Operation::FindNonFinite(RealType::F32, args) => find_non_finite::<f32>(args),
                Operation::FindNonFinite(RealType::F64, args) => find_non_finite::<f64>(args),
                Operation::FindNonFiniteAnywhere(RealType::F32, args) => find_anywhere::<f32>(args),
                Operation::FindNonFiniteAnywhere(RealType::F64, args) => find_anywhere::<f64>(args),
                Operation::AddToDiagonal(RealType::F32, args) => add_to_diagonal::<f32>(args),
                Operation::AddToDiagonal(RealType::F64, args) => add_to_diagonal::<f64>(args),
                Operation::MakeDiagonalReal(RealType::F32, args) => make_diagonal_real::<f32>(args),
                Operation::MakeDiagonalReal(RealType::F64, args) => make_diagonal_real::<f64>(args),
                Operation::FindZeroDiagonal(real, args) => find_zero_diagonal(*real, args),
                Operation::DiagLogSum(real, args) => sum_diagonal_logs(*real, args),
                Operation::DiagPhase(real, args) => multiply_diagonal_phases(*real, args),
                Operation::PhaseTo(real, args) => phase_to(*real, args),
                Operation::ScaleTo(real, args) => scale_to(*real, args),
                Operation::ApplyPseudoinverse(RealType::F32, args) => apply_pseudoinverse::<f32>(args),
                Operation::ApplyPseudoinverse(RealType::F64, args) => apply_pseudoinverse::<f64>(args),
                Operation::CombineStatus(args) => combine_status(args),
                Operation::SpreadPivots(args) => spread_pivots(args),
                Operation::PlacesOfPivots(args) => places_of_pivots(args),
                Operation::GatherRows(c, args) => by_size!(c, gather_rows, args),
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
        let place = match args.places {
            0 => Some(gj),
            // SAFETY: there is a row for each global column.
            places => Some(u64::from(unsafe { *pointer::<u32>(places).add(at(gj)) })),
        };
        let col_is_real = args.col_real.map(j).is_some();
        for i in 0..args.rows {
            let Some(gi) = args.row_map.map(i) else { continue };
            if !col_is_real || args.row_real.map(i).is_none() {
                // SAFETY: the element lies within the matrix.
                unsafe { *buf.add(at(i + j * args.ld)) = if Some(gi) == place { one } else { T::zeroed() } };
            }
        }
    }
}

/// Whether a triangle, by its number, leaves out the element at (row, col).
fn is_outside(triangle: u64, row: u64, col: u64) -> bool {
    (triangle == Triangle::Lower as u64 && row < col) || (triangle == Triangle::Upper as u64 && row > col)
}

/// # Safety
/// As for [`Device::launch`].
unsafe fn clear_other_triangle<T: Pod>(args: &ClearOtherTriangleArgs) {
    let buf = pointer::<T>(args.buf);
    for j in 0..args.cols {
        let Some(gj) = args.col_map.map(j) else { continue };
        for i in 0..args.rows {
            if args.row_map.map(i).is_some_and(|gi| is_outside(args.kept, gi, gj)) {
                // SAFETY: the element lies within the matrix.
                unsafe { *buf.add(at(i + j * args.ld)) = T::zeroed() };
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
unsafe fn conjugate<R: Pod + Neg<Output = R>>(args: &ConjugateArgs) {
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
    if args.count == 0 {
        return;
    }
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
            if is_outside(args.triangle.into(), gi, gj) {
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

/// Real and imaginary part of the diagonal entry that begins at `place`.
///
/// # Safety
/// As for [`Device::launch`]; the place must be what `diagonal` gave.
unsafe fn entry(real: RealType, diagonal: &Diagonal, place: u64) -> [f64; 2] {
    let part = |part: u64| {
        // SAFETY: the entry lies within the matrix.
        unsafe {
            match real {
                RealType::F32 => f64::from(*pointer::<f32>(diagonal.buf).add(at(place + part))),
                RealType::F64 => *pointer::<f64>(diagonal.buf).add(at(place + part)),
            }
        }
    };
    [part(0), if diagonal.parts > 1 { part(1) } else { 0.0 }]
}

/// # Safety
/// As for [`Device::launch`].
unsafe fn add_to_diagonal<R: Pod + std::ops::AddAssign>(args: &AddToDiagonalArgs) {
    let diagonal = &args.diagonal;
    for place in (0..diagonal.rows).filter_map(|i| diagonal.in_row(i)) {
        for part in 0..diagonal.parts {
            // SAFETY: the entry lies within the matrix and has as many parts as the shift.
            unsafe {
                *pointer::<R>(diagonal.buf).add(at(place + part)) += *pointer::<R>(args.shift).add(at(part));
            }
        }
    }
}

/// # Safety
/// As for [`Device::launch`].
unsafe fn make_diagonal_real<R: Pod>(args: &MakeDiagonalRealArgs) {
    let diagonal = &args.diagonal;
    for place in (0..diagonal.rows).filter_map(|i| diagonal.in_row(i)) {
        // SAFETY: the entry lies within the matrix and has two parts.
        unsafe { *pointer::<R>(diagonal.buf).add(at(place + 1)) = R::zeroed() };
    }
}

/// # Safety
/// As for [`Device::launch`].
unsafe fn find_zero_diagonal(real: RealType, args: &FindZeroDiagonalArgs) {
    let diagonal = &args.diagonal;
    let first = (0..diagonal.cols)
        .filter_map(|j| {
            let global = diagonal.column(j)?;
            // SAFETY: by the contract of `launch`.
            let parts = unsafe { entry(real, diagonal, diagonal.in_column(j, global)?) };
            (parts == [0.0; 2] || !parts.iter().all(|part| part.is_finite())).then_some(global)
        })
        .min();
    let word = first.map_or(0, |global| i32::try_from(diagonal.n - global).expect("a row of a matrix"));
    // SAFETY: the result is one word.
    unsafe { *pointer::<i32>(args.word) = word };
}

/// # Safety
/// As for [`Device::launch`].
unsafe fn sum_diagonal_logs(real: RealType, args: &DiagLogSumArgs) {
    let diagonal = &args.diagonal;
    // SAFETY: by the contract of `launch`.
    let term = |i| diagonal.in_row(i).map(|place| ln_modulus(unsafe { entry(real, diagonal, place) }));
    let sum = combined_in_kernel_order(diagonal.rows, 0.0, term, |a, b| a + b);
    // SAFETY: the result is one f64.
    unsafe { *pointer::<f64>(args.out) = sum };
}

/// # Safety
/// As for [`Device::launch`].
unsafe fn multiply_diagonal_phases(real: RealType, args: &DiagPhaseArgs) {
    let diagonal = &args.diagonal;
    let term = |j| {
        let global = diagonal.column(j)?;
        // SAFETY: unless null there is a pivot for each local column.
        let stayed = args.pivots == 0
            || u64::try_from(unsafe { *pointer::<i64>(args.pivots).add(at(j)) }) == Ok(global + 1);
        // SAFETY: by the contract of `launch`.
        let own = diagonal.in_column(j, global).map(|place| unsafe { entry(real, diagonal, place) });
        let [re, im] = own.unwrap_or([1.0, 0.0]);
        Some(if stayed { [re, im] } else { [-re, -im] })
    };
    let product = combined_in_kernel_order(diagonal.cols, [1.0, 0.0], term, phase_product);
    // SAFETY: the result is two f64.
    unsafe { *pointer::<[f64; 2]>(args.out) = product };
}

/// # Safety
/// As for [`Device::launch`].
#[expect(clippy::cast_possible_truncation, reason = "rounding to f32 is the operation")]
unsafe fn phase_to(real: RealType, args: &PhaseToArgs) {
    let product = (0..args.count).fold([1.0, 0.0], |product, k| {
        // SAFETY: there are `count` pairs.
        phase_product(product, unsafe { *pointer::<[f64; 2]>(args.src).add(at(k)) })
    });
    for (part, value) in phase(product).into_iter().take(at(args.parts)).enumerate() {
        // SAFETY: the destination has as many parts.
        unsafe {
            match real {
                RealType::F32 => *pointer::<f32>(args.dst).add(part) = value as f32,
                RealType::F64 => *pointer::<f64>(args.dst).add(part) = value,
            }
        }
    }
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
unsafe fn apply_pseudoinverse<R>(args: &ApplyPseudoinverseArgs)
where
    R: Pod + PartialOrd + Neg<Output = R> + Mul<Output = R> + Div<Output = R> + From<u8>,
{
    let magnitude = |x: R| if x < R::zeroed() { -x } else { x };
    if args.n == 0 {
        return;
    }
    // SAFETY: the numbers are there.
    let (values, cutoff) = unsafe {
        (std::slice::from_raw_parts(pointer::<R>(args.values), at(args.n)), *pointer::<R>(args.cutoff))
    };
    let [first, last] = [values[0], values[values.len() - 1]].map(magnitude);
    let least = cutoff * if first < last { last } else { first };
    for i in 0..args.rows {
        let Some(value) = args.row_map.map(i).map(|row| values[at(row)]) else { continue };
        let factor = (magnitude(value) > least).then(|| R::from(1) / value).filter(|&f| f != R::zeroed());
        for number in (0..args.cols).flat_map(|j| (0..args.parts).map(move |part| (j, part))) {
            let (j, part) = number;
            // SAFETY: the element lies within the matrix and has as many parts.
            unsafe {
                let to = pointer::<R>(args.buf).add(at((i + j * args.ld) * args.parts + part));
                *to = factor.map_or(R::zeroed(), |factor| *to * factor);
            }
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
            status = match word {
                0 => -1,
                1 if args.from_end > 0 && value > 0 => {
                    i32::try_from(args.from_end).expect("the order of a matrix") - value + 1
                }
                _ => value,
            };
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

/// # Safety
/// As for [`Device::launch`].
#[expect(clippy::cast_possible_truncation, reason = "rows fit into a word, and what is none may be anything")]
unsafe fn spread_pivots(args: &SpreadPivotsArgs) {
    for j in 0..args.cols {
        if let Some(global) = args.col_map.map(j) {
            // SAFETY: there is a pivot for each local column and a word for each global one.
            unsafe {
                *pointer::<i32>(args.out).add(at(global)) = *pointer::<i64>(args.pivots).add(at(j)) as i32;
            }
        }
    }
}

/// # Safety
/// As for [`Device::launch`].
unsafe fn places_of_pivots(args: &PlacesOfPivotsArgs) {
    if args.n == 0 {
        return;
    }
    // SAFETY: there are n words of both, and they do not overlap.
    let (pivots, places) = unsafe {
        (
            std::slice::from_raw_parts(pointer::<i32>(args.pivots), at(args.n)),
            std::slice::from_raw_parts_mut(pointer::<i32>(args.places), at(args.n)),
        )
    };
    places.iter_mut().zip(0..).for_each(|(place, i)| *place = i);
    // Backwards, for that makes the inverse of the order in which the rows then stand.
    for (i, &pivot) in pivots.iter().enumerate().rev() {
        if let Some(other) = usize::try_from(pivot).ok().and_then(|pivot| pivot.checked_sub(1))
            && other < places.len()
        {
            places.swap(i, other);
        }
    }
}

/// # Safety
/// As for [`Device::launch`].
unsafe fn gather_rows<T: Pod>(args: &GatherRowsArgs) {
    for s in 0..args.count {
        // SAFETY: there are `count` words.
        let row = u64::try_from(unsafe { *pointer::<i32>(args.rows).add(at(s)) });
        let from = row.ok().filter(|&row| row < args.count).and_then(|row| args.map.map(row));
        if let Some((from, to)) = from.zip(args.map.map(s)) {
            // SAFETY: both matrices have every row that the map gives, and do not overlap.
            unsafe {
                std::ptr::copy_nonoverlapping(
                    pointer::<T>(args.src).add(at(from * args.cols)),
                    pointer::<T>(args.dst).add(at(to * args.cols)),
                    at(args.cols),
                );
            }
        }
    }
}
