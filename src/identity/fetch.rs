//! Fetches the keys of issuers.

use super::key_set::KeySet;
use crate::transport::issuer;
use crate::transport::outbound::AddressGuard;

/// Fetches the keys of an issuer, at `jwks_uri` or at the URL that its metadata names.
///
/// # Errors
/// The reason why there are none. It contains no query of a URL.
pub(super) async fn keys(issuer: &str, jwks_uri: Option<&str>, guard: &AddressGuard) -> Result<KeySet, String> {
    let uri = match jwks_uri {
        Some(uri) => uri.to_owned(),
        None => {
            let found = issuer::metadata(issuer, guard).await?.jwks_uri;
            found.ok_or_else(|| "its metadata lacks jwks_uri".to_owned())?
        }
    };
    let json = issuer::get(&uri, guard).await?;
    KeySet::read(&json).map_err(|why| format!("its key set cannot be used: {why}"))
}
