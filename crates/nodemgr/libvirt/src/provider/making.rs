//! Making machines, and starting them.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;

use muster_provider::{Described, Mark, Order};
use muster_template::Arch;
use uuid::Uuid;

use super::Shared;
use super::seeing::View;
use crate::disk;
use crate::domain::{Files, describe};
use crate::error::Trouble;
use crate::fault::{DEFINED, DISK, MADE, PLANNED, STARTED};
use crate::helper::CallError;
use crate::image::Wanted;
use crate::iso;
use crate::kvm;
use crate::plan::{
    Accelerator, Findings, MachinePlan, Network, Origin, Source, arch_of, network_of, uuid_of,
};
use crate::protocol::{Change, FailureKind, NetworkFacts, Reply, Request};
use crate::settings::Acceleration;

/// How often another port is tried, when somebody else has taken the one that a machine had.
const PORTS: usize = 5;
/// What QEMU says then.
const PORT_TAKEN: &str = "Could not set up host forwarding rule";

impl Shared {
    pub(super) async fn provision(self: &Arc<Self>, order: &Order) -> Result<Described, Trouble> {
        let uuid = uuid_of(&order.mark);
        let _guard = self.lock(uuid).await;
        if self
            .on_disk(uuid, move |folders, _| folders.is_buried(uuid))
            .await?
        {
            return Err(Trouble::Used);
        }
        let view = self.look(uuid, false).await?;
        if let Some(view) = &view {
            view.check(&order.mark)?;
        }
        let kept = view.and_then(|view| view.kept);
        if !kept.as_ref().is_some_and(|kept| kept.made) {
            let plan = match kept {
                Some(kept) => kept.plan,
                None => self.plan(order).await?,
            };
            self.make(order, plan).await?;
        }
        let view = self.look(uuid, true).await?.ok_or(Trouble::Missing)?;
        self.carry_on(&view);
        view.described()
    }

    /// Decides what is made of an order, and keeps it.
    async fn plan(&self, order: &Order) -> Result<MachinePlan, Trouble> {
        let spec = &order.spec;
        let arch = arch_of(spec).map_err(Trouble::Order)?;
        let source = Source::of(spec).map_err(Trouble::Order)?;
        if let Some(network) = network_of(spec) {
            self.check_network(network).await?;
        }
        let (Source::Image(name) | Source::Disc(name)) = &source;
        let wanted = Wanted {
            name,
            digest: spec.digest.as_deref(),
            arch,
            sum: spec.pin_for.is_some(),
        };
        let (origin, image_size, sum) = match source {
            Source::Image(_) => {
                let image = self.images.image(wanted).await;
                let image = image.map_err(Trouble::Image)?;
                let (path, format) = (image.path, image.format);
                (Origin::Image { path, format }, Some(image.size), image.sum)
            }
            Source::Disc(_) => {
                let disc = self.images.disc(wanted).await;
                let (path, sum) = disc.map_err(Trouble::Image)?;
                (Origin::Disc { path }, None, sum)
            }
        };
        let findings = Findings {
            arch,
            accelerator: self.accelerator(arch).await,
            origin,
            image_size,
            sum,
            ssh_port: free_port()?,
        };
        let plan = MachinePlan::new(order, &self.settings.defaults, findings);
        let plan = plan.map_err(Trouble::Order)?;
        let kept = plan.clone();
        self.on_disk(plan.uuid, move |_, folder| folder.keep_plan(&kept))
            .await?;
        muster_fault::hit(PLANNED);
        Ok(plan)
    }

    async fn check_network(&self, wanted: &str) -> Result<(), Trouble> {
        let Reply::Networks(networks) = self.ask(Request::Networks).await? else {
            return Err(Trouble::Libvirt(CallError::Answer));
        };
        match networks.iter().find(|network| network.name == wanted) {
            Some(NetworkFacts { active: true, .. }) => Ok(()),
            Some(_) => Err(Trouble::InactiveNetwork(wanted.to_owned())),
            None => {
                let known: Vec<String> = networks.into_iter().map(|it| it.name).collect();
                Err(Trouble::NoNetwork {
                    wanted: wanted.to_owned(),
                    known: known.join(", "),
                })
            }
        }
    }

    /// Found out once.
    async fn accelerator(&self, arch: Arch) -> Accelerator {
        // Another architecture is always translated.
        if arch.kernel_name() != std::env::consts::ARCH {
            return Accelerator::Tcg;
        }
        let probe = || async {
            let kvm = match self.settings.acceleration {
                Acceleration::Kvm => true,
                Acceleration::Tcg => false,
                Acceleration::Probe => {
                    let emulator = self.settings.emulator.clone();
                    let emulator = emulator.unwrap_or_else(kvm::default_emulator);
                    let boots =
                        kvm::boots(&emulator, "kvm", &self.settings.folder, kvm::TIME).await;
                    tracing::info!(boots, "KVM was tried by booting something with it");
                    boots
                }
            };
            if kvm {
                Accelerator::Kvm
            } else {
                Accelerator::Tcg
            }
        };
        *self.accelerator.get_or_init(probe).await
    }

