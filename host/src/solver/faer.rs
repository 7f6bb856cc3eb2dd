//! The development solver: one rank solves for all, with the faer library.

use super::{DistributedMatrix, Solver, Triangle, checks};
use crate::communicator::{Communicator, Message};
use crate::device::Buffer;
use crate::layout::{BlockCyclic, LocalElement};
use crate::{DType, Error, Result};
use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::cholesky::llt;
use faer::traits::ComplexField;
use faer::{Conj, MatMut, MatRef};
use std::ops::Range;

/// Gathers matrices on rank 0, calculates there with faer, and scatters the results.
///
/// For matrices in memory of this process (a CPU device). It serves to develop and test routines, so
/// it is neither fast nor frugal: rank 0's scratch holds whole matrices.
pub struct FaerSolver<'c> {
    communicator: &'c dyn Communicator,
}

impl<'c> FaerSolver<'c> {
    /// A solver for matrices distributed over all ranks of `communicator`.
    pub fn new(communicator: &'c dyn Communicator) -> Self {
        Self { communicator }
    }

    fn is_root(&self) -> bool {
        self.communicator.rank() == 0
    }

    /// Whose parts travel through this rank: on rank 0 those of all others, elsewhere its own.
    fn owners(&self) -> Range<u64> {
        let rank = self.communicator.rank();
        if self.is_root() { 1..self.communicator.size() } else { rank..rank + 1 }
    }

    /// Bytes in which rank 0 holds all of `m`; none elsewhere.
    fn whole_bytes(&self, m: &DistributedMatrix) -> u64 {
        if self.is_root() { m.rows.extent() * m.cols.extent() * m.dtype.size() } else { 0 }
    }

    /// Bytes of the parts of `m` that travel through this rank, without gaps between columns.
    fn packed_bytes(&self, m: &DistributedMatrix) -> u64 {
        self.owners().map(|owner| part_bytes(m, owner)).sum()
    }

    /// Cuts `packed` into the parts that travel through this rank, and names the other side.
    fn pieces(&self, m: &DistributedMatrix, packed: Buffer) -> Vec<Message> {
        let mut offset = 0;
        let piece = |owner| {
            let data = packed.slice(offset, part_bytes(m, owner));
            offset += data.bytes();
            Message { peer: if self.is_root() { owner } else { 0 }, data }
        };
        self.owners().map(piece).collect()
    }

    /// This rank's part where it stands, then those in `pieces`.
    fn parts(&self, m: &DistributedMatrix, pieces: &[Message]) -> Vec<Part> {
        let own = Part::new(m, self.communicator.rank(), m.leading_dimension, m.data);
        let others = self.owners().zip(pieces).map(|(owner, piece)| {
            let rows = m.rows.count(m.grid.coordinate(owner).row);
            Part::new(m, owner, rows, piece.data)
        });
        std::iter::once(own).chain(others).collect()
    }

    /// Fills `whole` on rank 0 from all ranks' parts: column-major, or row-major for an upper triangle.
    /// Outside the triangle, if there is one, `whole` is arbitrary.
    fn gather<T: Element>(
        &self,
        m: &DistributedMatrix,
        triangle: Option<Triangle>,
        whole: Buffer,
        packed: Buffer,
    ) -> Result<()> {
        let pieces = self.pieces(m, packed);
        let parts = self.parts(m, &pieces);
        if !self.is_root() {
            parts[0].copy_to::<T>(&parts[1]);
            return self.communicator.exchange(&pieces, &[]);
        }
        self.communicator.exchange(&[], &pieces)?;
        // SAFETY: scratch of this call, apart from all parts.
        let whole = unsafe { elements::<T>(whole) };
        for part in &parts {
            // SAFETY: this rank's part, or a piece that was received.
            let data = unsafe { elements::<T>(part.data) };
            part.for_each(triangle, m.rows.extent(), |local, place| whole[place] = data[local]);
        }
        Ok(())
    }

    /// Writes `whole`, or its triangle, back into all ranks' parts: [`FaerSolver::gather`] backwards,
    /// with `packed` as that left it.
    fn scatter<T: Element>(
        &self,
        m: &DistributedMatrix,
        triangle: Option<Triangle>,
        whole: Buffer,
        packed: Buffer,
    ) -> Result<()> {
        let pieces = self.pieces(m, packed);
        let parts = self.parts(m, &pieces);
        if !self.is_root() {
            self.communicator.exchange(&[], &pieces)?;
            parts[1].copy_to::<T>(&parts[0]);
            return Ok(());
        }
        // SAFETY: scratch of this call, apart from all parts.
        let whole = unsafe { elements::<T>(whole) };
        for part in &parts {
            // SAFETY: this rank's part, or a piece that is not being sent yet.
            let data = unsafe { elements::<T>(part.data) };
            part.for_each(triangle, m.rows.extent(), |local, place| data[local] = whole[place]);
        }
        self.communicator.exchange(&pieces, &[])
    }

