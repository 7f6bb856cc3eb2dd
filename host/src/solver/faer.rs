//! The development solver: one rank solves for all, with the faer library.

mod dense;

use super::{DistributedMatrix, Eigenproblem, Product, Solver, Triangle, Triangular, checks};
use crate::communicator::{Communicator, Message};
use crate::device::Buffer;
use crate::layout::{BlockCyclic, LocalElement};
use crate::{DType, Error, Result};
use dense::Element;
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

    /// Bytes of all of `a`, of all of `b`, and of what travels.
    fn system_bytes(&self, a: &DistributedMatrix, b: &DistributedMatrix) -> [u64; 3] {
        [self.whole_bytes(a), self.whole_bytes(b), self.packed_bytes(a).max(self.packed_bytes(b))]
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
    fn gather<V: Value>(
        &self,
        m: &DistributedMatrix,
        triangle: Option<Triangle>,
        whole: Buffer,
        packed: Buffer,
    ) -> Result<()> {
        let pieces = self.pieces(m, packed);
        let parts = self.parts(m, &pieces);
        if !self.is_root() {
            parts[0].copy_to::<V>(&parts[1]);
            return self.communicator.exchange(&pieces, &[]);
        }
        self.communicator.exchange(&[], &pieces)?;
        // SAFETY: scratch of this call, apart from all parts.
        let whole = unsafe { values::<V>(whole) };
        for part in &parts {
            // SAFETY: this rank's part, or a piece that was received.
            let data = unsafe { values::<V>(part.data) };
            part.for_each(triangle, m.rows.extent(), |local, place| whole[place] = data[local]);
        }
        Ok(())
    }

    /// Writes `whole`, or its triangle, back into all ranks' parts: [`FaerSolver::gather`] backwards,
    /// with `packed` as that left it.
    fn scatter<V: Value>(
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
            parts[1].copy_to::<V>(&parts[0]);
            return Ok(());
        }
        // SAFETY: scratch of this call, apart from all parts.
        let whole = unsafe { values::<V>(whole) };
        for part in &parts {
            // SAFETY: this rank's part, or a piece that is not being sent yet.
            let data = unsafe { values::<V>(part.data) };
            part.for_each(triangle, m.rows.extent(), |local, place| data[local] = whole[place]);
        }
        self.communicator.exchange(&pieces, &[])
    }

    fn cholesky_factor_as<T: Element>(
        &self,
        triangle: Triangle,
        a: &DistributedMatrix,
        scratch: Buffer,
        info: Buffer,
    ) -> Result<()> {
        let [whole, packed] = cut(scratch, [self.whole_bytes(a), self.packed_bytes(a)]);
        self.gather::<T>(a, Some(triangle), whole, packed)?;
        report(info, 0);
        if self.is_root() {
            // SAFETY: scratch of this call.
            report(info, dense::cholesky_factor(unsafe { values::<T>(whole) }, index(a.rows.extent())));
        }
        self.scatter::<T>(a, Some(triangle), whole, packed)
    }

    fn cholesky_solve_as<T: Element>(
        &self,
        triangle: Triangle,
        a: &DistributedMatrix,
        b: &DistributedMatrix,
        scratch: Buffer,
        info: Buffer,
    ) -> Result<()> {
        let [factor, solution, packed] = cut(scratch, self.system_bytes(a, b));
        self.gather::<T>(a, Some(triangle), factor, packed)?;
        self.gather::<T>(b, None, solution, packed)?;
        if self.is_root() {
            // SAFETY: scratch of this call; the two do not overlap.
            let (factor, solution) = unsafe { (values::<T>(factor), values::<T>(solution)) };
            dense::cholesky_solve(triangle, factor, solution, index(b.rows.extent()));
        }
        report(info, 0);
        self.scatter::<T>(b, None, solution, packed)
    }

    /// The pivots as a matrix of one row.
    fn pivot_matrix(&self, a: &DistributedMatrix, pivots: Buffer) -> DistributedMatrix {
        DistributedMatrix {
            // As long as the `i64` that are moved.
            dtype: DType::F64,
            grid: a.grid,
            rows: BlockCyclic::new(1, 1, a.grid.rows()),
            cols: a.cols,
            leading_dimension: 1,
            data: pivots,
        }
    }

    /// Bytes of all pivots, of what travels, and of all of `a`, in an order that keeps each aligned.
    fn lu_bytes(&self, a: &DistributedMatrix, b: Option<&DistributedMatrix>) -> [u64; 4] {
        let pivots = self.pivot_matrix(a, Buffer::EMPTY);
        let (b_packed, b_whole) = b.map_or((0, 0), |b| (self.packed_bytes(b), self.whole_bytes(b)));
        let packed = self.packed_bytes(&pivots).max(self.packed_bytes(a)).max(b_packed);
        [self.whole_bytes(&pivots), packed, self.whole_bytes(a), b_whole]
    }

    fn lu_factor_as<T: Element>(
        &self,
        a: &DistributedMatrix,
        pivots: Buffer,
        scratch: Buffer,
        info: Buffer,
    ) -> Result<()> {
        let pivots = self.pivot_matrix(a, pivots);
        let [all_pivots, packed, whole, _] = cut(scratch, self.lu_bytes(a, None));
        self.gather::<T>(a, None, whole, packed)?;
        report(info, 0);
        if self.is_root() {
            // SAFETY: scratch of this call; the two do not overlap.
            let (whole, all_pivots) = unsafe { (values::<T>(whole), values::<i64>(all_pivots)) };
            report(info, dense::lu_factor(whole, all_pivots));
        }
        self.scatter::<T>(a, None, whole, packed)?;
        self.scatter::<i64>(&pivots, None, all_pivots, packed)
    }

    fn lu_solve_as<T: Element>(
        &self,
        a: &DistributedMatrix,
        pivots: Buffer,
        b: &DistributedMatrix,
        scratch: Buffer,
        info: Buffer,
    ) -> Result<()> {
        let pivots = self.pivot_matrix(a, pivots);
        let [all_pivots, packed, factors, solution] = cut(scratch, self.lu_bytes(a, Some(b)));
        self.gather::<i64>(&pivots, None, all_pivots, packed)?;
        self.gather::<T>(a, None, factors, packed)?;
        self.gather::<T>(b, None, solution, packed)?;
        if self.is_root() {
            // SAFETY: scratch of this call; the three do not overlap.
            let (all_pivots, factors, solution) =
                unsafe { (values::<i64>(all_pivots), values::<T>(factors), values::<T>(solution)) };
            dense::lu_solve(factors, all_pivots, solution);
        }
        report(info, 0);
        self.scatter::<T>(b, None, solution, packed)
    }

    fn triangular_solve_as<T: Element>(
        &self,
        form: Triangular,
        a: &DistributedMatrix,
        b: &DistributedMatrix,
        scratch: Buffer,
    ) -> Result<()> {
        let [factor, solution, packed] = cut(scratch, self.system_bytes(a, b));
        self.gather::<T>(a, None, factor, packed)?;
        self.gather::<T>(b, None, solution, packed)?;
        if self.is_root() {
            // SAFETY: scratch of this call; the two do not overlap.
            let (factor, solution) = unsafe { (values::<T>(factor), values::<T>(solution)) };
            dense::triangular_solve(form, factor, solution, index(a.rows.extent()));
        }
        self.scatter::<T>(b, None, solution, packed)
    }

    /// Bytes of all of A, of M and of the vectors, and of what travels.
    fn eigen_bytes(&self, Eigenproblem { a, metric, vectors }: Eigenproblem<'_>) -> [u64; 4] {
        let whole = |m: Option<&DistributedMatrix>| m.map_or(0, |m| self.whole_bytes(m));
        [self.whole_bytes(a), whole(metric), whole(vectors), self.packed_bytes(a)]
    }

    fn eigen_as<T: Element>(
        &self,
        problem: Eigenproblem<'_>,
        numbers: Buffer,
        scratch: Buffer,
        info: Buffer,
    ) -> Result<()> {
        let Eigenproblem { a, metric, vectors } = problem;
        let [whole, all_of_metric, all_vectors, packed] = cut(scratch, self.eigen_bytes(problem));
        let lower = Some(Triangle::Lower);
        self.gather::<T>(a, lower, whole, packed)?;
        metric.map_or(Ok(()), |metric| self.gather::<T>(metric, lower, all_of_metric, packed))?;
        report(info, 0);
        let peers = self.owners().map(|owner| if self.is_root() { owner } else { 0 });
        let messages: Vec<_> = peers.map(|peer| Message { peer, data: numbers }).collect();
        if self.is_root() {
            // SAFETY: scratch of this call; the three do not overlap.
            let [whole, all_of_metric, all_vectors] =
                [whole, all_of_metric, all_vectors].map(|buffer| unsafe { values::<T>(buffer) });
            // SAFETY: the caller's numbers, apart from the scratch.
            let numbers = unsafe { values::<T::Real>(numbers) };
            let (metric, vectors) = (metric.map(|_| all_of_metric), vectors.map(|_| all_vectors));
            report(info, dense::eigen(whole, metric, numbers, vectors));
            self.communicator.exchange(&messages, &[])?;
        } else {
            self.communicator.exchange(&[], &messages)?;
        }
        vectors.map_or(Ok(()), |vectors| self.scatter::<T>(vectors, None, all_vectors, packed))
    }

    fn multiply_bytes(&self, [a, b, c]: [&DistributedMatrix; 3]) -> [u64; 4] {
        let packed = self.packed_bytes(a).max(self.packed_bytes(b)).max(self.packed_bytes(c));
        [self.whole_bytes(a), self.whole_bytes(b), self.whole_bytes(c), packed]
    }

    fn multiply_as<T: Element>(
        &self,
        product: Product,
        matrices: [&DistributedMatrix; 3],
        scratch: Buffer,
    ) -> Result<()> {
        let [a_whole, b_whole, c_whole, packed] = cut(scratch, self.multiply_bytes(matrices));
        let wholes = [a_whole, b_whole, c_whole];
        for (m, whole) in matrices.into_iter().zip(wholes) {
            self.gather::<T>(m, None, whole, packed)?;
        }
        if self.is_root() {
            // SAFETY: scratch of this call; the three do not overlap.
            let [a_whole, b_whole, c_whole] = wholes.map(|whole| unsafe { values::<T>(whole) });
            let [a, b, c] = matrices.map(|m| (index(m.rows.extent()), index(m.cols.extent())));
            dense::multiply(product, (a_whole, a), (b_whole, b), (c_whole, c));
        }
        self.scatter::<T>(matrices[2], None, c_whole, packed)
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

    fn check_eigen(&self, Eigenproblem { a, metric, vectors }: Eigenproblem<'_>) -> Result<()> {
        self.check_factor(a)?;
        for (name, other) in [("M", metric), ("V", vectors)] {
            if let Some(other) = other {
                checks::check_alike(self.communicator.rank(), a.grid, a, name, other)?;
            }
        }
        Ok(())
    }

    fn check_product(
        &self,
        product: Product,
        a: &DistributedMatrix,
        b: &DistributedMatrix,
        c: &DistributedMatrix,
    ) -> Result<()> {
        self.check_size(a)?;
        checks::check_product(self.communicator.rank(), a.grid, product, a, b, c)
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
            DType::I32 => Err(Error::internal("a matrix of integers for a solver")),
        }
    };
}

