//! Panels of horizontal bars as SVG. Pure.
//!
//! Our own, and short. `plotters` writes colours and font sizes that assume a background and guesses how wide text is.
//! `charming` needs a JavaScript engine to give SVG. Horizontal bars with a number at each end are 100 lines. No background is
//! drawn; the colours can be read on a white page and on a dark one.

use std::fmt::Write as _;

/// Several panels under one title.
pub(super) struct Chart {
    pub(super) title: String,
    /// The meaning of the bars, and whether more or less is better.
    pub(super) subtitle: String,
    pub(super) panels: Vec<Panel>,
}

/// Bars with a scale of their own.
pub(super) struct Panel {
    pub(super) title: String,
    pub(super) bars: Vec<Bar>,
}

/// One value, with its spread.
pub(super) struct Bar {
    pub(super) label: String,
    pub(super) value: f64,
    pub(super) min: f64,
    pub(super) max: f64,
    /// The value as it is written beside the bar.
    pub(super) text: String,
    pub(super) colour: Colour,
}

/// The meaning of a bar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Colour {
    Ours,
    Variant,
    Sharding,
    PassThrough,
    Reference,
}

impl Colour {
    /// In the middle of the scale of brightness, so that it stands out from white and from black.
    fn code(self) -> &'static str {
        match self {
            Colour::Ours => "#2f81f7",
            Colour::Variant => "#85aee0",
            Colour::Sharding => "#d9822b",
            Colour::PassThrough => "#8f8f8f",
            Colour::Reference => "#4fa060",
        }
    }
}

/// As wide as a README shows a picture without shrinking it.
const WIDTH: f64 = 840.0;
const COLUMNS: usize = 3;
const PANEL_WIDTH: f64 = WIDTH / COLUMNS as f64;
/// The longest name of a contestant of ours, at the size of a label.
const LABEL_WIDTH: f64 = 104.0;
/// Room for a value, right of the longest bar.
const VALUE_WIDTH: f64 = 74.0;
const BAR_WIDTH: f64 = PANEL_WIDTH - LABEL_WIDTH - VALUE_WIDTH - 8.0;
const ROW_HEIGHT: f64 = 20.0;
const BAR_HEIGHT: f64 = 13.0;
const HEAD_HEIGHT: f64 = 56.0;
const PANEL_HEAD_HEIGHT: f64 = 26.0;
const PANEL_GAP: f64 = 18.0;

/// As dark as it can be read on black, which is as bright as it can be read on white.
const TEXT: &str = "#6e7781";
const FONT: &str = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif";

impl Chart {
    /// The picture.
    pub(super) fn svg(&self) -> String {
        let mut body = String::new();
        let mut top = HEAD_HEIGHT;
        for row in self.panels.chunks(COLUMNS) {
            for (column, panel) in row.iter().enumerate() {
                panel.draw(&mut body, column as f64 * PANEL_WIDTH, top);
            }
            let bars = row.iter().map(|panel| panel.bars.len()).max().unwrap_or(0);
            top += PANEL_HEAD_HEIGHT + bars as f64 * ROW_HEIGHT + PANEL_GAP;
        }
        let (title, subtitle) = (escape(&self.title), escape(&self.subtitle));
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{top}\" \
             viewBox=\"0 0 {WIDTH} {top}\" role=\"img\" aria-label=\"{title}\" font-family=\"{FONT}\" \
             font-size=\"12\" fill=\"{TEXT}\">\n<title>{title}</title>\n\
             <text x=\"0\" y=\"18\" font-size=\"16\" font-weight=\"600\">{title}</text>\n\
             <text x=\"0\" y=\"38\">{subtitle}</text>\n{body}</svg>\n"
        )
    }
}

impl Panel {
    fn draw(&self, out: &mut String, left: f64, top: f64) {
        let title = escape(&self.title);
        let _ = writeln!(
            out,
            "<text x=\"{left}\" y=\"{:.1}\" font-size=\"13\" font-weight=\"600\">{title}</text>",
            top + 13.0
        );
        let longest = self.bars.iter().map(|bar| bar.max).fold(0.0, f64::max);
        // All zero: then no bar has a length.
        let scale = if longest > 0.0 { BAR_WIDTH / longest } else { 0.0 };
        for (row, bar) in self.bars.iter().enumerate() {
            bar.draw(out, left, top + PANEL_HEAD_HEIGHT + row as f64 * ROW_HEIGHT, scale);
        }
    }
}

