//! Lists as clients get them. Each is serialized once for a snapshot and an endpoint, when it is first asked for.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::value::RawValue;

use crate::domain::budget::{ByteBudget, Category, Reservation};
use crate::domain::item::ItemKind;
use crate::domain::raw::to_raw;

/// The maximum number of items on a page.
pub(crate) const PAGE: usize = 200;

/// The pages of one list, each as a JSON array of definitions. An empty list has one page.
pub(crate) struct Pages {
    pages: Vec<Arc<RawValue>>,
    /// Reserves the bytes of the pages.
    _reservation: Reservation,
}

/// Lists by the index of their upstream, which is `None` for the list of all of them, and by kind.
type ByList = HashMap<(Option<usize>, ItemKind), Arc<Pages>>;

/// The lists of a snapshot that were asked for.
#[derive(Default)]
pub(crate) struct SerializedLists(Mutex<ByList>);

impl Pages {
    /// Returns the page of this number; `None` if there are fewer.
    pub(crate) fn page(&self, number: usize) -> Option<&Arc<RawValue>> {
        self.pages.get(number)
    }
}

impl SerializedLists {
    /// Returns the pages of a list, whose definitions are asked for only once. Keeps them if the budget has room for them.
    pub(crate) fn pages<'d>(
        &self,
        upstream: Option<usize>,
        kind: ItemKind,
        budget: &Arc<ByteBudget>,
        definitions: impl FnOnce() -> Vec<&'d RawValue>,
    ) -> Arc<Pages> {
        let known = |lists: &ByList| lists.get(&(upstream, kind)).cloned();
        if let Some(pages) = known(&self.0.lock().unwrap_or_else(PoisonError::into_inner)) {
            return pages;
        }
        let definitions = definitions();
        let mut pages: Vec<Arc<RawValue>> = definitions.chunks(PAGE).map(|page| Arc::from(to_raw(&page))).collect();
        if pages.is_empty() {
            pages.push(Arc::from(to_raw(&[(); 0])));
        }
        let reservation = budget.reservation(Category::List);
        let has_room = reservation.resize(pages.iter().map(|page| page.get().len() as u64).sum()).is_ok();
        let pages = Arc::new(Pages { pages, _reservation: reservation });
        if has_room {
            let mut lists = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            lists.insert((upstream, kind), Arc::clone(&pages));
        }
        pages
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_serialized_once_if_there_is_room() {
        let definition = RawValue::from_string(format!(r#"{{"name": "a","x":"{}"}}"#, "x".repeat(1000))).unwrap();
        let asked = std::cell::Cell::new(0);
        let read = |lists: &SerializedLists, budget: &Arc<ByteBudget>, upstream, count: usize| {
            lists.pages(upstream, ItemKind::Tool, budget, || {
                asked.set(asked.get() + 1);
                vec![&*definition; count]
            })
        };
        let (budget, lists) = (Arc::new(ByteBudget::new(4 << 20)), SerializedLists::default());
        for upstream in [None, Some(0), Some(1)] {
            for _ in 0..2 {
                let pages = read(&lists, &budget, upstream, 201);
                assert_eq!(pages.page(1).unwrap().get(), format!("[{}]", definition.get()));
                assert!(pages.page(2).is_none());
            }
        }
        assert_eq!(asked.get(), 3);
        assert!(budget.held(Category::List) > 500 << 10);
        drop(lists);
        assert_eq!(budget.held(Category::List), 0);
        let (small, lists) = (Arc::new(ByteBudget::new(256 << 10)), SerializedLists::default());
        assert_eq!([read(&lists, &small, None, 200), read(&lists, &small, None, 200)].map(|it| it.pages.len()), [1; 2]);
        assert_eq!(asked.get(), 5, "there is no room to keep it");
        let empty = read(&lists, &small, None, 0);
        assert_eq!(empty.page(0).unwrap().get(), "[]");
    }
}
