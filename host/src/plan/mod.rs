//! What a call will do, as plain data.
//!
//! A plan depends on shapes, types, placements and the grid only. It needs no device and no
//! communicator, so it can be printed, tested and priced anywhere; the same plan drives every
//! backend.

mod candidate;
mod colouring;
mod compaction;
mod dealing;
mod dimension;
mod eigen;
mod explain;
mod matrix;
mod phase;
mod price;
mod product;
mod redistribute;
mod regrid;
mod request;
mod substitution;
mod system;
mod tile;
pub mod workspace;

use crate::layout::ProcessGrid;
use crate::{DType, Result};
pub use candidate::Candidate;
pub use dimension::{Dimension, Order, Placement, Reading};
pub use eigen::EigenPlan;
pub use matrix::{Axis, CollectionRound, MatrixPlan, Piece, Traffic, UNIT_BYTES, View};
pub use phase::{LocalMove, Moved, Phase, Place, Round, Transfer, Transport, Volume};
pub use price::Price;
pub use product::ProductPlan;
pub use redistribute::{LocalBuffers, RedistributePlan};
pub use regrid::{Regrid, Trade};
pub use request::{
    Direction, EigenRequest, EigenTask, Layout, Method, Placements, ProductRequest, RedistributeRequest,
    Request, SystemRequest, Task,
};
use serde::Serialize;
use std::hash::{DefaultHasher, Hash, Hasher};
pub use substitution::{Step, Substitution};
pub use system::SystemPlan;
pub use tile::{suggest_eigen_tile, suggest_tile};
use workspace::Workspace;

/// Words of device scratch that hold statuses and the log determinant.
pub const STATUS_BYTES: u64 = 64;

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
    /// A square system, or a part of its solution.
    System(Box<SystemPlan>),
    /// A Hermitian eigenproblem.
    Eigen(Box<EigenPlan>),
    /// A product.
    Product(Box<ProductPlan>),
    /// A redistribution by itself.
    Redistribute(Box<RedistributePlan>),
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
    #[serde(skip_serializing_if = "Option::is_none")]
    b: Option<Placements>,
    #[serde(skip_serializing_if = "Option::is_none")]
    local: Option<LocalBuffers>,
    inputs: &'a [OperandSpec],
    outputs: &'a [OperandSpec],
    scratch_bytes: u64,
    workspace_bytes: u64,
    workspace_is_exact: bool,
    explain: String,
}

impl Plan {
    /// Plans a request: the cheapest way.
    ///
    /// # Errors
    /// [`crate::ErrorKind::InvalidArgument`] if a layout is asked for that is not possible.
    pub fn new(request: &Request) -> Result<Self> {
        match request {
            Request::System(request) => Ok(Self::System(Box::new(SystemPlan::new(request)?))),
            Request::Eigen(request) => Ok(Self::Eigen(Box::new(EigenPlan::new(request)?))),
            Request::Product(request) => Ok(Self::Product(Box::new(ProductPlan::new(request)?))),
            Request::Redistribute(request) => {
                Ok(Self::Redistribute(Box::new(RedistributePlan::new(request))))
            }
        }
    }

    /// All ways of a request that are possible, each as a plan of its own.
    pub fn candidates(request: &Request) -> Vec<Self> {
        match request {
            Request::System(request) => {
                let plans = SystemPlan::candidates(request).into_iter();
                plans.map(|plan| Self::System(Box::new(plan))).collect()
            }
            Request::Eigen(request) => {
                let plans = EigenPlan::candidates(request).into_iter();
                plans.map(|plan| Self::Eigen(Box::new(plan))).collect()
            }
            Request::Product(request) => {
                let plans = ProductPlan::candidates(request).into_iter();
                plans.map(|plan| Self::Product(Box::new(plan))).collect()
            }
            Request::Redistribute(request) => {
                vec![Self::Redistribute(Box::new(RedistributePlan::new(request)))]
            }
        }
    }

    /// Plans a request in JSON.
    ///
    /// # Errors
    /// [`crate::ErrorKind::InvalidArgument`] if the text is no valid request, or as for [`Plan::new`].
    pub fn from_json(text: &str) -> Result<Self> {
        Self::new(&Request::from_json(text)?)
    }

