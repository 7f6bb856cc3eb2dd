//! Index spaces of a distributed matrix, and the only place where they convert.
//!
//! One dimension at a time (a matrix dimension's rows know nothing of its columns):
//!
//! | type | counts |
//! |---|---|
//! | [`GlobalElement`] | elements of the whole dimension |
//! | [`GlobalTile`] | tiles of the whole dimension |
//! | [`LocalElement`] | elements in one process's buffer |
//! | [`LocalTile`] | tiles in one process's buffer |
//! | [`ElementInTile`] | elements from a tile's start |
//!
//! With tile T over P processes, source process 0 (ScaLAPACK's conventions):
//! tile k = g / T, owner k mod P, local tile k / P, local element (k / P)·T + g mod T.

mod contiguous;
mod cyclic;
mod grid;
mod index;

pub use contiguous::Contiguous;
pub use cyclic::{BlockCyclic, numroc};
pub use grid::{Coordinate, ProcessGrid};
pub use index::{ElementInTile, GlobalElement, GlobalTile, LocalElement, LocalTile};