    fn factor<T: Element>(
        &self,
        triangle: Triangle,
        a: &DistributedMatrix,
        scratch: Buffer,
        info: Buffer,
    ) -> Result<()> {
        let [whole, packed] = cut(scratch, [self.whole_bytes(a), self.packed_bytes(a)]);
        self.gather::<T>(a, Some(triangle), whole, packed)?;
        // SAFETY: the word is memory of this process that only this call uses.
        let info = unsafe { info.as_mut_slice::<i32>() };
        info[0] = 0;
        if self.is_root() {
            // SAFETY: scratch of this call.
            info[0] = factor_whole(unsafe { elements::<T>(whole) }, index(a.rows.extent()));
        }
        self.scatter::<T>(a, Some(triangle), whole, packed)
    }

    fn solve<T: Element>(
        &self,
        triangle: Triangle,
        a: &DistributedMatrix,
        b: &DistributedMatrix,
        scratch: Buffer,
        info: Buffer,
    ) -> Result<()> {
        let packed = self.packed_bytes(a).max(self.packed_bytes(b));
        let [factor, solution, packed] = cut(scratch, [self.whole_bytes(a), self.whole_bytes(b), packed]);
        self.gather::<T>(a, Some(triangle), factor, packed)?;
        self.gather::<T>(b, None, solution, packed)?;
        if self.is_root() {
            // SAFETY: scratch of this call; the two do not overlap.
            let (factor, solution) = unsafe { (elements::<T>(factor), elements::<T>(solution)) };
            solve_whole(triangle, factor, solution, index(b.rows.extent()), index(b.cols.extent()));
        }
        // SAFETY: the word is memory of this process that only this call uses.
        let info = unsafe { info.as_mut_slice::<i32>() };
        info[0] = 0;
        self.scatter::<T>(b, None, solution, packed)
    }

    /// Checks what would otherwise show as a wrong result or on another rank.
    fn check_factor(&self, a: &DistributedMatrix) -> Result<()> {
        self.check_size(a)?;
        checks::check_factor(self.communicator.rank(), a.grid, a)
    }

    fn check_system(&self, a: &DistributedMatrix, b: &DistributedMatrix) -> Result<()> {
        self.check_size(a)?;
        checks::check_system(self.communicator.rank(), a.grid, a, b)
    }

    /// Whether the matrix lies on as many processes as talk here.
    fn check_size(&self, m: &DistributedMatrix) -> Result<()> {
        let (grid, group) = (m.grid.size(), self.communicator.size());
        if grid == group {
            return Ok(());
        }
        let rank = self.communicator.rank();
        Err(Error::internal(format!(
            "matrix A on rank {rank}: its grid has {grid} processes, needed {group}"
        )))
    }
}

/// Calls a method with the element type that a matrix has.
macro_rules! with_element {
    ($matrix:expr, $self:ident.$method:ident($($argument:expr),*)) => {
        match $matrix.dtype {
            DType::F32 => $self.$method::<f32>($($argument),*),
            DType::F64 => $self.$method::<f64>($($argument),*),
            DType::C64 => $self.$method::<faer::c32>($($argument),*),
            DType::C128 => $self.$method::<faer::c64>($($argument),*),
            DType::I32 => Err(Error::internal("Cholesky of an integer matrix")),
        }
    };
}

impl Solver for FaerSolver<'_> {
    fn cholesky_scratch(
        &self,
        _triangle: Triangle,
        a: &DistributedMatrix,
        b: &DistributedMatrix,
    ) -> Result<u64> {
        self.check_system(a, b)?;
        let packed = self.packed_bytes(a).max(self.packed_bytes(b));
        Ok(self.whole_bytes(a) + self.whole_bytes(b) + packed)
    }

    fn cholesky_factor(
        &self,
        triangle: Triangle,
        a: &DistributedMatrix,
        scratch: Buffer,
        info: Buffer,
    ) -> Result<()> {
        self.check_factor(a)?;
        with_element!(a, self.factor(triangle, a, scratch, info))
    }

    fn cholesky_solve(
        &self,
        triangle: Triangle,
        a: &DistributedMatrix,
        b: &DistributedMatrix,
        scratch: Buffer,
        info: Buffer,
    ) -> Result<()> {
        self.check_system(a, b)?;
        with_element!(a, self.solve(triangle, a, b, scratch, info))
    }
}

/// An element type as it lies in buffers.
///
/// # Safety
/// The type is one [`ComplexField::Real`], or two without padding, and so is valid for any bits.
unsafe trait Element: ComplexField<Real: bytemuck::Pod> + Copy {}

// SAFETY: one real number.
unsafe impl Element for f32 {}
// SAFETY: one real number.
unsafe impl Element for f64 {}
// SAFETY: `repr(C)` of two real numbers.
unsafe impl Element for faer::c32 {}
// SAFETY: `repr(C)` of two real numbers.
unsafe impl Element for faer::c64 {}

