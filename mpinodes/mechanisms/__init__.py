"""Hold the noise mechanisms, one file each; `backends` draws Laplace and Gaussian noise and adds it to the values.

A mechanism adds noise to the values that agents release; the mechanism `none` adds no noise. Experiments choose a
mechanism by its name.
"""
