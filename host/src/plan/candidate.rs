//! The ways that a plan may take, and the choice among them.

use super::matrix::View;
use super::price::Price;
use super::request::Layout;
use crate::Error;

/// A way that a plan may take: whether tiles move or a reading is taken, and the view of the matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Candidate {
    /// [`Layout::Stages`] or [`Layout::Reading`].
    pub layout: Layout,
    /// How the caller's matrices are taken.
    pub view: View,
    /// Whether a matrix on a mesh of one axis is brought to a nearly square one first.
    pub near_square: bool,
}

impl Candidate {
    /// All of them; of equally cheap ones the first is taken.
    const ALL: [Self; 4] = [
        Self { layout: Layout::Stages, view: View::Plain, near_square: false },
        Self { layout: Layout::Reading, view: View::Plain, near_square: false },
        Self { layout: Layout::Stages, view: View::Transposed, near_square: false },
        Self { layout: Layout::Reading, view: View::Transposed, near_square: false },
    ];

    /// Why it is none for a request, if that asks for others.
    fn is_asked_for(self, wanted: &Wanted) -> Result<(), &'static str> {
        let Wanted { layout, view, near_square, .. } = *wanted;
        if layout != Layout::Auto && layout != self.layout {
            return Err("another layout was asked for");
        }
        if view.is_some_and(|view| view != self.view) {
            return Err("another view was asked for");
        }
        if near_square.is_some_and(|near_square| near_square != self.near_square) {
            return Err("another grid was asked for");
        }
        Ok(())
    }
}

impl std::fmt::Display for Candidate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.layout == Layout::Reading { "reading" } else { "stages" })?;
        f.write_str(if self.view == View::Transposed { ", transposed" } else { "" })?;
        f.write_str(if self.near_square { ", on a nearly square grid" } else { "" })
    }
}

/// What a candidate would cost, or why it is none.
pub(super) type Verdict = (Candidate, Result<Price, &'static str>);

/// A plan that has several ways to choose from.
pub(super) trait Choice: Sized {
    /// What is asked for.
    type Request;

    /// What the request says about the choice.
    fn wanted(request: &Self::Request) -> Wanted;

    /// The plan of one candidate, or why it is none.
    fn of(request: &Self::Request, candidate: Candidate) -> Result<Self, &'static str>;

    /// Whether nearly square grids are to be considered, too.
    fn may_be_near_square(_request: &Self::Request) -> bool {
        false
    }

    /// What it costs.
    fn price(&self) -> Price;

    /// The same with a word on each of the candidates.
    fn beside(self, considered: &[Verdict]) -> Self;
}

/// What a request says about the choice.
pub(super) struct Wanted {
    /// Rows and columns of the mesh.
    pub grid: [u64; 2],
    /// Which layouts may be taken.
    pub layout: Layout,
    /// Which view has to be taken, if any.
    pub view: Option<View>,
    /// Whether the grid has to be a nearly square one, or must not, if either.
    pub near_square: Option<bool>,
}

/// The plans of all candidates that are possible; and a word on each of the candidates.
fn consider<P: Choice>(request: &P::Request) -> (Vec<P>, Vec<Verdict>) {
    let wanted = P::wanted(request);
    let nearly_square = Candidate::ALL.map(|candidate| Candidate { near_square: true, ..candidate });
    let further = nearly_square.into_iter().filter(|_| P::may_be_near_square(request));
    let tried = Candidate::ALL.into_iter().chain(further).map(|candidate| {
        let asked_for = candidate.is_asked_for(&wanted);
        (candidate, asked_for.and_then(|()| P::of(request, candidate)))
    });
    let tried: Vec<_> = tried.collect();
    let verdict = |(candidate, plan): &(Candidate, Result<P, &'static str>)| {
        (*candidate, plan.as_ref().map(P::price).map_err(|&why| why))
    };
    let considered: Vec<Verdict> = tried.iter().map(verdict).collect();
    let plans = tried.into_iter().filter_map(|(_, plan)| plan.ok());
    (plans.map(|plan| plan.beside(&considered)).collect(), considered)
}

/// Every candidate that is possible, each as a plan of its own.
pub(super) fn all<P: Choice>(request: &P::Request) -> Vec<P> {
    consider(request).0
}

/// The cheapest plan; of equally cheap ones the first.
///
/// # Errors
/// [`crate::ErrorKind::InvalidArgument`] if a layout or view is asked for that is not possible.
pub(super) fn cheapest<P: Choice>(request: &P::Request) -> crate::Result<P> {
    let (plans, considered) = consider::<P>(request);
    let cheapest = plans.into_iter().min_by(|one, other| {
        let (one, other) = (one.price(), other.price());
        one.seconds.total_cmp(&other.seconds).then(one.link_bytes.cmp(&other.link_bytes))
    });
    cheapest.ok_or_else(|| none(P::wanted(request), &considered))
}

/// The error of a request for which no candidate is possible.
fn none(Wanted { grid, layout, view, near_square }: Wanted, considered: &[Verdict]) -> Error {
    let reasons: Vec<String> = (considered.iter())
        .filter(|(candidate, _)| [Layout::Auto, candidate.layout].contains(&layout))
        .filter(|(candidate, _)| view.is_none_or(|view| view == candidate.view))
        .filter(|(candidate, _)| near_square.is_none_or(|near| near == candidate.near_square))
        .filter_map(|(candidate, price)| Some(format!("{candidate}: {}", price.err()?)))
        .collect();
    let [rows, cols] = grid;
    let layout = match layout {
        Layout::Auto => "auto",
        Layout::Stages => "stages",
        Layout::Reading => "reading",
    };
    Error::invalid_argument(format!(
        "layout \"{layout}\" was asked for, and on {rows} × {cols} processes there is none ({}). Use layout \
         \"auto\" or \"stages\"",
        reasons.join("; ")
    ))
}
