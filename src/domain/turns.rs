//! Whose turn it is where several want the same.

use std::collections::HashMap;
use std::hash::Hash;

/// Gives turns. Of those that want one, it goes to one with the fewest under way, and of these to the one that has waited
/// longest for its next.
#[derive(Debug)]
pub struct Turns<K> {
    count: u64,
    known: HashMap<K, Turn>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Turn {
    /// The number of turns that are under way.
    running: usize,
    /// When it last had a turn, as a number of turns.
    last: u64,
}

impl<K> Default for Turns<K> {
    fn default() -> Self {
        Self { count: 0, known: HashMap::new() }
    }
}

impl<K: Hash + Eq + Clone> Turns<K> {
    /// Gives a turn to one of `open`, with at most `most` turns under way of each. `None` if none may have one.
    pub fn next<'k>(&mut self, open: impl Iterator<Item = &'k K>, most: usize) -> Option<K>
    where
        K: 'k,
    {
        let known = |key: &K| self.known.get(key).copied().unwrap_or_default();
        let open = open.map(|key| (key, known(key))).filter(|(_, turn)| turn.running < most);
        let (key, turn) = open.min_by_key(|(_, turn)| (turn.running, turn.last))?;
        self.count += 1;
        self.known.insert(key.clone(), Turn { running: turn.running + 1, last: self.count });
        Some(key.clone())
    }

    /// Records that one wants a turn. If it is not known, it comes after those that have waited since before.
    pub fn want(&mut self, key: K) {
        let last = self.count;
        self.known.entry(key).or_insert(Turn { running: 0, last });
    }

    /// Records that a turn has ended.
    pub fn end(&mut self, key: &K) {
        if let Some(turn) = self.known.get_mut(key) {
            turn.running = turn.running.saturating_sub(1);
        }
    }

    /// Ends all turns, and forgets all but those that are kept.
    pub fn begin_anew(&mut self, keeps: impl Fn(&K) -> bool) {
        self.known.retain(|key, _| keeps(key));
        self.known.values_mut().for_each(|turn| turn.running = 0);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    #[test]
    fn each_has_its_turn_however_much_the_others_want() {
        let all: Vec<_> = "abcdef".chars().collect();
        let mut turns = Turns::default();
        let mut running: VecDeque<_> = (0..4).filter_map(|_| turns.next(all.iter(), 2)).collect();
        assert!(running.iter().eq(&all[..4]));
        // Whenever one ends, the next begins.
        let mut taken = String::new();
        for _ in 0..8 {
            turns.end(&running.pop_front().unwrap());
            let next = turns.next(all.iter(), 2).unwrap();
            taken.push(next);
            running.push_back(next);
        }
        assert_eq!(taken, "efabcdef");
        turns.begin_anew(|_| true);
        assert_eq!((turns.next(all.iter(), 2), turns.next(all.iter(), 2)), (Some('a'), Some('b')));
        turns.begin_anew(|key| *key == 'c');
        turns.want('x');
        assert_eq!(turns.next(['x', 'c'].iter(), 2), Some('c'), "who is new does not go first");
        let mut turns = Turns::default();
        let mut alone = || turns.next(all[..1].iter(), 2);
        assert_eq!((alone(), alone(), alone()), (Some('a'), Some('a'), None), "two of one at most");
    }
}
