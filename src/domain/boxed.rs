//! Futures in boxes.

use std::pin::Pin;

/// Returns the future that `make` makes, in a box in which it is made. `Box::pin(future)` makes it elsewhere and copies all of it,
/// since it has to drop it if there is no memory for the box. The future of a call has some kilobytes, of which little is set
/// before it runs.
pub fn boxed<F>(make: impl FnOnce() -> F) -> Pin<Box<F>> {
    let place = Box::new_uninit();
    Box::into_pin(Box::write(place, make()))
}
