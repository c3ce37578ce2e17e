//! Black-box tests of the rows of document 002, each in a function that is named after its row. The functions of one file share a
//! gateway. `list.txt` has all rows with their tests, those elsewhere too; `tests/tidy` compares it with the tests.

mod context;
mod declared;
mod rules;
mod tools;
