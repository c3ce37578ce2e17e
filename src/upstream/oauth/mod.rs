//! Access tokens that the gateway sends to a server at a URL (`external.oauth`).

mod access_token;
mod token_endpoint;
mod tokens;
mod user_tokens;

pub(super) use self::token_endpoint::TokenEndpoint;
pub(super) use self::tokens::{PresentedToken, Tokens};
pub(super) use self::user_tokens::UserTokens;
