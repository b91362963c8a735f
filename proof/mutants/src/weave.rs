//! Puts mutants into a source text, each behind a question that is asked at run time.

use crate::find::{Change, Mutant};
use std::cmp::Reverse;
use std::iter::Peekable;
use std::ops::Range;
use std::slice::Iter;

/// A source text with mutants in it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Woven {
    pub(crate) text: String,
    /// Where each mutant is in it: the changed code, and what it stands beside.
    places: Vec<(u32, Range<usize>)>,
    /// Where functions are that have mutants.
    functions: Vec<Range<usize>>,
}

/// What is marked in a text: the mutant of a number, or a function.
struct Mark<'m> {
    region: Range<usize>,
    mutant: Option<(u32, &'m Change)>,
}

/// Weaves mutants into the text that they were found in. Without a choice it means what it meant.
pub(crate) fn weave(text: &str, chosen: &[(u32, &Mutant)]) -> Woven {
    let mut functions: Vec<Range<usize>> = chosen.iter().map(|(_, mutant)| mutant.function.clone()).collect();
    functions.sort_by_key(|function| (function.start, function.end));
    functions.dedup();
    let functions = functions.into_iter().map(|region| Mark { region, mutant: None });
    let mutants = chosen
        .iter()
        .map(|(number, mutant)| Mark { region: mutant.region.clone(), mutant: Some((*number, &mutant.change)) });
    let mut marks: Vec<Mark<'_>> = functions.chain(mutants).collect();
    marks.sort_by_key(|mark| (mark.region.start, Reverse(mark.region.end)));
    let mut woven = Woven::default();
    woven.copy(text, 0..text.len(), &mut marks.iter().peekable());
    woven
}

impl Woven {
    /// Appends a range of the source, with what is marked within it.
    fn copy(&mut self, text: &str, range: Range<usize>, marks: &mut Peekable<Iter<'_, Mark<'_>>>) {
        let mut at = range.start;
        while let Some(mark) = marks.next_if(|mark| mark.region.start < range.end) {
            self.text += &text[at..mark.region.start];
            at = mark.region.end;
            let begin = self.text.len();
            let Some((number, change)) = mark.mutant else {
                self.copy(text, mark.region.clone(), marks);
                self.functions.push(begin..self.text.len());
                continue;
            };
            let asked = format!("::ondol_env::mutant::is({number})");
            let (before, after) = match change {
                Change::Value(new) => (format!("(if {asked} {{ {new} }} else {{ "), " })"),
                Change::LeftOut => (format!("if !{asked} {{ "), " }"),
                Change::Returns(value) => (format!(" if {asked} {{ return {value}; }}"), ""),
            };
            self.text += &before;
            self.copy(text, mark.region.clone(), marks);
            self.text += after;
            self.places.push((number, begin..self.text.len()));
        }
        self.text += &text[at..range.end];
    }

    /// The mutants that an error of the compiler at these bytes may come from: the innermost around them, else all of
    /// that function.
    pub(crate) fn blamed(&self, at: &Range<usize>) -> Vec<u32> {
        let holds = |place: &Range<usize>| place.start <= at.start && at.end <= place.end;
        let around = self.places.iter().filter(|(_, place)| holds(place));
        if let Some((number, _)) = around.min_by_key(|(_, place)| place.len()) {
            return vec![*number];
        }
        let function = self.functions.iter().filter(|place| holds(place)).min_by_key(|place| place.len());
        let within = |place: &Range<usize>| function.is_some_and(|f| f.start <= place.start && place.end <= f.end);
        self.places.iter().filter(|(_, place)| within(place)).map(|(number, _)| *number).collect()
    }
}
