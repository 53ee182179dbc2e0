//! Changes of folders.

use super::{
    Attrs, Change, Client, Entry, Kind, RelPath, RequestError, SftpFiles, Status, is, kind,
};

/// A folder that is being filled.
const PRIVATE: Attrs = Attrs {
    size: None,
    mode: Some(0o700),
    mtime: None,
};

impl SftpFiles {
    pub(super) async fn change_one(
        &self,
        client: &Client,
        change: &Change,
    ) -> Result<(), RequestError> {
        let full = self.path(change.path());
        match change {
            Change::Folder(path) if path.is_root() => self.make_root(client).await,
            Change::Folder(path) => self.make_folder(client, path).await,
            Change::Link { target, .. } => {
                // OpenSSH takes these the other way round than the standard has them.
                let link = || client.ask(kind::SYMLINK, |it| it.text(target).text(&full));
                if link().await.is_err() {
                    remove(client, kind::REMOVE, &full).await?;
                    link().await?;
                }
                Ok(())
            }
            Change::Remove { folder, .. } => {
                let by = if *folder { kind::RMDIR } else { kind::REMOVE };
                remove(client, by, &full).await
            }
            Change::Rename { from, to } => self.rename(client, from, to).await,
            Change::Settle { mode, mtime, .. } => {
                let settled = Attrs::settled(*mode, *mtime);
                let set = client.ask(kind::SETSTAT, |it| it.text(&full).attrs(settled));
                set.await.map(drop)
            }
        }
    }

    async fn make_folder(&self, client: &Client, path: &RelPath) -> Result<(), RequestError> {
        let full = self.path(path);
        let made = client
            .ask(kind::MKDIR, |it| it.text(&full).attrs(PRIVATE))
            .await;
        let Err(error) = made else { return Ok(()) };
        match self.look_now(client, path).await? {
            Some(Entry {
                kind: Kind::Folder,
                mode,
                ..
            }) if mode & 0o700 == 0o700 => Ok(()),
            Some(Entry {
                kind: Kind::Folder,
                mode,
                ..
            }) => {
                let opened = Attrs {
                    mode: Some(mode | 0o700),
                    ..Attrs::default()
                };
                let set = client.ask(kind::SETSTAT, |it| it.text(&full).attrs(opened));
                set.await.map(drop)
            }
            _ => Err(error),
        }
    }

    /// Makes the folder itself, and those above it that are missing.
    async fn make_root(&self, client: &Client) -> Result<(), RequestError> {
        let root = RelPath::root();
        if self.look_now(client, &root).await?.is_some() {
            return Ok(());
        }
        let usual = Attrs {
            mode: Some(0o755),
            ..Attrs::default()
        };
        let slashes = self.root.iter().enumerate().skip(1);
        let ends = slashes.filter(|&(_, &byte)| byte == b'/').map(|(at, _)| at);
        for end in ends.chain([self.root.len()]) {
            let above = &self.root[..end];
            let made = client
                .ask(kind::MKDIR, |it| it.text(above).attrs(usual))
                .await;
            if let Err(error) = made {
                // It may be there; the last one has to be.
                let there = client.ask(kind::STAT, |it| it.text(above)).await;
                if there.is_err() {
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    pub(super) async fn rename(
        &self,
        client: &Client,
        from: &RelPath,
        to: &RelPath,
    ) -> Result<(), RequestError> {
        let (from, to) = (self.path(from), self.path(to));
        if client.replaces {
            let name = b"posix-rename@openssh.com";
            let renamed = client.ask(kind::EXTENDED, |it| it.text(name).text(&from).text(&to));
            return renamed.await.map(drop);
        }
        remove(client, kind::REMOVE, &to).await?;
        let renamed = client.ask(kind::RENAME, |it| it.text(&from).text(&to));
        renamed.await.map(drop)
    }
}

async fn remove(client: &Client, by: u8, full: &[u8]) -> Result<(), RequestError> {
    match client.ask(by, |it| it.text(full)).await {
        Err(error) if !is(&error, Status::MISSING) => Err(error),
        _ => Ok(()),
    }
}
