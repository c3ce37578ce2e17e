//! Rows of the table, the script that tries them, and what comes of each.

use serde_json::{Value, json};

use super::checks::{Check, Heard};
use super::clients::{Client, Era};
use super::servers::Servers;

/// For whom a row is different.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Who {
    All,
    In(Era),
}

impl Who {
    fn is(self, client: Client) -> bool {
        match self {
            Self::All => true,
            Self::In(era) => client.era == era,
        }
    }
}

/// What a client sends, and what has to come of it.
#[derive(Clone)]
struct Try {
    line: Value,
    /// What is sent afterwards, so that all is as before.
    after: Option<Value>,
    check: Check,
    /// What the log of the server has to say.
    heard: Option<Heard>,
}

/// A feature of an upstream.
#[derive(Clone)]
pub struct Row {
    pub upstream: &'static str,
    pub feature: &'static str,
    /// How it is tried, or why there is nothing to try.
    tried: Result<Box<Try>, &'static str>,
    differs: Vec<(Who, &'static str)>,
}

impl Row {
    /// A row for what this upstream has: `$CLIENT` in the line is the name of the client.
    pub fn of(upstream: &'static str, feature: &'static str, line: Value, check: Check) -> Self {
        let tried = Try { line, after: None, check, heard: None };
        Self { upstream, feature, tried: Ok(Box::new(tried)), differs: Vec::new() }
    }

    /// A row for what this upstream does not have at all.
    pub fn lacks(upstream: &'static str, feature: &'static str, why: &'static str) -> Self {
        Self { upstream, feature, tried: Err(why), differs: Vec::new() }
    }

    /// For these clients it does not work, and why.
    pub fn differs(mut self, who: Who, why: &'static str) -> Self {
        self.differs.push((who, why));
        self
    }

    /// The server writes down what comes of it.
    pub fn heard(mut self, heard: Heard) -> Self {
        self.tried.as_mut().unwrap().heard = Some(heard);
        self
    }

    /// This line is sent afterwards.
    pub fn then(mut self, line: Value) -> Self {
        self.tried.as_mut().unwrap().after = Some(line);
        self
    }

    fn difference(&self, client: Client) -> Option<&'static str> {
        self.differs.iter().find(|(who, _)| who.is(client)).map(|(_, why)| *why)
    }

    /// What came of it.
    pub async fn cell(&self, client: Client, answer: Option<&Value>, servers: &Servers) -> Cell {
        let cell = |outcome| Cell { client, upstream: self.upstream, feature: self.feature, outcome };
        let (Ok(tried), Some(answer)) = (&self.tried, answer) else {
            return cell(Outcome::Lacks(self.tried.as_ref().err().unwrap()));
        };
        let difference = self.difference(client);
        let mut works = (tried.check)(answer);
        if let (true, Some(heard)) = (works, tried.heard) {
            works = servers.heard(self.upstream, client, heard, difference.is_none()).await;
        }
        cell(match (works, difference) {
            (true, None) => Outcome::Works,
            (false, Some(why)) => Outcome::Differs(why),
            (true, Some(why)) => Outcome::Wrong(format!("works, but should not: {why}")),
            (false, None) => Outcome::Wrong(format!("{} was answered with {answer}", tried.line)),
        })
    }
}

/// What a client sends for all rows.
pub struct Script {
    pub lines: Vec<Value>,
    /// Which line is each row's.
    pub places: Vec<Option<usize>>,
}

impl Script {
    /// The script of a client. Lists are read once: they have the items of all upstreams.
    pub fn of(client: Client, rows: &[Row]) -> Self {
        let mut script = Self { lines: Vec::new(), places: Vec::new() };
        for row in rows {
            let place = row.tried.as_ref().ok().map(|tried| script.add(client, row, tried));
            script.places.push(place);
        }
        script
    }

    fn add(&mut self, client: Client, row: &Row, tried: &Try) -> usize {
        let named = |line: &Value| -> Value {
            serde_json::from_str(&line.to_string().replace("$CLIENT", &client.to_string())).unwrap()
        };
        let mut line = named(&tried.line);
        if row.difference(client).is_some() {
            // Nothing that never comes is waited for.
            line["patience"] = json!(0.3);
        }
        if !line["list"].is_null()
            && let Some(place) = self.lines.iter().position(|known| *known == line)
        {
            return place;
        }
        self.lines.push(line);
        let place = self.lines.len() - 1;
        self.lines.extend(tried.after.as_ref().map(named));
        place
    }

    /// As text, a line each.
    pub fn text(&self) -> String {
        self.lines.iter().map(|line| format!("{line}\n")).collect()
    }
}

/// What a client got of a row.
pub struct Cell {
    pub client: Client,
    pub upstream: &'static str,
    pub feature: &'static str,
    pub outcome: Outcome,
}

pub enum Outcome {
    /// As it should.
    Works,
    /// It does not, as the table says.
    Differs(&'static str),
    /// There is nothing to try.
    Lacks(&'static str),
    /// Not what the table says.
    Wrong(String),
}
