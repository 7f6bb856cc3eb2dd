//! Charts as SVG. Text is measured by rule of thumb, not by the fonts of a machine, so that the same data
//! give the same bytes anywhere.

use super::Outcome;
use plotters::coord::Shift;
use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint};
use plotters::prelude::*;
use std::ops::Range;

/// Colours that people with any colour vision tell apart (Okabe and Ito's palette), strongest first.
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(0, 0, 0),
];

const WIDTH: u32 = 760;
const TITLE_HEIGHT: u32 = 34;
const LEGEND_LINE: u32 = 20;

/// How numbers lie along an axis.
#[derive(Clone, Copy)]
pub enum Scale {
    /// Powers of two, equally far apart.
    Binary,
    /// Times in seconds, tens equally far apart.
    Seconds,
    /// Ratios as they are, always with 1 in view.
    Ratio,
}

impl Scale {
    fn place(self, value: f64) -> f64 {
        match self {
            Self::Binary => value.log2(),
            Self::Seconds => value.log10(),
            Self::Ratio => value,
        }
    }

    fn value(self, place: f64) -> f64 {
        match self {
            Self::Binary => place.exp2(),
            Self::Seconds => 10_f64.powf(place),
            Self::Ratio => place,
        }
    }

    /// The axis for values that must all be inside.
    fn axis(self, values: impl Iterator<Item = f64> + Clone) -> Labelled {
        let in_view = matches!(self, Self::Ratio).then_some(1.0);
        let places = values.chain(in_view).map(|value| self.place(value));
        let least = places.clone().fold(f64::INFINITY, f64::min);
        let most = places.fold(f64::NEG_INFINITY, f64::max);
        let margin = 0.06 * (most - least).max(0.1);
        let range = least - margin..most + margin;
        let whole = range.start.floor() as i32..=range.end.ceil() as i32;
        let labels: Vec<f64> = match self {
            Self::Binary => whole.map(f64::from).collect(),
            Self::Seconds => {
                let steps = |k: i32| [1.0, 2.0, 5.0].map(|step: f64| f64::from(k) + step.log10());
                whole.flat_map(steps).collect()
            }
            Self::Ratio => {
                let step = (range.end - range.start) / 5.0;
                let power = 10_f64.powf(step.log10().floor());
                let step = [1.0, 2.0, 5.0, 10.0].map(|s| s * power).into_iter().find(|&s| s >= step);
                let step = step.expect("ten times the power of ten below it is above it");
                let first = (range.start / step).ceil() as i32;
                let last = (range.end / step).floor() as i32;
                (first..=last).map(|k| f64::from(k) * step).collect()
            }
        };
        let labels = labels.into_iter().filter(|label| range.contains(label)).collect();
        Labelled { range, labels }
    }

    fn label(self, place: f64) -> String {
        let value = self.value(place);
        match self {
            Self::Binary => format!("{value:.0}"),
            Self::Seconds if value < 0.9995e-3 => format!("{:.0} µs", 1e6 * value),
            Self::Seconds if value < 0.9995 => format!("{:.0} ms", 1e3 * value),
            Self::Seconds => format!("{value:.0} s"),
            Self::Ratio => format!("{value:.2}"),
        }
    }
}

/// A linear axis with labels where they are wanted.
struct Labelled {
    range: Range<f64>,
    labels: Vec<f64>,
}

