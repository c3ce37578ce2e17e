//! Statuses from what was compiled and reported.
