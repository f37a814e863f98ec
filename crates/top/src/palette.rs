//! Colours, which repeat what words say.

use crate::table::Tone;
use ratatui::style::{Color, Modifier, Style};

/// Whether there are colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Palette {
    pub has_colours: bool,
}

impl Palette {
    pub(crate) fn tone(self, tone: Tone) -> Style {
        let style = Style::default();
        let style = if tone == Tone::Bad { style.add_modifier(Modifier::BOLD) } else { style };
        match (self.has_colours, tone) {
            (false, _) | (_, Tone::Plain) => style,
            (_, Tone::Dim) => style.fg(Color::DarkGray),
            (_, Tone::Good) => style.fg(Color::Green),
            (_, Tone::Warn) => style.fg(Color::Yellow),
            (_, Tone::Bad) => style.fg(Color::Red),
        }
    }

    pub(crate) fn alarm(self) -> Style {
        let style = Style::default().add_modifier(Modifier::BOLD);
        if self.has_colours {
            style.bg(Color::Red).fg(Color::White)
        } else {
            style.add_modifier(Modifier::REVERSED)
        }
    }
}

/// The column that sorts, and names that matter.
pub(crate) const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
/// The chosen row and the shown view.
pub(crate) const CHOSEN: Style = Style::new().add_modifier(Modifier::REVERSED);
