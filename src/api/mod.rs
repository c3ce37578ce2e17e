//! The custom resource types with their schemas and validation rules, the parsing of objects, and `lower`, which
//! turns objects into `config::input`.

mod canonical;
pub mod chain;
pub mod check;
pub mod convert;
pub mod crds;
pub mod gateway;
pub mod item;
pub mod lower;
pub mod pack;
pub mod pipeline;
pub mod plugin;
pub mod restrictions;
pub mod section;
pub mod seen;
pub mod shared;
pub mod snapshot;
pub mod status;
pub mod unimplemented;
pub mod upstream;
pub mod values;
pub mod yaml;

pub use canonical::canonical;
pub use crds::{crd_files, crd_templates, crds, crds_yaml, write_crds};
