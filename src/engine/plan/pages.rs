//! Lists as clients get them. Each is serialized once for a snapshot and an endpoint, when it is first asked for.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::value::RawValue;

use crate::domain::budget::{ByteBudget, Category, Reservation};
use crate::domain::definition::for_legacy_clients;
use crate::domain::item::ItemKind;
use crate::domain::raw::to_raw;

/// The maximum number of items on a page.
pub(crate) const PAGE: usize = 200;

/// The maximum number of lists that are kept if rules decide who may see what. Others are serialized for each request.
const MAX_KEPT: usize = 256;

/// The pages of one list, each as a JSON array of definitions. An empty list has one page.
pub(crate) struct Pages {
    pages: Vec<Page>,
    /// Reserves the bytes of the pages.
    _reservation: Reservation,
}

/// A page, as clients of each era get it.
pub(crate) struct Page {
    pub(crate) modern: Arc<RawValue>,
    pub(crate) legacy: Arc<RawValue>,
}

impl Page {
    fn of(definitions: &[&RawValue], kind: ItemKind) -> Self {
        let modern: Arc<RawValue> = to_raw(&definitions).into();
        let in_legacy =
            |definition: &&RawValue| if kind == ItemKind::Tool { for_legacy_clients(definition) } else { None };
        let changed: Vec<_> = definitions.iter().map(in_legacy).collect();
        let legacy = if changed.iter().any(Option::is_some) {
            let each = changed.iter().zip(definitions).map(|(changed, same)| changed.as_deref().unwrap_or(same));
            to_raw(&each.collect::<Vec<_>>()).into()
        } else {
            Arc::clone(&modern)
        };
        Self { modern, legacy }
    }
}

/// A list: the index of the upstream of its endpoint, which is `None` for that of all of them; the index of the only upstream
/// that is visible in the section that its client is in, if there is one; its kind; and the digest of the items that its client
/// may see, if there are rules.
type ListKey = (Option<usize>, Option<usize>, ItemKind, Option<String>);

type ByList = HashMap<ListKey, Arc<Pages>>;

/// The lists of a snapshot that were asked for.
#[derive(Default)]
pub(crate) struct SerializedLists(Mutex<ByList>);

impl Pages {
    /// Returns the page of this number; `None` if there are fewer.
    pub(crate) fn page(&self, number: usize) -> Option<&Page> {
        self.pages.get(number)
    }
}

impl SerializedLists {
    /// Returns the pages of a list, whose definitions are asked for only once. Keeps them if the budget has room for them.
    pub(crate) fn pages<'d>(
        &self,
        list: ListKey,
        budget: &Arc<ByteBudget>,
        definitions: impl FnOnce() -> Vec<&'d RawValue>,
    ) -> Arc<Pages> {
        let known = |lists: &ByList| lists.get(&list).cloned();
        if let Some(pages) = known(&self.0.lock().unwrap_or_else(PoisonError::into_inner)) {
            return pages;
        }
        let (definitions, kind) = (definitions(), list.2);
        let mut pages: Vec<_> = definitions.chunks(PAGE).map(|page| Page::of(page, kind)).collect();
        if pages.is_empty() {
            pages.push(Page::of(&[], kind));
        }
        let reservation = budget.reservation(Category::List);
        let has_room = reservation.resize(pages.iter().map(|page| page.modern.get().len() as u64).sum()).is_ok();
        let pages = Arc::new(Pages { pages, _reservation: reservation });
        let mut lists = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if has_room && (list.3.is_none() || lists.len() < MAX_KEPT) {
            lists.insert(list, Arc::clone(&pages));
        }
        drop(lists);
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
            lists.pages((upstream, None, ItemKind::Tool, None), budget, || {
                asked.set(asked.get() + 1);
                vec![&*definition; count]
            })
        };
        let (budget, lists) = (Arc::new(ByteBudget::new(4 << 20)), SerializedLists::default());
        for upstream in [None, Some(0), Some(1)] {
            for _ in 0..2 {
                let pages = read(&lists, &budget, upstream, 201);
                assert_eq!(pages.page(1).unwrap().modern.get(), format!("[{}]", definition.get()));
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
        assert_eq!(empty.page(0).unwrap().legacy.get(), "[]");
    }
}