impl Solver for FaerSolver<'_> {
    fn cholesky_factor_scratch(&self, _triangle: Triangle, a: &DistributedMatrix) -> Result<u64> {
        self.check_factor(a)?;
        Ok(self.whole_bytes(a) + self.packed_bytes(a))
    }

    fn cholesky_factor(
        &self,
        triangle: Triangle,
        a: &DistributedMatrix,
        scratch: Buffer,
        info: Buffer,
    ) -> Result<()> {
        self.check_factor(a)?;
        with_element!(a, self.cholesky_factor_as(triangle, a, scratch, info))
    }

    fn cholesky_solve_scratch(
        &self,
        _triangle: Triangle,
        a: &DistributedMatrix,
        b: &DistributedMatrix,
    ) -> Result<u64> {
        self.check_system(a, b)?;
        Ok(self.system_bytes(a, b).into_iter().sum())
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
        with_element!(a, self.cholesky_solve_as(triangle, a, b, scratch, info))
    }

    fn lu_factor_scratch(&self, a: &DistributedMatrix) -> Result<u64> {
        self.check_factor(a)?;
        Ok(self.lu_bytes(a, None).into_iter().sum())
    }

    fn lu_factor(&self, a: &DistributedMatrix, pivots: Buffer, scratch: Buffer, info: Buffer) -> Result<()> {
        self.check_factor(a)?;
        checks::check_pivots(self.communicator.rank(), a, pivots)?;
        with_element!(a, self.lu_factor_as(a, pivots, scratch, info))
    }

    fn lu_solve_scratch(&self, a: &DistributedMatrix, b: &DistributedMatrix) -> Result<u64> {
        self.check_system(a, b)?;
        Ok(self.lu_bytes(a, Some(b)).into_iter().sum())
    }

    fn lu_solve(
        &self,
        a: &DistributedMatrix,
        pivots: Buffer,
        b: &DistributedMatrix,
        scratch: Buffer,
        info: Buffer,
    ) -> Result<()> {
        self.check_system(a, b)?;
        checks::check_pivots(self.communicator.rank(), a, pivots)?;
        with_element!(a, self.lu_solve_as(a, pivots, b, scratch, info))
    }

    fn triangular_scratch(
        &self,
        _form: Triangular,
        a: &DistributedMatrix,
        b: &DistributedMatrix,
    ) -> Result<u64> {
        self.check_system(a, b)?;
        Ok(self.system_bytes(a, b).into_iter().sum())
    }

    fn triangular_solve(
        &self,
        form: Triangular,
        a: &DistributedMatrix,
        b: &DistributedMatrix,
        scratch: Buffer,
    ) -> Result<()> {
        self.check_system(a, b)?;
        with_element!(a, self.triangular_solve_as(form, a, b, scratch))
    }

    fn eigen_scratch(&self, problem: Eigenproblem<'_>) -> Result<u64> {
        self.check_eigen(problem)?;
        Ok(self.eigen_bytes(problem).into_iter().sum())
    }

    fn eigen(&self, problem: Eigenproblem<'_>, values: Buffer, scratch: Buffer, info: Buffer) -> Result<()> {
        self.check_eigen(problem)?;
        checks::check_values(self.communicator.rank(), problem.a, values)?;
        with_element!(problem.a, self.eigen_as(problem, values, scratch, info))
    }

    fn multiply_scratch(
        &self,
        product: Product,
        a: &DistributedMatrix,
        b: &DistributedMatrix,
        c: &DistributedMatrix,
    ) -> Result<u64> {
        self.check_product(product, a, b, c)?;
        Ok(self.multiply_bytes([a, b, c]).into_iter().sum())
    }

    fn multiply(
        &self,
        product: Product,
        a: &DistributedMatrix,
        b: &DistributedMatrix,
        c: &DistributedMatrix,
        scratch: Buffer,
    ) -> Result<()> {
        self.check_product(product, a, b, c)?;
        with_element!(c, self.multiply_as(product, [a, b, c], scratch))
    }
}

