//! What is wanted of a machine, as workflows and as callers say it.

use muster_config::Duration;
use muster_machine_api::time::NegativeDuration;
use muster_machine_api::{time, v1};
use muster_orchestrate::{SpotWish, Wants};
use muster_provider::ProviderId;

/// What a caller wants beside template and provider, for a workflow.
pub(crate) fn of_wish(wish: &v1::Wish) -> Result<Wants, NegativeDuration> {
    // Every field is named here, so that none that is added later is forgotten.
    let v1::Wish {
        template: _,
        provider: _,
        given,
        spot: _,
        spot_types,
        prefer,
        reuse,
        access,
        runs_for,
        max_price,
        tolerates,
    } = wish;
    let runs_for = runs_for.as_ref().map(time::length).transpose()?;
    Ok(Wants {
        set: given.clone().into_iter().collect(),
        spot: match wish.spot() {
            v1::Spot::Unspecified => None,
            v1::Spot::Never => Some(SpotWish::Never),
            v1::Spot::Prefer => Some(SpotWish::Prefer),
            v1::Spot::Only => Some(SpotWish::Only),
            v1::Spot::Either => Some(SpotWish::Either),
        },
        spot_types: spot_types.clone(),
        prefer: prefer.clone(),
        reuse: *reuse,
        access: access.clone(),
        runs_for: runs_for.and_then(Duration::new),
        max_price: *max_price,
        tolerates: tolerates.clone().into_iter().collect(),
    })
}

/// What a workflow wants, as a caller would say it.
pub(crate) fn as_wish(template: &str, provider: Option<ProviderId>, wants: &Wants) -> v1::Wish {
    let spot = match wants.spot {
        None => v1::Spot::Unspecified,
        Some(SpotWish::Never) => v1::Spot::Never,
        Some(SpotWish::Prefer) => v1::Spot::Prefer,
        Some(SpotWish::Only) => v1::Spot::Only,
        Some(SpotWish::Either) => v1::Spot::Either,
    };
    v1::Wish {
        template: template.to_owned(),
        provider: provider.map_or_else(String::new, |it| it.to_string()),
        given: wants.set.clone().into_iter().collect(),
        spot: spot.into(),
        spot_types: wants.spot_types.clone(),
        prefer: wants.prefer.clone(),
        reuse: wants.reuse,
        access: wants.access.clone(),
        runs_for: wants.runs_for.map(|it| time::duration(it.get())),
        max_price: wants.max_price,
        tolerates: wants.tolerates.clone().into_iter().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_wanted_comes_through_a_workflow() {
        let text = |text: &str| text.to_owned();
        let mut wish = v1::Wish {
            template: text("small"),
            provider: text("docker"),
            given: [(text("image"), text("debian"))].into(),
            spot_types: vec![text("a")],
            prefer: vec![text("cost")],
            reuse: true,
            access: vec![text("ssh:exec")],
            runs_for: Some(time::duration(std::time::Duration::from_secs(90))),
            max_price: Some(7),
            tolerates: [(text("a"), text("b"))].into(),
            ..v1::Wish::default()
        };
        for spot in [
            v1::Spot::Unspecified,
            v1::Spot::Never,
            v1::Spot::Prefer,
            v1::Spot::Only,
            v1::Spot::Either,
        ] {
            wish.set_spot(spot);
            let wants = of_wish(&wish).unwrap();
            let again = as_wish("small", Some(ProviderId::Docker), &wants);
            assert_eq!(again, wish);
        }
        let nothing = of_wish(&v1::Wish::default()).unwrap();
        assert_eq!(nothing, Wants::default());
    }
}
