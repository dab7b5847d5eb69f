"""gpubuild: builds native GPU projects. `gpubuild.build` is a build backend for pyproject.toml."""
