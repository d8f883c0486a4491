"""Hold the noise mechanisms, one file each; `backends` draws their noise and adds it to the values.

A mechanism adds noise to each message. Experiments choose a mechanism by its name.
"""
