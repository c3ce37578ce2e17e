//! A registry: Plugin and PluginChain objects in a database, with the code of plugins by its digest (document 000, V2).

use sqlx::{AssertSqlSafe, Row};

use super::connections::{Connections, migrate};
use super::error::StoreError;
use super::target::StoreTarget;
use crate::domain::digest::sha256_hex;

/// The version of the tables that this program writes, and the oldest that it reads.
const SCHEMA: i64 = 1;
/// The maximum number of objects.
const MAX_OBJECTS: usize = 2000;

/// An object as the registry has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegistryObject {
    /// `Plugin` or `PluginChain`.
    pub kind: String,
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The apiVersion of `document`.
    pub api_version: String,
    /// The object as JSON.
    pub document: String,
    /// The name of the file with the plugin's code, whose content has this SHA-256; `None` if the object has the code, or
    /// none.
    pub code: Option<(String, String)>,
}

impl RegistryObject {
    /// The kind, the namespace and the name.
    pub fn id(&self) -> [&str; 3] {
        [&self.kind, &self.namespace, &self.name]
    }
}

/// An open registry.
pub struct Registry {
    connections: Connections,
}

impl Registry {
    /// Connects to a registry, and creates its tables if they do not exist.
    ///
    /// # Errors
    /// If it cannot be reached, or its tables are newer than this program can read.
    pub async fn open(target: StoreTarget) -> Result<Self, StoreError> {
        migrate(&target, None).await?;
        let registry = Self { connections: Connections::new(target, 1 << 40)? };
        let found = registry.setting("schema").await?;
        if found > SCHEMA {
            let message = format!("its registry has schema {found}, and this program reads up to {SCHEMA}: upgrade it");
            return Err(StoreError::new(&registry.connections.target, &message));
        }
        Ok(registry)
    }

    /// A number that grows with each change.
    ///
    /// # Errors
    /// If the registry cannot be read.
    pub async fn revision(&self) -> Result<i64, StoreError> {
        self.setting("revision").await
    }

    async fn setting(&self, name: &'static str) -> Result<i64, StoreError> {
        let select = sqlx::query("SELECT value FROM registry_settings WHERE name = $1").bind(name);
        let row = self.connections.within(select.fetch_one(&self.connections.pool)).await?;
        row.try_get(0).map_err(|why| self.connections.error(&why))
    }

    /// Adds objects, or replaces those that are there, all or none. `code` are the contents of files.
    ///
    /// # Errors
    /// If the registry cannot be written.
    pub async fn push(&self, objects: &[RegistryObject], code: &[String]) -> Result<(), StoreError> {
        let write = async {
            let mut transaction = self.connections.pool.begin().await?;
            for content in code {
                let sql = "INSERT INTO registry_code (digest, content) VALUES ($1, $2) ON CONFLICT (digest) DO NOTHING";
                let insert = sqlx::query(sql).bind(sha256_hex(content.as_bytes())).bind(content.clone());
                insert.execute(&mut *transaction).await?;
            }
            for object in objects {
                let sql = "INSERT INTO registry_objects (kind, namespace, name, api_version, document, file, digest) VALUES \
                           ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (kind, namespace, name) DO UPDATE SET api_version = $4, \
                           document = $5, file = $6, digest = $7";
                let insert = object.id().into_iter().fold(sqlx::query(sql), |sql, part| sql.bind(part.to_owned()));
                let (file, digest) = object.code.clone().unwrap_or_default();
                let insert = insert.bind(object.api_version.clone()).bind(object.document.clone());
                insert.bind(file).bind(digest).execute(&mut *transaction).await?;
            }
            changed(&mut transaction).await?;
            transaction.commit().await
        };
        self.connections.within(write).await
    }

    /// Removes an object, and code that no object uses any more. Returns whether it was there.
    ///
    /// # Errors
    /// If the registry cannot be written.
    pub async fn remove(&self, id: [&str; 3]) -> Result<bool, StoreError> {
        let write = async {
            let mut transaction = self.connections.pool.begin().await?;
            let sql = "DELETE FROM registry_objects WHERE kind = $1 AND namespace = $2 AND name = $3";
            let delete = id.into_iter().fold(sqlx::query(sql), |sql, part| sql.bind(part.to_owned()));
            let removed = delete.execute(&mut *transaction).await?.rows_affected();
            let unused = "DELETE FROM registry_code WHERE digest NOT IN (SELECT digest FROM registry_objects)";
            sqlx::query(unused).execute(&mut *transaction).await?;
            changed(&mut transaction).await?;
            transaction.commit().await?;
            Ok(removed > 0)
        };
        self.connections.within(write).await
    }

    /// Lists all objects, by kind, namespace and name.
    ///
    /// # Errors
    /// If the registry cannot be read.
    pub async fn list(&self) -> Result<Vec<RegistryObject>, StoreError> {
        let sql = format!(
            "SELECT kind, namespace, name, api_version, document, file, digest FROM registry_objects ORDER BY kind, \
             namespace, name LIMIT {}",
            MAX_OBJECTS + 1
        );
        let rows = self.connections.within(sqlx::query(AssertSqlSafe(sql)).fetch_all(&self.connections.pool)).await?;
        if rows.len() > MAX_OBJECTS {
            let message = format!("its registry has more than {MAX_OBJECTS} objects");
            return Err(StoreError::new(&self.connections.target, &message));
        }
        let read = |row: &sqlx::any::AnyRow| {
            let (file, digest): (String, String) = (row.try_get(5)?, row.try_get(6)?);
            Ok(RegistryObject {
                kind: row.try_get(0)?,
                namespace: row.try_get(1)?,
                name: row.try_get(2)?,
                api_version: row.try_get(3)?,
                document: row.try_get(4)?,
                code: (!digest.is_empty()).then_some((file, digest)),
            })
        };
        rows.iter().map(read).collect::<Result<_, _>>().map_err(|why: sqlx::Error| self.connections.error(&why))
    }

    /// Returns the code with this digest; `None` if it is not there, or was changed and has another digest.
    ///
    /// # Errors
    /// If the registry cannot be read.
    pub async fn code(&self, digest: &str) -> Result<Option<String>, StoreError> {
        let select = sqlx::query("SELECT content FROM registry_code WHERE digest = $1").bind(digest.to_owned());
        let row = self.connections.within(select.fetch_optional(&self.connections.pool)).await?;
        let content: Option<String> =
            row.map(|row| row.try_get(0)).transpose().map_err(|why| self.connections.error(&why))?;
        Ok(content.filter(|content| sha256_hex(content.as_bytes()) == digest))
    }
}

async fn changed(transaction: &mut sqlx::Transaction<'_, sqlx::Any>) -> Result<(), sqlx::Error> {
    let update = "UPDATE registry_settings SET value = value + 1 WHERE name = 'revision'";
    sqlx::query(update).execute(&mut **transaction).await.map(drop)
}
