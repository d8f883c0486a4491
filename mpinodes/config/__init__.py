"""Turn the settings of a user into a `Setup`: find defaults, check keys, and build the parts of the experiment."""
