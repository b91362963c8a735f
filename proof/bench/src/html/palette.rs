//! Colours, on light and on dark ground.

use std::fmt::Write;

/// Name, on light ground, on dark ground. Those of targets differ for the colour-blind, too (Okabe and Ito, 2008).
const COLOURS: [(&str, &str, &str); 15] = [
    ("ground", "#ffffff", "#16181d"),
    ("raised", "#f5f6f8", "#20242b"),
    ("ink", "#1b1f24", "#e6e8eb"),
    ("muted", "#5a636e", "#a3acb8"),
    ("grid", "#d5d9df", "#3a414c"),
    ("link", "#0b5cad", "#7ab7ff"),
    ("warn", "#9a3412", "#fdba74"),
    ("in-process", "#d55e00", "#f08a3c"),
    ("mount", "#009e73", "#35c79b"),
    ("kernel", "#0072b2", "#57aee8"),
    ("floor", "#9aa2ad", "#7c8592"),
    ("other", "#b0609a", "#d79cc4"),
    ("plain", "#0072b2", "#57aee8"),
    ("better", "#0072b2", "#3f8fd0"),
    ("worse", "#d55e00", "#d9772f"),
];

/// Rules of charts, which name colours as `var(--NAME)`.
const CHART: &str = include_str!("chart.css");

/// The rules of the page: colours by what the system or the switch says, charts, and the rest.
pub(super) fn page() -> String {
    let set = |pick: fn(&(&str, &str, &str)) -> String| COLOURS.iter().map(pick).collect::<String>();
    let light = set(|(name, light, _)| format!("--{name}:{light};"));
    let dark = set(|(name, _, dark)| format!("--{name}:{dark};"));
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = write!(
        out,
        ":root{{color-scheme:light;{light}}}\n\
         @media screen and (prefers-color-scheme:dark){{:root:not([data-theme=light]){{color-scheme:dark;{dark}}}}}\n\
         @media screen{{:root[data-theme=dark]{{color-scheme:dark;{dark}}}}}\n"
    );
    out + CHART + include_str!("page.css")
}

/// The rules of a chart that is a file of its own.
pub(super) fn alone() -> String {
    COLOURS.iter().fold(CHART.to_owned(), |css, (name, light, _)| css.replace(&format!("var(--{name})"), light))
}
