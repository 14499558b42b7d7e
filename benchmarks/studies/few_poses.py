"""Identification settings that audit a model at few poses, for studies of many models."""

from dynid.identification.settings import IdentificationSettings

FEW_POSES = 20_000


def with_few_poses(settings: IdentificationSettings) -> IdentificationSettings:
    """Return the settings with `FEW_POSES` poses of the audit, which takes most of an identification's time otherwise.

    A model that is refused with few poses is also refused with many.
    """
    acceptance = settings.acceptance.model_copy(update={"fresh_poses": FEW_POSES})
    return settings.model_copy(update={"acceptance": acceptance})