impl Bar {
    fn draw(&self, out: &mut String, left: f64, top: f64, scale: f64) {
        let zero = left + LABEL_WIDTH;
        let (width, least, most) = (self.value * scale, self.min * scale, self.max * scale);
        let baseline = top + BAR_HEIGHT - 2.5;
        let weight = if self.colour == Colour::Ours { " font-weight=\"600\"" } else { "" };
        let _ = writeln!(
            out,
            "<text x=\"{:.1}\" y=\"{baseline:.1}\" text-anchor=\"end\"{weight}>{}</text>\n\
             <rect x=\"{zero:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{BAR_HEIGHT}\" rx=\"2\" fill=\"{}\"/>",
            zero - 6.0,
            escape(&self.label),
            width.max(1.0),
            self.colour.code(),
        );
        if most - least > 1.0 {
            let middle = top + BAR_HEIGHT / 2.0;
            let _ = writeln!(
                out,
                "<path d=\"M{:.1} {middle:.1}H{:.1}\" stroke=\"{TEXT}\" stroke-width=\"1.5\"/>",
                zero + least,
                zero + most,
            );
        }
        let _ = writeln!(
            out,
            "<text x=\"{:.1}\" y=\"{baseline:.1}\"{weight}>{}</text>",
            zero + width.max(most) + 5.0,
            escape(&self.text)
        );
    }
}

/// Text as XML has it.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart() -> Chart {
        let bar = |label: &str, value: f64| Bar {
            label: label.into(),
            value,
            min: value * 0.9,
            max: value * 1.1,
            text: value.to_string(),
            colour: Colour::Ours,
        };
        let panel =
            |title: &str| Panel { title: title.into(), bars: vec![bar("a < b", 2.0), bar("\"c\" & d", 4.0)] };
        Chart { title: "T & U".into(), subtitle: "S".into(), panels: ["1", "2", "3", "4"].map(panel).into() }
    }

    /// Names of the elements that are open at the end; an error where one is closed that is not the last opened.
    fn open_elements(svg: &str) -> Result<Vec<&str>, String> {
        let mut open = Vec::new();
        for tag in svg.split('<').skip(1) {
            let (tag, text) = tag.split_once('>').ok_or("a tag does not end")?;
            let is_entity = |part: &str| part.split_once(';').is_some_and(|(name, _)| name.len() < 5);
            if !text.split('&').skip(1).all(is_entity) {
                return Err(format!("a bare & in {text}"));
            }
            if tag.matches('"').count() % 2 != 0 {
                return Err(format!("quotes in {tag}"));
            }
            match tag.strip_prefix('/') {
                Some(name) if open.last() == Some(&name) => drop(open.pop()),
                Some(name) => return Err(format!("</{name}> closes {open:?}")),
                None if tag.ends_with('/') => {}
                None => open.extend(tag.split_whitespace().next()),
            }
        }
        Ok(open)
    }

    #[test]
    fn a_chart_is_well_formed() {
        assert_eq!(open_elements(&chart().svg()), Ok(Vec::new()));
        assert_eq!(open_elements("<svg><text></svg>"), Err("</svg> closes [\"svg\", \"text\"]".into()));
    }

    #[test]
    fn the_longest_bar_fills_its_panel_and_the_others_their_part() {
        let svg = chart().svg();
        let widths: Vec<&str> =
            svg.split("<rect ").skip(1).filter_map(|rect| rect.split('"').nth(5)).collect();
        let longest = BAR_WIDTH / 1.1;
        let expected = [longest / 2.0, longest].map(|width| format!("{width:.1}"));
        assert_eq!(widths, expected.each_ref().map(String::as_str).repeat(4));
    }

    #[test]
    fn the_fourth_panel_begins_a_row() {
        let svg = chart().svg();
        let height = HEAD_HEIGHT + 2.0 * (PANEL_HEAD_HEIGHT + 2.0 * ROW_HEIGHT + PANEL_GAP);
        assert!(svg.contains(&format!("viewBox=\"0 0 840 {height}\"")), "{svg}");
    }

    #[test]
    fn bars_of_nothing_have_no_length() {
        let bar = Bar {
            label: "a".into(),
            value: 0.0,
            min: 0.0,
            max: 0.0,
            text: "0".into(),
            colour: Colour::Reference,
        };
        let panel = Panel { title: "t".into(), bars: vec![bar] };
        let chart = Chart { title: "t".into(), subtitle: "s".into(), panels: vec![panel] };
        assert!(!chart.svg().contains("NaN"));
    }
}
