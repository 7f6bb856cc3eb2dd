//! Every kernel in the emulator, against oracles written by direct index arithmetic.
//!
//! Elements encode their position, buffers stand between guard zones, and threads run in several
//! orders: forward, reverse and shuffled.

mod checks;
mod convert;
mod diagonal;
mod in_place;
mod padding;
mod pivots;
mod slabs;
mod spectrum;
mod support;