/// The elements in a buffer.
///
/// # Safety
/// As for [`Buffer::as_mut_slice`].
unsafe fn elements<'a, T: Element>(buffer: Buffer) -> &'a mut [T] {
    // SAFETY: by this function's contract.
    let reals = unsafe { buffer.as_mut_slice::<T::Real>() };
    let count = size_of_val(reals) / size_of::<T>();
    // SAFETY: elements are made of reals, by the contract of `Element`.
    unsafe { std::slice::from_raw_parts_mut(reals.as_mut_ptr().cast(), count) }
}

/// One rank's part of a matrix, column-major, and where its rows and columns stand in the whole.
struct Part {
    data: Buffer,
    leading_dimension: usize,
    rows: Vec<usize>,
    cols: Vec<usize>,
}

impl Part {
    fn new(m: &DistributedMatrix, owner: u64, leading_dimension: u64, data: Buffer) -> Self {
        let at = m.grid.coordinate(owner);
        let place = |dimension: BlockCyclic, proc| {
            let local = 0..dimension.count(proc);
            local.map(|l| index(dimension.global(LocalElement(l), proc).0)).collect()
        };
        Self {
            data,
            leading_dimension: index(leading_dimension),
            rows: place(m.rows, at.row),
            cols: place(m.cols, at.col),
        }
    }

    /// Copies the elements to where the same rank's part lies with another leading dimension.
    fn copy_to<T: Element>(&self, other: &Part) {
        let rows = self.rows.len();
        if rows == 0 {
            return;
        }
        // SAFETY: one of them is this rank's part, the other is scratch that no message uses now.
        let (from, to) = unsafe { (elements::<T>(self.data), elements::<T>(other.data)) };
        let columns = from.chunks(self.leading_dimension).zip(to.chunks_mut(other.leading_dimension));
        for (from, to) in columns.take(self.cols.len()) {
            to[..rows].copy_from_slice(&from[..rows]);
        }
    }

    /// Calls `visit` with the place in the part and the place in the whole of all elements in the
    /// triangle. The whole has columns of `extent` elements; an upper triangle has rows instead.
    fn for_each(&self, triangle: Option<Triangle>, extent: u64, mut visit: impl FnMut(usize, usize)) {
        let extent = index(extent);
        for (j, &col) in self.cols.iter().enumerate() {
            for (i, &row) in self.rows.iter().enumerate() {
                let place = match triangle {
                    Some(Triangle::Lower) if row < col => continue,
                    Some(Triangle::Upper) if row > col => continue,
                    Some(Triangle::Upper) => row * extent + col,
                    _ => col * extent + row,
                };
                visit(j * self.leading_dimension + i, place);
            }
        }
    }
}

/// Factors the lower triangle of a column-major n × n matrix in place and returns LAPACK's info.
///
/// The row-major upper triangle of A is the column-major lower triangle of Aᵀ = conj(A), whose factor
/// is conj(L) = Uᵀ: in place that is U, row-major.
fn factor_whole<T: Element>(a: &mut [T], n: usize) -> i32 {
    if n == 0 {
        return 0;
    }
    let threads = faer::get_global_parallelism();
    let scratch = llt::factor::cholesky_in_place_scratch::<T>(n, threads, Default::default());
    let outcome = llt::factor::cholesky_in_place(
        MatMut::from_column_major_slice_mut(a, n, n),
        Default::default(),
        threads,
        MemStack::new(&mut MemBuffer::new(scratch)),
        Default::default(),
    );
    match outcome {
        Ok(_) => 0,
        Err(llt::factor::LltError::NonPositivePivot { index }) => {
            i32::try_from(index + 1).expect("a matrix on one rank has fewer rows")
        }
    }
}

/// Solves in place for `cols` columns, given [`factor_whole`]'s result.
fn solve_whole<T: Element>(triangle: Triangle, factor: &[T], b: &mut [T], n: usize, cols: usize) {
    if b.is_empty() {
        return;
    }
    // For an upper triangle the factor is that of conj(A).
    let conj = match triangle {
        Triangle::Lower => Conj::No,
        Triangle::Upper => Conj::Yes,
    };
    let threads = faer::get_global_parallelism();
    let scratch = llt::solve::solve_in_place_scratch::<T>(n, cols, threads);
    llt::solve::solve_in_place_with_conj(
        MatRef::from_column_major_slice(factor, n, n),
        conj,
        MatMut::from_column_major_slice_mut(b, n, cols),
        threads,
        MemStack::new(&mut MemBuffer::new(scratch)),
    );
}

/// Bytes of a rank's part without gaps between columns.
fn part_bytes(m: &DistributedMatrix, owner: u64) -> u64 {
    let at = m.grid.coordinate(owner);
    m.rows.count(at.row) * m.cols.count(at.col) * m.dtype.size()
}

/// Consecutive windows of the given bytes.
fn cut<const N: usize>(buffer: Buffer, bytes: [u64; N]) -> [Buffer; N] {
    let mut offset = 0;
    bytes.map(|bytes| {
        offset += bytes;
        buffer.slice(offset - bytes, bytes)
    })
}

fn index(value: u64) -> usize {
    usize::try_from(value).expect("fits the address space of this process")
}
