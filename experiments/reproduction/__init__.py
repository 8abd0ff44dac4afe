"""The page docs/reproduction.md: every figure, table and claim of the paper, and what came of it.

One file for each part of the paper holds its entries. An entry reads committed results when the
page is written, so the page follows them; an entry whose results do not exist says so.
"""
