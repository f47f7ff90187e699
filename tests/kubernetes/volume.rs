//! A volume with a key ring, laid out and replaced as the kubelet does it.

use std::{
    cell::Cell,
    env::temp_dir,
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
};

use crate::host::new_name;

/// A folder with `keys`, a link to `..data/keys`, where `..data` is a link to a folder that is new with each change.
pub(crate) struct Volume {
    path: PathBuf,
    changes: Cell<u32>,
}

impl Volume {
    pub(crate) fn new(ring: &[&str]) -> Self {
        let volume = Self { path: temp_dir().join(new_name()), changes: Cell::new(0) };
        fs::create_dir(&volume.path).unwrap();
        symlink("..data/keys", volume.key_ring()).unwrap();
        volume.replace(ring);
        volume
    }

    pub(crate) fn key_ring(&self) -> PathBuf {
        self.path.join("keys")
    }

    /// Gives it other contents, all at once.
    pub(crate) fn replace(&self, ring: &[&str]) {
        self.changes.set(self.changes.get() + 1);
        let folder = format!("..{}", self.changes.get());
        fs::create_dir(self.path.join(&folder)).unwrap();
        let file = self.path.join(&folder).join("keys");
        fs::write(&file, ring.join("\n")).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o444)).unwrap();
        let next = self.path.join("..data_tmp");
        symlink(&folder, &next).unwrap();
        let data = self.path.join("..data");
        let old = fs::read_link(&data).ok();
        fs::rename(&next, &data).unwrap();
        if let Some(old) = old {
            fs::remove_dir_all(self.path.join(old)).unwrap();
        }
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        remove(&self.path);
    }
}

pub(crate) fn remove(path: &Path) {
    if let Err(problem) = fs::remove_dir_all(path) {
        eprintln!("left behind: {}: {problem}", path.display());
    }
}
