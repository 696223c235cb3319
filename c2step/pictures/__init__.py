"""Blobs as pictures: feature maps, histograms and lines, as PNG bytes, as text and as matplotlib figures.

`maps`, `png`, `histogram` and `text` need numpy alone; `plots` is the only user of matplotlib.
"""
