"""Turn the settings that a user asks for into a `Setup`: find defaults, check keys, find parts and build them."""
