//! XLA FFI entry points of meshsolve.
//!
//! The built library, `libmeshsolve_xla_ffi.so`, is plain C to the outside: Python loads it with
//! ctypes, plans calls through [`exports::meshsolve_plan`] and registers the handlers listed by
//! [`exports::meshsolve_handlers`] with JAX. One binary serves jaxlib 0.6.0 and later: it asks the
//! runtime for its version at run time instead of being built for one.
//!
//! * [`exports`]: the C symbols.
//! * [`handlers`]: the stages of a call; [`cpu`] and [`gpu`]: its execution.
//! * [`rendezvous`]: how the devices of a mesh meet; [`workers`]: the threads that do the work.
//! * [`routine`]: what a call runs, the seam to the library; [`workspace`]: what its solver asked for.
//! * [`sys`]: XLA's structs; [`call`], [`state`], [`collectives`]: safe views of them.
//!
//! No panic and no Rust type crosses the C boundary.

pub mod attributes;
pub mod call;
pub mod collectives;
pub mod cpu;
pub mod exports;
pub mod failure;
pub mod gpu;
pub mod handlers;
pub mod operands;
pub mod rendezvous;
pub mod routine;
pub mod runtime;
pub mod state;
pub mod sys;
pub mod workers;
pub mod workspace;
