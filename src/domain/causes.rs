//! Formats an error and its causes as one line.

use std::error::Error;

/// Returns the error's message followed by those of its causes. A cause that the message already contains is not
/// repeated.
pub fn causes(error: &dyn Error) -> String {
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !words.contains(&more) {
            words = format!("{words}: {more}");
        }
        cause = error.source();
    }
    words
}

#[cfg(test)]
mod tests {
    use super::causes;

    #[derive(Debug, thiserror::Error)]
    enum Fault {
        #[error("port 80 is closed")]
        Closed,
        #[error("no connection")]
        Connect(#[source] Box<Fault>),
        #[error("it is not there: {0}")]
        Request(#[source] Box<Fault>),
    }

    #[test]
    fn each_cause_is_told_once() {
        let error = Fault::Request(Box::new(Fault::Connect(Box::new(Fault::Closed))));
        assert_eq!(causes(&error), "it is not there: no connection: port 80 is closed");
    }
}
