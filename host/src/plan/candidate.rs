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
}

impl Candidate {
    /// All of them; of equally cheap ones the first is taken.
    const ALL: [Self; 4] = [
        Self { layout: Layout::Stages, view: View::Plain },
        Self { layout: Layout::Reading, view: View::Plain },
        Self { layout: Layout::Stages, view: View::Transposed },
        Self { layout: Layout::Reading, view: View::Transposed },
    ];

    /// Why it is none for a request, if that asks for others.
    pub(super) fn is_asked_for(self, layout: Layout, view: Option<View>) -> Result<(), &'static str> {
        if layout != Layout::Auto && layout != self.layout {
            return Err("another layout was asked for");
        }
        if view.is_some_and(|view| view != self.view) {
            return Err("another view was asked for");
        }
        Ok(())
    }
}

impl std::fmt::Display for Candidate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.layout == Layout::Reading { "reading" } else { "stages" })?;
        f.write_str(if self.view == View::Transposed { ", transposed" } else { "" })
    }
}

/// What a candidate would cost, or why it is none.
pub(super) type Verdict = (Candidate, Result<Price, &'static str>);

/// The plans of all candidates that are possible, and a word on each of the candidates.
pub(super) fn consider<P>(
    plan: impl Fn(Candidate) -> Result<P, &'static str>,
    price: impl Fn(&P) -> Price,
) -> (Vec<P>, Vec<Verdict>) {
    let tried = Candidate::ALL.map(|candidate| (candidate, plan(candidate)));
    let verdict = |(candidate, plan): &(Candidate, Result<P, &'static str>)| {
        (*candidate, plan.as_ref().map(&price).map_err(|&why| why))
    };
    let considered = tried.iter().map(verdict).collect();
    (tried.into_iter().filter_map(|(_, plan)| plan.ok()).collect(), considered)
}

/// The cheapest plan, if there is any; of equally cheap ones the first.
pub(super) fn cheapest<P>(plans: Vec<P>, price: impl Fn(&P) -> Price) -> Option<P> {
    plans.into_iter().min_by(|one, other| {
        let (one, other) = (price(one), price(other));
        one.seconds.total_cmp(&other.seconds).then(one.link_bytes.cmp(&other.link_bytes))
    })
}

/// The error of a request for which no candidate is possible.
pub(super) fn none(grid: [u64; 2], layout: Layout, view: Option<View>, considered: &[Verdict]) -> Error {
    let reasons: Vec<String> = (considered.iter())
        .filter(|(candidate, _)| [Layout::Auto, candidate.layout].contains(&layout))
        .filter(|(candidate, _)| view.is_none_or(|view| view == candidate.view))
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