    /// The plan in JSON: tile, layout, where b has to lie or what the local buffers hold, operands,
    /// scratch, workspace, explanation. `asked` are the bytes of workspace that the solver's library asked for
    /// when the plan was run; where that is not known, an estimate stands there.
    pub fn reply_json(&self, asked: Option<u64>) -> String {
        let workspace = asked.map_or(Workspace::Estimated(self.workspace_bytes()), Workspace::Exact);
        let (routine, tile, layout, b, local, scratch_bytes, explain) = match self {
            Self::System(plan) => (
                "system",
                plan.tile(),
                plan.candidate().to_string(),
                plan.b().map(|_| plan.b_placements()),
                None,
                plan.scratch_bytes(),
                plan.explain_with(workspace),
            ),
            Self::Eigen(plan) => (
                "eigen",
                plan.tile(),
                plan.candidate().to_string(),
                plan.b().map(|_| plan.b_placements()),
                None,
                plan.scratch_bytes(),
                plan.explain_with(workspace),
            ),
            Self::Product(plan) => (
                "product",
                plan.inner_tile(),
                plan.candidate().to_string(),
                None,
                None,
                plan.scratch_bytes(),
                plan.explain_with(workspace),
            ),
            Self::Redistribute(plan) => (
                "redistribute",
                plan.tile(),
                "stages".to_owned(),
                None,
                Some(plan.local_buffers()),
                plan.scratch_bytes(),
                plan.explain(),
            ),
        };
        let (inputs, outputs) = (self.inputs(), self.outputs());
        let ranks = self.ranks();
        let (workspace_bytes, workspace_is_exact) = match workspace {
            Workspace::Estimated(bytes) => (bytes, false),
            Workspace::Exact(bytes) => (bytes, true),
        };
        let plan = Summary {
            routine,
            tile,
            ranks,
            layout,
            b,
            local,
            inputs,
            outputs,
            scratch_bytes,
            workspace_bytes,
            workspace_is_exact,
            explain,
        };
        serde_json::to_string(&Reply { plan }).expect("plain data")
    }

    /// Device workspace in bytes that the solver's library is estimated to ask for; see [`workspace`].
    pub fn workspace_bytes(&self) -> u64 {
        match self {
            Self::System(plan) => plan.workspace_bytes(),
            Self::Eigen(plan) => plan.workspace_bytes(),
            Self::Product(plan) => plan.workspace_bytes(),
            Self::Redistribute(_) => 0,
        }
    }

    /// Processes that take part.
    pub fn ranks(&self) -> u64 {
        self.grid().size()
    }

    /// The solver's process grid.
    pub fn grid(&self) -> ProcessGrid {
        match self {
            Self::System(plan) => plan.grid(),
            Self::Eigen(plan) => plan.grid(),
            Self::Product(plan) => plan.grid(),
            Self::Redistribute(plan) => plan.matrix().grid(),
        }
    }

    /// The rank in the solver's grid that the device at each place of the caller's mesh plays; places
    /// are counted row by row.
    pub fn roles(&self) -> &[u64] {
        match self {
            Self::System(plan) => plan.roles(),
            Self::Eigen(plan) => plan.roles(),
            Self::Product(plan) => plan.roles(),
            Self::Redistribute(plan) => plan.roles(),
        }
    }

    /// Whether the routine calls a solver; a redistribution needs none.
    pub fn needs_solver(&self) -> bool {
        match self {
            Self::System(_) | Self::Eigen(_) | Self::Product(_) => true,
            Self::Redistribute(_) => false,
        }
    }

    /// What each device passes in.
    pub fn inputs(&self) -> &[OperandSpec] {
        match self {
            Self::System(plan) => plan.inputs(),
            Self::Eigen(plan) => plan.inputs(),
            Self::Product(plan) => plan.inputs(),
            Self::Redistribute(plan) => plan.inputs(),
        }
    }

    /// What each device gets.
    pub fn outputs(&self) -> &[OperandSpec] {
        match self {
            Self::System(plan) => plan.outputs(),
            Self::Eigen(plan) => plan.outputs(),
            Self::Product(plan) => plan.outputs(),
            Self::Redistribute(plan) => plan.outputs(),
        }
    }

    /// A number that is the same for the same call on every rank.
    pub fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        env!("CARGO_PKG_VERSION").hash(&mut hasher);
        let request = match self {
            Self::System(plan) => format!("{:?}", plan.request()),
            Self::Eigen(plan) => format!("{:?}", plan.request()),
            Self::Product(plan) => format!("{:?}", plan.request()),
            Self::Redistribute(plan) => format!("{:?}", plan.request()),
        };
        request.hash(&mut hasher);
        hasher.finish()
    }
}
