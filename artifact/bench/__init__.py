"""Measuring: who runs when, what a right answer is, and what the times say.

The modules of judgement (:mod:`schedule`, :mod:`gates`, :mod:`witness`, :mod:`statistics`,
:mod:`summary`, :mod:`check`) are pure: no process, no clock and no randomness but a seeded
one, so that a verdict can be made again from a run folder alone. The others start workers,
read devices and write run folders.
"""
