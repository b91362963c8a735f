//! Keys of a profile in `~/.aws`, which `object_store` does not read.

use super::PlaceError;
use std::collections::BTreeMap;

/// What a profile has.
#[derive(PartialEq, Eq)]
pub(super) struct Keys {
    pub(super) id: String,
    pub(super) secret: String,
    pub(super) token: Option<String>,
    pub(super) region: Option<String>,
}

/// Keys are not printed.
impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keys").field("region", &self.region).finish_non_exhaustive()
    }
}

/// The keys of the profile that the environment names. None: the environment has keys itself or another source of them,
/// or there is no profile.
///
/// # Errors
/// The profile that is named is not there, or gets its keys in a way that is not served.
pub(super) fn find(env: &dyn Fn(&str) -> Option<String>) -> Result<Option<Keys>, PlaceError> {
    let others = ["AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"];
    if others.iter().any(|key| env(key).is_some()) {
        return Ok(None);
    }
    let named = env("AWS_PROFILE");
    let home = env("HOME").unwrap_or_default();
    let file = |key: &str, name: &str| {
        let path = env(key).unwrap_or_else(|| format!("{home}/.aws/{name}"));
        std::fs::read_to_string(path).unwrap_or_default()
    };
    let (credentials, config) = (file("AWS_SHARED_CREDENTIALS_FILE", "credentials"), file("AWS_CONFIG_FILE", "config"));
    keys(named.as_deref(), &credentials, &config)
}

/// The keys of the profile `named`, or else of the one named `default`, in the texts of the two files.
fn keys(named: Option<&str>, credentials: &str, config: &str) -> Result<Option<Keys>, PlaceError> {
    let profile = named.unwrap_or("default");
    let mut found = section(config, &[&format!("profile {profile}"), profile]);
    found.extend(section(credentials, &[profile]));
    let fault = |why| PlaceError::Profile { profile: profile.to_owned(), why };
    let mut take = |key: &str| found.remove(key);
    match (take("aws_access_key_id"), take("aws_secret_access_key")) {
        (Some(id), Some(secret)) => {
            let (token, region) = (take("aws_session_token"), take("region"));
            Ok(Some(Keys { id, secret, token, region }))
        }
        (None, None) if named.is_none() => Ok(None),
        (None, None) if found.is_empty() => Err(fault("there is no such profile in the files of ~/.aws")),
        _ if found.keys().any(|key| key.starts_with("sso_") || key == "credential_process" || key == "role_arn") => {
            Err(fault(
                "it gets its keys by a program, a role or single sign-on: put them into the environment, as \"aws \
                 configure export-credentials\" prints them",
            ))
        }
        _ => Err(fault("it has no aws_access_key_id with an aws_secret_access_key")),
    }
}

/// What stands in the sections of these names.
fn section(text: &str, names: &[&str]) -> BTreeMap<String, String> {
    let mut within = false;
    let mut found = BTreeMap::new();
    for line in text.lines().map(str::trim_end) {
        // What is indented belongs to the key before it, and comments to nobody.
        if line.starts_with([' ', '\t', '#', ';']) {
            continue;
        }
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            within = names.contains(&name.trim());
        } else if let Some((key, value)) = line.split_once('=').filter(|_| within) {
            found.insert(key.trim().to_ascii_lowercase(), value.trim().to_owned());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{find, keys};

    const CREDENTIALS: &str = "[default]\naws_access_key_id = one\naws_secret_access_key=two\n# a comment\n[other]\n\
                               aws_access_key_id=three\naws_secret_access_key = four=\naws_session_token= five\n";
    const CONFIG: &str = "[default]\nregion = here\ns3 =\n  region = nowhere\n[profile other]\nregion=there\n\
                          [profile signed]\nsso_session = x\n[profile half]\naws_access_key_id = six\n";

    #[test]
    fn static_keys_are_found_by_profile() {
        let found = keys(None, CREDENTIALS, CONFIG).unwrap().unwrap();
        assert_eq!(
            (&*found.id, &*found.secret, found.token, found.region.as_deref()),
            ("one", "two", None, Some("here"))
        );
        let found = keys(Some("other"), CREDENTIALS, CONFIG).unwrap().unwrap();
        assert_eq!((&*found.id, &*found.secret), ("three", "four="));
        assert_eq!((found.token.as_deref(), found.region.as_deref()), (Some("five"), Some("there")));
        assert!(!format!("{:?}", keys(None, CREDENTIALS, CONFIG)).contains("two"));
        assert_eq!(keys(None, "", "").unwrap(), None);
    }

    #[test]
    fn a_profile_without_static_keys_is_refused_with_what_helps() {
        let said = |name| keys(Some(name), CREDENTIALS, CONFIG).unwrap_err().to_string();
        assert!(said("signed").contains("export-credentials"), "{}", said("signed"));
        assert!(said("missing").contains("no such profile"), "{}", said("missing"));
        assert!(said("half").contains("aws_secret_access_key"), "{}", said("half"));
    }

    #[test]
    fn keys_of_the_environment_come_first() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("credentials");
        std::fs::write(&path, CREDENTIALS).unwrap();
        let file = path.to_str().unwrap().to_owned();
        let env = |key: &str| (key == "AWS_SHARED_CREDENTIALS_FILE").then(|| file.clone());
        assert_eq!(find(&env).unwrap().unwrap().id, "one");
        let both = |key: &str| (key == "AWS_ACCESS_KEY_ID").then(|| "seven".to_owned()).or_else(|| env(key));
        assert_eq!(find(&both).unwrap(), None);
    }
}
