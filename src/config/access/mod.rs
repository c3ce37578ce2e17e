//! What the rules of a gateway decide (`spec.authorization`), and the tests that manifests have for them.

mod access_test;
pub(crate) mod authorize;
pub(crate) mod condition_values;

pub use access_test::AccessTest;

#[cfg(test)]
mod tests;
