"""Codes: the placement policies by number, and how many bits the score of each takes.

A score is a whole number from 0 to below ``1 << bits``, the higher the better. Several policies are
combined by writing their scores one after the other into one number: the first decides, the next
breaks its ties. All of them together take fewer than 62 bits.
"""

from tidemill.model.placements import COMPILED

PACK = 0
SPREAD = 1
BEST_FIT = 2
DOT_PRODUCT = 3
CLUSTERING = 4
SHARING = 5
FGD = 6
TIDE = 7

BITS = (26, 16, 7, 7, 7, 7, 7, 12)

CODES = {name: code for code, name in enumerate(COMPILED)}
