//! Where settings come from.

use std::{collections::HashMap, env, fs, path::PathBuf};

use config::{Environment, File, FileFormat, builder::DefaultState};

use super::{Config, ConfigError};

type Sources = config::ConfigBuilder<DefaultState>;

impl Config {
    /// From a text in TOML.
    ///
    /// # Errors
    ///
    /// A [`ConfigError`] that says where the text is no TOML, or which field is not good. Bounds are checked when it
    /// [becomes a builder](Self::into_builder).
    pub fn from_toml(text: &str) -> Result<Self, ConfigError> {
        read(sources().add_source(File::from_str(text, FileFormat::Toml)))
    }

    /// From a text in YAML.
    ///
    /// # Errors
    ///
    /// As [`from_toml`](Self::from_toml).
    pub fn from_yaml(text: &str) -> Result<Self, ConfigError> {
        read(sources().add_source(File::from_str(text, FileFormat::Yaml)))
    }

    /// From variables of the environment whose names begin with `prefix` and an underscore.
    ///
    /// # Errors
    ///
    /// As [`from_toml`](Self::from_toml).
    pub fn from_env(prefix: &str) -> Result<Self, ConfigError> {
        Self::from_vars(prefix, env_vars())
    }

    /// As [`from_env`](Self::from_env), from variables that are given.
    ///
    /// # Errors
    ///
    /// As [`from_toml`](Self::from_toml).
    pub fn from_vars(prefix: &str, vars: impl IntoIterator<Item = (String, String)>) -> Result<Self, ConfigError> {
        read(sources().add_source(variables(prefix, vars)))
    }

    /// From a file, by the end of its name: `.toml`, `.yaml` or `.yml`. Variables of the environment with the prefix
    /// count more than what is in it.
    ///
    /// # Errors
    ///
    /// As [`from_toml`](Self::from_toml), and if the file cannot be read.
    pub fn from_file_and_env(file: impl Into<PathBuf>, prefix: &str) -> Result<Self, ConfigError> {
        read(sources().add_source(File::from(file.into())).add_source(variables(prefix, env_vars())))
    }
}

/// As [`Config::from_file_and_env`], for tests.
#[cfg(test)]
pub(super) fn layered(toml: &str, prefix: &str, vars: Vec<(String, String)>) -> Result<Config, ConfigError> {
    read(sources().add_source(File::from_str(toml, FileFormat::Toml)).add_source(variables(prefix, vars)))
}

fn sources() -> Sources {
    config::Config::builder()
}

/// What is no Unicode is nobody's setting.
fn env_vars() -> impl Iterator<Item = (String, String)> {
    env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
}

fn variables(prefix: &str, vars: impl IntoIterator<Item = (String, String)>) -> Environment {
    let vars: HashMap<String, String> = vars.into_iter().collect();
    Environment::with_prefix(prefix).prefix_separator("_").separator("__").source(Some(vars))
}

fn read(sources: Sources) -> Result<Config, ConfigError> {
    let built = sources.build().map_err(|error| ConfigError::Source { reason: error.to_string() })?;
    serde_path_to_error::deserialize(built).map_err(|error| {
        let (path, reason) = (error.path().to_string(), error.into_inner().to_string());
        match reason.strip_prefix("missing configuration field \"").and_then(|rest| rest.strip_suffix('"')) {
            Some(field) => ConfigError::Field { path: field.to_owned(), reason: "missing".to_owned() },
            None => ConfigError::Field { path, reason },
        }
    })
}

pub(super) fn read_digest_secret(file: PathBuf) -> Result<zeroize::Zeroizing<Vec<u8>>, ConfigError> {
    match fs::read(&file) {
        Ok(bytes) => Ok(bytes.into()),
        Err(source) => Err(ConfigError::DigestSecret { file, source }),
    }
}
