//! As much of SVG as the figure needs.

use std::fmt::{Display, Write};

/// A picture. Colours come from the classes of its style.
pub struct Svg {
    head: String,
    body: String,
}

/// Which part of a text its position is.
#[derive(Clone, Copy)]
pub enum Anchor {
    Start,
    Middle,
    End,
}

impl Svg {
    pub fn new(width: f64, height: f64, title: &str, style: &str) -> Self {
        let head = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
             role=\"img\">\n<title>{title}</title>\n<style>\n{style}</style>\n"
        );
        Self { head, body: String::new() }
    }

    pub fn text(&mut self, (x, y): (f64, f64), class: &str, anchor: Anchor, text: impl Display) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        self.add(format_args!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" class=\"{class}\" text-anchor=\"{anchor}\">{text}</text>"
        ));
    }

    pub fn line(&mut self, (x1, y1): (f64, f64), (x2, y2): (f64, f64), class: &str) {
        self.add(format_args!("<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" class=\"{class}\"/>"));
    }

    /// From its upper left corner.
    pub fn rect(&mut self, (x, y): (f64, f64), width: f64, height: f64, class: &str) {
        self.add(format_args!(
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" class=\"{class}\"/>"
        ));
    }

    pub fn polyline(&mut self, points: impl IntoIterator<Item = (f64, f64)>, class: &str) {
        self.points("polyline", points, class);
    }

    pub fn polygon(&mut self, points: impl IntoIterator<Item = (f64, f64)>, class: &str) {
        self.points("polygon", points, class);
    }

    pub fn finish(self) -> String {
        format!("{}{}</svg>\n", self.head, self.body)
    }

    fn points(&mut self, shape: &str, points: impl IntoIterator<Item = (f64, f64)>, class: &str) {
        let points: Vec<String> = points.into_iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        self.add(format_args!("<{shape} points=\"{}\" class=\"{class}\"/>", points.join(" ")));
    }

    fn add(&mut self, element: impl Display) {
        writeln!(self.body, "{element}").expect("a string takes all that is written");
    }
}