/// A type as it lies in buffers.
///
/// # Safety
/// The type is one `Word`, or two without padding, and so is valid for any bits.
unsafe trait Value: Copy {
    type Word: bytemuck::Pod;
}

// SAFETY: one word.
unsafe impl Value for i64 {
    type Word = i64;
}
// SAFETY: one word.
unsafe impl Value for f32 {
    type Word = f32;
}
// SAFETY: one word.
unsafe impl Value for f64 {
    type Word = f64;
}
// SAFETY: `repr(C)` of two words.
unsafe impl Value for faer::c32 {
    type Word = f32;
}
// SAFETY: `repr(C)` of two words.
unsafe impl Value for faer::c64 {
    type Word = f64;
}

/// The values in a buffer.
///
/// # Safety
/// As for [`Buffer::as_mut_slice`].
unsafe fn values<'a, V: Value>(buffer: Buffer) -> &'a mut [V] {
    // SAFETY: by this function's contract.
    let words = unsafe { buffer.as_mut_slice::<V::Word>() };
    let count = size_of_val(words) / size_of::<V>();
    // SAFETY: values are made of words, by the contract of `Value`.
    unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), count) }
}

/// Writes an `info` word.
fn report(info: Buffer, value: i32) {
    // SAFETY: the word is memory of this process that only this call uses.
    let word = unsafe { info.as_mut_slice::<i32>() };
    word[0] = value;
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
    fn copy_to<V: Value>(&self, other: &Part) {
        let rows = self.rows.len();
        if rows == 0 {
            return;
        }
        // SAFETY: one of them is this rank's part, the other is scratch that no message uses now.
        let (from, to) = unsafe { (values::<V>(self.data), values::<V>(other.data)) };
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
