"""The replay of a step whose numbers were not finite: what made them, where, and whether more digits help.

Loaded in trials only (`replay.*` overrides). It slows the steps that it watches down by several times and
changes nothing that they compute.
"""
