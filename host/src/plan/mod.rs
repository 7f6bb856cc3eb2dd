//! What a call will do, as plain data.
//!
//! A plan depends on shapes, types, placements and the grid only. It needs no device and no
//! communicator, so it can be printed, tested and priced anywhere; the same plan drives every
//! backend.

mod colouring;
mod dimension;
mod explain;
mod matrix;
mod phase;
mod potrs;
mod price;
mod request;
mod tile;

use crate::layout::ProcessGrid;
use crate::{DType, Result};
pub use dimension::{Dimension, Order, Placement, Reading};
pub use matrix::{Axis, CollectionRound, MatrixPlan, Piece, Traffic, View};
pub use phase::{Moved, Phase, Round, Transfer, Volume};
pub use potrs::{Candidate, PotrsPlan, STATUS_BYTES};
pub use price::Price;
pub use request::{Layout, Placements, PotrsRequest, Request};
use serde::Serialize;
use std::hash::{DefaultHasher, Hash, Hasher};
pub use tile::suggest_tile;

/// One buffer that every device passes in or gets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OperandSpec {
    /// Its name in the routine.
    pub name: &'static str,
    /// Element type.
    pub dtype: DType,
    /// Shape on one device, row-major.
    pub shape: Vec<u64>,
    /// The input that an output shares its buffer with.
    pub alias: Option<usize>,
}

impl OperandSpec {
    /// Length in bytes.
    pub fn bytes(&self) -> u64 {
        self.shape.iter().product::<u64>() * self.dtype.size()
    }
}

/// The plan of any routine.
#[derive(Clone, Debug)]
pub enum Plan {
    /// A Cholesky solve.
    Potrs(PotrsPlan),
}

#[derive(Serialize)]
struct Reply<'a> {
    plan: Summary<'a>,
}

#[derive(Serialize)]
struct Summary<'a> {
    routine: &'static str,
    tile: u64,
    ranks: u64,
    layout: String,
    b: Placements,
    inputs: &'a [OperandSpec],
    outputs: &'a [OperandSpec],
    scratch_bytes: u64,
    explain: String,
}

impl Plan {
    /// Plans a request: the cheapest way.
    ///
    /// # Errors
    /// [`crate::ErrorKind::InvalidArgument`] if a layout is asked for that is not possible.
    pub fn new(request: &Request) -> Result<Self> {
        match request {
            Request::Potrs(request) => PotrsPlan::new(request).map(Self::Potrs),
        }
    }

    /// All ways of a request that are possible, each as a plan of its own.
    pub fn candidates(request: &Request) -> Vec<Self> {
        match request {
            Request::Potrs(request) => PotrsPlan::candidates(request).into_iter().map(Self::Potrs).collect(),
        }
    }

    /// Plans a request in JSON.
    ///
    /// # Errors
    /// [`crate::ErrorKind::InvalidArgument`] if the text is no valid request, or as for [`Plan::new`].
    pub fn from_json(text: &str) -> Result<Self> {
        Self::new(&Request::from_json(text)?)
    }

    /// The plan in JSON: tile, layout, where b has to lie, operands, scratch, explanation.
    pub fn reply_json(&self) -> String {
        let Self::Potrs(plan) = self;
        let reply = Reply {
            plan: Summary {
                routine: "potrs",
                tile: plan.tile(),
                ranks: self.ranks(),
                layout: plan.candidate().to_string(),
                b: plan.b_placements(),
                inputs: plan.inputs(),
                outputs: plan.outputs(),
                scratch_bytes: plan.scratch_bytes(),
                explain: plan.explain(),
            },
        };
        serde_json::to_string(&reply).expect("plain data")
    }

    /// Processes that take part.
    pub fn ranks(&self) -> u64 {
        let Self::Potrs(plan) = self;
        plan.grid().size()
    }

    /// The solver's process grid.
    pub fn grid(&self) -> ProcessGrid {
        let Self::Potrs(plan) = self;
        plan.grid()
    }

    /// The rank in the solver's grid that the device at each place of the caller's mesh plays; places
    /// are counted row by row.
    pub fn roles(&self) -> &[u64] {
        let Self::Potrs(plan) = self;
        plan.roles()
    }

    /// What each device passes in.
    pub fn inputs(&self) -> &[OperandSpec] {
        let Self::Potrs(plan) = self;
        plan.inputs()
    }

    /// What each device gets.
    pub fn outputs(&self) -> &[OperandSpec] {
        let Self::Potrs(plan) = self;
        plan.outputs()
    }

    /// A number that is the same for the same call on every rank.
    pub fn fingerprint(&self) -> u64 {
        let Self::Potrs(plan) = self;
        let mut hasher = DefaultHasher::new();
        env!("CARGO_PKG_VERSION").hash(&mut hasher);
        format!("{:?}", plan.request()).hash(&mut hasher);
        hasher.finish()
    }
}
