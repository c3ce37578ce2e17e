//! The custom resource types, their schemas and rules, and `lower` into `config::input`. Nothing else.