    /// Makes what is missing of a machine, and starts it for the first time.
    async fn make(&self, order: &Order, plan: MachinePlan) -> Result<(), Trouble> {
        let uuid = plan.uuid;
        let folder = self.folders.machine(uuid);
        let disk = folder.disk();
        disk::make(&self.settings.qemu_img, &plan.origin, plan.disk_mb, &disk).await?;
        muster_fault::hit(DISK);
        if plan.seed && !folder.seed().exists() {
            let disc = seed_disc(order)?;
            self.on_disk(uuid, move |_, folder| folder.keep_seed(&disc))
                .await?;
        }
        let mark = plan.mark.clone();
        let domain = self.domain(uuid, false).await?;
        if domain.is_none() {
            self.define(&plan).await?;
            muster_fault::hit(DEFINED);
        }
        if !domain.is_some_and(|domain| domain.status.is_active()) {
            self.start_with(&mark, plan).await?;
            muster_fault::hit(STARTED);
        }
        self.on_disk(uuid, |_, folder| folder.keep_made()).await?;
        muster_fault::hit(MADE);
        Ok(())
    }

    async fn define(&self, plan: &MachinePlan) -> Result<(), Trouble> {
        let folder = self.folders.machine(plan.uuid);
        let seed = plan.seed.then(|| folder.seed());
        let files = Files {
            disk: &folder.disk(),
            seed: seed.as_deref(),
            console: &folder.console(),
            // It is one of this host's architecture.
            emulator: self
                .settings
                .emulator
                .as_deref()
                .filter(|_| plan.arch.kernel_name() == std::env::consts::ARCH),
        };
        let request = Request::Define {
            uuid: plan.uuid,
            mark: plan.mark.clone(),
            xml: describe(plan, files),
        };
        match self.ask(request).await? {
            Reply::Done => Ok(()),
            _ => Err(Trouble::Libvirt(CallError::Answer)),
        }
    }

    /// Starts a machine that is off. One whose domain somebody has removed gets it back.
    pub(super) async fn start(&self, uuid: Uuid, mark: &Mark, view: &View) -> Result<(), Trouble> {
        let Some(kept) = &view.kept else {
            return self.change(uuid, mark, Change::Start).await;
        };
        if view.domain.is_none() {
            self.define(&kept.plan).await?;
        }
        self.start_with(mark, kept.plan.clone()).await
    }

    /// Starts a machine; with another port, if somebody else has its own now.
    async fn start_with(&self, mark: &Mark, mut plan: MachinePlan) -> Result<(), Trouble> {
        for _ in 0..PORTS {
            match self.change(plan.uuid, mark, Change::Start).await {
                Err(Trouble::Libvirt(CallError::Refused(failure)))
                    if failure.message.contains(PORT_TAKEN) && plan.ssh_port().is_some() =>
                {
                    plan.network = Network::User {
                        ssh_port: free_port()?,
                    };
                    let kept = plan.clone();
                    self.on_disk(plan.uuid, move |_, folder| folder.keep_plan(&kept))
                        .await?;
                    self.define(&plan).await?;
                }
                // A call whose answer was lost had done it.
                Err(Trouble::Libvirt(CallError::Refused(failure)))
                    if failure.kind == FailureKind::State =>
                {
                    let domain = self.domain(plan.uuid, false).await?;
                    return match domain.is_some_and(|domain| domain.status.is_active()) {
                        true => Ok(()),
                        false => Err(Trouble::Libvirt(CallError::Refused(failure))),
                    };
                }
                done => return done,
            }
        }
        self.change(plan.uuid, mark, Change::Start).await
    }
}

/// What cloud-init reads at the first boot.
fn seed_disc(order: &Order) -> Result<Vec<u8>, Trouble> {
    let user_data = match &order.ssh {
        Some(seed) => muster_seed::user_data(&order.spec, seed),
        None => order.spec.user_data.clone().unwrap_or_default(),
    };
    let meta_data = muster_seed::meta_data(&order.mark.machine);
    let files = [
        ("user-data", user_data.as_bytes()),
        ("meta-data", meta_data.as_bytes()),
    ];
    iso::disc("cidata", &files).map_err(Trouble::Seed)
}

/// A port of this host that nobody has at the moment. Somebody may take it before the machine does; then another is tried.
fn free_port() -> Result<u16, Trouble> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(Trouble::Port)?;
    Ok(listener.local_addr().map_err(Trouble::Port)?.port())
}
