//! Finding images.

use muster_provider::{FailureClass, MachineSpec};

use super::{Failure, Inside};
use crate::ec2::{DescribeImages, Image, Meaning, newest};
use crate::settings::Region;
use crate::wanted::{ImageChoice, arch, ec2_arch, image, region};

/// Why there is no image.
#[derive(Debug, thiserror::Error)]
enum NoImage {
    #[error("no image of {owner} for {arch} in {region} has a name like {name:?}")]
    NoneFits {
        owner: String,
        name: String,
        arch: &'static str,
        region: Region,
    },
    #[error("the parameter {parameter:?} in {region} says {value:?}, which is no image")]
    NoAmi {
        parameter: String,
        region: Region,
        value: String,
    },
    #[error("there is no image {image} in {region}")]
    NotThere { image: String, region: Region },
    #[error("the image {image} is for {found}, and the machine is {wanted}")]
    OtherArch {
        image: String,
        found: String,
        wanted: &'static str,
    },
}

fn refused(error: impl Into<muster_provider::BoxError>) -> Failure {
    Failure::new(FailureClass::Refused, error)
}

impl Inside {
    pub(super) async fn find_image(&self, spec: &MachineSpec) -> Result<String, Failure> {
        let region = region(spec, &self.regions).map_err(refused)?;
        let choice = image(spec).map_err(refused)?;
        let image = self.image(&region, &choice, None).await?;
        Ok(image.id)
    }

    /// The image of a machine. Where more must be known of it than its name, EC2 is asked, and one for another architecture is
    /// refused.
    pub(super) async fn resolve(
        &self,
        region: &Region,
        choice: &ImageChoice,
        spec: &MachineSpec,
        needs_facts: bool,
    ) -> Result<Image, Failure> {
        let wanted = ec2_arch(arch(spec)).map_err(refused)?;
        let wanted = (needs_facts || spec.arch.is_some()).then_some(wanted);
        self.image(region, choice, wanted).await
    }

    async fn image(
        &self,
        region: &Region,
        choice: &ImageChoice,
        facts_for: Option<&'static str>,
    ) -> Result<Image, Failure> {
        let id = match choice {
            ImageChoice::Ami(id) => id.clone(),
            ImageChoice::Newest { owner, name, arch } => {
                let request = DescribeImages::by_name(owner, name, arch);
                let images = self.client.call(region, &request).await?;
                return newest(images).ok_or_else(|| {
                    refused(NoImage::NoneFits {
                        owner: owner.clone(),
                        name: name.clone(),
                        arch,
                        region: region.clone(),
                    })
                });
            }
            ImageChoice::Parameter(parameter) => {
                let value = self.client.parameter(region, parameter).await;
                let value = value.map_err(|error| match error.meaning() {
                    Meaning::NotFound => refused(error),
                    _ => error.into(),
                })?;
                if !value.starts_with("ami-") {
                    return Err(refused(NoImage::NoAmi {
                        parameter: parameter.clone(),
                        region: region.clone(),
                        value: muster_config::printable(&value, 80),
                    }));
                }
                value
            }
        };
        let Some(wanted) = facts_for else {
            return Ok(Image {
                id,
                arch: String::new(),
                created: String::new(),
                root_device: None,
            });
        };
        let found = self.client.call(region, &DescribeImages::one(&id)).await;
        let found = match found {
            Err(error) if error.meaning() == Meaning::NotFound => Err(refused(error)),
            found => Ok(found?),
        }?;
        let found = found.into_iter().find(|image| image.id == id);
        match found {
            Some(image) if image.arch != wanted => Err(refused(NoImage::OtherArch {
                image: image.id,
                found: image.arch,
                wanted,
            })),
            Some(image) => Ok(image),
            None => Err(refused(NoImage::NotThere {
                image: id,
                region: region.clone(),
            })),
        }
    }
}