impl Ranged for Labelled {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (begin, end): (i32, i32)) -> i32 {
        let part = (value - self.range.start) / (self.range.end - self.range.start);
        begin + (part * f64::from(end - begin)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.labels.clone()
    }

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

/// An axis: what it shows, and how.
pub struct Axis {
    pub name: &'static str,
    pub scale: Scale,
}

/// Points that belong together, in ascending order.
pub struct Series {
    pub name: String,
    pub points: Vec<(f64, f64)>,
}

/// Lines through the points of each series. The legend stands above the data.
pub fn lines(title: &str, x: &Axis, y: &Axis, series: &[Series]) -> Outcome<String> {
    let names: Vec<&str> = series.iter().map(|s| s.name.as_str()).collect();
    framed(title, &names, 360, |area| {
        let points = || series.iter().flat_map(|s| &s.points);
        let x_axis = x.scale.axis(points().map(|p| p.0));
        let y_axis = y.scale.axis(points().map(|p| p.1));
        let mut chart = ChartBuilder::on(area)
            .margin_left(14)
            .margin_right(20)
            .x_label_area_size(46)
            .y_label_area_size(70)
            .build_cartesian_2d(x_axis, y_axis)?;
        chart
            .configure_mesh()
            .max_light_lines(0)
            .x_desc(x.name)
            .y_desc(y.name)
            .x_label_formatter(&|&place| x.scale.label(place))
            .y_label_formatter(&|&place| y.scale.label(place))
            .label_style(("sans-serif", 13))
            .axis_desc_style(("sans-serif", 14))
            .draw()?;
        for (series, colour) in series.iter().zip(COLOURS.iter().cycle()) {
            let places: Vec<_> =
                series.points.iter().map(|&(a, b)| (x.scale.place(a), y.scale.place(b))).collect();
            chart.draw_series(LineSeries::new(places.iter().copied(), colour.stroke_width(2)))?;
            chart.draw_series(places.iter().map(|&place| Circle::new(place, 4, colour.filled())))?;
        }
        Ok(())
    })
}

/// Bars of one category, one for each name of the legend; `None` leaves a bar out.
pub struct Bars {
    pub category: String,
    pub values: Vec<Option<f64>>,
}

/// Horizontal bars from 0, each with its value, in the order given from top to bottom.
pub fn bars(title: &str, value: &str, names: &[&str], bars: &[Bars]) -> Outcome<String> {
    const BAR: u32 = 16;
    let slots = names.len() as f64 + 1.0;
    let height = (bars.len() * (names.len() + 1)) as u32 * BAR + 60;
    framed(title, names, height, |area| {
        let most = bars.iter().flat_map(|b| &b.values).flatten().fold(1.0, |a: f64, &b| a.max(b));
        let fractions = Labelled {
            range: 0.0..1.08 * most,
            labels: (0..=(most * 5.0) as i32).map(|k| f64::from(k) / 5.0).collect(),
        };
        let categories = Labelled {
            range: bars.len() as f64..0.0,
            labels: (0..bars.len()).map(|k| k as f64 + 0.5).collect(),
        };
        let mut chart = ChartBuilder::on(area)
            .margin_left(14)
            .margin_right(20)
            .x_label_area_size(46)
            .y_label_area_size(210)
            .build_cartesian_2d(fractions, categories)?;
        chart
            .configure_mesh()
            .disable_y_mesh()
            .max_light_lines(0)
            .x_desc(value)
            .x_label_formatter(&|place| format!("{place:.1}"))
            .y_label_formatter(&|place| bars[*place as usize].category.clone())
            .label_style(("sans-serif", 13))
            .axis_desc_style(("sans-serif", 14))
            .draw()?;
        for (k, bars) in bars.iter().enumerate() {
            for (slot, (value, colour)) in bars.values.iter().zip(COLOURS.iter().cycle()).enumerate() {
                let Some(value) = *value else { continue };
                let top = k as f64 + (slot as f64 + 0.5) / slots;
                let corners = [(0.0, top + 0.06 / slots), (value, top + 0.94 / slots)];
                chart.draw_series([Rectangle::new(corners, colour.filled())])?;
                let place = (value + 0.008 * most, top + 0.12 / slots);
                chart.draw_series([Text::new(format!("{value:.2}"), place, ("sans-serif", 12))])?;
            }
        }
        Ok(())
    })
}

type Drawing<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Failure = Box<dyn std::error::Error>;

/// Title and legend above, and below them what `draw` draws on an area of that height.
fn framed(
    title: &str,
    names: &[&str],
    height: u32,
    draw: impl FnOnce(&Drawing<'_>) -> Result<(), Failure>,
) -> Outcome<String> {
    let head = TITLE_HEIGHT + LEGEND_LINE * names.len() as u32 + 8;
    let mut svg = String::new();
    let drawn = || -> Result<(), Failure> {
        let root = SVGBackend::with_string(&mut svg, (WIDTH, head + height)).into_drawing_area();
        root.fill(&WHITE)?;
        let (above, below) = root.split_vertically(head);
        above.draw(&Text::new(title, (16, 12), ("sans-serif", 17)))?;
        for (line, (name, colour)) in names.iter().zip(COLOURS.iter().cycle()).enumerate() {
            let y = (TITLE_HEIGHT + LEGEND_LINE * line as u32) as i32 + 10;
            above.draw(&Rectangle::new([(24, y - 5), (44, y + 5)], colour.filled()))?;
            above.draw(&Text::new(*name, (52, y - 7), ("sans-serif", 14)))?;
        }
        draw(&below)?;
        root.present()?;
        Ok(())
    };
    drawn().map_err(|error| format!("{title}: {error}"))?;
    Ok(svg)
}
