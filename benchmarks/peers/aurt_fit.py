"""aurt: compiles the rigid-body dynamics symbolically from modified Denavit-Hartenberg parameters."""

from benchmarks.peers.exchange import Found, Given


def identify(given: Given) -> Found:
    """Compile the arm as aurt's command line does, which comes before anything else that it does.

    Raises:
        NotImplementedError: it compiled; its base parameters have groups of their own, which nothing here reads.
    """
    from aurt.api import compile_rbd
    from aurt.caching import PersistentPickleCache

    cache = given.folder / "aurt"
    cache.mkdir()
    compile_rbd(
        str(given.folder / "mdh.csv"), str(given.folder / "aurt.pickle"), False, PersistentPickleCache(str(cache))
    )
    raise NotImplementedError(
        "aurt compiled the arm, but gives base parameters alone, in groups of its own: not judged"
    )
