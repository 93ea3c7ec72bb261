//! The one list of what can be configured and is not built yet. It is accepted and checked, so that a file
//! can be written now, and named in one warning, so that nobody counts on it.

use super::schema::File;

/// The keys of `file` that would change something if they were built.
pub(crate) fn unbuilt(file: &File) -> Vec<String> {
    let servers = file.servers.iter().filter(|(_, server)| server.cookies);
    servers
        .map(|(name, _)| format!("servers.{name}.cookies"))
        .collect()
}
