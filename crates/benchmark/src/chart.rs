//! Charts as SVG: latency by percentile, as HdrHistogram draws it, and over time. Pure.

use crate::run::Outcome;
use anyhow::{Result, anyhow};
use hdrhistogram::Histogram;
use plotters::prelude::{
    BLACK, ChartBuilder, Color, IntoDrawingArea, IntoLogRange, LineSeries, PathElement, RGBColor, SVGBackend,
    SeriesLabelPosition, WHITE,
};

/// Size of a chart in pixels.
const SIZE: (u32, u32) = (960, 360);
/// Colours that readers with weak colour vision can tell apart.
const COLOURS: [RGBColor; 6] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
];
/// The last percentile has five nines.
const NINES_MAX: f64 = 5.0;
const STEPS: u32 = 500;

type Line = (String, Vec<(f64, f64)>);

/// Latency in milliseconds by percentile; the axis counts nines: 90 %, 99 %, 99.9 % and so on.
pub(crate) fn by_percentile(outcome: &Outcome) -> Result<String> {
    let all = outcome.total.all();
    let mut lines = vec![("all".to_owned(), quantiles(&all))];
    if outcome.names.len() > 1 {
        let kinds = outcome.names.iter().zip(&outcome.total.kinds).take(COLOURS.len() - 1);
        lines.extend(
            kinds.filter(|(_, kind)| !kind.is_empty()).map(|(name, kind)| (name.clone(), quantiles(kind))),
        );
    }
    let nines = lines.iter().flat_map(|(_, line)| line).map(|(nines, _)| *nines).fold(1.0, f64::max);
    // Between whole nines, percentages have too many digits to be read.
    let is_whole = |nines: f64| (nines - nines.round()).abs() < 1e-6;
    let label = |nines: &f64| match is_whole(*nines) {
        true => format!("{}%", 100.0 - 100.0 / 10f64.powi(nines.round() as i32)),
        false => String::new(),
    };
    draw("Latency by percentile", "ms", &lines, nines, &label)
}

/// Latencies above each count of nines that the number of requests supports.
fn quantiles(latencies: &Histogram<u64>) -> Vec<(f64, f64)> {
    let nines_max = (latencies.len().max(1) as f64).log10().clamp(0.0, NINES_MAX);
    let steps = (0..=STEPS).map(|step| f64::from(step) / f64::from(STEPS) * nines_max);
    steps.map(|nines| (nines, ms(latencies.value_at_quantile(1.0 - 10f64.powf(-nines))))).collect()
}

/// Median, 99th percentile and maximum of each interval, in milliseconds, by seconds.
pub(crate) fn over_time(outcome: &Outcome) -> Result<String> {
    let line = |name: &str, figure: fn(&crate::run::Second) -> u64| {
        let points = outcome.timeline.iter().map(|second| (second.at, ms(figure(second)))).collect();
        (name.to_owned(), points)
    };
    let lines = [
        line("p50", |second| second.p50),
        line("p99", |second| second.p99),
        line("max", |second| second.max),
    ];
    let end = outcome.timeline.last().map_or(1.0, |second| second.at);
    draw("Latency over time", "ms", &lines, end, &|at: &f64| format!("{at:.0} s"))
}

fn ms(nanos: u64) -> f64 {
    (nanos as f64 / 1e6).max(1e-4)
}

/// A chart with a logarithmic axis of latencies.
fn draw(title: &str, unit: &str, lines: &[Line], end: f64, label: &dyn Fn(&f64) -> String) -> Result<String> {
    let values = || lines.iter().flat_map(|(_, line)| line).map(|(_, value)| *value);
    let (low, high) = (values().fold(f64::MAX, f64::min), values().fold(0.0, f64::max));
    let (low, high) = if high > 0.0 { (low / 1.2, high * 1.2) } else { (0.1, 1.0) };
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        let wrong = |error: &dyn std::fmt::Display| anyhow!("cannot draw {title}: {error}");
        area.fill(&WHITE).map_err(|error| wrong(&error))?;
        let mut chart = ChartBuilder::on(&area)
            .caption(title, ("sans-serif", 18))
            .margin(12)
            .x_label_area_size(30)
            .y_label_area_size(60)
            .build_cartesian_2d(0.0..end, (low..high).log_scale())
            .map_err(|error| wrong(&error))?;
        let mut mesh = chart.configure_mesh();
        mesh.y_desc(unit).x_label_formatter(label).y_label_formatter(&|value| format!("{value}"));
        mesh.light_line_style(RGBColor(240, 240, 240)).draw().map_err(|error| wrong(&error))?;
        for ((name, line), colour) in lines.iter().zip(COLOURS.iter().cycle()) {
            let series = LineSeries::new(line.iter().copied(), colour.stroke_width(2));
            let drawn = chart.draw_series(series).map_err(|error| wrong(&error))?;
            let stroke = colour.stroke_width(2);
            drawn
                .label(name.as_str())
                .legend(move |(x, y)| PathElement::new(vec![(x, y), (x + 16, y)], stroke));
        }
        let mut legend = chart.configure_series_labels();
        legend
            .position(SeriesLabelPosition::UpperLeft)
            .background_style(WHITE.mix(0.8))
            .border_style(BLACK.mix(0.2));
        legend.draw().map_err(|error| wrong(&error))?;
        area.present().map_err(|error| wrong(&error))?;
    }
    Ok(svg)
}

/// Both charts in one file, one below the other.
pub(crate) fn both(outcome: &Outcome) -> Result<String> {
    let (width, height) = SIZE;
    let (upper, lower) = (by_percentile(outcome)?, over_time(outcome)?);
    let inner = |svg: &str| svg.replacen("<svg ", "<svg y=\"0\" ", 1);
    let lower = lower.replacen("<svg ", &format!("<svg y=\"{height}\" "), 1);
    let total = 2 * height;
    Ok(format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{total}\" viewBox=\"0 0 {width} {total}\">\n{}\n{lower}\n</svg>\n",
        inner(&upper)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorder::Interval;
    use crate::run::Second;
    use std::time::{Duration, SystemTime};

    fn outcome(requests: u64) -> Outcome {
        let mut total = Interval::new(1);
        (1..=requests).for_each(|us| total.kinds[0].saturating_record(us * 1000));
        let second = |at| Second { at, rate: 1.0, p50: 1_000_000, p99: 2_000_000, max: 3_000_000 };
        let timeline = if requests > 0 { vec![second(1.0), second(2.0)] } else { Vec::new() };
        Outcome {
            names: vec!["GET".into()],
            total,
            elapsed: Duration::from_secs(2),
            timeline,
            unanswered: 0,
            errors: Vec::new(),
            began: SystemTime::UNIX_EPOCH,
        }
    }

    #[test]
    fn a_chart_has_its_lines_and_names_its_axes() {
        let svg = both(&outcome(1000)).expect("drawn");
        for part in ["Latency by percentile", "Latency over time", "p99", "90%", "<polyline"] {
            assert!(svg.contains(part), "{part}");
        }
        assert_eq!((svg.matches("<svg ").count(), svg.matches("</svg>").count()), (3, 3));
    }

    #[test]
    fn a_run_without_requests_is_drawn_too() {
        assert!(both(&outcome(0)).expect("drawn").contains("</svg>"));
    }

    #[test]
    fn percentiles_end_where_requests_do() {
        let line = quantiles(&outcome(1000).total.all());
        let (nines, value) = line[line.len() - 1];
        assert!((nines - 3.0).abs() < 1e-9 && (value - 1.0).abs() < 0.01, "{nines} {value}");
    }
}
