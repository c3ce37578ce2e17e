//! Keeps what happened. Implements `domain::ports::Records`.
