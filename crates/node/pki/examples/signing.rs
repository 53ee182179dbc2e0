//! Everything an authority does, once, for the kill matrix: makes it, issues, revokes, replaces the intermediate.
//!
//! Each certificate is printed, leaf only and on one line, as soon as it is handed out; revocations as `revoked SERIAL`.

use std::error::Error;
use std::path::PathBuf;

use muster_pki::jiff::Timestamp;
use muster_pki::{Authority, IssuedCert, Profile, Reason};

fn main() -> Result<(), Box<dyn Error>> {
    muster_fault::init(&[muster_pki::FAULT_POINTS]);
    let folder = PathBuf::from(std::env::args_os().nth(1).ok_or("a folder is missing")?);
    let now = Timestamp::now();
    let mut authority = Authority::init(&folder, &"plant-7".parse()?, now)?.authority;
    let issue = |authority: &mut Authority, node: &str| -> Result<IssuedCert, Box<dyn Error>> {
        let identity = format!("spiffe://plant-7/node/{node}/sm").parse()?;
        let cert = authority.issue_with_key(&Profile::new(identity), now)?.cert;
        println!("issued {}", cert.serial);
        Ok(cert)
    };
    let first = issue(&mut authority, "n1")?;
    issue(&mut authority, "n2")?;
    authority.revoke(&[first.serial], Reason::KeyCompromise, now)?;
    println!("revoked {}", first.serial);
    authority.replace_intermediate(Reason::KeyCompromise, now)?;
    issue(&mut authority, "n1")?;
    Ok(())
}
