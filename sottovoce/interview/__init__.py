"""`sottovoce plan --interactive`: asks what a team must decide, and writes it as a metric.

`interview` asks, over anything that can ask and say, and returns answers; `entry` makes TOML of
them; `file` puts that into a metrics.toml.
"""
