"""One HTML file about a capture or a blame: the graph, the errors along the net, and a page for every operator.

`source` reads what was kept, `blobs` draws its values, `page` writes the file; `assets` holds the page's own
script and style, and the layout library dagre with its licence.
"""

from .page import page, write_report
from .source import Source, open_source

__all__ = ["Source", "open_source", "page", "write_report"]
