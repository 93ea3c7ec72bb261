//! All that a backend keeps, as one value.

use std::sync::Arc;

use crate::audit::Audit;
use crate::clients::Clients;
use crate::documents::Documents;
use crate::grants::Grants;
use crate::issuers::Issuers;
use crate::leases::Leases;
use crate::notices::Notices;
use crate::operations::Operations;
use crate::presence::Presence;
use crate::records::Records;
use crate::resealing::Resealing;
use crate::sign_ins::SignIns;
use crate::vault_entries::VaultEntries;

/// A backend with all that it keeps. Whoever needs less asks for less: an `Arc<dyn Store>` is an
/// `Arc<dyn Records>` and any other of its parts, too.
pub trait Store:
    Records
    + Grants
    + Leases
    + Clients
    + SignIns
    + Notices
    + Operations
    + Presence
    + VaultEntries
    + Documents
    + Issuers
    + Audit
    + Resealing
{
}

impl<T> Store for T where
    T: Records
        + Grants
        + Leases
        + Clients
        + SignIns
        + Notices
        + Operations
        + Presence
        + VaultEntries
        + Documents
        + Issuers
        + Audit
        + Resealing
{
}

/// A backend, shared by all who use it.
pub type SharedStore = Arc<dyn Store>;
